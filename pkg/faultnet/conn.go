package faultnet

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// BufferSize is how many bytes may be under way in one direction before
	// whoever sends more has to wait.
	BufferSize = 64 << 10
	// FlushLimit is how long a peer may take, after Close, to accept what was
	// under way to it.
	FlushLimit = 10 * time.Second
)

// Conn is a net.Conn with faults. It is safe for concurrent use.
type Conn struct {
	beneath net.Conn
	done    chan struct{}

	writing sync.Mutex // held by Write: what one writes stays together

	mu      sync.Mutex
	changed chan struct{} // closed and replaced whenever something below changes
	out, in lane

	readBy, writeBy time.Time
	closed          bool  // by Close
	finished        bool  // by CloseWrite
	hard            bool  // to be ended by a reset, after SetLinger(0)
	end             End   // how a fate has ended both directions; never HalfClose
	broken          error // why nothing more can be written beneath
}

// Wrap stands a Conn before another one, which it owns from then on.
func Wrap(beneath net.Conn, out, in Direction) *Conn {
	c := &Conn{
		beneath: beneath, done: make(chan struct{}), changed: make(chan struct{}),
		out: lane{dir: out}, in: lane{dir: in},
	}
	var running sync.WaitGroup
	running.Go(c.deliver)
	running.Go(c.collect)
	go func() {
		running.Wait()
		close(c.done)
	}()
	return c
}

// Done is closed when nothing is under way any more, the connection beneath is
// closed, and the Conn's goroutines have ended. That is some time after Close.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Read returns bytes that have arrived, of one piece only.
func (c *Conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		now := time.Now()
		c.settle(now)
		head, some := c.in.head()
		switch {
		case c.closed:
			return 0, c.opError("read", net.ErrClosed)
		case hasPassed(c.readBy, now):
			return 0, c.opError("read", os.ErrDeadlineExceeded)
		case len(p) == 0:
			return 0, nil
		case some && !head.due.After(now):
			return c.readHead(p, head)
		case !some && c.end != Continue:
			return 0, c.endError(c.end)
		}
		c.wait(head.due, c.readBy)
	}
}

// readHead reads from a parcel that is due. The caller holds mu.
func (c *Conn) readHead(p []byte, head parcel) (int, error) {
	switch {
	case head.err != nil:
		return 0, head.err
	case head.end != Continue:
		return 0, c.endError(head.end)
	}
	n := copy(p, head.bytes)
	c.in.take(n)
	c.wake()
	return n, nil
}

// endError is what a reader sees of an end.
func (c *Conn) endError(end End) error {
	if end == Reset {
		return c.opError("read", os.NewSyscallError("read", syscall.ECONNRESET))
	}
	return io.EOF
}

// Write sends bytes on their way.
func (c *Conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.out.cut()
	n := 0
	for {
		now := time.Now()
		c.settle(now)
		if err := c.writeError(now); err != nil {
			return n, err
		}
		count := min(len(p)-n, c.out.room())
		c.out.put(p[n:n+count], len(p), now)
		n += count
		c.wake()
		if n == len(p) {
			return n, nil
		}
		c.wait(c.writeBy)
	}
}

// writeError is why nothing can be written now. The caller holds mu.
func (c *Conn) writeError(now time.Time) error {
	switch {
	case c.closed:
		return c.opError("write", net.ErrClosed)
	case hasPassed(c.writeBy, now):
		return c.opError("write", os.ErrDeadlineExceeded)
	case c.end == Reset:
		return c.opError("write", os.NewSyscallError("write", syscall.ECONNRESET))
	case c.end != Continue, c.finished:
		return c.opError("write", os.NewSyscallError("write", syscall.EPIPE))
	default:
		return c.broken
	}
}

// Close ends the use of the Conn, at once. What was written is under way and
// arrives; the connection beneath is closed behind it.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("close", net.ErrClosed)
	}
	c.closed = true
	c.limitFlush()
	c.wake()
	return nil
}

// CloseWrite ends the direction out behind what was written. It fails if the
// connection beneath has no such method.
func (c *Conn) CloseWrite() error {
	if _, can := c.beneath.(interface{ CloseWrite() error }); !can {
		return c.opError("close", errors.ErrUnsupported)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.writeError(time.Time{}); err != nil {
		return err
	}
	c.finished = true
	if !c.out.ended {
		c.out.push(parcel{end: HalfClose, due: time.Now()})
	}
	c.wake()
	return nil
}

// SetLinger with 0 makes Close end the connection by a reset, behind what is
// under way. Any other value makes it close in order.
func (c *Conn) SetLinger(sec int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("set", net.ErrClosed)
	}
	c.hard = sec == 0
	return nil
}

// LocalAddr is that of the connection beneath.
func (c *Conn) LocalAddr() net.Addr { return c.beneath.LocalAddr() }

// RemoteAddr is that of the connection beneath.
func (c *Conn) RemoteAddr() net.Addr { return c.beneath.RemoteAddr() }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error { return c.setDeadlines(t, &c.readBy, &c.writeBy) }

// SetReadDeadline sets the time after which Read fails, at once even if it
// waits already. The zero time is none.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadlines(t, &c.readBy) }

// SetWriteDeadline is the same for Write. What was written is not held up.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadlines(t, &c.writeBy) }

func (c *Conn) setDeadlines(t time.Time, deadlines ...*time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("set", net.ErrClosed)
	}
	for _, deadline := range deadlines {
		*deadline = t
	}
	c.wake()
	return nil
}

func (c *Conn) opError(op string, err error) error {
	local := c.beneath.LocalAddr()
	return &net.OpError{Op: op, Net: local.Network(), Source: local, Addr: c.beneath.RemoteAddr(), Err: err}
}

// wake lets all look again at what has changed. The caller holds mu.
func (c *Conn) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// wait returns when something has changed or the first of the times is there,
// not counting zero ones. The caller holds mu, but not meanwhile.
func (c *Conn) wait(times ...time.Time) {
	var first time.Time
	for _, t := range times {
		if first.IsZero() || !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	changed := c.changed
	c.mu.Unlock()
	defer c.mu.Lock()
	if first.IsZero() {
		<-changed
		return
	}
	timer := time.NewTimer(time.Until(first))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	}
}

func hasPassed(deadline, now time.Time) bool { return !deadline.IsZero() && !deadline.After(now) }
