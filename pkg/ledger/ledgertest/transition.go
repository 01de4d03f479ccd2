package ledgertest

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

var transitionCases = []conformance{
	{"each legal move is made, stored and told of", legalMoves},
	{"a move that no row may make is refused", illegalMoves},
	{"final status never changes", finalNeverChanges},
	{"move from another status than the row has is lost", wrongStatusIsLost},
	{"move of an ID that is not there changes nothing", unknownIDs},
	{"after a decision nothing becomes success", decidedNeverSucceeds},
	{"without a decision nothing is fenced", undecidedIsNotFenced},
	{"answer that the ID is used leaves the row to an operator", usedIDIsForOperators},
	{"late answer that the ID is used ends the asking", lateUsedID},
	{"of many outcomes at once one is stored", outcomeRace},
	{"resolution and late answer at once: one is stored", resolutionRace},
}

// legalSteps are all moves, each with the steps that lead to it.
var legalSteps = []struct {
	before   []step
	decision bool
	review   bool
	step     step
}{
	{step: toSuccess},
	{step: toDeclined},
	{step: toNotSent},
	{step: toUnknown},
	{step: toUsedID},
	{before: []step{toUnknown}, step: toLateSuccess},
	{before: []step{toUnknown}, step: toLateDeclined},
	{before: []step{toUnknown}, step: toLateUsedID},
	{before: []step{toUnknown}, step: toProcessed},
	{before: []step{toUnknown}, step: toCanceled},
	{before: []step{toUnknown}, step: toCanceled, decision: true},
	{before: []step{toUnknown}, step: toFenced, decision: true},
	{before: []step{toUnknown}, step: toWindowElapsed, decision: true},
	{before: []step{toUnknown}, step: toSettledDone, review: true},
	{before: []step{toUnknown}, step: toSettledFailed, review: true},
	{before: []step{toUnknown}, step: toSettledFailed, decision: true, review: true},
	{before: []step{toUnknown}, step: toSettledCanceled, review: true},
	{before: []step{toUnknown}, step: toSettledCanceled, decision: true, review: true},
}

func legalMoves(b *book) {
	for _, legal := range legalSteps {
		before := b.requested()
		for _, s := range legal.before {
			before = b.move(before.ID, s)
		}
		if legal.decision {
			before = b.decide(before.ID)
		}
		if legal.review {
			before = b.review(before.ID)
		}
		after := b.move(before.ID, legal.step)
		events := b.events(before.ID)
		last := events[len(events)-1]
		b.same("event of "+legal.step.String(), ledger.Event{
			Sequence: last.Sequence, At: last.At, From: legal.step.From, To: legal.step.To, Evidence: legal.step.Evidence,
			By: legal.step.By, Detail: legal.step.Reason,
		}, last)
		want := before
		change := legal.step.of(before.ID)
		if made, err := change.Apply(&want, last.At); err != nil || !made {
			b.Fatalf("%s: made %t, error %v", legal.step, made, err)
		}
		b.same("row after "+legal.step.String(), want, after)
	}
}

// moveSet are the legal moves as a set, with what matters to their legality
// alone.
func moveSet() map[ledger.Change]bool {
	set := make(map[ledger.Change]bool)
	for _, legal := range legalSteps {
		set[bare(legal.step)] = true
	}
	set[bare(toNoEffect)] = true
	return set
}

func bare(s step) ledger.Change {
	return ledger.Change{From: s.From, To: s.To, Evidence: s.Evidence, Method: s.Method}
}

