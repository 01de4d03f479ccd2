package payment_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/payment/payment"
)

// Every status in which a key's first transaction can be when the call comes
// again. No frame leaves for it.
func TestCreate_ReplaySaysTheCurrentState(t *testing.T) {
	unknown := ends(corelink.SentAll, corelink.ErrTimeout)
	cases := map[string]struct {
		first exchange
		then  func(h *house, id tranid.ID)
		want  ledger.Reason
	}{
		"SUCCESS":              {answers("0000"), nil, 0},
		"UNKNOWN":              {unknown, nil, ledger.ReasonOutcomeUnknown},
		"UNKNOWN, decided":     {unknown, (*house).decide, ledger.ReasonOutcomeUnknown},
		"UNKNOWN, in review":   {answers("0094"), nil, ledger.ReasonOutcomeUnknown},
		"SUCCESS by inquiry":   {unknown, (*house).confirm, 0},
		"CANCELED":             {unknown, (*house).cancel, ledger.ReasonPaymentCanceled},
		"FAILED by the fence":  {unknown, (*house).fence, ledger.ReasonNotExecuted},
		"FAILED by the window": {unknown, (*house).elapse, ledger.ReasonNotExecuted},
		"FAILED, no account":   {answers("0001"), nil, ledger.ReasonAccountNotFound},
		"FAILED, no money":     {answers("0051"), nil, ledger.ReasonDeclined},
		"FAILED, fence's 0096": {answers("0096"), nil, ledger.ReasonDeclined},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inHouse(t, c.first, nil, func(t *testing.T, h *house) {
				_, _ = h.service.Create(t.Context(), h.pay())
				first := h.bound()
				if c.then != nil {
					c.then(h, first.ID)
				}
				start := time.Now()
				reply, err := h.service.Create(t.Context(), h.pay())
				told, replayed := reply.Transaction, reply.Replayed
				if c.want != 0 {
					r := refusalOf(t, err, c.want)
					told, replayed = *r.Transaction, r.Replayed
				} else if err != nil {
					t.Fatal(err)
				}
				if row := h.bound(); told != row || told.ID != first.ID || !replayed {
					t.Errorf("told %+v, replayed %t; the row is %+v", told, replayed, row)
				}
				if n := len(h.core.frames()); n != 1 || time.Since(start) != 0 {
					t.Errorf("%d frames, after %v; want that of the first call alone, and no wait", n, time.Since(start))
				}
			})
		})
	}
}

func TestCreate_KeyOfAnotherRequest(t *testing.T) {
	cases := map[string]func(*payment.Request){
		"order":   func(r *payment.Request) { r.Order = "order-2" },
		"amount":  func(r *payment.Request) { r.Amount++ },
		"policy":  func(r *payment.Request) { r.Policy = ledger.PolicyConfirm },
		"account": func(r *payment.Request) { r.Account, _ = account.Parse("12345678901235") },
	}
	for _, core := range []exchange{answers("0000"), answers("0051"), ends(corelink.SentAll, corelink.ErrTimeout)} {
		for name, change := range cases {
			t.Run(name, func(t *testing.T) {
				inHouse(t, core, nil, func(t *testing.T, h *house) {
					_, _ = h.service.Create(t.Context(), h.pay())
					before := h.bound()
					other := h.pay()
					change(&other)
					_, err := h.service.Create(t.Context(), other)
					if r := refusalOf(t, err, ledger.ReasonIdempotencyKeyReused); r.Transaction != nil {
						t.Errorf("the refusal shows %+v", r.Transaction)
					}
					if h.bound() != before || len(h.core.frames()) != 1 {
						t.Errorf("frames %v, row %+v", h.core.frames(), h.bound())
					}
				})
			})
		}
	}
}

// The same payment said otherwise is the same payment; another client's key is
// another key.
func TestCreate_KeyOfTheSameRequest(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		r := h.pay()
		r.Account = number(t, "1234567890123")
		if _, err := h.service.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		r.Account, r.CorrelationID = number(t, "01234567890123"), "corr-2"
		if reply, err := h.service.Create(t.Context(), r); err != nil || !reply.Replayed || reply.Transaction.CorrelationID != "corr-1" {
			t.Errorf("reply %+v, %v; want the first call's transaction", reply, err)
		}
		r.Client = "shop"
		if reply, err := h.service.Create(t.Context(), r); err != nil || reply.Replayed {
			t.Errorf("reply %+v, %v; want a payment of its own", reply, err)
		}
	})
}

