package payment_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

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

// A call that waits is answered when the reconciler of another process has
// settled what its first call left behind.
func TestCreate_WaiterSeesWhatOthersDecide(t *testing.T) {
	inHouse(t, late(4*time.Second, "0000", nil), nil, func(t *testing.T, h *house) {
		var first sync.WaitGroup
		first.Go(func() { _ = errorOf(h.service.Create(context.Background(), h.pay())) })
		time.Sleep(time.Second)
		time.AfterFunc(time.Second, func() {
			id := h.bound().ID
			h.adopt(id)
			h.cancel(id)
		})
		start := time.Now()
		refused(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonPaymentCanceled)
		if waited := time.Since(start); waited < time.Second || waited > 1100*time.Millisecond {
			t.Errorf("waited %v, want a second and at most 100 ms more", waited)
		}
		first.Wait()
	})
}

func TestCreate_WaiterWhoseLedgerGoesDown(t *testing.T) {
	inHouse(t, late(time.Second, "0000", nil), nil, func(t *testing.T, h *house) {
		h.store.get = func(context.Context, tranid.ID) (ledger.Transaction, error) { return ledger.Transaction{}, errDown }
		var first sync.WaitGroup
		first.Go(func() {
			if _, err := h.service.Create(context.Background(), h.pay()); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Millisecond)
		refused(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonLedgerUnavailable)
		first.Wait()
	})
}
