package ledgertest

import (
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
)

var intentCases = []conformance{
	{"intent is stored with its key and its first event", intentIsStored},
	{"intent keeps every field at its limits", intentKeepsEveryField},
	{"intent is abandoned by the clock of the database", intentIsAbandonedByTheClock},
	{"bound key answers with the current state", boundKeyAnswersCurrentState},
	{"bound key refuses another fingerprint", boundKeyRefusesAnotherFingerprint},
	{"keys of two clients are two keys", keysOfTwoClients},
	{"key of what was never sent is bound again", neverSentKeyIsBoundAgain},
	{"key of what was sent is never bound again", sentKeyIsNotBoundAgain},
	{"same ID again is created while requested", sameIDAgainIsCreated},
	{"same ID again after its outcome is not created", sameIDAgainAfterOutcome},
	{"same ID with another fingerprint is refused", sameIDWithAnotherFingerprint},
	{"duplicate ID binds nothing", duplicateIDBindsNothing},
	{"duplicate ID does not bind a key again", duplicateIDDoesNotBindAgain},
	{"intent that no row may hold is refused and binds nothing", invalidIntents},
}

var intentRaceCases = []conformance{
	{"one key from 64 goroutines is created once", oneKeyIsCreatedOnce},
	{"many keys at once are all created", manyKeysAtOnce},
	{"race to bind again has one winner, whom the losers see", bindAgainRace},
	{"race to bind again with other fingerprints refuses the losers", bindAgainRaceOfFingerprints},
	{"one ID under two keys is stored once", oneIDUnderTwoKeys},
}

func intentIsStored(b *book) {
	in := b.intent()
	created := b.create(in)
	b.same("row", created, b.get(in.ID))
	byKey, err := b.GetByKey(b.ctx, in.Client, in.Key)
	if err != nil {
		b.Fatal(err)
	}
	b.same("row by key", created, byKey)
	events := b.events(in.ID)
	if len(events) != 1 {
		b.Fatalf("%d events, want 1", len(events))
	}
	want := ledger.Event{Sequence: events[0].Sequence, At: events[0].At, To: ledger.StatusRequested, By: payer}
	b.same("first event", want, events[0])
	if at := events[0].At; time.Since(at).Abs() > time.Minute {
		b.Errorf("first event is of %s", at)
	}
}

func intentKeepsEveryField(b *book) {
	in := b.intent()
	in.Client, in.Key = ledger.ClientID(strings.Repeat("c", 64)), ledger.IdempotencyKey(strings.Repeat("k", 64))
	in.CorrelationID = strings.Repeat("r", 64)
	in.Amount, in.Policy = account.MaxPayment, ledger.PolicyConfirm
	for i := range in.AccountHash {
		in.AccountHash[i], in.Fingerprint[i] = byte(255-i), byte(i)
	}
	in.RequestedAt = time.Date(2026, 2, 28, 23, 59, 59, 123_456_789, time.FixedZone("", -3600))
	got := b.create(in)
	want := ledger.Transaction{
		ID: in.ID, Kind: ledger.KindPayment, Status: ledger.StatusRequested, Policy: in.Policy,
		Client: in.Client, Key: in.Key, AccountMasked: in.AccountMasked, AccountHash: in.AccountHash, Amount: in.Amount,
		RequestedAt: time.Date(2026, 3, 1, 0, 59, 59, 123_456_000, time.UTC),
		AdoptAt:     got.AdoptAt, CorrelationID: in.CorrelationID, TraceID: payer.TraceID,
	}
	b.same("row returned", want, got)
	b.same("row stored", want, b.get(in.ID))
	if got.RequestedAt.Location() != time.UTC {
		b.Errorf("requested in %s, want UTC", got.RequestedAt.Location())
	}
}

func intentIsAbandonedByTheClock(b *book) {
	in := b.intent()
	in.RequestedAt = in.RequestedAt.Add(-time.Hour) // another clock, and not asked
	in.AdoptAfter = 90 * time.Second
	t := b.create(in)
	if after := t.AdoptAt.Sub(b.events(in.ID)[0].At); after != in.AdoptAfter {
		b.Errorf("abandoned %s after it was stored, want %s", after, in.AdoptAfter)
	}
}

func boundKeyAnswersCurrentState(b *book) {
	for _, steps := range [][]step{{}, {toSuccess}, {toDeclined}, {toUnknown}, {toUnknown, toCanceled}, {toUsedID}} {
		in := b.intent()
		b.create(in)
		for _, s := range steps {
			b.move(in.ID, s)
		}
		again := in
		again.ID, again.CorrelationID, again.RequestedAt = b.newID(), "another", time.Now()
		admission, err := b.CreateIntent(b.ctx, again)
		if err != nil || admission.Created {
			b.Errorf("again after %v: created %t, error %v", steps, admission.Created, err)
		}
		b.same("row that holds the key", b.get(in.ID), admission.Transaction)
		b.absent(again.ID)
	}
}

