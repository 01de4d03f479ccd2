package corelink

import (
	"net"
	"path/filepath"
	"testing"
	"time"
)

// pairs are connections of both sorts. What the far end of either does is at the
// near end when it returns, so nothing waits in these tests.
func pairs(t *testing.T) map[string]func() (near, far net.Conn) {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	both := func(near, far net.Conn) (net.Conn, net.Conn) {
		t.Cleanup(func() { _, _ = near.Close(), far.Close() })
		return near, far
	}
	return map[string]func() (near, far net.Conn){
		"pipe": func() (net.Conn, net.Conn) { return both(net.Pipe()) },
		"socket": func() (net.Conn, net.Conn) {
			near, err := net.Dial("unix", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			far, err := listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			return both(near, far)
		},
	}
}

func TestListen_SilentConnectionStaysUsable(t *testing.T) {
	for sort, pair := range pairs(t) {
		t.Run(sort, func(t *testing.T) {
			near, far := pair()
			// A deadline left over says nothing of what waits.
			if err := near.SetDeadline(time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
			silent := listen(near)
			for range 2 {
				if !silent() {
					t.Fatal("not silent, though nothing came")
				}
			}
			if err := near.SetDeadline(time.Time{}); err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = far.Write([]byte("x")) }()
			if n, err := near.Read(make([]byte, 1)); n != 1 || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
			if !silent() {
				t.Error("not silent, though nothing more came")
			}
		})
	}
}

func TestListen_HearsAByte(t *testing.T) {
	for sort, pair := range pairs(t) {
		t.Run(sort, func(t *testing.T) {
			near, far := pair()
			silent := listen(near)
			written := make(chan struct{})
			go func() { defer close(written); _, _ = far.Write([]byte("x")) }()
			if sort == "socket" {
				<-written
			}
			// The writer of a pipe has come when a reader is there; the first
			// look may be too early for it, by a scheduler that is busy.
			for n := 1; silent(); n++ {
				if sort == "socket" || n == 100 {
					t.Fatalf("silent, though a byte waits, %d times", n)
				}
			}
			<-written
		})
	}
}

func TestListen_HearsAnEnd(t *testing.T) {
	for sort, pair := range pairs(t) {
		t.Run(sort, func(t *testing.T) {
			near, far := pair()
			silent := listen(near)
			_ = far.Close()
			if silent() {
				t.Error("silent, though the far end is closed")
			}
		})
		t.Run(sort+" of ours", func(t *testing.T) {
			near, _ := pair()
			silent := listen(near)
			_ = near.Close()
			if silent() {
				t.Error("silent, though the near end is closed")
			}
		})
	}
}

// A socket whose far end was closed with bytes unread is reset.
func TestListen_HearsAReset(t *testing.T) {
	near, far := pairs(t)["socket"]()
	if _, err := near.Write([]byte("unread")); err != nil {
		t.Fatal(err)
	}
	silent := listen(near)
	if !silent() {
		t.Error("not silent, though nothing came")
	}
	_ = far.Close()
	if silent() {
		t.Error("silent, though it was reset")
	}
}
