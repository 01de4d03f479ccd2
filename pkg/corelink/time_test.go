package corelink_test

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

// customary are the settings that the binaries start with.
func customary(addrs ...string) corelink.Flags {
	return corelink.Flags{CoreAddr: addrs, ReadTimeout: 3 * time.Second, ConnectTimeout: 2 * time.Second, PoolSize: 16, PoolWait: time.Minute}
}

// callWithin is a payment that has this much time.
func callWithin(t *testing.T, left time.Duration) corelink.Call {
	t.Helper()
	call := callFor(t, paymentID)
	call.Deadline = time.Now().Add(left)
	return call
}

// silent takes the request and never answers.
func silent(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// stalling takes so many bytes of the request and no more.
func stalling(reads int) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = io.ReadFull(conn, make([]byte, reads))
		_, _ = conn.Write([]byte{0}) // blocks until the connection is closed
	}
}

// slowDial is a dialer that needs this long, whatever its context says.
func slowDial(d time.Duration, dial corelink.Dialer) corelink.Dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		time.Sleep(d)
		return dial(ctx, network, addr)
	}
}

// blackHole is a dialer that nobody answers.
func blackHole(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// took runs an exchange and checks how it ended, and after how long to the
// nanosecond of virtual time.
func took(ctx context.Context, t *testing.T, link *corelink.Link, call corelink.Call, d time.Duration, w want) {
	t.Helper()
	start := time.Now()
	res := link.Exchange(ctx, call)
	expect(t, res, w)
	if elapsed := time.Since(start); elapsed != d {
		t.Errorf("took %v, want %v", elapsed, d)
	}
	time.Sleep(time.Minute) // a core that is asleep wakes up, and goes
}

func TestExchange_SlowCoreCostsTheReadTimeout(t *testing.T) {
	cases := map[string]struct{ left, dial, took time.Duration }{
		"the read time-out":                     {5 * time.Second, 0, 3 * time.Second},
		"what is left, if less":                 {1800 * time.Millisecond, 0, 1800 * time.Millisecond},
		"exactly the read time-out left":        {3 * time.Second, 0, 3 * time.Second},
		"connecting does not shorten it":        {5 * time.Second, 1500 * time.Millisecond, 4500 * time.Millisecond},
		"connecting counts in the deadline":     {3 * time.Second, 1500 * time.Millisecond, 3 * time.Second},
		"connecting leaves the read a moment":   {5 * time.Second, 5*time.Second - 1, 5 * time.Second},
		"a deadline of a moment after arriving": {1, 0, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				link := newLink(t, customary("core"), slowDial(c.dial, piped(silent)))
				took(t.Context(), t, link, callWithin(t, c.left), c.took, want{corelink.SentAll, corelink.ErrTimeout, 0})
			})
		})
	}
}

func TestExchange_ConnectingUsesUpTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{}
		link := newLink(t, customary("core"), slowDial(2*time.Second, conn.dial()))
		took(t.Context(), t, link, callWithin(t, 2*time.Second), 2*time.Second, want{corelink.SentNone, corelink.ErrNoTime, 0})
		if conn.writes != 0 || conn.closed != 1 {
			t.Errorf("%d writes, %d closes", conn.writes, conn.closed)
		}
	})
}

func TestExchange_BlackHole(t *testing.T) {
	cases := map[string]struct {
		addrs      []string
		left, took time.Duration
	}{
		"one address":                         {[]string{"a"}, 5 * time.Second, 2 * time.Second},
		"two addresses":                       {[]string{"a", "b"}, 5 * time.Second, 4 * time.Second},
		"the deadline before the second":      {[]string{"a", "b"}, 3 * time.Second, 3 * time.Second},
		"the deadline with the first":         {[]string{"a", "b"}, 2 * time.Second, 2 * time.Second},
		"three addresses, the deadline first": {[]string{"a", "b", "c"}, 5 * time.Second, 5 * time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				link := newLink(t, customary(c.addrs...), blackHole)
				took(t.Context(), t, link, callWithin(t, c.left), c.took, want{corelink.SentNone, corelink.ErrConnect, 0})
			})
		})
	}
}

