package faultnet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// text is so many bytes that tell where they stand.
func text(count int) []byte {
	b := make([]byte, count)
	for i := range b {
		b[i] = byte('a' + i%26)
	}
	return b
}

// pipe is a Conn before one end of a pipe, and the other end. Both are closed,
// and the Conn's goroutines gone, when the test ends.
func pipe(t testing.TB, out, in Direction) (c *Conn, peer net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	return wrap(t, near, far, out, in), far
}

// tcp is the same with a TCP connection.
func tcp(t testing.TB, out, in Direction) (c *Conn, peer *net.TCPConn) {
	t.Helper()
	near, far := tcpPair(t)
	return wrap(t, near, far, out, in), far
}

func wrap(t testing.TB, near, far net.Conn, out, in Direction) *Conn {
	c := Wrap(near, out, in)
	t.Cleanup(func() {
		_ = far.Close()
		_ = c.Close()
		<-c.Done()
	})
	return c
}

func tcpPair(t testing.TB) (near, far *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	dialed, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return dialed.(*net.TCPConn), accepted.(*net.TCPConn)
}

func write(t testing.TB, c net.Conn, b []byte) {
	t.Helper()
	if n, err := c.Write(b); n != len(b) || err != nil {
		t.Errorf("wrote %d of %d bytes and %v", n, len(b), err)
	}
}

// arrival is what one Read returned.
type arrival struct {
	at   time.Duration // since the trace began
	text string
}

func (a arrival) String() string { return fmt.Sprintf("%v %q", a.at, a.text) }

// trace reads until the end of a connection: what came and when, and how it
// ended.
func trace(c net.Conn) (arrivals []arrival, end error) {
	begin := time.Now()
	for buf := make([]byte, BufferSize); ; {
		n, err := c.Read(buf)
		if n > 0 {
			arrivals = append(arrivals, arrival{at: time.Since(begin), text: string(buf[:n])})
		}
		if err != nil {
			return arrivals, err
		}
	}
}

func contents(arrivals []arrival) string {
	var all strings.Builder
	for _, a := range arrivals {
		all.WriteString(a.text)
	}
	return all.String()
}

// isEnd reports whether a connection ended in order, as TCP or as a pipe says it.
func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) }

func readFull(t testing.TB, c net.Conn, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %q and %v, want %q", got[:n], err, want)
	}
}