func illegalMoves(b *book) {
	legal := moveSet()
	ids := map[ledger.Status]ledger.Transaction{
		ledger.StatusRequested: b.requested(),
		ledger.StatusUnknown:   b.unknown(),
		ledger.StatusSuccess:   b.move(b.requested().ID, toSuccess),
		ledger.StatusFailed:    b.move(b.requested().ID, toDeclined),
		ledger.StatusCanceled:  b.move(b.unknown().ID, toCanceled),
	}
	tried := 0
	for from := range ledger.StatusCanceled + 2 {
		for to := range ledger.StatusCanceled + 2 {
			for evidence := range ledger.EvidenceOperator + 2 {
				for method := range ledger.MethodOperator + 2 {
					change := ledger.Change{From: from, To: to, Evidence: evidence, Method: method}
					if legal[change] {
						continue
					}
					tried++
					change.ID, change.By = ids[from].ID, payer
					_, err := b.Transition(b.ctx, change)
					b.fails(step(change).String(), err, ledger.ErrIllegalMove)
				}
			}
		}
	}
	for _, t := range ids {
		b.same("row after illegal moves", t, b.get(t.ID))
	}
	if len(legal) != 15 || tried != 7*7*10*6-15 {
		b.Errorf("%d legal moves and %d others", len(legal), tried)
	}
	wrongAnswers(b)
}

// wrongAnswers tries moves that the table allows and the answer that comes with
// them does not.
func wrongAnswers(b *book) {
	id := b.requested().ID
	for _, c := range []struct {
		step step
		code string
	}{
		{toSuccess, "0051"},
		{toSuccess, ""},
		{toSuccess, ledger.CodeIDUsed},
		{toDeclined, "0000"},
		{toDeclined, ""},
		{toDeclined, ledger.CodeIDUsed},
		{toNotSent, "0000"},
		{toUnknown, "0000"},
		{toUnknown, "9999"},
	} {
		c.step.Answer = ledger.Answer{Code: c.code}
		b.refuse(id, c.step, ledger.ErrIllegalMove)
	}
	sent := toNotSent
	sent.SentAt = time.Now()
	b.refuse(id, sent, ledger.ErrIllegalMove)
	noActor := toUnknown
	noActor.By = ledger.Actor{}
	b.refuse(id, noActor, ledger.ErrInvalidRow)
	b.refuse(b.unknown().ID, step{From: ledger.StatusUnknown, To: ledger.StatusUnknown, By: payer}, ledger.ErrIllegalMove)
}

func finalNeverChanges(b *book) {
	for _, last := range []step{toLateSuccess, toProcessed, toLateDeclined, toCanceled} {
		id := b.unknown().ID
		b.move(id, last)
		for _, legal := range legalSteps {
			b.refuse(id, legal.step, ledger.ErrLost)
		}
		_, err := b.Decide(b.ctx, id, resolver, "")
		b.lostTo(err, b.get(id))
	}
}

func wrongStatusIsLost(b *book) {
	requested, unknown := b.requested().ID, b.unknown().ID
	for _, legal := range legalSteps {
		if legal.step.From == ledger.StatusUnknown {
			b.refuse(requested, legal.step, ledger.ErrLost)
		} else {
			b.refuse(unknown, legal.step, ledger.ErrLost)
		}
	}
	b.refuse(unknown, toNoEffect, ledger.ErrLost) // a payment
}

func unknownIDs(b *book) {
	requested, unknown := b.requested(), b.unknown()
	for _, id := range []tranid.ID{b.newID(), "", " ", "%", "GWMNU", "GWMNU20260101%%%%%%%%%", requested.ID[:21]} {
		for _, s := range []step{toSuccess, toUnknown, toCanceled} {
			_, err := b.Transition(b.ctx, s.of(id))
			b.fails("move of "+string(id), err, ledger.ErrNotFound)
		}
		_, err := b.Decide(b.ctx, id, resolver, "")
		b.fails("decide on "+string(id), err, ledger.ErrNotFound)
		b.fails("append to "+string(id), b.AppendEvent(b.ctx, id, 0, payer, "x"), ledger.ErrNotFound)
		_, err = b.ClaimOne(b.ctx, id, time.Hour, resolver)
		b.fails("claim "+string(id), err, ledger.ErrNotFound)
		err = b.Postpone(b.ctx, ledger.Postponement{ID: id, Token: "token", By: resolver})
		b.fails("postpone "+string(id), err, ledger.ErrNotFound)
		b.absent(id)
	}
	for _, t := range []ledger.Transaction{requested, unknown} {
		b.same("row of another ID", t, b.get(t.ID))
	}
}

