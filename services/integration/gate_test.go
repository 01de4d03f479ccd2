package integration

import (
	"context"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// gate is a TCP port on loopback that can refuse connections and take them
// again. The port stays its own all the time: a socket is bound to it that
// never listens.
type gate struct {
	address string
	serve   func(conn net.Conn)
	holder  int

	mu       sync.Mutex
	listener net.Listener // nil while it refuses
	conns    map[net.Conn]struct{}
	closed   bool
	work     sync.WaitGroup
}

// newGate makes a gate that refuses until it is opened. serve is called for each
// connection, in a goroutine of its own; the connection is closed when it
// returns.
func newGate(t testing.TB, serve func(conn net.Conn)) *gate {
	t.Helper()
	g := &gate{serve: serve, conns: map[net.Conn]struct{}{}}
	g.holder, g.address = bindPort(t)
	t.Cleanup(func() {
		g.close()
		_ = unix.Close(g.holder) // it never listened
	})
	return g
}

// bindPort binds a socket to a free port of loopback, without listening, so that
// sockets of this process alone may share it.
func bindPort(t testing.TB) (socket int, address string) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("make a socket: %v", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		t.Fatalf("share a port: %v", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatalf("bind a port: %v", err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatalf("name a socket: %v", err)
	}
	bound, ok := name.(*unix.SockaddrInet4)
	if !ok {
		t.Fatalf("name a socket: it is a %T", name)
	}
	return fd, (&net.TCPAddr{IP: net.IP(bound.Addr[:]), Port: bound.Port}).String()
}

// open takes connections from now on.
func (g *gate) open(t testing.TB) {
	t.Helper()
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		control := raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		})
		if control != nil {
			return control
		}
		return err
	}}
	listener, err := config.Listen(context.Background(), "tcp", g.address)
	if err != nil {
		t.Fatalf("open a gate: %v", err)
	}
	g.mu.Lock()
	g.listener = listener
	g.mu.Unlock()
	g.work.Go(func() { g.accept(listener) })
}

func (g *gate) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		if !g.keep(conn) {
			_ = conn.Close()
			return
		}
		g.work.Go(func() {
			defer g.forget(conn)
			g.serve(conn)
		})
	}
}

func (g *gate) keep(conn net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.conns[conn] = struct{}{}
	}
	return !g.closed
}

func (g *gate) forget(conn net.Conn) {
	_ = conn.Close() // however far it came
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, conn)
}

// refuse refuses new connections from now on; those that are open stay.
func (g *gate) refuse() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listener != nil {
		deafen(g.listener)
		_ = g.listener.Close()
		g.listener = nil
	}
}

// deafen ends the listening of a socket itself. To close it is not enough: a
// child that is being started elsewhere has a copy until it is another program.
func deafen(listener net.Listener) {
	socket, ok := listener.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return // it is closed
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
}

// sever resets every connection that is open.
func (g *gate) sever() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for conn := range g.conns {
		resetConn(conn)
	}
}

// down cuts off what is behind the gate: what is open ends, what is new is
// refused.
func (g *gate) down() {
	g.refuse()
	g.sever()
}

// close refuses for good, ends every connection, and waits for that.
func (g *gate) close() {
	g.refuse()
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.sever()
	g.work.Wait()
}

// resetConn closes a connection so that its peer sees a reset.
func resetConn(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// deafPort is a port whose listener accepts nobody and has no room for anybody
// either, so that a dial to it hangs until it times out.
func deafPort(t testing.TB) string {
	t.Helper()
	fd, address := bindPort(t)
	t.Cleanup(func() { _ = unix.Close(fd) })
	fillBacklog(t, fd, address)
	return address
}

// backlogRoom is more than a backlog of zero holds.
const backlogRoom = 16

// fillBacklog listens on a socket and leaves no room in its backlog, so that a
// dial hangs; release makes room and lets the dial come about. Nothing that is
// sent is read.
func fillBacklog(t testing.TB, fd int, address string) (release func()) {
	t.Helper()
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatalf("listen: %v", err)
	}
	taken := 0
	for ; taken < backlogRoom; taken++ {
		conn, err := net.DialTimeout("tcp", address, dialFor)
		if err != nil {
			break
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	if taken == backlogRoom {
		t.Fatalf("a listener that accepts nobody still has room after %d connections", taken)
	}
	return func() {
		for range taken {
			accepted, _, err := unix.Accept(fd)
			if err != nil {
				t.Errorf("accept: %v", err)
				return
			}
			t.Cleanup(func() { _ = unix.Close(accepted) })
		}
	}
}

// dialFor is how long a dial waits that may find no room.
const dialFor = 300 * time.Millisecond
