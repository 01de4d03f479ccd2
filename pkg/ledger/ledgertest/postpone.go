package ledgertest

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

var postponeCases = []conformance{
	{"postponed row is due again after the delay", postponedIsDueAgain},
	{"postponement counts attempts and answers", postponementCounts},
	{"postponement raises the review flag and never lowers it", reviewIsNeverLowered},
	{"postponement with a detail is an event", postponementIsAnEvent},
	{"postponement with the token of another claim is lost", postponementIsLost},
	{"postponement after the lease ended unclaimed is made", postponementAfterLease},
	{"postponements of many rows at once are each row's own", postponementsOfMany},
	{"released rows can be claimed at once", releasedCanBeClaimed},
	{"release of one token leaves the others", releaseOfOneToken},
}

var decisionCases = []conformance{
	{"decision is set once, with an event", decisionIsSetOnce},
	{"decision by many at once is one event", decisionsAtOnce},
	{"decision on what is not an unknown payment is lost", decisionIsLost},
	{"decision and success at once: one is stored", decisionRace},
	{"decision keeps the lease", decisionKeepsLease},
	{"decisions on many rows at once are each row's own", decisionsOnMany},
}

// postpone makes a postponement that must be made, by the resolver.
func (b *book) postpone(p ledger.Postponement) {
	b.Helper()
	p.By = resolver
	if err := b.Postpone(b.ctx, p); err != nil {
		b.Fatalf("postpone: %v", err)
	}
}

func postponedIsDueAgain(b *book) {
	id := b.unknown().ID
	claim := b.claim(1)[0]
	b.postpone(ledger.Postponement{ID: id, Token: claim.Token, Delay: time.Hour})
	delay := b.get(id).NextResolveAt.Sub(claim.At)
	if delay < time.Hour || delay > time.Hour+time.Minute {
		b.Errorf("due %s after it was claimed, want an hour", delay)
	}
	if early := b.claim(1); len(early) != 0 {
		b.Error("claimed before it is due")
	}
	claim, err := b.ClaimOne(b.ctx, id, time.Hour, resolver)
	if err != nil {
		b.Fatal(err)
	}
	b.postpone(ledger.Postponement{ID: id, Token: claim.Token, Delay: -time.Microsecond})
	if due := b.claim(1); len(due) != 1 {
		b.Error("not claimed when it is due")
	}
}

func postponementCounts(b *book) {
	want := b.unknown()
	for _, p := range []ledger.Postponement{
		{}, {Answered: true}, {Answered: true, NotFound: true}, {}, {Answered: true, NotFound: true},
	} {
		p.ID, p.Token, p.Delay = want.ID, b.claim(1)[0].Token, -time.Second
		b.postpone(p)
	}
	got := b.get(want.ID)
	want.ResolveAttempts, want.NotFound, want.Asked, want.NextResolveAt = 3, 2, true, got.NextResolveAt
	b.same("row", want, got)
}

func reviewIsNeverLowered(b *book) {
	id := b.unknown().ID
	for _, raise := range []bool{true, false} {
		claim, err := b.ClaimOne(b.ctx, id, time.Hour, resolver)
		if err != nil {
			b.Fatal(err)
		}
		b.postpone(ledger.Postponement{ID: id, Token: claim.Token, NeedsReview: raise})
		if !b.get(id).NeedsReview {
			b.Errorf("no review after a postponement with %t", raise)
		}
	}
}

func postponementIsAnEvent(b *book) {
	id := b.unknown().ID
	b.postpone(ledger.Postponement{ID: id, Token: b.claim(1)[0].Token, Delay: -time.Second})
	if n := len(b.events(id)); n != 2 {
		b.Errorf("%d events without a detail, want 2", n)
	}
	b.postpone(ledger.Postponement{ID: id, Token: b.claim(1)[0].Token, Detail: "the core answered 무응답"})
	events := b.events(id)
	if len(events) != 3 {
		b.Fatalf("%d events, want 3", len(events))
	}
	b.same("event", ledger.Event{
		Sequence: events[2].Sequence, At: events[2].At, From: ledger.StatusUnknown, To: ledger.StatusUnknown,
		By: resolver, Detail: "the core answered 무응답",
	}, events[2])
}

