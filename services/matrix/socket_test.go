package matrix

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

const (
	// readTimeout is what a healthy core may take, on a machine as busy as may
	// be.
	readTimeout = 10 * time.Second
	// hurry is how long an exchange goes on whose request the core has and will
	// not answer: to wait for readTimeout would take too long.
	hurry = 20 * time.Millisecond
	// held is how long the core holds what it does not answer in time. However
	// slow the machine is, the answer comes too late: see guest.Write.
	held = 5 * hurry
)

// way dials the connections of one link, and knows those that are open.
type way struct {
	mu   sync.Mutex
	open map[string]*socket // by our address
	// last is the connection that was opened last.
	last *socket
}

func (w *way) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = &socket{TCPConn: conn.(*net.TCPConn), way: w}
	if w.open == nil {
		w.open = map[string]*socket{}
	}
	w.open[conn.LocalAddr().String()] = w.last
	return w.last, nil
}

func (w *way) sockets() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.open)
}

func (w *way) latest() *socket {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// giveUp ends the exchange on a connection in a moment, by its time-out.
func (w *way) giveUp(ours net.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.open[ours.String()]; s != nil {
		_ = s.SetDeadline(time.Now().Add(hurry))
	}
}

// socket is our end of a connection.
type socket struct {
	*net.TCPConn
	way *way
}

func (s *socket) Close() error {
	s.way.mu.Lock()
	delete(s.way.open, s.LocalAddr().String())
	s.way.mu.Unlock()
	return s.TCPConn.Close()
}

// door is where the core listens. It sees how every connection ends.
type door struct {
	net.Listener

	mu     sync.Mutex
	guests []*guest // in the order of their arrival, as the core numbers them
	late   lateness
}

// lateness makes callers give up, who come one way with frames of a type: those
// of silent before a byte of an answer came, those of stalls when one did.
type lateness struct {
	trait   trait
	mti     string
	frames  int // how many of the next
	callers *way
}

func (d *door) delay(l lateness) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.late = l
}

// arrive counts a frame; of one whose caller gives up it returns how.
func (d *door) arrive(frame []byte) lateness {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.late.frames == 0 || len(frame) < 4 || string(frame[:4]) != d.late.mti {
		return lateness{}
	}
	d.late.frames--
	return d.late
}

func (d *door) Accept() (net.Conn, error) {
	conn, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	g := &guest{TCPConn: conn.(*net.TCPConn), door: d}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.guests = append(d.guests, g)
	return g, nil
}

func (d *door) all() []*guest {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]*guest(nil), d.guests...)
}

// open is how many connections the core has.
func (d *door) open() int {
	n := 0
	for _, g := range d.all() {
		if !g.closed.Load() {
			n++
		}
	}
	return n
}

// quiet returns when all that the core had to say has been written: it waits for
// a frame on every connection.
func (d *door) quiet(t testing.TB) {
	t.Helper()
	eventually(t, "the core has said all", func() bool {
		for _, g := range d.all() {
			if !g.closed.Load() && !g.reading.Load() {
				return false
			}
		}
		return true
	})
}

// guest is the core's end of a connection.
type guest struct {
	*net.TCPConn
	door *door
	// Of the frame that was read last: how its caller gives up, and how much of
	// its answer was written. They are the connection's goroutine's alone.
	late    lateness
	written int

	reading, reset, closed atomic.Bool
}

func (g *guest) Read(b []byte) (int, error) {
	g.reading.Store(true)
	n, err := g.TCPConn.Read(b)
	g.late, g.written = g.door.arrive(b[:n]), 0
	if g.late.trait == silent {
		g.late.callers.giveUp(g.RemoteAddr())
	}
	g.reading.Store(false)
	g.note(err)
	return n, err
}

// Write holds back the last byte of a late answer until its caller has gone.
func (g *guest) Write(b []byte) (int, error) {
	g.written += len(b)
	late, whole := g.late.trait == silent || g.late.trait == stalls, g.written >= telegram.AnswerLength
	if late && whole {
		g.note(arrived(g.TCPConn))
	}
	n, err := g.TCPConn.Write(b)
	if g.late.trait == stalls && !whole {
		g.late.callers.giveUp(g.RemoteAddr())
	}
	g.note(err)
	return n, err
}

func (g *guest) note(err error) {
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		g.reset.Store(true)
	}
}

func (g *guest) Close() error {
	defer g.closed.Store(true)
	return g.TCPConn.Close()
}

// patience is how long a test waits for what must come; it is spent only where
// something is broken.
const patience = 20 * time.Second

// eventually looks until it sees what must come.
func eventually(t testing.TB, what string, look func() bool) {
	t.Helper()
	if !seen(look) {
		t.Fatalf("not within %s: %s", patience, what)
	}
}

// seen looks until it sees what must come, or patience is at an end.
func seen(look func() bool) bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(patience)
	defer end.Stop()
	for !look() {
		select {
		case <-tick.C:
		case <-end.C:
			return false
		}
	}
	return true
}

// arrived returns when a byte or an end is there to be read, and reads nothing.
func arrived(conn *net.TCPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var end error
	err = raw.Read(func(fd uintptr) bool {
		_, _, end = syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return !errors.Is(end, syscall.EAGAIN)
	})
	return errors.Join(err, end)
}