func decidedNeverSucceeds(b *book) {
	for _, last := range []step{toCanceled, toFenced, toWindowElapsed} {
		id := b.unknown().ID
		b.decide(id)
		for _, s := range []step{toLateSuccess, toLateDeclined, toLateUsedID, toProcessed} {
			b.refuse(id, s, ledger.ErrLost)
		}
		if t := b.move(id, last); t.Decision != ledger.DecisionCancel {
			b.Errorf("decision %q after %s", t.Decision, last)
		}
	}
}

func undecidedIsNotFenced(b *book) {
	id := b.unknown().ID
	b.refuse(id, toFenced, ledger.ErrLost)
	b.refuse(id, toWindowElapsed, ledger.ErrLost)
}

func usedIDIsForOperators(b *book) {
	id := b.requested().ID
	t := b.move(id, toUsedID)
	b.untouchable(t)
}

func lateUsedID(b *book) {
	t := b.unknown()
	claims := b.claim(1)
	t = b.move(t.ID, toLateUsedID)
	b.untouchable(t)
	err := b.Postpone(b.ctx, ledger.Postponement{ID: t.ID, Token: claims[0].Token, By: resolver})
	b.lostTo(err, t)
}

// untouchable fails the case unless t needs an operator, and only an operator.
func (b *book) untouchable(t ledger.Transaction) {
	b.Helper()
	if t.Status != ledger.StatusUnknown || !t.NeedsReview || !t.NextResolveAt.IsZero() || !t.OperatorOnly() {
		b.Errorf("status %s, review %t, due at %s", t.Status, t.NeedsReview, t.NextResolveAt)
	}
	for _, legal := range legalSteps {
		if !legal.review {
			b.refuse(t.ID, legal.step, ledger.ErrLost)
		}
	}
	_, err := b.Decide(b.ctx, t.ID, resolver, "")
	b.lostTo(err, t)
	for _, review := range []bool{false, true} {
		claims, err := b.Claim(b.ctx, ledger.ClaimOptions{Limit: 1, Lease: time.Hour, Review: review})
		if err != nil || len(claims) != 0 {
			b.Errorf("claimed %d rows, error %v", len(claims), err)
		}
	}
	claim, err := b.ClaimOne(b.ctx, t.ID, time.Hour, resolver)
	if err != nil || claim.Token != "" {
		b.Errorf("claimed as %q, error %v", claim.Token, err)
	}
	b.same("row", t, claim.Transaction)
}

// race makes moves of one row at once, and returns the one that was made.
func (b *book) race(id tranid.ID, steps []step) step {
	b.Helper()
	var won atomic.Int64
	var winner atomic.Int64
	together(len(steps), func(i int) {
		_, err := b.Transition(b.ctx, steps[i].of(id))
		switch {
		case err == nil:
			won.Add(1)
			winner.Store(int64(i))
		case !errors.Is(err, ledger.ErrLost):
			b.Errorf("%s: %v", steps[i], err)
		}
	})
	if won.Load() != 1 {
		b.Errorf("%d moves were made, want one", won.Load())
	}
	return steps[winner.Load()]
}

func outcomeRace(b *book) {
	id := b.requested().ID
	steps := make([]step, 0, 32)
	for range 8 {
		steps = append(steps, toSuccess, toDeclined, toUnknown, toNotSent)
	}
	won := b.race(id, steps)
	t := b.get(id)
	if t.Status != won.To || t.Evidence != won.Evidence || t.Answer != won.Answer {
		b.Errorf("%s on %s after %s", t.Status, t.Evidence, won)
	}
	if n := len(b.events(id)); n != 2 {
		b.Errorf("%d events, want 2", n)
	}
}

func resolutionRace(b *book) {
	for range 10 {
		id := b.unknown().ID
		won := b.race(id, []step{toLateSuccess, toCanceled, toProcessed, toLateDeclined})
		if t := b.get(id); t.Status != won.To || t.Method != won.Method {
			b.Errorf("%s by %s after %s", t.Status, t.Method, won)
		}
	}
}