func postponementIsLost(b *book) {
	t := b.unknown()
	unleased := ledger.Postponement{ID: t.ID, Answered: true, Detail: "x", By: resolver}
	b.lostTo(b.Postpone(b.ctx, unleased), t)
	claim := b.claim(1)[0]
	for _, token := range []string{"", "another", claim.Token + "x"} {
		err := b.Postpone(b.ctx, ledger.Postponement{ID: t.ID, Token: token, Answered: true, Detail: "x", By: resolver})
		b.lostTo(err, t)
	}
	b.same("row", t, b.get(t.ID))
	b.postpone(ledger.Postponement{ID: t.ID, Token: claim.Token})
	err := b.Postpone(b.ctx, ledger.Postponement{ID: t.ID, Token: claim.Token, By: resolver})
	b.lostTo(err, b.get(t.ID))
	if n := len(b.events(t.ID)); n != 2 {
		b.Errorf("%d events, want 2", n)
	}
}

func postponementAfterLease(b *book) {
	id := b.unknown().ID
	claims, err := b.Claim(b.ctx, ledger.ClaimOptions{Limit: 1, Lease: -time.Second})
	if err != nil || len(claims) != 1 {
		b.Fatalf("claimed %d, error %v", len(claims), err)
	}
	b.postpone(ledger.Postponement{ID: id, Token: claims[0].Token, Answered: true})
	if n := b.get(id).ResolveAttempts; n != 1 {
		b.Errorf("%d attempts, want 1", n)
	}
}

func postponementsOfMany(b *book) {
	const rows = 32
	var put, lost [rows]atomic.Int32
	ids, tokens := make([]tranid.ID, rows), make(map[tranid.ID]string, rows)
	for i := range ids {
		ids[i] = b.unknown().ID
	}
	for len(tokens) < rows {
		for _, c := range b.claim(ledger.MaxClaim) {
			tokens[c.Transaction.ID] = c.Token
		}
	}
	b.move(ids[5], toCanceled)
	tokens[ids[6]] = "another"
	together(2*rows, func(n int) { // each is put off twice, of which one is late
		i := n % rows
		err := b.Postpone(b.ctx, ledger.Postponement{
			ID: ids[i], Token: tokens[ids[i]], Delay: time.Duration(i+1) * time.Hour,
			Answered: i%2 == 0, NotFound: i%4 == 0, NeedsReview: i%8 == 0, Detail: string(ids[i]), By: resolver,
		})
		switch {
		case err == nil:
			put[i].Add(1)
		case errors.Is(err, ledger.ErrLost):
			lost[i].Add(1)
		default:
			b.Errorf("row %d: %v", i, err)
		}
	})
	for i, id := range ids {
		row, events, want := b.get(id), b.events(id), int32(1)
		if i == 5 || i == 6 {
			want = 0
		}
		if put[i].Load() != want || lost[i].Load() != 2-want {
			b.Errorf("row %d is put off %d times, and %d were lost", i, put[i].Load(), lost[i].Load())
			continue
		}
		if want == 0 {
			continue
		}
		far := time.Until(row.NextResolveAt)
		if (row.ResolveAttempts == 1) != (i%2 == 0) || (row.NotFound == 1) != (i%4 == 0) || row.NeedsReview != (i%8 == 0) ||
			!row.Asked || far < time.Duration(i)*time.Hour || far > time.Duration(i+2)*time.Hour {
			b.Errorf("row %d: due in %s: %+v", i, far, row)
		}
		if len(events) != 3 || events[2].Detail != string(id) {
			b.Errorf("row %d: %+v", i, events)
		}
	}
}

func releasedCanBeClaimed(b *book) {
	first, second := b.unknown(), b.unknown()
	claims := b.claim(2)
	for _, c := range claims {
		if err := b.Release(b.ctx, c.Token); err != nil {
			b.Fatal(err)
		}
	}
	if again := b.claim(2); len(again) != 2 {
		b.Errorf("claimed %d, want 2", len(again))
	}
	for _, t := range []ledger.Transaction{first, second} {
		b.same("row", t, b.get(t.ID))
	}
}

func releaseOfOneToken(b *book) {
	b.unknown()
	first := b.claim(1)[0]
	b.unknown()
	second := b.claim(1)[0]
	for _, token := range []string{"", "another", first.Token} {
		if err := b.Release(b.ctx, token); err != nil {
			b.Errorf("release %q: %v", token, err)
		}
	}
	b.postpone(ledger.Postponement{ID: second.Transaction.ID, Token: second.Token, Delay: time.Hour})
	b.same("what can be claimed", []string{string(first.Transaction.ID)}, []string{string(b.claim(2)[0].Transaction.ID)})
}

