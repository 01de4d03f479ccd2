package corelink_test

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/corelink"
)

const idleTTL = 30 * time.Second

// aging are the settings that the binaries start with, on pipes.
func aging() corelink.Flags {
	flags := customary("core")
	flags.PoolIdleTTL = idleTTL
	return flags
}

func TestPool_IdleConnectionEndsOfAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Time, 10)
		link, metric := newCounted(t, aging(), piped(func(conn net.Conn) {
			obliging(conn)
			ended <- time.Now()
		}))
		answered(t, link, nth(1))
		// Each use makes it young again.
		for n := range 5 {
			time.Sleep(idleTTL - time.Second)
			answered(t, link, nth(2+n))
		}
		idle := time.Now()
		if at := <-ended; at.Sub(idle) != idleTTL {
			t.Errorf("ended after %v, want %v", at.Sub(idle), idleTTL)
		}
		if metric("opened") != 1 || metric("reused") != 5 || metric("expired") != 1 || metric("idle") != 0 || metric("destroyed") != 0 {
			t.Errorf("%d opened, %d reused, %d expired, %d idle, %d destroyed", metric("opened"), metric("reused"),
				metric("expired"), metric("idle"), metric("destroyed"))
		}
		answered(t, link, nth(9))
		if metric("opened") != 2 {
			t.Error("no new connection was opened")
		}
	})
}

// Only that one ends whose time is up.
func TestPool_EachConnectionHasItsOwnAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link, metric := newCounted(t, aging(), piped(obliging))
		spread(t, link, 3)
		for n := range 9 {
			time.Sleep(idleTTL / 3)
			answered(t, link, nth(10+n))
			if want := 2; n >= 3 && metric("expired") != want || metric("opened") != 3 {
				t.Fatalf("after %d thirds of its time: %d opened, %d expired", n+1, metric("opened"), metric("expired"))
			}
		}
	})
}

// The exchange that comes in the same instant as the end goes over a connection
// that lives.
func TestPool_ExchangeInTheInstantOfTheEnd(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			link, metric := newCounted(t, aging(), piped(obliging))
			answered(t, link, nth(1))
			time.Sleep(idleTTL)
			answered(t, link, nth(2))
			synctest.Wait()
			if metric("opened") != 2 || metric("expired") != 1 || metric("idle") != 1 {
				t.Errorf("%d opened, %d expired, %d idle", metric("opened"), metric("expired"), metric("idle"))
			}
		})
	}
}

// A process that was stopped goes on with timers that have not fired and
// connections that the firewall has forgotten.
func TestPool_StoppedProcessTrustsNoTimer(t *testing.T) {
	for name, stopped := range map[string]time.Duration{"too long": idleTTL, "not long": idleTTL - time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ahead time.Duration
				opened := 0
				link := corelink.New(corelink.Options{
					Flags: aging(), Name: "test", Metrics: corelink.NewMetrics(prometheus.NewRegistry()),
					Now:  func() time.Time { return time.Now().Add(ahead) },
					Dial: pipedCounting(&opened, obliging),
				})
				defer func() { _ = link.Close() }()
				answered(t, link, nth(1))
				ahead = stopped
				call := callFor(t, nth(2))
				call.Deadline = call.Deadline.Add(ahead)
				if res := link.Exchange(t.Context(), call); !res.Answered() {
					t.Error(res.Err)
				}
				if want := 1 + int(stopped/idleTTL); opened != want {
					t.Errorf("%d connections, want %d", opened, want)
				}
			})
		})
	}
}

// A firewall that forgets what was silent for 35 seconds, and drops what comes
// after, costs no exchange.
func TestPool_FirewallThatForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link, metric := newCounted(t, aging(), piped(func(conn net.Conn) {
			last := time.Now()
			for {
				id, err := asked(conn)
				if err != nil {
					return
				}
				if time.Since(last) > 35*time.Second {
					silent(conn)
					return
				}
				last = time.Now()
				_, _ = conn.Write(approval(id))
			}
		}))
		for n, pause := range []time.Duration{0, 29, 29, 31, 34, 36, 40, 3600, 29} {
			time.Sleep(pause * time.Second)
			start := time.Now()
			answered(t, link, nth(n))
			if took := time.Since(start); took > 10*time.Millisecond {
				t.Errorf("after %d s of silence an exchange took %v", pause, took)
			}
		}
		if metric("reused") != 3 {
			t.Errorf("%d reused", metric("reused"))
		}
	})
}

// Without a TTL each exchange has a connection of its own.
func TestPool_NoTTLKeepsNone(t *testing.T) {
	h := serve(t, steady)
	link, metric := newCounted(t, patient(h.addr), dialer())
	for n := range 10 {
		answered(t, link, nth(n))
		if err := <-h.ends; err != nil {
			t.Errorf("the core saw the connection end with %v, want an orderly end", err)
		}
	}
	if accepted, peak := h.seen(); accepted != 10 || peak != 1 {
		t.Errorf("%d connections, %d at once", accepted, peak)
	}
	if metric("opened") != 10 || metric("expired") != 10 || metric("idle") != 0 || metric("destroyed") != 0 {
		t.Errorf("%d opened, %d expired, %d idle, %d destroyed",
			metric("opened"), metric("expired"), metric("idle"), metric("destroyed"))
	}
}