func TestExchange_NextAddressAfterABlackHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answering := piped(func(conn net.Conn) {
			if take(conn) == nil {
				_, _ = conn.Write(approval(paymentID))
			}
		})
		link := newLink(t, customary("hole", "core"), func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == "hole" {
				return blackHole(ctx, network, addr)
			}
			return answering(ctx, network, addr)
		})
		took(t.Context(), t, link, callWithin(t, 5*time.Second), 2*time.Second, want{corelink.SentAll, nil, telegram.AnswerLength})
	})
}

// trickle answers one byte at a time, each after gap.
func trickle(gap time.Duration) func(net.Conn) {
	return func(conn net.Conn) {
		if take(conn) != nil {
			return
		}
		for _, b := range approval(paymentID) {
			time.Sleep(gap)
			if _, err := conn.Write([]byte{b}); err != nil {
				return
			}
		}
	}
}

func TestExchange_TrickledAnswer(t *testing.T) {
	const ms = time.Millisecond
	cases := map[string]struct {
		gap, took time.Duration
		want      want
	}{
		"in time":     {20 * ms, 61 * 20 * ms, want{corelink.SentAll, nil, 61}},
		"past it":     {70 * ms, 3000 * ms, want{corelink.SentAll, corelink.ErrTimeout, 42}},
		"just before": {3000 * ms / 62, 3000 * ms / 62 * 61, want{corelink.SentAll, nil, 61}},
		"just missed": {3000 * ms / 60, 3000 * ms, want{corelink.SentAll, corelink.ErrTimeout, anyBytes}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				link := newLink(t, customary("core"), piped(trickle(c.gap)))
				took(t.Context(), t, link, callWithin(t, 5*time.Second), c.took, c.want)
			})
		})
	}
}

// The same on a real socket: the deadline is set once and not renewed.
func TestExchange_TrickleGainsNoTimeOnASocket(t *testing.T) {
	h := serve(t, func(conn *net.TCPConn) error {
		if err := take(conn); err != nil {
			return err
		}
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for _, b := range approval(paymentID) {
			<-tick.C
			if _, err := conn.Write([]byte{b}); err != nil {
				return err
			}
		}
		return errors.New("all of it was taken")
	})
	flags := patient(h.addr)
	flags.ReadTimeout = 50 * time.Millisecond
	start := time.Now()
	res := newLink(t, flags, dialer()).Exchange(t.Context(), callFor(t, paymentID))
	expect(t, res, want{corelink.SentAll, corelink.ErrTimeout, anyBytes})
	if elapsed := time.Since(start); elapsed < flags.ReadTimeout {
		t.Errorf("took %v, want at least %v", elapsed, flags.ReadTimeout)
	}
	if err := <-h.ends; !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("the core saw the connection end with %v, want a reset", err)
	}
}

func TestExchange_CoreThatNeverReads(t *testing.T) {
	t.Run("the kernel takes the request", func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		h := serve(t, func(*net.TCPConn) error { <-release; return nil })
		flags := patient(h.addr)
		flags.ReadTimeout = 30 * time.Millisecond
		res := newLink(t, flags, dialer()).Exchange(t.Context(), callFor(t, paymentID))
		expect(t, res, want{corelink.SentAll, corelink.ErrTimeout, 0})
	})
	for name, c := range map[string]struct {
		reads int
		sent  corelink.Sent
	}{
		"nothing is taken": {0, corelink.SentNone},
		"a part is taken":  {10, corelink.SentSome},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				link := newLink(t, customary("core"), piped(stalling(c.reads)))
				took(t.Context(), t, link, callWithin(t, 5*time.Second), 3*time.Second, want{c.sent, corelink.ErrWrite, 0})
			})
		})
	}
}
