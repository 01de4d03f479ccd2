package payment_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/payment/payment"
)

const (
	order    = ledger.OrderID("basket 7")
	otherKey = ledger.IdempotencyKey("order-1b")
)

// payOrder is a payment of the order, under this key.
func (h *house) payOrder(k ledger.IdempotencyKey) payment.Request {
	r := h.pay()
	r.Key, r.Order = k, order
	return r
}

// An order has one payment that is under way, in doubt or done. Another one is
// refused before anything is stored, and is told of the first.
func TestCreate_OrderHasOnePayment(t *testing.T) {
	unknown := ends(corelink.SentAll, corelink.ErrTimeout)
	cases := map[string]struct {
		first exchange
		then  func(h *house, id tranid.ID)
		want  ledger.Reason // 0: the order may be paid again
	}{
		"SUCCESS":            {answers("0000"), nil, ledger.ReasonOrderAlreadyPaid},
		"SUCCESS by inquiry": {unknown, (*house).confirm, ledger.ReasonOrderAlreadyPaid},
		"UNKNOWN":            {unknown, nil, ledger.ReasonOrderInDoubt},
		"UNKNOWN, decided":   {unknown, (*house).decide, ledger.ReasonOrderInDoubt},
		"UNKNOWN, in review": {answers("0094"), nil, ledger.ReasonOrderInDoubt},
		"CANCELED":           {unknown, (*house).cancel, 0},
		"FAILED, fenced":     {unknown, (*house).fence, 0},
		"FAILED, declined":   {answers("0051"), nil, 0},
		"FAILED, not sent":   {ends(corelink.SentNone, corelink.ErrConnect), nil, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inHouse(t, c.first, nil, func(t *testing.T, h *house) {
				_, _ = h.service.Create(t.Context(), h.payOrder(key))
				first := h.bound()
				if first.Order != order {
					t.Fatalf("the row is of order %q", first.Order)
				}
				if c.then != nil {
					c.then(h, first.ID)
				}
				h.core.do = answers("0000")
				reply, err := h.service.Create(t.Context(), h.payOrder(otherKey))
				if c.want == 0 {
					if err != nil || reply.Replayed || reply.Transaction.Order != order {
						t.Errorf("the order is not paid again: %+v, %v", reply, err)
					}
					return
				}
				r := refusalOf(t, err, c.want)
				if r.Transaction == nil || *r.Transaction != h.bound() || (r.RetryAfter > 0) != (c.want == ledger.ReasonOrderInDoubt) {
					t.Errorf("told of %+v, retry after %v", r.Transaction, r.RetryAfter)
				}
				h.refusedAndUnbound(1)
			})
		})
	}
}

// refusedAndUnbound checks that the other key is free for anything, and that so
// many payments were asked of the core.
func (h *house) refusedAndUnbound(asked int) {
	h.t.Helper()
	if _, err := h.store.GetByKey(context.Background(), client, otherKey); err == nil {
		h.t.Error("the refused key is bound")
	}
	if len(h.core.asked) != asked {
		h.t.Errorf("%d payments were asked of the core, want %d", len(h.core.asked), asked)
	}
	r := h.pay()
	r.Key, r.Amount = otherKey, 77
	if _, err := h.service.Create(context.Background(), r); err != nil {
		h.t.Errorf("the refused key is of no use: %v", err)
	}
}

// While the first payment is under way its order is in doubt, and nobody waits
// for it who has another key.
func TestCreate_OrderUnderWay(t *testing.T) {
	inHouse(t, inTurn(late(time.Second, "0000", nil), answers("0000")), nil, func(t *testing.T, h *house) {
		var first sync.WaitGroup
		first.Go(func() { _ = errorOf(h.service.Create(context.Background(), h.payOrder(key))) })
		time.Sleep(time.Millisecond)
		start := time.Now()
		r := refusalOf(t, errorOf(h.service.Create(t.Context(), h.payOrder(otherKey))), ledger.ReasonOrderInDoubt)
		if r.Transaction.Status != ledger.StatusRequested || time.Since(start) != 0 {
			t.Errorf("told of %s after %v", r.Transaction.Status, time.Since(start))
		}
		h.refusedAndUnbound(1)
		first.Wait()
	})
}

// Of many keys for one order, one pays.
func TestCreate_OrderAtOnceUnderManyKeys(t *testing.T) {
	inHouse(t, late(time.Second, "0000", nil), nil, func(t *testing.T, h *house) {
		var work sync.WaitGroup
		reasons := make([]ledger.Reason, 50)
		for i := range reasons {
			work.Go(func() {
				reply, err := h.service.Create(context.Background(), h.payOrder(ledger.IdempotencyKey(rune('A'+i))))
				reasons[i] = endOf(t, reply, err).reason
			})
		}
		work.Wait()
		paid := 0
		for _, r := range reasons {
			switch r {
			case 0:
				paid++
			case ledger.ReasonOrderInDoubt:
			default:
				t.Errorf("ended with %s", r)
			}
		}
		if paid != 1 || len(h.core.frames()) != 1 {
			t.Errorf("%d paid, frames %v", paid, h.core.frames())
		}
	})
}

// The key comes before the order: a replay is told of its own payment. Another
// client's order is another order, and no order is none.
func TestCreate_OrderIsLookedAtAfterTheKey(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		first, err := h.service.Create(t.Context(), h.payOrder(key))
		if err != nil {
			t.Fatal(err)
		}
		if again, err := h.service.Create(t.Context(), h.payOrder(key)); err != nil || !again.Replayed || again.Transaction != first.Transaction {
			t.Errorf("replay %+v, %v", again, err)
		}
		shop := h.payOrder(key)
		shop.Client = "shop"
		if reply, err := h.service.Create(t.Context(), shop); err != nil || reply.Replayed {
			t.Errorf("another client's order of that name: %+v, %v", reply, err)
		}
		for _, k := range []ledger.IdempotencyKey{"none-1", "none-2"} {
			r := h.pay()
			r.Key = k
			if reply, err := h.service.Create(t.Context(), r); err != nil || reply.Replayed {
				t.Errorf("no order: %+v, %v", reply, err)
			}
		}
	})
}

// An open circuit's refusal has the order in its row, and takes no order.
func TestCreate_OpenCircuitTakesNoOrder(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		h.core.open = shut
		r := refusalOf(t, errorOf(h.service.Create(t.Context(), h.payOrder(key))), ledger.ReasonCircuitOpen)
		if r.Transaction.Order != order {
			t.Errorf("the refusal is of order %q", r.Transaction.Order)
		}
		h.core.open = nil
		if _, err := h.service.Create(t.Context(), h.payOrder(otherKey)); err != nil {
			t.Errorf("the order is taken: %v", err)
		}
	})
}
