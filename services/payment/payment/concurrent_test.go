package payment_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/payment/payment"
)

// ended is how one of several concurrent calls ended.
type ended struct {
	id       tranid.ID
	reason   ledger.Reason
	replayed bool
}

func endOf(t *testing.T, reply payment.Reply, err error) ended {
	t.Helper()
	if err == nil {
		return ended{id: reply.Transaction.ID, replayed: reply.Replayed}
	}
	var r *ledger.Refusal
	if !errors.As(err, &r) || r.Transaction == nil {
		t.Errorf("ended with %v", err)
		return ended{}
	}
	return ended{r.Transaction.ID, r.Reason, r.Replayed}
}

// at once makes n calls with one key, and returns how they ended.
func (h *house) atOnce(n int) []ended {
	ends := make([]ended, n)
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() {
			reply, err := h.service.Create(h.t.Context(), h.pay())
			ends[i] = endOf(h.t, reply, err)
		})
	}
	work.Wait()
	return ends
}

// One frame, and everyone is told of the same transaction as it ended.
func TestCreate_ConcurrentCallsWithOneKey(t *testing.T) {
	cases := map[string]struct {
		do     exchange
		reason ledger.Reason
	}{
		"approved": {late(2*time.Second, "0000", nil), 0},
		"declined": {late(2*time.Second, "0051", nil), ledger.ReasonDeclined},
		"used ID":  {late(2*time.Second, "0094", nil), ledger.ReasonOutcomeUnknown},
		"unknown":  {after(1900*time.Millisecond, ends(corelink.SentAll, corelink.ErrTimeout)), ledger.ReasonOutcomeUnknown},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inHouse(t, c.do, nil, func(t *testing.T, h *house) {
				row, first := ledger.Transaction{}, 0
				for _, e := range h.atOnce(50) {
					if row.ID == "" {
						row = h.bound()
					}
					if e.id != row.ID || e.reason != c.reason {
						t.Errorf("ended with %s %s, the row is %s", e.id, e.reason, row.ID)
					}
					if !e.replayed {
						first++
					}
				}
				if frames := h.core.frames(); first != 1 || len(frames) != 1 || frames[0] != row.ID {
					t.Errorf("frames %v, %d calls say that they made it; want one, of %s", frames, first, row.ID)
				}
			})
		})
	}
}

// When the first call sent nothing, one of those that waited sends, and the
// others wait on it.
func TestCreate_ConcurrentCallsAfterNothingWasSent(t *testing.T) {
	unreachable := after(time.Second, ends(corelink.SentNone, corelink.ErrConnect))
	inHouse(t, inTurn(unreachable, after(time.Second, answers("0000"))), nil, func(t *testing.T, h *house) {
		refusals, successes := 0, map[tranid.ID]int{}
		for _, e := range h.atOnce(50) {
			switch e.reason {
			case 0:
				successes[e.id]++
			case ledger.ReasonCoreUnreachable:
				refusals++
			default:
				t.Errorf("ended with %s", e.reason)
			}
		}
		if refusals != 1 || len(successes) != 1 || successes[h.bound().ID] != 49 || len(h.core.frames()) != 1 {
			t.Errorf("%d refusals, successes %v, frames %v", refusals, successes, h.core.frames())
		}
	})
}

// The same over two processes: one of all those that waited binds the key anew,
// and the others wait on that one, wherever it runs.
func TestCreate_CallsOfTwoProcessesAfterNothingWasSent(t *testing.T) {
	unreachable := after(time.Second, ends(corelink.SentNone, corelink.ErrConnect))
	inHouse(t, inTurn(unreachable, after(900*time.Millisecond, answers("0000"))), nil, func(t *testing.T, h *house) {
		here := h.waiting(h.service, 25)
		there := h.waiting(h.twin(), 25)
		refusals, successes := 0, map[tranid.ID]int{}
		for _, e := range append(here(), there()...) {
			switch e.reason {
			case 0:
				successes[e.id]++
			case ledger.ReasonCoreUnreachable:
				refusals++
			default:
				t.Errorf("ended with %s", e.reason)
			}
		}
		if refusals != 1 || len(successes) != 1 || successes[h.bound().ID] != 49 || len(h.core.frames()) != 1 {
			t.Errorf("%d refusals, successes %v, frames %v", refusals, successes, h.core.frames())
		}
	})
}

// A core that stays away is not tried by each of those that wait.
func TestCreate_ConcurrentCallsTryTwiceAtMost(t *testing.T) {
	inHouse(t, after(time.Second, ends(corelink.SentNone, corelink.ErrConnect)), nil, func(t *testing.T, h *house) {
		for _, e := range h.atOnce(50) {
			if e.reason != ledger.ReasonCoreUnreachable {
				t.Errorf("ended with %s", e.reason)
			}
		}
		if tries := len(h.core.asked); tries != 2 {
			t.Errorf("%d tries, want 2", tries)
		}
	})
}

// A call that waited for another until its caller has no time left does not
// begin a payment of its own.
func TestCreate_WaiterWithoutTimeBeginsNothing(t *testing.T) {
	patient := func(o *payment.Options) { o.Flags.MinDeadline = time.Second }
	inHouse(t, after(1900*time.Millisecond, ends(corelink.SentNone, corelink.ErrConnect)), patient, func(t *testing.T, h *house) {
		var first sync.WaitGroup
		first.Go(func() { _ = errorOf(h.service.Create(context.Background(), h.pay())) })
		defer first.Wait()
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		refused(t, errorOf(h.service.Create(ctx, h.pay())), ledger.ReasonDeadlineTooShort)
		if tries := len(h.core.asked); tries != 1 {
			t.Errorf("%d tries, want that of the first call alone", tries)
		}
	})
}

