package rpcserver

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/test/bufconn"
)

func TestCrowd_ClosesWhatIsOneTooMany(t *testing.T) {
	listener := bufconn.Listen(1 << 10)
	c := &crowd{Listener: listener, most: 2, refused: prometheus.NewCounter(prometheus.CounterOpts{Name: "refused"})}
	t.Cleanup(func() { _ = c.Close() })
	accepted := make(chan net.Conn)
	ended := make(chan error, 1)
	go func() {
		for {
			conn, err := c.Accept()
			if err != nil {
				ended <- err
				return
			}
			accepted <- conn
		}
	}()
	enter := func() net.Conn {
		t.Helper()
		conn, err := listener.Dial()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	enter()
	first := <-accepted
	enter()
	second := <-accepted

	if _, err := enter().Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("one too many is not closed: %v", err)
	}
	for range 2 { // closing twice makes room for one
		_ = first.Close()
	}
	enter()
	third := <-accepted
	if _, err := enter().Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("again, one too many is not closed: %v", err)
	}
	if got := testutil.ToFloat64(c.refused); got != 2 {
		t.Errorf("%v refused", got)
	}
	_, _ = second.Close(), third.Close()
	_ = c.Close()
	if err := <-ended; err == nil {
		t.Error("Accept of a closed listener succeeds")
	}
}
