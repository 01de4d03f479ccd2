package ledgertest

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

var owedCases = []conformance{
	{"owed net cancels are claimed apart from all else, the oldest first", owedIsClaimedApart},
	{"owed net cancel that is claimed is not claimed again before its lease ends", owedIsLeased},
	{"owed net cancels are shared by those who claim at once", owedIsShared},
	{"owed net cancel is claimed by its ID, due or not", owedIsClaimedByID},
	{"owed net cancel that is put off is due again after the delay, and released at once", owedIsPutOff},
	{"owed net cancel is never put into review", owedIsNotForReview},
	{"repayment ends what is owed, with an event", repaid},
	{"repayment of what the core had done is a discrepancy of no run", repaidWithDiscrepancy},
	{"repayment by another than has the lease is lost", repaymentIsLost},
	{"repayment by many at once is one event", repaymentsAtOnce},
	{"final row that is owed nothing is never claimed", nothingOwed},
}

var hastenCases = []conformance{
	{"row that is hastened is due at once, and spends nothing", hastened},
	{"row that is due, leased, in flight or final is not hastened", notHastened},
}

// claimOwed takes net cancels that are owed, for an hour.
func (b *book) claimOwed(limit int) []ledger.Claim {
	b.Helper()
	claims, err := b.Claim(b.ctx, ledger.ClaimOptions{Limit: limit, Lease: time.Hour, Owed: true})
	if err != nil {
		b.Fatalf("claim what is owed: %v", err)
	}
	return claims
}

func (b *book) repay(p ledger.Repayment) ledger.Transaction {
	b.Helper()
	p.By = resolver
	t, err := b.Repay(b.ctx, p)
	if err != nil {
		b.Fatalf("repay: %v", err)
	}
	b.same("the row stored against the row returned", t, b.get(p.ID))
	return t
}

func owedIsClaimedApart(b *book) {
	first, second := b.settled(toSettledFailed), b.settled(toSettledCanceled)
	b.settled(toSettledDone)
	b.unknown()
	b.review(b.unknown().ID)
	claims := b.claimOwed(ledger.MaxClaim)
	if len(claims) != 2 || claims[0].Token == "" || claims[0].Token != claims[1].Token {
		b.Fatalf("claimed %d", len(claims))
	}
	b.same("the oldest", first, claims[0].Transaction)
	b.same("the next", second, claims[1].Transaction)
	for _, review := range []bool{false, true} {
		others, err := b.Claim(b.ctx, ledger.ClaimOptions{Limit: ledger.MaxClaim, Lease: time.Hour, Review: review})
		if err != nil {
			b.Fatal(err)
		}
		for _, c := range others {
			if c.Transaction.Status.Final() {
				b.Errorf("claimed %s among what is UNKNOWN", c.Transaction.Status)
			}
		}
	}
}

func owedIsLeased(b *book) {
	t := b.settled(toSettledFailed)
	if claims, err := b.Claim(b.ctx, ledger.ClaimOptions{Limit: 1, Lease: -time.Second, Owed: true}); len(claims) != 1 || err != nil {
		b.Fatalf("claimed %d, error %v", len(claims), err)
	}
	if claims := b.claimOwed(1); len(claims) != 1 || claims[0].Transaction.ID != t.ID {
		b.Fatal("not claimed after the lease")
	}
	if claims := b.claimOwed(1); len(claims) != 0 {
		b.Error("claimed while leased")
	}
}

func owedIsShared(b *book) {
	const rows = 40
	for range rows {
		b.settled(toSettledFailed)
	}
	seen := make([][]ledger.Claim, 8)
	together(len(seen), func(i int) { seen[i] = b.claimOwed(rows / len(seen)) })
	count := map[tranid.ID]int{}
	for _, claims := range seen {
		for _, c := range claims {
			count[c.Transaction.ID]++
		}
	}
	for id, n := range count {
		if n != 1 {
			b.Errorf("%s was claimed %d times", id, n)
		}
	}
}

func owedIsClaimedByID(b *book) {
	id := b.settled(toSettledFailed).ID
	claim := b.claimOwed(1)[0]
	b.postpone(ledger.Postponement{ID: id, Token: claim.Token, Delay: time.Hour})
	claim, err := b.ClaimOne(b.ctx, id, time.Hour, operator)
	if err != nil || claim.Token == "" || claim.Err != nil {
		b.Fatalf("claimed as %q, error %v, %v", claim.Token, err, claim.Err)
	}
	b.same("row", b.get(id), claim.Transaction)
	b.repay(ledger.Repayment{ID: id, Token: claim.Token})
}

