package ledgertest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

var purgeCases = []conformance{
	{"purge unbinds expired keys of final transactions, and no others", purgeUnbinds},
	{"purge takes the keys that expired first", purgeTakesTheOldest},
	{"keys of open transactions keep no other key bound", purgePassesOverOpenOnes},
	{"purge and binding at once: each key is bound by one", purgeRace},
	{"purge of no or too many keys is refused", purgeLimits},
}

var retireCases = []conformance{
	{"day that is retired leaves whole, and no other", retireDay},
	{"day is retired by the earlier of two clocks", retireByTheEarlierClock},
	{"day with one open transaction loses nothing", retireHeldByAnOpenRow},
	{"day with a bound key loses nothing", retireHeldByAKey},
	{"day that is held can be passed over", retirePassesOver},
	{"row with many events leaves in several steps", retireRowOfManyEvents},
	{"several that retire at once delete each row once", retireAtOnce},
	{"order of a retired payment can be paid again", retireFreesOrders},
	{"retiring no or too many rows or days is refused", retireLimits},
}

// outlived is a payment, ended by a step, whose key lived until that long ago.
func (b *book) outlived(ago time.Duration, steps ...step) ledger.Intent {
	b.Helper()
	in := b.intent()
	in.KeyLife = -ago
	b.create(in)
	for _, s := range steps {
		b.move(in.ID, s)
	}
	return in
}

// purge looks at up to limit keys and must unbind and keep so many.
func (b *book) purge(limit, unbound, kept int) {
	b.Helper()
	purge, err := b.PurgeKeys(b.ctx, limit)
	if want := (ledger.Purge{Unbound: unbound, Kept: kept}); purge != want || err != nil {
		b.Errorf("purged %+v, want %+v, error %v", purge, want, err)
	}
}

// bound says whether the key of an intent is bound to it.
func (b *book) bound(in ledger.Intent, want bool) {
	b.Helper()
	t, err := b.GetByKey(b.ctx, in.Client, in.Key)
	switch {
	case want && (err != nil || t.ID != in.ID):
		b.Errorf("key is bound to %q, want %s, error %v", t.ID, in.ID, err)
	case !want:
		b.fails("get by a key that is not bound", err, ledger.ErrNotFound)
	}
}

func purgeUnbinds(b *book) {
	paid, unsent := b.outlived(time.Minute, toSuccess), b.outlived(time.Minute, toNotSent)
	canceled := b.outlived(time.Minute, toUnknown, toCanceled)
	requested, unknown := b.outlived(time.Minute), b.outlived(time.Minute, toUnknown)
	alive := b.intent()
	b.create(alive)
	b.move(alive.ID, toSuccess)
	row, history := b.get(paid.ID), b.events(paid.ID)

	b.purge(ledger.MaxPurge, 3, 2)
	for _, in := range []ledger.Intent{paid, unsent, canceled} {
		b.bound(in, false)
	}
	for _, in := range []ledger.Intent{requested, unknown, alive} {
		b.bound(in, true)
	}
	b.same("row of a purged key", row, b.get(paid.ID))
	b.same("history of a purged key", history, b.events(paid.ID))
	b.purge(ledger.MaxPurge, 0, 0)

	next := b.intent()
	next.Key, next.Fingerprint = paid.Key, ledger.Hash{9}
	b.create(next)
	b.bound(next, true)
}

func purgeTakesTheOldest(b *book) {
	young, old := b.outlived(time.Minute, toSuccess), b.outlived(time.Hour, toSuccess)
	b.purge(1, 1, 0)
	b.bound(old, false)
	b.bound(young, true)
	b.purge(1, 1, 0)
	b.bound(young, false)
}

func purgePassesOverOpenOnes(b *book) {
	for range 3 {
		b.outlived(time.Hour, toUnknown)
	}
	paid := b.outlived(time.Minute, toSuccess)
	b.purge(3, 0, 3)
	b.purge(3, 1, 0)
	b.bound(paid, false)
}

func purgeRace(b *book) {
	const keys, callers = 8, 4
	for i := range keys {
		in := b.outlived(time.Minute, toSuccess)
		var created atomic.Int64
		intents := make([]ledger.Intent, callers)
		for c := range intents {
			intents[c] = b.intent()
			intents[c].Key, intents[c].Fingerprint = in.Key, ledger.Hash{byte(i)}
		}
		together(callers+2, func(c int) {
			if c >= callers {
				if _, err := b.PurgeKeys(b.ctx, ledger.MaxPurge); err != nil {
					b.Errorf("purge: %v", err)
				}
				return
			}
			admission, err := b.CreateIntent(b.ctx, intents[c])
			if err != nil {
				b.Errorf("bind: %v", err)
			} else if admission.Created {
				created.Add(1)
			}
		})
		if created.Load() != 1 {
			b.Errorf("key %d is bound anew by %d, want 1", i, created.Load())
		}
	}
}

