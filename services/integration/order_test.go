package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

// payOrder pays an order from an account, under this key.
func (p *payment) payOrder(t testing.TB, order, key, number string) told {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callFor)
	defer cancel()
	return p.payWith(ctx, t, &paymentv1.CreatePaymentRequest{IdempotencyKey: key, AccountNumber: number, Amount: 10, OrderId: order})
}

// TestOrder_IsPaidOnce pays an order under many keys at once, over two instances:
// one pays, and the others are told of it.
func TestOrder_IsPaidOnce(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		const callers = 32
		s := newStack(t, db)
		instances := []*payment{s.startPayment(t), s.startPayment(t)}
		answers := make([]told, callers)
		var calls sync.WaitGroup
		for i := range callers {
			calls.Go(func() { answers[i] = instances[i%2].payOrder(t, "basket", fmt.Sprintf("key-%d", i), ordinary) })
		}
		calls.Wait()
		paid, about := 0, map[string]bool{}
		for _, a := range answers {
			switch {
			case a.code == codes.OK && !a.replayed:
				paid++
			case a.code == codes.FailedPrecondition && (a.reason() == "ORDER_IN_DOUBT" || a.reason() == "ORDER_ALREADY_PAID"):
			default:
				t.Errorf("a caller is told %s", a)
			}
			about[a.id()] = true
		}
		if paid != 1 || len(about) != 1 {
			t.Errorf("%d paid, and the callers are told of %v", paid, about)
		}
		if b := s.audit(t, instances[0]); len(b.rows) != 1 {
			t.Errorf("the ledger has %d rows", len(b.rows))
		}
	})
}

// TestOrder_IsFreeAgain pays an order whose payment was declined, and one whose
// payment was canceled, again; while that one is in doubt it is not.
func TestOrder_IsFreeAgain(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		p := s.startPayment(t)
		p.payOrder(t, "declined", "first", "22222222222222").expect(t, "from an account without money", declined)
		p.payOrder(t, "declined", "second", ordinary).expect(t, "the order again", done)
		if a := p.payOrder(t, "declined", "third", ordinary); a.reason() != "ORDER_ALREADY_PAID" {
			t.Errorf("the paid order: %s", a)
		}

		lost := p.payOrder(t, "lost", "fourth", unansweredAccount)
		if a := p.payOrder(t, "lost", "fifth", ordinary); a.reason() != "ORDER_IN_DOUBT" || a.id() != lost.id() {
			t.Errorf("the order in doubt: %s", a)
		}
		s.startReconciler(t)
		p.follow(t, lost.id())
		p.payOrder(t, "lost", "fifth", ordinary).expect(t, "the order that was canceled, under the key that was refused", done)
		s.audit(t, p).expect(t, lost.id(), netCanceled)
	})
}
