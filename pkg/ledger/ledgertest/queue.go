package ledgertest

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

var adoptionCases = []conformance{
	{"adoption takes what is abandoned, the oldest first", adoptionTakesTheOldest},
	{"adoption leaves what is not abandoned", adoptionLeavesOthers},
	{"adoption by many at once takes each row once", adoptionAtOnce},
	{"adoption and outcome at once: one is stored", adoptionRace},
	{"answer that arrives after adoption is stored", answerAfterAdoption},
}

var claimCases = []conformance{
	{"claim takes what is due, the oldest first", claimTakesTheOldest},
	{"claim takes what was never asked first", claimTakesTheFresh},
	{"claim takes the part that is wanted, from either end", claimTakesThePart},
	{"claim is of the clock of the database and changes no row", claimShowsTheRow},
	{"claimed row is not claimed again before its lease ends", claimHoldsForItsLease},
	{"claim of another resolver follows the end of a lease", claimAfterLease},
	{"claims of two resolvers share 200 rows", claimsShareRows},
	{"claim of rows in review is another's than of the others", claimOfReview},
	{"claim and adoption of no or too many rows are refused", claimLimits},
	{"claim of one row takes it, due or not, leased or not", claimOne},
	{"claim of one row that is not unknown has no token", claimOneOfOthers},
	{"claim of one abandoned row adopts it first", claimOneAdopts},
}

func adoptionTakesTheOldest(b *book) {
	ids := make([]tranid.ID, 0, 5)
	for i := range 5 {
		in := b.intent()
		in.AdoptAfter = -time.Duration(10+i) * time.Minute // the last is the oldest
		b.create(in)
		ids = append(ids, in.ID)
	}
	if n, err := b.Adopt(b.ctx, 2, resolver); n != 2 || err != nil {
		b.Fatalf("adopted %d, error %v", n, err)
	}
	for i, id := range ids {
		t := b.get(id)
		if adopted := t.Status == ledger.StatusUnknown; adopted != (i >= 3) {
			b.Errorf("row %d: %s", i, t.Status)
		}
	}
	t, events := b.get(ids[4]), b.events(ids[4])
	adoption := ledger.Adoption(t.ID, resolver)
	b.same("event", ledger.Event{
		Sequence: events[1].Sequence, At: events[1].At, From: ledger.StatusRequested, To: ledger.StatusUnknown,
		By: resolver, Detail: adoption.Reason,
	}, events[1])
	if !t.NextResolveAt.Equal(events[1].At) || t.Reason != adoption.Reason || !t.ResolvedAt.IsZero() {
		b.Errorf("due at %s, adopted at %s, reason %q", t.NextResolveAt, events[1].At, t.Reason)
	}
	if n, err := b.Adopt(b.ctx, ledger.MaxClaim, resolver); n != 3 || err != nil {
		b.Errorf("adopted %d more, error %v", n, err)
	}
}

func adoptionLeavesOthers(b *book) {
	rows := []ledger.Transaction{b.requested(), b.unknown(), b.move(b.abandoned().ID, toSuccess)}
	if n, err := b.Adopt(b.ctx, ledger.MaxClaim, resolver); n != 0 || err != nil {
		b.Errorf("adopted %d, error %v", n, err)
	}
	for _, t := range rows {
		b.same("row", t, b.get(t.ID))
	}
}

func adoptionAtOnce(b *book) {
	ids := make([]tranid.ID, 0, 30)
	for range 30 {
		ids = append(ids, b.abandoned().ID)
	}
	var total atomic.Int64
	together(4, func(int) {
		for range 4 {
			n, err := b.Adopt(b.ctx, ledger.MaxClaim, resolver)
			if err != nil {
				b.Errorf("adopt: %v", err)
			}
			total.Add(int64(n))
		}
	})
	if total.Load() != int64(len(ids)) {
		b.Errorf("adopted %d, want %d", total.Load(), len(ids))
	}
	for _, id := range ids {
		if n := len(b.events(id)); n != 2 {
			b.Errorf("%d events, want 2", n)
		}
	}
}

func adoptionRace(b *book) {
	for range 8 {
		id := b.abandoned().ID
		var adopted, stored atomic.Int64
		together(4, func(i int) {
			if i%2 == 0 {
				n, err := b.Adopt(b.ctx, ledger.MaxClaim, resolver)
				if err != nil {
					b.Errorf("adopt: %v", err)
				}
				adopted.Add(int64(n))
				return
			}
			_, err := b.Transition(b.ctx, toSuccess.of(id))
			if err == nil {
				stored.Add(1)
			} else if !errors.Is(err, ledger.ErrLost) {
				b.Errorf("move: %v", err)
			}
		})
		want := ledger.StatusSuccess
		if adopted.Load() == 1 {
			want = ledger.StatusUnknown
		}
		if t := b.get(id); adopted.Load()+stored.Load() != 1 || t.Status != want {
			b.Errorf("adopted %d, stored %d, row is %s", adopted.Load(), stored.Load(), t.Status)
		}
	}
}

