package ledgertest

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

var settledCases = []conformance{
	{"operator settles what needs review, and nothing else", settledOnlyInReview},
	{"operator settles a payment whose ID is used, of which nothing is owed", settledUsedID},
	{"after a decision no operator makes it success", settledNeverSuccessOnceDecided},
	{"operator's failure sets the decision, frees the order and ends the lease", settledFrees},
	{"operator's success keeps the order", settledKeepsOrder},
	{"of operators, resolver and late answer at once one settles", settledOnce},
	{"operator and decision at once: no success is decided against", settledOrDecided},
}

// review makes a row need review.
func (b *book) review(id tranid.ID) ledger.Transaction {
	b.Helper()
	claim, err := b.ClaimOne(b.ctx, id, time.Hour, resolver)
	if err != nil {
		b.Fatalf("claim: %v", err)
	}
	b.postpone(ledger.Postponement{ID: id, Token: claim.Token, NeedsReview: true, Answered: true})
	return b.get(id)
}

// settled is a payment that an operator has settled so.
func (b *book) settled(s step) ledger.Transaction {
	b.Helper()
	return b.move(b.review(b.unknown().ID).ID, s)
}

func settledOnlyInReview(b *book) {
	for _, s := range []step{toSettledDone, toSettledFailed, toSettledCanceled} {
		b.refuse(b.requested().ID, s, ledger.ErrLost)
		b.refuse(b.unknown().ID, s, ledger.ErrLost)
		b.refuse(b.move(b.requested().ID, toDeclined).ID, s, ledger.ErrLost)
		b.refuse(b.settled(s).ID, s, ledger.ErrLost)
	}
}

func settledUsedID(b *book) {
	for _, s := range []step{toSettledDone, toSettledFailed, toSettledCanceled} {
		t := b.move(b.move(b.requested().ID, toUsedID).ID, s)
		if t.Status != s.To || t.Answer.Code != ledger.CodeIDUsed || t.Owed() || !t.NextResolveAt.IsZero() {
			b.Errorf("%s: owed %t, due at %s", t.Status, t.Owed(), t.NextResolveAt)
		}
		if claims := b.claimOwed(ledger.MaxClaim); len(claims) != 0 {
			b.Errorf("%s: %d net cancels are owed", t.Status, len(claims))
		}
	}
}

func settledNeverSuccessOnceDecided(b *book) {
	t := b.unknown()
	b.decide(t.ID)
	b.review(t.ID)
	b.refuse(t.ID, toSettledDone, ledger.ErrLost)
}

func settledFrees(b *book) {
	for _, s := range []step{toSettledFailed, toSettledCanceled} {
		in := b.intent()
		in.Order = ledger.OrderID("order-" + string(in.ID))
		b.create(in)
		b.move(in.ID, toUnknown)
		b.review(in.ID)
		claim, err := b.ClaimOne(b.ctx, in.ID, time.Hour, resolver)
		if err != nil {
			b.Fatal(err)
		}
		if t := b.move(in.ID, s); t.Decision != ledger.DecisionCancel || !t.Owed() {
			b.Errorf("decision %q, owed %t", t.Decision, t.Owed())
		}
		err = b.Postpone(b.ctx, ledger.Postponement{ID: in.ID, Token: claim.Token, By: resolver})
		b.fails("postpone by who had a claim before", err, ledger.ErrLost)
		again := b.intent()
		again.Order = in.Order
		b.create(again)
	}
}

func settledKeepsOrder(b *book) {
	in := b.intent()
	in.Order = "kept"
	b.create(in)
	b.move(in.ID, toUnknown)
	b.review(in.ID)
	if t := b.move(in.ID, toSettledDone); t.Decision != 0 || t.Owed() {
		b.Errorf("decision %q, owed %t", t.Decision, t.Owed())
	}
	again := b.intent()
	again.Order = in.Order
	_, err := b.CreateIntent(b.ctx, again)
	b.fails("the order paid again", err, ledger.ErrOrderTaken)
}

func settledOnce(b *book) {
	for range 10 {
		id := b.review(b.unknown().ID).ID
		won := b.race(id, []step{
			toSettledDone, toSettledFailed, toSettledCanceled, toSettledFailed, toLateSuccess, toProcessed, toCanceled, toLateDeclined,
		})
		if t := b.get(id); t.Status != won.To || t.Evidence != won.Evidence || t.Reason != won.Reason {
			b.Errorf("%s on %s after %s", t.Status, t.Evidence, won)
		}
	}
}

func settledOrDecided(b *book) {
	for range 10 {
		id := b.review(b.unknown().ID).ID
		var decided, done atomic.Bool
		together(2, func(i int) {
			var err error
			if i == 0 {
				_, err = b.Decide(b.ctx, id, resolver, "cancel it")
				decided.Store(err == nil)
			} else {
				_, err = b.Transition(b.ctx, toSettledDone.of(id))
				done.Store(err == nil)
			}
			if err != nil && !errors.Is(err, ledger.ErrLost) {
				b.Errorf("%d: %v", i, err)
			}
		})
		if decided.Load() == done.Load() {
			b.Errorf("decided %t, success %t: want one of both", decided.Load(), done.Load())
		}
	}
}
