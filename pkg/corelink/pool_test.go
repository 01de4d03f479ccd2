package corelink_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// A bank contracts a number of sessions: however many callers there are, the
// core sees no more.
func TestPool_NeverMoreThanItsSize(t *testing.T) {
	const size, callers, each = 7, 200, 10
	h := serve(t, steady)
	flags := keeping(h.addr)
	flags.PoolSize = size
	link, metric := newCounted(t, flags, dialer())
	var work sync.WaitGroup
	for c := range callers {
		work.Go(func() {
			for n := range each {
				answered(t, link, nth(c*each+n))
			}
		})
	}
	work.Wait()
	accepted, peak := h.seen()
	if peak > size || accepted > size {
		t.Errorf("the core saw %d connections, %d of them at once; want %d at most", accepted, peak, size)
	}
	if opened, reused := metric("opened"), metric("reused"); opened != accepted || opened+reused != callers*each {
		t.Errorf("%d opened and %d reused, want %d and %d in all", opened, reused, accepted, callers*each)
	}
	if err := link.Close(); err != nil {
		t.Error(err)
	}
}

// bounded counts the connections of a dialer that have not been closed.
type bounded struct {
	open, peak atomic.Int64
}

type boundedConn struct {
	*net.TCPConn
	of   *bounded
	once sync.Once
}

func (c *boundedConn) Close() error {
	// The core may see it before Close returns, so it is counted before.
	c.once.Do(func() { c.of.open.Add(-1) })
	return c.TCPConn.Close()
}

func (b *bounded) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	open := b.open.Add(1)
	for peak := b.peak.Load(); open > peak && !b.peak.CompareAndSwap(peak, open); peak = b.peak.Load() {
	}
	conn, err := dialer()(ctx, network, addr)
	if err != nil {
		b.open.Add(-1)
		return nil, err
	}
	return &boundedConn{TCPConn: conn.(*net.TCPConn), of: b}, nil
}

// moody answers by the number of the transaction: some with garbage, some not
// at all, and some with a byte too many.
func moody(conn *net.TCPConn) error {
	for {
		id, err := asked(conn)
		if err != nil {
			return ended(err)
		}
		answer := approval(id)
		switch mood(id) {
		case 1:
			answer[0] = '9'
		case 2:
			return nil
		case 3:
			answer = append(answer, '!')
		}
		if _, err := conn.Write(answer); err != nil {
			return err
		}
	}
}

func mood(id tranid.ID) int { return int(id[len(id)-1]-'0') % 7 }

// Whatever happens to connections, their number is bounded and each one is
// accounted for.
func TestPool_AddsUp(t *testing.T) {
	const size, callers, each = 5, 50, 20
	h := serve(t, moody)
	flags := keeping(h.addr)
	flags.PoolSize = size
	var conns bounded
	link, metric := newCounted(t, flags, conns.dial)
	var work sync.WaitGroup
	var anomalies atomic.Int64
	for c := range callers {
		work.Go(func() {
			for n := range each {
				id := nth(c*each + n)
				res := link.Exchange(t.Context(), callFor(t, id))
				m := mood(id)
				if m == 1 && !errors.Is(res.Err, corelink.ErrGarbage) || m == 2 && !errors.Is(res.Err, corelink.ErrClosed) ||
					m != 1 && m != 2 && !res.Answered() {
					t.Errorf("exchange of %s: sent %s, error %v", id, res.Sent, res.Err)
				}
				if m >= 1 && m <= 3 {
					anomalies.Add(1)
				}
			}
		})
	}
	work.Wait()
	if peak := conns.peak.Load(); peak > size {
		t.Errorf("%d connections at once, want %d at most", peak, size)
	}
	opened, reused, destroyed, idle := metric("opened"), metric("reused"), metric("destroyed"), metric("idle")
	if opened+reused != callers*each {
		t.Errorf("%d opened and %d reused, want %d in all", opened, reused, callers*each)
	}
	if destroyed != int(anomalies.Load()) || opened != destroyed+idle || metric("active") != 0 || metric("expired") != 0 {
		t.Errorf("%d opened, %d destroyed, %d idle, %d active, %d expired; %d anomalies",
			opened, destroyed, idle, metric("active"), metric("expired"), anomalies.Load())
	}
	if idle > size || int(conns.open.Load()) != idle {
		t.Errorf("%d idle, %d open", idle, conns.open.Load())
	}
	if err := link.Close(); err != nil {
		t.Error(err)
	}
	if metric("idle") != 0 || conns.open.Load() != 0 {
		t.Errorf("after Close: %d idle, %d open", metric("idle"), conns.open.Load())
	}
	h.stop()
	if accepted, _ := h.seen(); accepted != opened {
		t.Errorf("the core saw %d connections, %d were opened", accepted, opened)
	}
}