func answerAfterAdoption(b *book) {
	id := b.abandoned().ID
	if n, err := b.Adopt(b.ctx, 1, resolver); n != 1 || err != nil {
		b.Fatalf("adopted %d, error %v", n, err)
	}
	b.refuse(id, toSuccess, ledger.ErrLost)
	b.move(id, toLateSuccess)
}

// due makes n rows that are due, the first since the shortest time.
func (b *book) due(n int) []tranid.ID {
	b.Helper()
	ids := make([]tranid.ID, n)
	for i := range ids {
		t := b.unknown()
		ids[i] = t.ID
		claim, err := b.ClaimOne(b.ctx, t.ID, time.Hour, resolver)
		if err != nil {
			b.Fatal(err)
		}
		b.postpone(ledger.Postponement{ID: t.ID, Token: claim.Token, Delay: -time.Duration(i+1) * time.Minute})
	}
	return ids
}

func ids(claims []ledger.Claim) []tranid.ID {
	found := make([]tranid.ID, len(claims))
	for i, c := range claims {
		found[i] = c.Transaction.ID
	}
	return found
}

func claimTakesTheOldest(b *book) {
	want := b.due(5)
	slices.Reverse(want)
	b.requested()
	b.abandoned()
	b.move(b.unknown().ID, toCanceled)
	later := b.unknown()
	claim, err := b.ClaimOne(b.ctx, later.ID, time.Hour, resolver)
	if err != nil {
		b.Fatal(err)
	}
	b.postpone(ledger.Postponement{ID: later.ID, Token: claim.Token, Delay: time.Hour})
	b.same("the three that are due longest", want[:3], ids(b.claim(3)))
	b.same("the others", want[3:], ids(b.claim(ledger.MaxClaim)))
	if more := b.claim(ledger.MaxClaim); len(more) != 0 {
		b.Errorf("claimed %d more", len(more))
	}
}

func claimTakesTheFresh(b *book) {
	asked := b.due(4)
	slices.Reverse(asked) // due since minutes
	fresh := []tranid.ID{b.unknown().ID, b.unknown().ID, b.unknown().ID}
	for i, id := range append(slices.Clone(fresh), asked...) {
		if t := b.get(id); t.Asked != (i >= len(fresh)) {
			b.Errorf("row %d: asked %t", i, t.Asked)
		}
	}
	b.same("of two", fresh[:2], ids(b.claim(2)))
	b.same("of three", append(fresh[2:], asked[:2]...), ids(b.claim(3)))
	b.same("of all", asked[2:], ids(b.claim(ledger.MaxClaim)))
}

func claimTakesThePart(b *book) {
	asked := b.due(3)
	slices.Reverse(asked)
	fresh := []tranid.ID{b.unknown().ID, b.unknown().ID, b.unknown().ID}
	claim := func(o ledger.ClaimOptions) []tranid.ID {
		o.Lease = time.Hour
		claims, err := b.Claim(b.ctx, o)
		if err != nil {
			b.Fatal(err)
		}
		return ids(claims)
	}
	b.same("asked, the newest", asked[2:], claim(ledger.ClaimOptions{Limit: 1, Only: ledger.PartAsked, Newest: true}))
	b.same("fresh, the newest", []tranid.ID{fresh[2], fresh[1]}, claim(ledger.ClaimOptions{Limit: 2, Only: ledger.PartFresh, Newest: true}))
	b.same("fresh", fresh[:1], claim(ledger.ClaimOptions{Limit: ledger.MaxClaim, Only: ledger.PartFresh}))
	b.same("no more fresh", []tranid.ID{}, claim(ledger.ClaimOptions{Limit: ledger.MaxClaim, Only: ledger.PartFresh}))
	b.same("asked", asked[:2], claim(ledger.ClaimOptions{Limit: ledger.MaxClaim, Only: ledger.PartAsked}))
}

func claimShowsTheRow(b *book) {
	t := b.unknown()
	claim := b.claim(1)[0]
	b.same("claim", ledger.Claim{Transaction: t, Token: claim.Token, At: claim.At}, claim)
	if claim.Token == "" || claim.At.Before(t.NextResolveAt) || time.Since(claim.At).Abs() > time.Minute {
		b.Errorf("token %q at %s", claim.Token, claim.At)
	}
	b.same("row", t, b.get(t.ID))
	if n := len(b.events(t.ID)); n != 2 {
		b.Errorf("%d events, want 2", n)
	}
}

func claimHoldsForItsLease(b *book) {
	b.unknown()
	b.claim(1)
	if again := b.claim(1); len(again) != 0 {
		b.Errorf("claimed %d leased rows", len(again))
	}
}

func claimAfterLease(b *book) {
	id := b.unknown().ID
	expired, err := b.Claim(b.ctx, ledger.ClaimOptions{Limit: 1, Lease: -time.Second})
	if err != nil || len(expired) != 1 {
		b.Fatalf("claimed %d, error %v", len(expired), err)
	}
	next := b.claim(1)
	if len(next) != 1 || next[0].Token == expired[0].Token {
		b.Fatalf("claimed %v after %v", next, expired)
	}
	err = b.Postpone(b.ctx, ledger.Postponement{ID: id, Token: expired[0].Token, Answered: true, By: resolver})
	b.lostTo(err, b.get(id))
	b.postpone(ledger.Postponement{ID: id, Token: next[0].Token})
}