// What was not sent may run again, under a new ID and with any fingerprint, as
// often as it takes.
func TestCreate_NotSentRunsAgain(t *testing.T) {
	unsent := ends(corelink.SentNone, corelink.ErrConnect)
	inHouse(t, inTurn(unsent, unsent, answers("0000")), nil, func(t *testing.T, h *house) {
		seen := map[tranid.ID]bool{}
		for n := range 2 {
			r := h.pay()
			r.Amount += account.Won(n)
			refusal := refusalOf(t, errorOf(h.service.Create(t.Context(), r)), ledger.ReasonCoreUnreachable)
			if refusal.Replayed || seen[refusal.Transaction.ID] {
				t.Errorf("call %d: %+v", n, refusal)
			}
			seen[refusal.Transaction.ID] = true
		}
		r := h.pay()
		r.Policy, r.Amount = ledger.PolicyConfirm, 77
		reply, err := h.service.Create(t.Context(), r)
		if err != nil || reply.Replayed || seen[reply.Transaction.ID] || reply.Transaction.Amount != 77 {
			t.Errorf("reply %+v, %v", reply, err)
		}
		for id := range seen {
			row, err := h.store.Get(t.Context(), id)
			if err != nil || !row.NeverSent() {
				t.Errorf("%s is %s by %s, %v", id, row.Status, row.Evidence, err)
			}
		}
		if _, err := h.service.Create(t.Context(), h.pay()); !errors.As(err, new(*ledger.Refusal)) {
			t.Error("the key takes its old fingerprint again, although it is bound to another payment")
		}
	})
}

func TestCreate_ReplayWhileInProgress(t *testing.T) {
	cases := map[string]struct {
		patience time.Duration // the caller's; 0 is for ever
		waits    time.Duration
	}{
		"gives up 100 ms before its deadline":         {3 * time.Second, 2900 * time.Millisecond},
		"gives up at once when there is no more time": {100 * time.Millisecond, 0},
		"gives up when its own deadline is past":      {0, 5 * time.Second},
		"gives up there though the caller waits on":   {time.Hour, 5 * time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inHouse(t, after(time.Minute, answers("0000")), withWindow(2*time.Minute), func(t *testing.T, h *house) {
				go func() { _, _ = h.service.Create(context.Background(), h.pay()) }()
				time.Sleep(time.Second)
				ctx, cancel := context.WithCancel(t.Context())
				if c.patience > 0 {
					ctx, cancel = context.WithTimeout(t.Context(), c.patience)
				}
				defer cancel()
				start := time.Now()
				r := refusalOf(t, errorOf(h.service.Create(ctx, h.pay())), ledger.ReasonInProgress)
				if waited := time.Since(start); waited != c.waits {
					t.Errorf("waited %v, want %v", waited, c.waits)
				}
				if !r.Replayed || r.Transaction.Status != ledger.StatusRequested {
					t.Errorf("refusal %+v", r)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// withWindow makes the send window so long that a core of the test may be slow
// to begin.
func withWindow(d time.Duration) func(*payment.Options) {
	return func(o *payment.Options) { o.Flags.SendWindow = d }
}

// A key's life cannot end before its payment does: neither while it is under way
// nor while it is in doubt. When it is final and its life is over, the key is
// free for anything.
func TestCreate_KeyLife(t *testing.T) {
	short := func(o *payment.Options) { o.Flags.KeyLife = time.Second }
	inHouse(t, inTurn(late(1900*time.Millisecond, "0000", nil), answers("0000")), short, func(t *testing.T, h *house) {
		wait := h.waiting(h.service, 1)
		time.Sleep(1500 * time.Millisecond)
		reply, err := h.service.Create(t.Context(), h.pay())
		if err != nil || !reply.Replayed || len(h.core.frames()) != 1 {
			t.Errorf("while it is under way: %+v, %v, frames %v", reply, err, h.core.frames())
		}
		wait()
		other := h.pay()
		other.Amount++
		again, err := h.service.Create(t.Context(), other)
		if err != nil || again.Replayed || again.Transaction.ID == reply.Transaction.ID {
			t.Errorf("when it is over: %+v, %v", again, err)
		}
		if row, err := h.service.Get(t.Context(), client, reply.Transaction.ID); err != nil || row != reply.Transaction {
			t.Errorf("the payment before it: %+v, %v", row, err)
		}
	})
	inHouse(t, ends(corelink.SentAll, corelink.ErrTimeout), short, func(t *testing.T, h *house) {
		refused(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonOutcomeUnknown)
		id := h.bound().ID
		time.Sleep(24 * time.Hour)
		refused(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonOutcomeUnknown)
		h.confirm(id)
		h.core.do = answers("0000")
		if reply, err := h.service.Create(t.Context(), h.pay()); err != nil || reply.Replayed || reply.Transaction.ID == id {
			t.Errorf("when it is final and its life over: %+v, %v", reply, err)
		}
	})
}

// The case of a key matters, and its scope is its client.
func TestCreate_KeysThatLookAlike(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		for _, k := range []ledger.IdempotencyKey{"order-1", "Order-1", "ORDER-1", "order_1"} {
			r := h.pay()
			r.Key = k
			if reply, err := h.service.Create(t.Context(), r); err != nil || reply.Replayed {
				t.Errorf("%s: %+v, %v", k, reply, err)
			}
		}
	})
}