func purgeLimits(b *book) {
	for _, limit := range []int{-1, 0, ledger.MaxPurge + 1} {
		if _, err := b.PurgeKeys(b.ctx, limit); err == nil {
			b.Errorf("purge of %d keys is not refused", limit)
		}
	}
}

// daysAgo is the business day so many before that of the case.
func (b *book) daysAgo(days int) tranid.Date {
	return tranid.DateOf(b.day.Start().AddDate(0, 0, -days))
}

// oldPayment is a payment of a past day, ended by steps, with a key that has
// expired.
func (b *book) oldPayment(day tranid.Date, steps ...step) ledger.Intent {
	b.Helper()
	in := b.intent()
	in.ID = tranid.New(day, b.count.Add(1))
	in.KeyLife = -time.Minute
	b.create(in)
	for _, s := range steps {
		b.move(in.ID, s)
	}
	return in
}

func (b *book) purgeAll() {
	b.Helper()
	for range 10 {
		purge, err := b.PurgeKeys(b.ctx, ledger.MaxPurge)
		if err != nil {
			b.Fatalf("purge: %v", err)
		}
		if purge == (ledger.Purge{}) {
			return
		}
	}
	b.Fatal("purging does not end")
}

func (b *book) retire(o ledger.RetireOptions) ledger.Retirement {
	b.Helper()
	step, err := b.RetireDay(b.ctx, o)
	if err != nil {
		b.Fatalf("retire %+v: %v", o, err)
	}
	return step
}

// retaining are options by which the days more than so many ago may go.
func (b *book) retaining(days int) ledger.RetireOptions {
	return ledger.RetireOptions{RetainDays: days, Today: b.day, Limit: ledger.MaxRetire}
}

func retireDay(b *book) {
	young := b.oldPayment(b.daysAgo(3), toSuccess)
	var old []ledger.Intent
	for range 5 {
		old = append(old, b.oldPayment(b.daysAgo(4), toUnknown, toCanceled))
	}
	b.purgeAll()
	o := b.retaining(3)
	o.Limit = 2
	for i, want := range []ledger.Retirement{
		{Day: b.daysAgo(4), Rows: 2, Events: 6},
		{Day: b.daysAgo(4), Rows: 2, Events: 6},
		{Day: b.daysAgo(4), Rows: 1, Events: 3, Gone: true},
		{},
	} {
		b.same(fmt.Sprintf("step %d", i), want, b.retire(o))
	}
	for _, in := range old {
		b.absent(in.ID)
	}
	if n := len(b.events(young.ID)); n != 2 || b.get(young.ID).Status != ledger.StatusSuccess {
		b.Errorf("the younger day's payment has %d events, want 2", n)
	}
}

func retireByTheEarlierClock(b *book) {
	old := b.oldPayment(b.daysAgo(4), toSuccess)
	b.purgeAll()
	for what, o := range map[string]ledger.RetireOptions{
		"too young":                      b.retaining(4),
		"too young by the caller's":      {RetainDays: 3, Today: b.daysAgo(1), Limit: 1},
		"the caller's runs a year ahead": {RetainDays: 4, Today: b.daysAgo(-365), Limit: 1},
		"the caller has none":            {RetainDays: 3, Limit: 1},
	} {
		b.same(what, ledger.Retirement{}, b.retire(o))
		b.get(old.ID)
	}
	if step := b.retire(b.retaining(3)); !step.Gone || step.Rows != 1 {
		b.Errorf("retired %+v", step)
	}
}

// keptWhole fails the case unless a day is held, and has these payments with
// their histories.
func (b *book) keptWhole(day tranid.Date, hold ledger.Hold, payments ...ledger.Intent) {
	b.Helper()
	b.same("step", ledger.Retirement{Day: day, Hold: hold}, b.retire(b.retaining(1)))
	for _, in := range payments {
		b.get(in.ID)
		if len(b.events(in.ID)) == 0 {
			b.Errorf("%s has lost its history", in.ID)
		}
	}
}