func claimsShareRows(b *book) {
	const rows = 200
	all := make([]tranid.ID, rows)
	together(10, func(i int) {
		for j := i; j < rows; j += 10 {
			t := b.inquiry()
			t.Status, t.Evidence, t.Answer, t.RespondedAt = ledger.StatusUnknown, 0, ledger.Answer{}, time.Time{}
			all[j] = t.ID
			if err := b.Record(b.ctx, []ledger.Transaction{t}, payer); err != nil {
				b.Errorf("record: %v", err)
			}
		}
	})
	var mu sync.Mutex
	claimed := make(map[tranid.ID]int)
	together(2, func(int) {
		for range 2 * rows / ledger.MaxClaim {
			claims, err := b.Claim(b.ctx, ledger.ClaimOptions{Limit: ledger.MaxClaim, Lease: time.Hour})
			if err != nil {
				b.Errorf("claim: %v", err)
			}
			mu.Lock()
			for _, c := range claims {
				claimed[c.Transaction.ID]++
			}
			mu.Unlock()
		}
	})
	for _, id := range all {
		if claimed[id] != 1 {
			b.Errorf("%s was claimed %d times", id, claimed[id])
		}
	}
	if len(claimed) != rows {
		b.Errorf("claimed %d rows, want %d", len(claimed), rows)
	}
}

func claimOfReview(b *book) {
	reviewed, other := b.due(1)[0], b.unknown().ID
	claim, err := b.ClaimOne(b.ctx, reviewed, time.Hour, resolver)
	if err != nil {
		b.Fatal(err)
	}
	b.postpone(ledger.Postponement{ID: reviewed, Token: claim.Token, NeedsReview: true, Delay: -time.Hour})
	b.same("others", []tranid.ID{other}, ids(b.claim(ledger.MaxClaim)))
	claims, err := b.Claim(b.ctx, ledger.ClaimOptions{Limit: ledger.MaxClaim, Lease: time.Hour, Review: true})
	if err != nil {
		b.Fatal(err)
	}
	b.same("in review", []tranid.ID{reviewed}, ids(claims))
}

func claimLimits(b *book) {
	b.unknown()
	b.abandoned()
	for _, limit := range []int{-1, 0, ledger.MaxClaim + 1} {
		if claims, err := b.Claim(b.ctx, ledger.ClaimOptions{Limit: limit, Lease: time.Hour}); err == nil {
			b.Errorf("claimed %d of %d", len(claims), limit)
		}
		if n, err := b.Adopt(b.ctx, limit, resolver); err == nil {
			b.Errorf("adopted %d of %d", n, limit)
		}
	}
}

func claimOne(b *book) {
	t := b.unknown()
	first := b.claim(1)[0]
	second, err := b.ClaimOne(b.ctx, t.ID, time.Hour, resolver)
	if err != nil || second.Token == "" || second.Token == first.Token {
		b.Fatalf("token %q after %q, error %v", second.Token, first.Token, err)
	}
	b.same("row", t, second.Transaction)
	err = b.Postpone(b.ctx, ledger.Postponement{ID: t.ID, Token: first.Token, By: resolver})
	b.lostTo(err, t)
	b.postpone(ledger.Postponement{ID: t.ID, Token: second.Token, Delay: time.Hour, NeedsReview: true})
	third, err := b.ClaimOne(b.ctx, t.ID, time.Hour, resolver)
	if err != nil || third.Token == "" {
		b.Errorf("token %q of a row that is not due, error %v", third.Token, err)
	}
}

func claimOneOfOthers(b *book) {
	for what, t := range map[string]ledger.Transaction{
		"requested": b.requested(),
		"success":   b.move(b.requested().ID, toSuccess),
		"failed":    b.move(b.requested().ID, toNotSent),
		"canceled":  b.move(b.unknown().ID, toCanceled),
	} {
		claim, err := b.ClaimOne(b.ctx, t.ID, time.Hour, resolver)
		if err != nil || claim.Token != "" || claim.At.IsZero() {
			b.Errorf("%s: token %q at %s, error %v", what, claim.Token, claim.At, err)
		}
		b.same(what, t, claim.Transaction)
		b.same(what, t, b.get(t.ID))
	}
}

func claimOneAdopts(b *book) {
	t := b.abandoned()
	claim, err := b.ClaimOne(b.ctx, t.ID, time.Hour, resolver)
	if err != nil || claim.Token == "" {
		b.Fatalf("token %q, error %v", claim.Token, err)
	}
	adoption := ledger.Adoption(t.ID, resolver)
	if _, err := adoption.Apply(&t, claim.At); err != nil {
		b.Fatal(err)
	}
	b.same("row", t, claim.Transaction)
	b.same("row stored", t, b.get(t.ID))
	events := b.events(t.ID)
	if len(events) != 2 || events[1].By != resolver {
		b.Errorf("events %v", events)
	}
	if more := b.claim(1); len(more) != 0 {
		b.Errorf("claimed %v, which is leased", ids(more))
	}
}