// twin is a second process on the same ledger and the same core.
func (h *house) twin() *payment.Service {
	o := h.options()
	o.Registry = prometheus.NewRegistry()
	twin := payment.New(o)
	h.t.Cleanup(func() {
		if err := twin.Drain(context.Background()); err != nil {
			h.t.Errorf("drain the twin: %v", err)
		}
	})
	return twin
}

// looks counts the looks at rows of the ledger from now on.
func (h *house) looks() *atomic.Int64 {
	var n atomic.Int64
	h.store.get = func(ctx context.Context, id tranid.ID) (ledger.Transaction, error) {
		n.Add(1)
		return h.store.Store.Get(ctx, id)
	}
	return &n
}

// waiting begins n calls with the key, and returns when they wait for one that is
// under way; wait returns how they ended.
func (h *house) waiting(service *payment.Service, n int) (wait func() []ended) {
	h.t.Helper()
	ends := make([]ended, n)
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() {
			reply, err := service.Create(context.Background(), h.pay())
			ends[i] = endOf(h.t, reply, err)
		})
	}
	synctest.Wait()
	return func() []ended { work.Wait(); return ends }
}

// Those who wait for a call of their own process are woken at its very end, and
// have not looked at its row.
func TestCreate_WaitersOfOneProcessAreWokenAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		do     exchange
		reason ledger.Reason
	}{
		"approved": {late(1900*time.Millisecond, "0000", nil), 0},
		"declined": {late(1900*time.Millisecond, "0051", nil), ledger.ReasonDeclined},
		"unknown":  {after(1900*time.Millisecond, ends(corelink.SentAll, corelink.ErrTimeout)), ledger.ReasonOutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, c.do, nil, func(t *testing.T, h *house) {
				looks, start := h.looks(), time.Now()
				wait := h.waiting(h.service, 1000)
				for _, e := range wait() {
					if e.reason != c.reason {
						t.Fatalf("ended with %+v", e)
					}
				}
				if took := time.Since(start); took != 1900*time.Millisecond {
					t.Errorf("woken after %v, want 1.9 s", took)
				}
				if n := looks.Load(); n != 0 {
					t.Errorf("%d looks at the row", n)
				}
			})
		})
	}
}

// However many of a process wait for a call of another one, they look at its row
// as one, and are answered soon after it changed.
func TestCreate_WaitersOfAnotherProcessLookAsOne(t *testing.T) {
	inHouse(t, late(1900*time.Millisecond, "0000", nil), nil, func(t *testing.T, h *house) {
		first := h.waiting(h.service, 1)
		looks, start := h.looks(), time.Now()
		for _, e := range h.waiting(h.twin(), 1000)() {
			if e.reason != 0 || !e.replayed {
				t.Fatalf("ended with %+v", e)
			}
		}
		if took := time.Since(start); took < 1900*time.Millisecond || took > 2*time.Second {
			t.Errorf("woken after %v, want 1.9 s and at most 100 ms more", took)
		}
		if n := looks.Load(); n > 50 {
			t.Errorf("%d looks at the row in 2 s", n)
		}
		first()
	})
}

// A call that waits is answered when the reconciler has settled what a process
// that was killed has left behind.
func TestCreate_WaiterSeesWhatOthersDecide(t *testing.T) {
	inHouse(t, late(1900*time.Millisecond, "0000", nil), nil, func(t *testing.T, h *house) {
		wait := h.waiting(h.service, 1)
		twin := h.twin()
		time.AfterFunc(time.Second, func() {
			id := h.bound().ID
			h.adopt(id)
			h.cancel(id)
		})
		start := time.Now()
		refused(t, errorOf(twin.Create(t.Context(), h.pay())), ledger.ReasonPaymentCanceled)
		if waited := time.Since(start); waited < time.Second || waited > 1100*time.Millisecond {
			t.Errorf("waited %v, want a second and at most 100 ms more", waited)
		}
		wait()
	})
}

// The outcome of the first call could not be stored in time, so it cannot say
// what the row has become: those who wait look, until it is stored.
func TestCreate_WaitersOfACallThatDoesNotKnow(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		h.store.transition = func(context.Context, ledger.Change) (ledger.Transaction, error) {
			h.store.transition = nil
			h.downFor(time.Second)
			time.Sleep(time.Second)
			return ledger.Transaction{}, errDown
		}
		counts := map[ledger.Reason]int{}
		for _, e := range h.waiting(h.service, 10)() {
			counts[e.reason]++
		}
		if counts[ledger.ReasonOutcomeUnknown] != 1 || counts[0] != 9 || len(h.core.frames()) != 1 {
			t.Errorf("ended with %v, frames %v", counts, h.core.frames())
		}
	})
}

// Who waits for a call of another process needs the ledger, and is told so; who
// waits for one of its own does not.
func TestCreate_WaiterWhoseLedgerGoesDown(t *testing.T) {
	inHouse(t, late(time.Second, "0000", nil), nil, func(t *testing.T, h *house) {
		h.store.get = func(context.Context, tranid.ID) (ledger.Transaction, error) { return ledger.Transaction{}, errDown }
		wait := h.waiting(h.service, 3)
		refused(t, errorOf(h.twin().Create(t.Context(), h.pay())), ledger.ReasonLedgerUnavailable)
		for _, e := range wait() {
			if e.reason != 0 {
				t.Errorf("ended with %s", e.reason)
			}
		}
	})
}
