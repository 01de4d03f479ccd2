package listing_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/faultnet"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

// faulty is piped, with a network between the two that does what in says to the
// bytes of the answer.
func faulty(behave func(net.Conn), in faultnet.Direction) corelink.Dialer {
	dial := piped(behave)
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return faultnet.Wrap(conn, faultnet.Direction{}, in), nil
	}
}

// Whatever the network does to the bytes of an answer, a page is whole or there
// is none, and no call takes longer than the read time-out.
func TestBook_OverABadNetworkIsWholeOrAnError(t *testing.T) {
	const calls = 60
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			odds := faultnet.Odds{Delay: 0.4, MaxDelay: 2 * time.Second, Drop: 0.02, Duplicate: 0.02, Split: 0.3, Truncate: 0.02, Reset: 0.02}
			answer := encoded(t, page(t, 40))
			fates := odds.Fates(rand.NewPCG(seed, 0))
			client := newClient(t, settings("core:1"), faulty(answering(answer, 1<<20, 0), faultnet.Direction{Segment: 512, Fates: fates}))
			whole := 0
			for range calls {
				start := time.Now()
				got, err := client.Book(t.Context(), today, 3)
				switch {
				case err == nil && len(got.Records) == 40:
					whole++
				case err == nil || got.Records != nil:
					t.Fatalf("seed %d: %d records, %v", seed, len(got.Records), err)
				}
				if took := time.Since(start); took > 3*time.Second {
					t.Fatalf("seed %d: took %v", seed, took)
				}
			}
			if whole == 0 || whole == calls {
				t.Errorf("seed %d: %d of %d pages came whole", seed, whole, calls)
			}
		})
	}
}

// host serves connections on a real socket, one after the other.
func host(t *testing.T, behave func(conn *net.TCPConn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			behave(conn.(*net.TCPConn))
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		work.Wait()
	})
	return listener.Addr().String()
}

func ask(conn net.Conn) { _, _ = io.ReadFull(conn, make([]byte, telegram.BookRequestLength)) }

// The ways in which a connection ends, and how the core sees it end: what is no
// listing is answered with a reset, so that nothing is kept for anyone.
func TestBook_OnARealSocket(t *testing.T) {
	good := encoded(t, page(t, 2))
	end := make(chan error, 1)
	outlast := func(conn *net.TCPConn) {
		_, err := io.Copy(io.Discard, conn)
		end <- err
	}
	tests := map[string]struct {
		behave func(conn *net.TCPConn)
		want   error
		reset  bool // by us
	}{
		"a page":               {func(c *net.TCPConn) { ask(c); _, _ = c.Write(good); outlast(c) }, nil, false},
		"a page, and the end":  {func(c *net.TCPConn) { ask(c); _, _ = c.Write(good); end <- nil }, nil, false},
		"a byte more":          {func(c *net.TCPConn) { ask(c); _, _ = c.Write(append(good[:len(good):len(good)], '#')); outlast(c) }, nil, true},
		"closes at once":       {func(*net.TCPConn) { end <- nil }, corelink.ErrClosed, false},
		"closes unanswered":    {func(c *net.TCPConn) { ask(c); end <- nil }, corelink.ErrClosed, false},
		"closes in the prefix": {func(c *net.TCPConn) { ask(c); _, _ = c.Write(good[:2]); end <- nil }, corelink.ErrClosed, false},
		"closes in the page":   {func(c *net.TCPConn) { ask(c); _, _ = c.Write(good[:60]); end <- nil }, corelink.ErrClosed, false},
		"resets":               {func(c *net.TCPConn) { ask(c); _ = c.SetLinger(0); end <- nil }, corelink.ErrClosed, false},
		"sends garbage":        {func(c *net.TCPConn) { ask(c); _, _ = c.Write([]byte("####")); outlast(c) }, corelink.ErrGarbage, true},
		"announces too much":   {func(c *net.TCPConn) { ask(c); _, _ = c.Write([]byte("9999")); outlast(c) }, corelink.ErrGarbage, true},
		"lies about the count": {func(c *net.TCPConn) { ask(c); _, _ = c.Write(with(good, 24, "009")); outlast(c) }, corelink.ErrGarbage, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, settings(host(t, tt.behave)), (&net.Dialer{}).DialContext)
			if _, err := client.Book(t.Context(), today, 3); !errors.Is(err, tt.want) || (tt.want == nil) != (err == nil) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if err := <-end; errors.Is(err, syscall.ECONNRESET) != tt.reset {
				t.Errorf("the core saw the end as %v, want a reset: %t", err, tt.reset)
			}
		})
	}
}

func TestBook_NobodyListens(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	client := newClient(t, settings(listener.Addr().String()), (&net.Dialer{}).DialContext)
	if _, err := client.Book(t.Context(), today, 3); !errors.Is(err, corelink.ErrConnect) {
		t.Errorf("error %v", err)
	}
}

// What a core announces is all the memory that it gets, and that is one page.
func TestBook_ReadsNoMoreThanAPageIntoMemory(t *testing.T) {
	addr := host(t, func(conn *net.TCPConn) {
		ask(conn)
		_, _ = conn.Write([]byte("9982"))
		endless := make([]byte, 1<<20)
		for range 64 {
			if _, err := conn.Write(endless); err != nil {
				return
			}
		}
	})
	client := newClient(t, settings(addr), (&net.Dialer{}).DialContext)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := client.Book(t.Context(), today, 3)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, corelink.ErrGarbage) {
		t.Errorf("error %v", err)
	}
	// The host's own megabyte is in it.
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 2<<20 {
		t.Errorf("%d bytes were allocated", grown)
	}
}