func boundKeyRefusesAnotherFingerprint(b *book) {
	in := b.intent()
	before := b.create(in)
	other := in
	other.ID, other.Fingerprint = b.newID(), ledger.Hash{9}
	_, err := b.CreateIntent(b.ctx, other)
	b.fails("another payment under the key", err, ledger.ErrKeyReused)
	b.absent(other.ID)
	b.same("row that holds the key", before, b.get(in.ID))
}

func keysOfTwoClients(b *book) {
	in := b.intent()
	b.create(in)
	other := in
	other.ID, other.Client, other.Fingerprint = b.newID(), "another", ledger.Hash{9}
	b.create(other)
	for _, want := range []ledger.Intent{in, other} {
		got, err := b.GetByKey(b.ctx, want.Client, want.Key)
		if err != nil || got.ID != want.ID {
			b.Errorf("key of %s: %s, error %v", want.Client, got.ID, err)
		}
	}
}

func neverSentKeyIsBoundAgain(b *book) {
	in := b.intent()
	b.create(in)
	for _, fingerprint := range []ledger.Hash{in.Fingerprint, {8}, {9}} {
		old := b.move(in.ID, toNotSent)
		in.ID, in.Fingerprint = b.newID(), fingerprint
		in.Amount++
		created := b.create(in)
		b.same("row that was never sent", old, b.get(old.ID))
		holder, err := b.GetByKey(b.ctx, in.Client, in.Key)
		if err != nil {
			b.Fatal(err)
		}
		b.same("row that holds the key", created, holder)
	}
	stale := in
	stale.ID, stale.Fingerprint = b.newID(), ledger.Hash{8}
	_, err := b.CreateIntent(b.ctx, stale)
	b.fails("the fingerprint of before", err, ledger.ErrKeyReused)
}

func sentKeyIsNotBoundAgain(b *book) {
	for _, steps := range [][]step{{toDeclined}, {toUnknown, toLateDeclined}, {toUnknown, toCanceled}} {
		in := b.intent()
		b.create(in)
		for _, s := range steps {
			b.move(in.ID, s)
		}
		again := in
		again.ID, again.Fingerprint = b.newID(), ledger.Hash{9}
		_, err := b.CreateIntent(b.ctx, again)
		b.fails("another payment under the key", err, ledger.ErrKeyReused)
		b.absent(again.ID)
	}
}

func sameIDAgainIsCreated(b *book) {
	in := b.intent()
	first, second := b.create(in), b.create(in)
	b.same("row of the second call", first, second)
	if n := len(b.events(in.ID)); n != 1 {
		b.Errorf("%d events, want 1", n)
	}
}

func sameIDAgainAfterOutcome(b *book) {
	for _, s := range []step{toUnknown, toSuccess, toDeclined, toNotSent} {
		in := b.intent()
		b.create(in)
		want := b.move(in.ID, s)
		admission, err := b.CreateIntent(b.ctx, in)
		if err != nil {
			b.Errorf("again after %s: %v", s, err)
		}
		b.same("answer after "+s.String(), ledger.Admission{Transaction: want}, admission)
	}
}

func sameIDWithAnotherFingerprint(b *book) {
	in := b.intent()
	b.create(in)
	in.Fingerprint = ledger.Hash{9}
	_, err := b.CreateIntent(b.ctx, in)
	b.fails("same ID, another payment", err, ledger.ErrKeyReused)
}

func duplicateIDBindsNothing(b *book) {
	in := b.intent()
	before := b.create(in)
	other := b.intent()
	free := other.ID
	other.ID = in.ID
	_, err := b.CreateIntent(b.ctx, other)
	b.fails("taken ID under another key", err, ledger.ErrDuplicateID)
	_, err = b.GetByKey(b.ctx, other.Client, other.Key)
	b.fails("get by the other key", err, ledger.ErrNotFound)
	b.same("row with the ID", before, b.get(in.ID))
	if n := len(b.events(in.ID)); n != 1 {
		b.Errorf("%d events, want 1", n)
	}
	other.ID = free
	b.create(other)
}

func duplicateIDDoesNotBindAgain(b *book) {
	taken := b.requested()
	in := b.intent()
	b.create(in)
	old := b.move(in.ID, toNotSent)
	in.ID = taken.ID
	_, err := b.CreateIntent(b.ctx, in)
	b.fails("taken ID", err, ledger.ErrDuplicateID)
	holder, err := b.GetByKey(b.ctx, in.Client, in.Key)
	if err != nil {
		b.Fatal(err)
	}
	b.same("row that holds the key", old, holder)
}

