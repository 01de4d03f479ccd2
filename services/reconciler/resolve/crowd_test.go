package resolve

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/resilience"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// gated puts the circuits of the binary between the house and its core.
func gated(h *house) *resilience.Gate {
	gate := resilience.New(resilience.Options{
		Flags: resilience.Flags{
			CircuitMode: resilience.ModeRate, CircuitWindow: 20, CircuitMinCalls: 10,
			CircuitRequestThreshold: 15, CircuitQueryThreshold: 20, CircuitFailures: 3, CircuitProbes: 1,
			CircuitOpenWait: 10 * time.Second, HalfopenCalls: 5, HalfopenMinCalls: 3,
			Retries: 2, RetryBackoff: 200 * time.Millisecond,
		},
		Request: h.core, Query: h.core, Now: time.Now, Logger: slog.New(h.logs), Registry: prometheus.NewRegistry(),
	})
	h.Resolver = newResolver(h.store, gate, leased(), time.Now, h.logs, prometheus.NewRegistry())
	return gate
}

// leased are the flags with the lease of the binary.
func leased() Flags {
	flags := testFlags()
	flags.Lease = 8 * time.Second
	return flags
}

// cancels is a core that does something else than answer at once about the net
// cancels of some rows.
func cancels(odd func(tranid.ID) bool, does answering) answering {
	return func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
		if mti == telegram.CancelRequestMTI && odd(id) {
			return does(ctx, call, mti, id)
		}
		return says("01", "01")(ctx, call, mti, id)
	}
}

// putAmong stores ordinary rows with odd ones evenly among them.
func putAmong(t *testing.T, h *house, odds, others int) (odd map[tranid.ID]bool, ordinary []tranid.ID) {
	t.Helper()
	odd = map[tranid.ID]bool{}
	all := odds + others
	for i, id := range putMany(t, h.store, 0, all) {
		if i*odds/all != (i+1)*odds/all {
			odd[id] = true
		} else {
			ordinary = append(ordinary, id)
		}
	}
	return odd, ordinary
}

// Rows whose net cancel alone is ignored, or slow: those around them, and those that
// come when there are no others, are final within P4, and no circuit refuses them.
func TestSweep_P4HoldsAmongRowsWhoseNetCancelIsNotAnsweredAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		odds int
		does answering
	}{
		"10 ignored":  {10, silent},
		"100 ignored": {100, silent},
		"100 closed":  {100, closed},
		"50 slow":     {50, slowCancel(2500 * time.Millisecond)},
		"200 slow":    {200, slowCancel(2500 * time.Millisecond)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(nil, leased(), time.Now)
				gate := gated(h)
				odd, ordinary := putAmong(t, h, c.odds, 800)
				h.core.answers(cancels(func(id tranid.ID) bool { return odd[id] }, c.does))
				defer h.running(t)()
				settledWithin(t, h.store, promise, ordinary...)
				for i := range 10 {
					settledWithin(t, h.store, promise, putMany(t, h.store, 10_000+20*i, 20)...)
					time.Sleep(17 * time.Second)
				}
				if stats := gate.Circuits()[0]; stats.State != resilience.Closed || stats.Opened != 0 {
					t.Errorf("core-request is %s, opened %d times", stats.State, stats.Opened)
				}
			})
		})
	}
}

// slowCancel answers a net cancel after so long, to those who still wait.
func slowCancel(after time.Duration) answering {
	return func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
		select {
		case <-time.After(after):
			return says("01", "01")(ctx, call, mti, id)
		case <-ctx.Done():
			return corelink.Result{Sent: corelink.SentAll, Err: corelink.ErrAbandoned}
		}
	}
}

// What is slow, and answered, holds no more than its share: rows that come one after
// the other while it drains do not wait for it.
func TestSweep_SlowNetCancelsDelayNoFreshRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, leased(), time.Now)
		slow := setOf(putMany(t, h.store, 0, 200))
		h.core.answers(cancels(func(id tranid.ID) bool { return slow[id] }, slowCancel(2500*time.Millisecond)))
		defer h.running(t)()
		for i := range 20 {
			// One sweep, and what is in hand.
			settledWithin(t, h.store, 11*time.Second, putMany(t, h.store, 1000+10*i, 10)...)
		}
		for id := range slow {
			settledWithin(t, h.store, 5*time.Minute, id)
		}
	})
}

// A core that takes long for every net cancel is waited for: all of its places are
// used, and what is given up is little.
func TestSweep_ACoreWhoseNetCancelsAreAllSlowDrains(t *testing.T) {
	for _, takes := range []time.Duration{300 * time.Millisecond, time.Second, 2500 * time.Millisecond} {
		t.Run(takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const rows = 600
				h := newHouse(nil, leased(), time.Now)
				ids := putMany(t, h.store, 0, rows)
				h.core.answers(cancels(func(tranid.ID) bool { return true }, slowCancel(takes)))
				defer h.running(t)()
				// Were seven places used without a break, it would be so long.
				settledWithin(t, h.store, 30*time.Second+2*takes*rows/7, ids...)
				// From now on it is known to be slow.
				before := h.core.count("0420", "")
				settledWithin(t, h.store, 30*time.Second+2*takes*100/7, putMany(t, h.store, 1000, 100)...)
				// But for a few whose lease ends just before they do.
				if n := h.core.count("0420", "") - before; n > 110 {
					t.Errorf("%d net cancels of the next 100 rows", n)
				}
			})
		})
	}
}