// The deadline of an exchange is not that of the next one.
func TestPool_DeadlineIsNotLeftOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := newLink(t, aging(), piped(func(conn net.Conn) {
			for {
				id, err := asked(conn)
				if err != nil {
					return
				}
				time.Sleep(900 * time.Millisecond)
				_, _ = conn.Write(approval(id))
			}
		}))
		call := callWithin(t, time.Second)
		expect(t, link.Exchange(t.Context(), call), want{corelink.SentAll, nil, 61})
		// The first one's deadline falls into the second exchange.
		expect(t, link.Exchange(t.Context(), callWithin(t, time.Second)), want{corelink.SentAll, nil, 61})
		// That of the second has passed.
		time.Sleep(10 * time.Second)
		expect(t, link.Exchange(t.Context(), callWithin(t, 5*time.Second)), want{corelink.SentAll, nil, 61})
	})
}

// The same on a socket, where the deadline is past while it is idle.
func TestPool_DeadlineIsNotLeftOverOnASocket(t *testing.T) {
	h := serve(t, steady)
	link, metric := newCounted(t, keeping(h.addr), dialer())
	answered(t, link, nth(1))
	call := callFor(t, nth(2))
	call.Deadline = time.Now().Add(200 * time.Millisecond)
	if res := link.Exchange(t.Context(), call); !res.Answered() {
		t.Fatal(res.Err)
	}
	<-time.After(time.Until(call.Deadline) + 10*time.Millisecond)
	answered(t, link, nth(3))
	if metric("opened") != 1 {
		t.Error("the connection was not used again")
	}
}

// A slow-drip core costs its exchange the deadline, and the next one nothing.
func TestPool_TrickleThenHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := newLink(t, aging(), pipedInTurn(trickle(2700*time.Millisecond), obliging))
		took(t.Context(), t, link, callWithin(t, 5*time.Second), 3*time.Second, want{corelink.SentAll, corelink.ErrTimeout, 1})
		took(t.Context(), t, link, callWithin(t, 5*time.Second), 0, want{corelink.SentAll, nil, 61})
	})
}

// A core that stops reading on one connection harms none of the others.
func TestPool_StuckWriteHarmsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link, metric := newCounted(t, aging(), pipedInTurn(stalling(10), obliging))
		stuck := make(chan corelink.Result, 1)
		go func() { stuck <- link.Exchange(t.Context(), callWithin(t, 5*time.Second)) }()
		synctest.Wait()
		for n := range 5 {
			time.Sleep(100 * time.Millisecond)
			answered(t, link, nth(n))
		}
		expect(t, <-stuck, want{corelink.SentSome, corelink.ErrWrite, 0})
		if metric("destroyed") != 1 || metric("opened") != 2 {
			t.Errorf("%d destroyed of %d", metric("destroyed"), metric("opened"))
		}
	})
}

// Close ends what is idle at once, and what is in use when its exchange ends,
// which it does not disturb.
func TestLink_Close(t *testing.T) {
	h := serve(t, steady)
	link, metric := newCounted(t, keeping(h.addr), dialer())
	spread(t, link, 3)
	call := callFor(t, nth(4))
	call.Ready = func() error {
		if err := link.Close(); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := <-h.ends; err != nil {
				t.Errorf("the core saw an idle connection end with %v, want an orderly end", err)
			}
		}
		return nil
	}
	if res := link.Exchange(t.Context(), call); !res.Answered() {
		t.Errorf("the exchange that Close fell into: sent %s, error %v", res.Sent, res.Err)
	}
	if err := <-h.ends; err != nil {
		t.Errorf("the core saw the connection in use end with %v, want an orderly end", err)
	}
	// One that comes late is served, and leaves nothing behind.
	answered(t, link, nth(5))
	if err := errors.Join(<-h.ends, link.Close()); err != nil {
		t.Error(err)
	}
	if metric("idle") != 0 || metric("active") != 0 || metric("destroyed") != 0 || metric("opened") != 4 {
		t.Errorf("%d idle, %d active, %d destroyed, %d opened",
			metric("idle"), metric("active"), metric("destroyed"), metric("opened"))
	}
}

// Close says what went wrong; it closes all the same.
func TestLink_CloseSaysWhatWentWrong(t *testing.T) {
	h := serve(t, steady)
	var conns kept
	link := newLink(t, keeping(h.addr), conns.dial)
	spread(t, link, 2)
	_ = conns.conns[0].Close()
	if err := link.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("error %v", err)
	}
	for range 2 {
		if err := <-h.ends; err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
	}
}