func owedIsPutOff(b *book) {
	id := b.settled(toSettledCanceled).ID
	claim := b.claimOwed(1)[0]
	b.postpone(ledger.Postponement{ID: id, Token: claim.Token, Delay: time.Hour, Detail: "no answer"})
	t := b.get(id)
	if delay := t.NextResolveAt.Sub(claim.At); delay < time.Hour || delay > time.Hour+time.Minute || t.NeedsReview || !t.Owed() {
		b.Errorf("due %s after it was claimed, review %t", delay, t.NeedsReview)
	}
	last := b.events(id)[len(b.events(id))-1]
	if last.From != ledger.StatusCanceled || last.To != ledger.StatusCanceled || last.Detail != "no answer" {
		b.Errorf("event %+v", last)
	}
	if claims := b.claimOwed(1); len(claims) != 0 {
		b.Error("claimed before it is due")
	}
	claim, err := b.ClaimOne(b.ctx, id, time.Hour, resolver)
	if err != nil {
		b.Fatal(err)
	}
	b.postpone(ledger.Postponement{ID: id, Token: claim.Token, Delay: -time.Microsecond})
	claim = b.claimOwed(1)[0]
	if err := b.Release(b.ctx, claim.Token); err != nil {
		b.Fatal(err)
	}
	if claims := b.claimOwed(1); len(claims) != 1 {
		b.Error("not claimed after it was released")
	}
}

// Whoever raises the flag takes the row for one that is UNKNOWN still.
func owedIsNotForReview(b *book) {
	t := b.settled(toSettledFailed)
	claim := b.claimOwed(1)[0]
	b.lostTo(b.Postpone(b.ctx, ledger.Postponement{
		ID: t.ID, Token: claim.Token, Answered: true, NeedsReview: true, Detail: "needs review", By: resolver,
	}), t)
	b.same("row", t, b.get(t.ID))
	b.repay(ledger.Repayment{ID: t.ID, Token: claim.Token})
}

func repaid(b *book) {
	id := b.settled(toSettledFailed).ID
	before, history := b.get(id), b.events(id)
	claim := b.claimOwed(1)[0]
	t := b.repay(ledger.Repayment{ID: id, Token: claim.Token, Evidence: ledger.EvidenceFenced, Detail: "net cancel 02"})
	before.NextResolveAt = time.Time{}
	b.same("row", before, t)
	events := b.events(id)
	if len(events) != len(history)+1 {
		b.Fatalf("%d events, had %d", len(events), len(history))
	}
	last := events[len(events)-1]
	b.same("event", ledger.Event{
		Sequence: last.Sequence, At: last.At, From: ledger.StatusFailed, To: ledger.StatusFailed,
		Evidence: ledger.EvidenceFenced, By: resolver, Detail: "net cancel 02",
	}, last)
	if claims := b.claimOwed(1); len(claims) != 0 {
		b.Error("owed still")
	}
	if found := b.discrepancies(ledger.DiscrepancyFilter{}).Discrepancies; len(found) != 0 {
		b.Errorf("discrepancies %+v", found)
	}
	_, err := b.Repay(b.ctx, ledger.Repayment{ID: id, Token: claim.Token, By: resolver})
	b.lostTo(err, t)
}

func repaidWithDiscrepancy(b *book) {
	undone := func(s step) ledger.Transaction {
		t := b.settled(s)
		claim := b.claimOwed(1)[0]
		return b.repay(ledger.Repayment{
			ID: t.ID, Token: claim.Token, Evidence: ledger.EvidenceCancelConfirmed, Detail: "net cancel 01", Undone: true,
		})
	}
	undone(toSettledCanceled) // the core has undone what is CANCELED: both agree
	t := undone(toSettledFailed)
	d := b.only()
	b.same("discrepancy", ledger.Discrepancy{
		Difference: ledger.Difference{
			ID: t.ID, Class: ledger.ClassMismatch, LedgerStatus: ledger.StatusFailed, LedgerAmount: t.Amount,
			CoreState: ledger.CoreCanceled, CoreAmount: t.Amount,
		},
		State: ledger.DiscrepancyOpen, FoundAt: d.FoundAt,
	}, d)
	if d.FoundAt.IsZero() {
		b.Error("found at no time")
	}
	b.note(t.ID, "seen")
}