// A place is free only when its connection can be found: otherwise whoever gets
// the place opens one more than there may be. Here the pool is looked at when it
// asks for the time at which a connection came back.
func TestPool_ConnectionIsIdleBeforeItsPlaceIsFree(t *testing.T) {
	h := serve(t, steady)
	flags := keeping(h.addr)
	flags.PoolSize, flags.PoolWait = 1, 0
	var look func()
	link := corelink.New(corelink.Options{
		Flags: flags, Name: "test", Dial: dialer(), Metrics: corelink.NewMetrics(prometheus.NewRegistry()),
		Now: func() time.Time {
			if now := look; now != nil {
				look = nil
				now()
			}
			return time.Now()
		},
	})
	defer func() { _ = link.Close() }()
	looked := false
	call := callFor(t, nth(1))
	call.Ready = func() error {
		look = func() {
			looked = true
			expect(t, link.Exchange(t.Context(), callFor(t, nth(2))), want{corelink.SentNone, corelink.ErrSaturated, 0})
		}
		return errSaid
	}
	expect(t, link.Exchange(t.Context(), call), want{corelink.SentNone, corelink.ErrNotReady, 0})
	answered(t, link, nth(3))
	if accepted, _ := h.seen(); accepted != 1 || !looked {
		t.Errorf("%d connections, looked: %t", accepted, looked)
	}
}

// busy is a core that answers after ten seconds.
func busy(conn net.Conn) {
	for {
		id, err := asked(conn)
		if err != nil {
			return
		}
		time.Sleep(10 * time.Second)
		if _, err := conn.Write(approval(id)); err != nil {
			return
		}
	}
}

func TestPool_WaitForAPlace(t *testing.T) {
	const ms = time.Millisecond
	cases := map[string]struct {
		wait, left, caller, took time.Duration
		want                     want
	}{
		"none comes free":         {500 * ms, 5000 * ms, 9000 * ms, 500 * ms, want{corelink.SentNone, corelink.ErrSaturated, 0}},
		"not to wait":             {0, 5000 * ms, 9000 * ms, 0, want{corelink.SentNone, corelink.ErrSaturated, 0}},
		"the deadline is nearer":  {500 * ms, 200 * ms, 9000 * ms, 200 * ms, want{corelink.SentNone, corelink.ErrNoTime, 0}},
		"the caller leaves first": {500 * ms, 5000 * ms, 100 * ms, 100 * ms, want{corelink.SentNone, corelink.ErrAbandoned, 0}},
		// The place comes free nine seconds from now, and the answer ten later.
		"one comes free": {30_000 * ms, 60_000 * ms, 50_000 * ms, 19_000*ms + 1*ms, want{corelink.SentAll, nil, 61}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				flags := keeping("core")
				flags.PoolSize, flags.PoolWait = 1, c.wait
				link, metric := newCounted(t, flags, piped(busy))
				first := make(chan corelink.Result, 1)
				go func() { first <- link.Exchange(t.Context(), callFor(t, otherID)) }()
				time.Sleep(time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), c.caller)
				defer cancel()
				took(ctx, t, link, callWithin(t, c.left), c.took, c.want)
				if res := <-first; !res.Answered() {
					t.Errorf("the first: sent %s, error %v", res.Sent, res.Err)
				}
				if n := metric("active"); n != 0 {
					t.Errorf("%d active", n)
				}
			})
		})
	}
}

// A connection on which nothing was sent is as good as before.
func TestPool_UnusedConnectionIsKept(t *testing.T) {
	h := serve(t, steady)
	link, metric := newCounted(t, keeping(h.addr), dialer())
	answered(t, link, nth(1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	expect(t, link.Exchange(ctx, callFor(t, nth(2))), want{corelink.SentNone, corelink.ErrAbandoned, 0})
	late := callFor(t, nth(2))
	late.Deadline = time.Now()
	late.Ready = func() error { t.Error("asked, with no time left"); return nil }
	expect(t, link.Exchange(t.Context(), late), want{corelink.SentNone, corelink.ErrNoTime, 0})
	if reused := metric("reused"); reused != 0 {
		t.Errorf("%d reused for a caller who had gone and one without time", reused)
	}

	ctx, cancel = context.WithCancel(t.Context())
	call := callFor(t, nth(3))
	call.Ready = func() error { cancel(); return nil }
	expect(t, link.Exchange(ctx, call), want{corelink.SentNone, corelink.ErrAbandoned, 0})

	call = callFor(t, nth(4))
	call.Ready = func() error { return errSaid }
	expect(t, link.Exchange(t.Context(), call), want{corelink.SentNone, corelink.ErrNotReady, 0})
	answered(t, link, nth(5))
	if accepted, _ := h.seen(); accepted != 1 || metric("destroyed") != 0 {
		t.Errorf("%d connections, %d destroyed", accepted, metric("destroyed"))
	}
}

// The connection that was used last is used first, so that those which are not
// needed grow old.
func TestPool_UsesTheLastUsed(t *testing.T) {
	served := make(chan string, 100)
	h := serve(t, func(conn *net.TCPConn) error {
		for {
			id, err := asked(conn)
			if err != nil {
				return ended(err)
			}
			served <- conn.RemoteAddr().String()
			if _, err := conn.Write(approval(id)); err != nil {
				return err
			}
		}
	})
	link := newLink(t, keeping(h.addr), dialer())
	next := func(n int) []string {
		spread(t, link, n)
		var by []string
		for range n {
			by = append(by, <-served)
		}
		return by
	}
	// Innermost first, so the last of the three is the one that was used last.
	by := next(3)
	for n, last := range [][]string{next(1), next(1), next(2), next(3)} {
		want := slices.Clone(by[3-len(last):])
		if len(last) == 2 {
			// The outer exchange took the last used, the inner one the other.
			want = by[1:]
		}
		if !slices.Equal(last, want) {
			t.Errorf("round %d went over %v, want %v of %v", n+1, last, want, by)
		}
	}
	if accepted, _ := h.seen(); accepted != 3 {
		t.Errorf("%d connections, want 3", accepted)
	}
}