func retireHeldByAnOpenRow(b *book) {
	day := b.daysAgo(9)
	paid, open := b.oldPayment(day, toSuccess), b.oldPayment(day)
	b.purgeAll()
	b.keptWhole(day, ledger.HoldOpen, paid, open)
	b.move(open.ID, toUnknown)
	b.keptWhole(day, ledger.HoldOpen, paid, open)
}

func retireHeldByAKey(b *book) {
	day := b.daysAgo(9)
	paid := b.oldPayment(day, toSuccess)
	b.keptWhole(day, ledger.HoldKeys, paid)
	b.bound(paid, true)
	b.purgeAll()
	if step := b.retire(b.retaining(1)); !step.Gone {
		b.Errorf("retired %+v", step)
	}
}

func retirePassesOver(b *book) {
	open, paid := b.oldPayment(b.daysAgo(9), toUnknown), b.oldPayment(b.daysAgo(8), toSuccess)
	b.purgeAll()
	o := b.retaining(1)
	b.same("the oldest", ledger.Retirement{Day: b.daysAgo(9), Hold: ledger.HoldOpen}, b.retire(o))
	o.After = b.daysAgo(9)
	b.same("the next", ledger.Retirement{Day: b.daysAgo(8), Rows: 1, Events: 2, Gone: true}, b.retire(o))
	b.same("no more", ledger.Retirement{}, b.retire(o))
	b.absent(paid.ID)
	b.get(open.ID)
}

func retireRowOfManyEvents(b *book) {
	in := b.oldPayment(b.daysAgo(9), toSuccess)
	const more = 2 * ledger.EventsPerRow
	for range more {
		if err := b.AppendEvent(b.ctx, in.ID, ledger.EvidenceProcessed, resolver, "again"); err != nil {
			b.Fatal(err)
		}
	}
	b.purgeAll()
	var all ledger.Retirement
	for range more {
		step := b.retire(b.retaining(1))
		all.Rows, all.Events, all.Gone = all.Rows+step.Rows, all.Events+step.Events, step.Gone
		if step.Gone {
			break
		}
	}
	b.same("all steps", ledger.Retirement{Rows: 1, Events: more + 2, Gone: true}, all)
	b.absent(in.ID)
}

func retireAtOnce(b *book) {
	const payments = 24
	for range payments {
		b.oldPayment(b.daysAgo(9), toSuccess)
	}
	young := b.oldPayment(b.daysAgo(1), toSuccess)
	b.purgeAll()
	o := b.retaining(1)
	o.Limit = 3
	var rows, events atomic.Int64
	together(4, func(int) {
		for range payments {
			step, err := b.RetireDay(b.ctx, o)
			if err != nil {
				b.Errorf("retire: %v", err)
			}
			rows.Add(int64(step.Rows))
			events.Add(int64(step.Events))
		}
	})
	for !b.Failed() { // those that met left the rest to each other
		step := b.retire(o)
		if step.Day.IsZero() {
			break
		}
		rows.Add(int64(step.Rows))
		events.Add(int64(step.Events))
	}
	if rows.Load() != payments || events.Load() != 2*payments {
		b.Errorf("deleted %d rows and %d events of %d payments", rows.Load(), events.Load(), payments)
	}
	b.get(young.ID)
}

func retireFreesOrders(b *book) {
	in := b.intent()
	in.ID, in.Order, in.KeyLife = tranid.New(b.daysAgo(9), b.count.Add(1)), "order-1", -time.Minute
	b.create(in)
	b.move(in.ID, toSuccess)
	again := b.intent()
	again.Order = in.Order
	_, err := b.CreateIntent(b.ctx, again)
	b.fails("second payment of an order", err, ledger.ErrOrderTaken)
	b.purgeAll()
	b.same("step", ledger.Retirement{Day: b.daysAgo(9), Rows: 1, Events: 2, Orders: 1, Gone: true}, b.retire(b.retaining(1)))
	b.create(again)
}

func retireLimits(b *book) {
	for _, o := range []ledger.RetireOptions{
		{RetainDays: 1, Today: b.day, Limit: 0},
		{RetainDays: 1, Today: b.day, Limit: ledger.MaxRetire + 1},
		{RetainDays: 0, Today: b.day, Limit: 1},
		{RetainDays: -1, Today: b.day, Limit: 1},
	} {
		if step, err := b.RetireDay(b.ctx, o); err == nil {
			b.Errorf("%+v is not refused: %+v", o, step)
		}
	}
}