// Of rows that were asked before, some are ignored for ever and others were unlucky
// once: those are asked again soon, however many the others are, and the others are
// given the whole time again and again.
func TestSweep_RowsThatWereUnluckyOnceDoNotWaitForThoseIgnoredForEver(t *testing.T) {
	for _, mti := range []string{"0400", "0420"} {
		t.Run(mti, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(nil, leased(), time.Now)
				ignored, ordinary := putAmong(t, h, 100, 82)
				var lucky sync.Map
				h.core.answers(func(ctx context.Context, call corelink.Call, got string, id tranid.ID) corelink.Result {
					if _, again := lucky.LoadOrStore(id, true); (!again && got == "0400") || (ignored[id] && got == mti) {
						return silent(ctx, call, got, id)
					}
					return says("01", "01")(ctx, call, got, id)
				})
				defer h.running(t)()
				settledWithin(t, h.store, promise, ordinary...)
				for i := range 20 { // and at any later time
					settledWithin(t, h.store, promise, putMany(t, h.store, 1000+10*i, 5)...)
					time.Sleep(7 * time.Second)
				}
				for i := range 600 { // the core is heard all the while
					put(t, h.store, time.Now, unknown{number: int64(2000 + i)})
					time.Sleep(2 * time.Second)
				}
				spent := 0
				for id := range ignored {
					spent += count(get(t, h.store, id).ResolveAttempts >= 1)
				}
				if spent < len(ignored)*9/10 {
					t.Errorf("only %d of the ignored rows were given the whole time", spent)
				}
			})
		})
	}
}

// Of the failures of a sweep's net cancels, that there is no connection counts; an
// operator's count all.
func TestResolver_NetCancelsOfASweepAreParticular(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, leased(), time.Now)
		gate := gated(h)
		var particular, others atomic.Int64
		does := answering(silent)
		h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
			if mti == telegram.StatusRequestMTI {
				return says("01", "")(ctx, call, mti, id)
			}
			particular.Add(int64(count(call.Particular)))
			others.Add(int64(count(!call.Particular)))
			return does(ctx, call, mti, id)
		})
		putInReview(t, h.store, 20)
		for range 20 {
			h.sweep(t.Context())
			time.Sleep(time.Minute)
		}
		if particular.Load() < 20 || others.Load() != 0 || gate.Circuits()[0].State != resilience.Closed {
			t.Fatalf("%d particular, %d others, core-request %s", particular.Load(), others.Load(), gate.Circuits()[0].State)
		}
		id := put(t, h.store, time.Now, unknown{number: 5000})
		for range 10 {
			_, err := h.ResolveOne(t.Context(), id, operatorKim)
			must(t, err)
		}
		if others.Load() == 0 || gate.Circuits()[0].State != resilience.Open {
			t.Fatalf("an operator's count: %d, core-request %s", others.Load(), gate.Circuits()[0].State)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, leased(), time.Now)
		gate := gated(h)
		putMany(t, h.store, 0, 100)
		h.core.answers(cancels(func(tranid.ID) bool { return true }, refused))
		for range 10 {
			h.sweep(t.Context())
		}
		if gate.Circuits()[0].State != resilience.Open {
			t.Errorf("core-request is %s without a connection", gate.Circuits()[0].State)
		}
	})
}

// A fresh net cancel that there was no time to connect for had its turn, and spends
// nothing: the row is decided, and asked again in the next lane.
func TestAttempt_AFreshNetCancelThatGetsNoAnswerInAMomentSpendsNothing(t *testing.T) {
	for name, sent := range map[string]corelink.Sent{"sent": corelink.SentAll, "connecting": corelink.SentNone} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(nil, leased(), time.Now)
				id := put(t, h.store, time.Now, unknown{number: 1})
				h.core.answers(cancels(func(tranid.ID) bool { return true }, func(ctx context.Context, _ corelink.Call, _ string, _ tranid.ID) corelink.Result {
					<-ctx.Done()
					return corelink.Result{Sent: sent, Err: corelink.ErrAbandoned}
				}))
				h.Resolver.sweep(t.Context(), h.lanes[0])
				row := get(t, h.store, id)
				if row.Status != ledger.StatusUnknown || row.Decision != ledger.DecisionCancel || !row.Asked || row.ResolveAttempts != 0 {
					t.Errorf("%s, decision %q, asked %t, %d attempts", row.Status, row.Decision, row.Asked, row.ResolveAttempts)
				}
				h.core.answers(says("01", "01"))
				time.Sleep(time.Second)
				h.Resolver.sweep(t.Context(), h.lanes[1])
				if row := get(t, h.store, id); row.Status != ledger.StatusCanceled {
					t.Errorf("%s", row.Status)
				}
			})
		})
	}
}

// Of what was asked before, one row that is waited for comes between what fell due
// last and what has been due longest, while fewer than half of the places are taken
// by such.
func TestLane_RowsThatWereAskedAreTakenFromBothEndsInTurns(t *testing.T) {
	l := lanes(16, time.Minute)[1]
	type claimed struct {
		limit  int
		newest bool
	}
	turns := func(n int) (got []claimed) {
		for range n {
			o := l.next(time.Minute)
			got = append(got, claimed{o.Limit, o.Newest})
		}
		return got
	}
	oldest, newest, single := claimed{ledger.MaxClaim, false}, claimed{ledger.MaxClaim, true}, claimed{1, false}
	if got, want := turns(5), []claimed{single, oldest, single, newest, single}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	l.singles.Store(int32(cap(l.inquiries) / 2))
	if got, want := turns(3), []claimed{oldest, newest, oldest}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v while enough are waited for", got, want)
	}
}