func invalidIntents(b *book) {
	for what, spoil := range map[string]func(in *ledger.Intent){
		"no ID":            func(in *ledger.Intent) { in.ID = "" },
		"half an ID":       func(in *ledger.Intent) { in.ID = in.ID[:21] },
		"day of no year":   func(in *ledger.Intent) { in.ID = "GWMNU20260230000000001" },
		"no client":        func(in *ledger.Intent) { in.Client = "" },
		"no key":           func(in *ledger.Intent) { in.Key = "" },
		"long key":         func(in *ledger.Intent) { in.Key += ledger.IdempotencyKey(strings.Repeat("k", 64)) },
		"no amount":        func(in *ledger.Intent) { in.Amount = 0 },
		"negative amount":  func(in *ledger.Intent) { in.Amount = -1 },
		"large amount":     func(in *ledger.Intent) { in.Amount = account.MaxPayment + 1 },
		"no policy":        func(in *ledger.Intent) { in.Policy = 0 },
		"unknown policy":   func(in *ledger.Intent) { in.Policy = 9 },
		"no account":       func(in *ledger.Intent) { in.AccountMasked = "" },
		"unmasked account": func(in *ledger.Intent) { in.AccountMasked = "12345678901234" },
		"no time":          func(in *ledger.Intent) { in.RequestedAt = time.Time{} },
		"no actor":         func(in *ledger.Intent) { in.By = ledger.Actor{} },
	} {
		in := b.intent()
		sound := in
		spoil(&in)
		_, err := b.CreateIntent(b.ctx, in)
		b.fails(what, err, ledger.ErrInvalidRow)
		b.create(sound)
	}
}

func oneKeyIsCreatedOnce(b *book) {
	in := b.intent()
	var created atomic.Int64
	ids := make([]ledger.Admission, 64)
	together(len(ids), func(i int) {
		mine := in
		mine.ID = b.newID()
		admission, err := b.CreateIntent(b.ctx, mine)
		if err != nil {
			b.Errorf("create: %v", err)
		}
		if admission.Created {
			created.Add(1)
		}
		ids[i] = admission
	})
	if n := created.Load(); n != 1 {
		b.Errorf("created %d times, want once", n)
	}
	holder, err := b.GetByKey(b.ctx, in.Client, in.Key)
	if err != nil {
		b.Fatal(err)
	}
	for _, admission := range ids {
		b.same("row that a caller was told of", holder, admission.Transaction)
	}
	page, err := b.List(b.ctx, ledger.Filter{Limit: ledger.MaxPage})
	if err != nil || len(page.Transactions) != 1 {
		b.Errorf("%d rows, want 1, error %v", len(page.Transactions), err)
	}
}

func manyKeysAtOnce(b *book) {
	together(50, func(int) {
		admission, err := b.CreateIntent(b.ctx, b.intent())
		if err != nil || !admission.Created {
			b.Errorf("created %t, error %v", admission.Created, err)
		}
	})
}

// rebinders lets 16 goroutines take over the key of what was never sent, and
// returns how many made it.
func (b *book) rebinders(fingerprint func(i int) ledger.Hash, loser func(a ledger.Admission, err error)) {
	b.Helper()
	in := b.intent()
	b.create(in)
	b.move(in.ID, toNotSent)
	type result struct {
		ledger.Admission
		err error
	}
	results := make([]result, 16)
	together(len(results), func(i int) {
		mine := in
		mine.ID, mine.Fingerprint = b.newID(), fingerprint(i)
		admission, err := b.CreateIntent(b.ctx, mine)
		results[i] = result{admission, err}
	})
	holder, err := b.GetByKey(b.ctx, in.Client, in.Key)
	if err != nil {
		b.Fatal(err)
	}
	won := 0
	for _, r := range results {
		if r.err == nil {
			b.same("row that a caller was told of", holder, r.Transaction)
		}
		if r.Created {
			won++
		} else {
			loser(r.Admission, r.err)
		}
	}
	if won != 1 {
		b.Errorf("%d bound the key again, want one", won)
	}
}

func bindAgainRace(b *book) {
	b.rebinders(func(int) ledger.Hash { return ledger.Hash{7} }, func(_ ledger.Admission, err error) {
		if err != nil {
			b.Errorf("loser: %v", err)
		}
	})
}

func bindAgainRaceOfFingerprints(b *book) {
	b.rebinders(func(i int) ledger.Hash { return ledger.Hash{byte(i), 7} }, func(_ ledger.Admission, err error) {
		b.fails("loser", err, ledger.ErrKeyReused)
	})
}

func oneIDUnderTwoKeys(b *book) {
	id := b.newID()
	var created, refused atomic.Int64
	together(16, func(int) {
		in := b.intent()
		in.ID = id
		admission, err := b.CreateIntent(b.ctx, in)
		switch {
		case err == nil && admission.Created:
			created.Add(1)
		case errors.Is(err, ledger.ErrDuplicateID):
			refused.Add(1)
		default:
			b.Errorf("created %t, error %v", admission.Created, err)
		}
	})
	if created.Load() != 1 || refused.Load() != 15 {
		b.Errorf("created %d, refused %d; want 1 and 15", created.Load(), refused.Load())
	}
}
