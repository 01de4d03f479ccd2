package ledgertest

import (
	"errors"
	"sync/atomic"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

var orderCases = []conformance{
	{"order is refused while a payment of it is under way, in doubt or done", orderIsHeld},
	{"order is free once its payment failed or was canceled", orderIsFreed},
	{"order of an abandoned payment is held", orderOfAbandonedIsHeld},
	{"order is looked at after the key", orderAfterKey},
	{"refused order leaves the key unbound", refusedOrderBindsNothing},
	{"refused order leaves a key where it was", refusedOrderDoesNotBindAgain},
	{"orders of two clients are two orders", ordersOfTwoClients},
	{"duplicate ID takes no order", duplicateIDTakesNoOrder},
	{"payments for no order are not in each other's way", paymentsForNoOrder},
	{"one order from 64 goroutines is paid once", oneOrderIsPaidOnce},
	{"freed order is paid again once", freedOrderIsPaidAgainOnce},
}

// ordered is a payment that nobody else has, of this order.
func (b *book) ordered(order ledger.OrderID) ledger.Intent {
	in := b.intent()
	in.Order = order
	return in
}

// orderTaken fails the case unless the intent is refused for the payment that
// holds its order, and nothing of it is stored.
func (b *book) orderTaken(what string, in ledger.Intent, holder ledger.Transaction) {
	b.Helper()
	admission, err := b.CreateIntent(b.ctx, in)
	var taken *ledger.OrderError
	if !errors.As(err, &taken) || !errors.Is(err, ledger.ErrOrderTaken) || admission.Created {
		b.Errorf("%s: created %t, error %v", what, admission.Created, err)
		return
	}
	b.same(what+": holder", holder, taken.Holder)
	b.absent(in.ID)
}

func orderIsHeld(b *book) {
	for i, steps := range [][]step{{}, {toSuccess}, {toUnknown}, {toUsedID}, {toUnknown, toProcessed}, {toUnknown, toLateSuccess}} {
		in := b.ordered(ledger.OrderID(rune('a' + i)))
		holder := b.create(in)
		b.same("order", in.Order, holder.Order)
		for _, s := range steps {
			holder = b.move(in.ID, s)
		}
		again := b.ordered(in.Order)
		b.orderTaken("again", again, holder)
		b.orderTaken("and again", again, holder)
		b.free("key of what was refused", again)
	}
	undecided := b.move(b.create(b.ordered("decided")).ID, toUnknown)
	b.orderTaken("after a decision", b.ordered("decided"), b.decide(undecided.ID))
}

func orderIsFreed(b *book) {
	for i, steps := range [][]step{{toDeclined}, {toNotSent}, {toUnknown, toLateDeclined}, {toUnknown, toCanceled}} {
		order := ledger.OrderID(rune('a' + i))
		old := b.create(b.ordered(order))
		for _, s := range steps {
			old = b.move(old.ID, s)
		}
		again := b.create(b.ordered(order))
		b.same("row that let the order go", old, b.get(old.ID))
		b.orderTaken("a third", b.ordered(order), again)
	}
	fenced := b.move(b.create(b.ordered("fenced")).ID, toUnknown)
	b.decide(fenced.ID)
	b.move(fenced.ID, toFenced)
	b.create(b.ordered("fenced"))
}

func orderOfAbandonedIsHeld(b *book) {
	in := b.ordered("order")
	in.AdoptAfter = -1
	b.create(in)
	if n, err := b.Adopt(b.ctx, 1, resolver); n != 1 || err != nil {
		b.Fatalf("adopted %d, error %v", n, err)
	}
	b.orderTaken("again", b.ordered("order"), b.get(in.ID))
}

func orderAfterKey(b *book) {
	in := b.ordered("order")
	holder := b.create(in)
	again := in
	again.ID = b.newID()
	admission, err := b.CreateIntent(b.ctx, again)
	if err != nil {
		b.Errorf("the same payment: %v", err)
	}
	b.same("the same payment", ledger.Admission{Transaction: holder}, admission)
	again.Fingerprint = ledger.Hash{9}
	_, err = b.CreateIntent(b.ctx, again)
	b.fails("another payment under the key", err, ledger.ErrKeyReused)
	b.create(in) // the same ID
}

func refusedOrderBindsNothing(b *book) {
	holder := b.create(b.ordered("order"))
	in := b.ordered("order")
	b.orderTaken("second payment", in, holder)
	_, err := b.GetByKey(b.ctx, in.Client, in.Key)
	b.fails("by the key", err, ledger.ErrNotFound)
	in.Order, in.Fingerprint = "another", ledger.Hash{9}
	b.create(in)
}

func refusedOrderDoesNotBindAgain(b *book) {
	holder := b.create(b.ordered("order"))
	in := b.intent()
	b.create(in)
	old := b.move(in.ID, toNotSent)
	in.ID, in.Order = b.newID(), "order"
	b.orderTaken("key of what was never sent", in, holder)
	byKey, err := b.GetByKey(b.ctx, in.Client, in.Key)
	if err != nil {
		b.Fatal(err)
	}
	b.same("row that holds the key", old, byKey)
}

func ordersOfTwoClients(b *book) {
	first, second := b.ordered("order"), b.ordered("order")
	second.Client = "another"
	b.create(first)
	b.create(second)
	b.move(first.ID, toDeclined)
	b.orderTaken("of the other client", ledger.Intent{
		ID: b.newID(), Client: second.Client, Key: "key", Order: "order", AccountMasked: "****", Amount: 1,
		Policy: ledger.PolicyConfirm, RequestedAt: second.RequestedAt, AdoptAfter: 1, KeyLife: 1, By: payer,
	}, b.get(second.ID))
}

func duplicateIDTakesNoOrder(b *book) {
	in := b.ordered("order")
	in.ID = b.requested().ID
	_, err := b.CreateIntent(b.ctx, in)
	b.fails("taken ID", err, ledger.ErrDuplicateID)
	b.create(b.ordered("order"))
}

func paymentsForNoOrder(b *book) {
	b.requested()
	b.requested()
}

// payers lets 64 goroutines pay an order, each under a key of its own, and
// returns the one payment that was made.
func (b *book) payers(order ledger.OrderID) ledger.Transaction {
	b.Helper()
	var created atomic.Pointer[ledger.Transaction]
	holders := make([]ledger.Transaction, 64)
	together(len(holders), func(i int) {
		admission, err := b.CreateIntent(b.ctx, b.ordered(order))
		var taken *ledger.OrderError
		switch {
		case err == nil && admission.Created:
			holders[i] = admission.Transaction
			if created.Swap(&admission.Transaction) != nil {
				b.Errorf("paid twice")
			}
		case errors.As(err, &taken):
			holders[i] = taken.Holder
		default:
			b.Errorf("created %t, error %v", admission.Created, err)
		}
	})
	if created.Load() == nil {
		b.Fatalf("nobody paid")
	}
	for _, holder := range holders {
		b.same("holder that a caller was told of", *created.Load(), holder)
	}
	return *created.Load()
}

func oneOrderIsPaidOnce(b *book) {
	b.payers("order")
	page, err := b.List(b.ctx, ledger.Filter{Limit: ledger.MaxPage, Order: "order"})
	if err != nil || len(page.Transactions) != 1 {
		b.Errorf("%d rows, want 1, error %v", len(page.Transactions), err)
	}
}

func freedOrderIsPaidAgainOnce(b *book) {
	b.move(b.payers("order").ID, toDeclined)
	b.payers("order")
}