func decisionIsSetOnce(b *book) {
	want := b.unknown()
	got := b.decide(want.ID)
	want.Decision = ledger.DecisionCancel
	b.same("row returned", want, got)
	b.same("row stored", want, b.get(want.ID))
	b.same("row decided again", want, b.decide(want.ID))
	events := b.events(want.ID)
	if len(events) != 3 {
		b.Fatalf("%d events, want 3", len(events))
	}
	b.same("event", ledger.Event{
		Sequence: events[2].Sequence, At: events[2].At, From: ledger.StatusUnknown, To: ledger.StatusUnknown,
		By: resolver, Detail: "cancel it",
	}, events[2])
}

func decisionsAtOnce(b *book) {
	id := b.unknown().ID
	together(16, func(int) {
		t, err := b.Decide(b.ctx, id, resolver, "cancel it")
		if err != nil || t.Decision != ledger.DecisionCancel {
			b.Errorf("decided %q, error %v", t.Decision, err)
		}
	})
	if n := len(b.events(id)); n != 3 {
		b.Errorf("%d events, want 3", n)
	}
}

// decisionsOnMany decides twice on each of many rows, of which some cannot be.
func decisionsOnMany(b *book) {
	const rows = 32
	var ids [rows]tranid.ID
	for i := range ids {
		ids[i] = b.unknown().ID
		if i%4 == 1 {
			b.move(ids[i], toCanceled)
		}
		if i%4 == 2 {
			ids[i] = tranid.New(ids[i].Date(), int64(900_000_000+i))
		}
	}
	together(2*rows, func(n int) {
		i := n % rows
		t, err := b.Decide(b.ctx, ids[i], resolver, "cancel it")
		switch {
		case i%4 == 1:
			b.lostTo(err, b.get(ids[i]))
		case i%4 == 2:
			if !errors.Is(err, ledger.ErrNotFound) {
				b.Errorf("row %d, which is not there: %v", i, err)
			}
		case err != nil || t.ID != ids[i] || t.Decision != ledger.DecisionCancel:
			b.Errorf("row %d: decided %q on %s, error %v", i, t.Decision, t.ID, err)
		}
	})
	for i, id := range ids {
		if want := []int{3, 3, 0, 3}[i%4]; len(b.events(id)) != want {
			b.Errorf("row %d has %d events, want %d", i, len(b.events(id)), want)
		}
		if i%4 == 0 && b.get(id).Decision != ledger.DecisionCancel {
			b.Errorf("row %d is not decided", i)
		}
	}
}

func decisionIsLost(b *book) {
	for what, t := range map[string]ledger.Transaction{
		"requested": b.requested(),
		"abandoned": b.abandoned(),
		"success":   b.move(b.requested().ID, toSuccess),
		"failed":    b.move(b.requested().ID, toDeclined),
		"canceled":  b.move(b.unknown().ID, toCanceled),
	} {
		_, err := b.Decide(b.ctx, t.ID, resolver, "cancel it")
		b.lostTo(err, t)
		b.same(what, t, b.get(t.ID))
	}
}

func decisionRace(b *book) {
	for range 10 {
		id := b.unknown().ID
		var decided, succeeded atomic.Int64
		together(4, func(i int) {
			var err error
			if i%2 == 0 {
				if _, err = b.Decide(b.ctx, id, resolver, ""); err == nil {
					decided.Add(1)
				}
			} else {
				if _, err = b.Transition(b.ctx, toLateSuccess.of(id)); err == nil {
					succeeded.Add(1)
				}
			}
			if err != nil && !errors.Is(err, ledger.ErrLost) {
				b.Errorf("error %v", err)
			}
		})
		t := b.get(id)
		switch {
		case decided.Load() == 2 && succeeded.Load() == 0:
			if t.Status != ledger.StatusUnknown || t.Decision != ledger.DecisionCancel {
				b.Errorf("decided, and the row is %s, %q", t.Status, t.Decision)
			}
		case decided.Load() == 0 && succeeded.Load() == 1:
			if t.Status != ledger.StatusSuccess || t.Decision != 0 {
				b.Errorf("succeeded, and the row is %s, %q", t.Status, t.Decision)
			}
		default:
			b.Errorf("decided %d, succeeded %d", decided.Load(), succeeded.Load())
		}
	}
}

func decisionKeepsLease(b *book) {
	id := b.unknown().ID
	claim := b.claim(1)[0]
	b.decide(id)
	if again := b.claim(1); len(again) != 0 {
		b.Error("claimed a leased row")
	}
	b.postpone(ledger.Postponement{ID: id, Token: claim.Token, Answered: true})
}