func repaymentIsLost(b *book) {
	t := b.settled(toSettledFailed)
	history := b.events(t.ID)
	claim := b.claimOwed(1)[0]
	for _, token := range []string{"", "another", claim.Token + "x"} {
		_, err := b.Repay(b.ctx, ledger.Repayment{ID: t.ID, Token: token, By: resolver, Undone: true})
		b.lostTo(err, t)
	}
	unknown := b.unknown()
	leased := b.claim(1)[0]
	_, err := b.Repay(b.ctx, ledger.Repayment{ID: unknown.ID, Token: leased.Token, By: resolver})
	b.lostTo(err, unknown)
	_, err = b.Repay(b.ctx, ledger.Repayment{ID: b.newID(), Token: leased.Token, By: resolver})
	b.fails("repay what is not there", err, ledger.ErrNotFound)
	_, err = b.Repay(b.ctx, ledger.Repayment{ID: t.ID, Token: claim.Token})
	b.fails("repay by nobody", err, ledger.ErrInvalidRow)
	b.same("row", t, b.get(t.ID))
	b.same("history", history, b.events(t.ID))
	if found := b.discrepancies(ledger.DiscrepancyFilter{}).Discrepancies; len(found) != 0 {
		b.Errorf("discrepancies %+v", found)
	}
}

func repaymentsAtOnce(b *book) {
	id := b.settled(toSettledFailed).ID
	before := len(b.events(id))
	claim := b.claimOwed(1)[0]
	var won atomic.Int64
	together(8, func(int) {
		_, err := b.Repay(b.ctx, ledger.Repayment{ID: id, Token: claim.Token, By: resolver, Undone: true})
		switch {
		case err == nil:
			won.Add(1)
		case !errors.Is(err, ledger.ErrLost):
			b.Errorf("repay: %v", err)
		}
	})
	if won.Load() != 1 || len(b.events(id)) != before+1 {
		b.Errorf("repaid %d times, %d events more", won.Load(), len(b.events(id))-before)
	}
}

func nothingOwed(b *book) {
	for _, t := range []ledger.Transaction{
		b.settled(toSettledDone), b.move(b.unknown().ID, toCanceled), b.move(b.requested().ID, toDeclined),
	} {
		claim, err := b.ClaimOne(b.ctx, t.ID, time.Hour, resolver)
		if err != nil || claim.Token != "" {
			b.Errorf("%s is claimed as %q, error %v", t.Status, claim.Token, err)
		}
	}
	if claims := b.claimOwed(ledger.MaxClaim); len(claims) != 0 {
		b.Errorf("%d are owed", len(claims))
	}
}

func hastened(b *book) {
	id := b.unknown().ID
	claim := b.claim(1)[0]
	b.postpone(ledger.Postponement{ID: id, Token: claim.Token, Delay: time.Hour, Answered: true})
	before, history := b.get(id), b.events(id)
	if made, err := b.Hasten(b.ctx, id); !made || err != nil {
		b.Fatalf("hastened %t, error %v", made, err)
	}
	after := b.get(id)
	if after.NextResolveAt.After(before.NextResolveAt.Add(-30 * time.Minute)) {
		b.Errorf("due at %s, was %s", after.NextResolveAt, before.NextResolveAt)
	}
	before.NextResolveAt = after.NextResolveAt
	b.same("all but when it is due", before, after)
	b.same("history", history, b.events(id))
	if claims := b.claim(1); len(claims) != 1 {
		b.Error("not claimed at once")
	}
}

func notHastened(b *book) {
	rows := []ledger.Transaction{
		b.requested(), b.unknown(), b.move(b.requested().ID, toUsedID), b.settled(toSettledDone), b.settled(toSettledFailed),
		b.move(b.unknown().ID, toCanceled),
	}
	later := rows[4].ID // an owed net cancel that was put off
	b.postpone(ledger.Postponement{ID: later, Token: b.claimOwed(1)[0].Token, Delay: time.Hour})
	rows[4] = b.get(later)
	for _, t := range rows {
		if made, err := b.Hasten(b.ctx, t.ID); made || err != nil {
			b.Errorf("%s: hastened %t, error %v", t.Status, made, err)
		}
		b.same("row", t, b.get(t.ID))
	}
	for _, id := range []tranid.ID{"", b.newID(), "GWMNU20260230000000001"} {
		if made, err := b.Hasten(b.ctx, id); made || err != nil {
			b.Errorf("%q: hastened %t, error %v", id, made, err)
		}
	}
}
