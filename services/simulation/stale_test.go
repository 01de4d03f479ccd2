package simulation

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/corebank/simulator"
)

// addStale adds a time in which reads see rows as they were up to amount ago.
func (p *plan) addStale(r *rand.Rand) {
	e := event{
		kind: ledgerStale, at: between(r, 0, p.house.troubles), slot: slot(r.IntN(p.house.slots()+1) - 1),
		odds: 0.1 + r.Float64()*0.8, amount: between(r, 100*time.Millisecond, 20*time.Second),
	}
	e.until = min(e.at+between(r, time.Second, 20*time.Second), p.house.troubles)
	p.add(e)
}

// addOldCopies: everybody who is to find out what became of payments works with copies
// that are older than what others have made of them.
func (p *plan) addOldCopies(r *rand.Rand) {
	at := p.doubts(r)
	end := at + between(r, 8*time.Second, 20*time.Second)
	p.add(event{kind: ledgerStale, at: at, until: end, slot: anywhere, odds: 0.5 + r.Float64()*0.5, amount: between(r, time.Second, 10*time.Second)})
	for range 1 + r.IntN(3) {
		p.add(event{kind: oldList, at: at + between(r, 0, 4*time.Second), until: end, slot: anywhere, amount: between(r, time.Second, 10*time.Second)})
	}
	p.house.troubles = max(p.house.troubles, end)
}

// doubts adds payments of which it is not known what became, and returns when that
// begins: their answers are lost, or meet those who find out.
func (p *plan) doubts(r *rand.Rand) time.Duration {
	if r.IntN(2) == 0 {
		return p.lateAnswers(r) - time.Second
	}
	at := p.burst(r, slot(r.IntN(p.house.payments)), 4+r.IntN(6), 3*time.Second)
	fault := func(mti string, f simulator.Fault, odds float64, lasts time.Duration) {
		f.MTI, f.Probability, f.Seed = mti, &odds, r.Uint64()
		p.add(event{kind: coreFault, at: at, until: at + lasts, fault: f})
	}
	lost := simulator.Fault{Action: simulator.FaultClose, When: simulator.AfterExecution}
	if r.IntN(2) == 0 {
		lost.Action, lost.Delay = simulator.FaultDelay, between(r, 500*time.Millisecond, 6*time.Second)
	}
	fault("0100", lost, 0.4+r.Float64()*0.5, 4*time.Second)
	if r.IntN(2) == 0 { // and nobody finds out soon, but people settle them
		busy := simulator.Fault{Action: simulator.FaultResponseCode, When: simulator.BeforeExecution, ResponseCode: "0098"}
		fault("0400", busy, 0.4+r.Float64()*0.5, 20*time.Second)
		fault("0420", busy, 0.4+r.Float64()*0.5, 20*time.Second)
		p.house.maxAttempts = 2 + r.IntN(2)
	}
	return at
}

// pendingBefore lists what was pending up to an age ago.
func (w *world) pendingBefore(age time.Duration) func(dice) []tranid.ID {
	return func(d dice) []tranid.ID { return w.past.pending(w.elapsed() - d.of("age").between(0, age)) }
}

// past is every row as it was at each moment of the day.
type past struct {
	mu   sync.Mutex
	rows map[tranid.ID][]version
	// bound are the payments of each key, in the order in which they had it.
	bound map[ofClient][]tranid.ID
}

// version is a row from a moment on.
type version struct {
	from time.Duration
	row  ledger.Transaction
}

type ofClient struct {
	client ledger.ClientID
	key    ledger.IdempotencyKey
}

func newPast() *past {
	return &past{rows: map[tranid.ID][]version{}, bound: map[ofClient][]tranid.ID{}}
}

// keep remembers a row as it is now.
func (p *past) keep(now time.Duration, row ledger.Transaction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	versions := p.rows[row.ID]
	if len(versions) > 0 && versions[len(versions)-1].row == row {
		return
	}
	p.rows[row.ID] = append(versions, version{now, row})
	if len(versions) == 0 && row.Status == ledger.StatusRequested { // what begins otherwise binds no key
		k := ofClient{row.Client, row.Key}
		p.bound[k] = append(p.bound[k], row.ID)
	}
}

// at is a row as it was then, and false if there was none.
func (p *past) at(then time.Duration, id tranid.ID) (ledger.Transaction, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range slices.Backward(p.rows[id]) {
		if v.from <= then {
			return v.row, true
		}
	}
	return ledger.Transaction{}, false
}

// pending are the payments that were UNKNOWN then, in order.
func (p *past) pending(then time.Duration) []tranid.ID {
	p.mu.Lock()
	ids := slices.Sorted(maps.Keys(p.rows))
	p.mu.Unlock()
	return slices.DeleteFunc(ids, func(id tranid.ID) bool {
		row, _ := p.at(then, id)
		return row.Status != ledger.StatusUnknown
	})
}

// ofKey is the row that a key was bound to then, and false if it was to none.
func (p *past) ofKey(then time.Duration, k ofClient) (ledger.Transaction, bool) {
	p.mu.Lock()
	ids := slices.Clone(p.bound[k])
	p.mu.Unlock()
	for _, id := range slices.Backward(ids) {
		if row, there := p.at(then, id); there {
			return row, true
		}
	}
	return ledger.Transaction{}, false
}

// copies are the ledger as a process has it that may be shown an older copy: what it
// reads is at times as it was. What it writes, and what a write returns of the row
// that it met, is the ledger's. Which reads are never old, docs/proof.md says.
type copies struct {
	ledger.Store
	l *ledgerLink
}

// then is the moment that a read sees, and false if that is now.
func (c *copies) then(name string) (time.Duration, bool) {
	w := c.l.p.world
	stale := w.active(ledgerStale, c.l.p.slot)
	if stale == nil {
		return 0, false
	}
	die := c.l.die("stale " + name)
	return w.elapsed() - die.of("age").between(0, stale.amount), die.chance(stale.odds)
}

// older is a row as it was then; as it is if it was not there yet.
func (c *copies) older(name string, then time.Duration, row ledger.Transaction) ledger.Transaction {
	old, there := c.l.p.world.past.at(then, row.ID)
	if !there || old == row {
		return row
	}
	c.tell(name, &row, &old)
	return old
}

func (c *copies) tell(name string, row, old *ledger.Transaction) {
	c.l.p.world.aged.Add(1)
	c.l.p.say(row.ID, "%s sees it as it was: %s decision %q, and it is %s decision %q", name, old.Status, old.Decision, row.Status, row.Decision)
}

// Get and what follows are ledger.Store. A row that came later is not there.
func (c *copies) Get(ctx context.Context, id tranid.ID) (ledger.Transaction, error) {
	row, err := c.Store.Get(ctx, id)
	then, stale := c.then("Get" + string(id))
	if err != nil || !stale {
		return row, err
	}
	return c.asOf("Get", &row, func() (ledger.Transaction, bool) { return c.l.p.world.past.at(then, id) })
}

// GetByKey sees keys, too, as they were bound.
func (c *copies) GetByKey(ctx context.Context, client ledger.ClientID, k ledger.IdempotencyKey) (ledger.Transaction, error) {
	row, err := c.Store.GetByKey(ctx, client, k)
	then, stale := c.then("GetByKey" + string(client) + string(k))
	if err != nil || !stale {
		return row, err
	}
	return c.asOf("GetByKey", &row, func() (ledger.Transaction, bool) { return c.l.p.world.past.ofKey(then, ofClient{client, k}) })
}

func (c *copies) asOf(name string, row *ledger.Transaction, find func() (ledger.Transaction, bool)) (ledger.Transaction, error) {
	old, there := find()
	switch {
	case !there:
		c.l.p.world.aged.Add(1)
		c.l.p.say(row.ID, "%s does not see it yet: it is %s", name, row.Status)
		return ledger.Transaction{}, ledger.ErrNotFound
	case old != *row:
		c.tell(name, row, &old)
	}
	return old, nil
}

// Bound sees the row that has the key now, and no earlier one.
func (c *copies) Bound(
	ctx context.Context, client ledger.ClientID, k ledger.IdempotencyKey, f ledger.Hash,
) (ledger.Transaction, error) {
	row, err := c.Store.Bound(ctx, client, k, f)
	then, stale := c.then("Bound" + string(client) + string(k))
	if err != nil || !stale {
		return row, err
	}
	return c.asOf("Bound", &row, func() (ledger.Transaction, bool) { return c.l.p.world.past.at(then, row.ID) })
}

func (c *copies) Claim(ctx context.Context, o ledger.ClaimOptions) ([]ledger.Claim, error) {
	claims, err := c.Store.Claim(ctx, o)
	for i := range claims {
		t := &claims[i].Transaction
		if then, stale := c.then("Claim" + string(t.ID)); stale {
			*t = c.older("Claim", then, *t)
		}
	}
	return claims, err
}

func (c *copies) ClaimOne(ctx context.Context, id tranid.ID, lease time.Duration, by ledger.Actor) (ledger.Claim, error) {
	claim, err := c.Store.ClaimOne(ctx, id, lease, by)
	if then, stale := c.then("ClaimOne" + string(id)); stale && err == nil {
		claim.Transaction = c.older("ClaimOne", then, claim.Transaction)
	}
	return claim, err
}

func (c *copies) DayRows(ctx context.Context, day tranid.Date, after tranid.ID, limit int) ([]ledger.DayRow, error) {
	rows, err := c.Store.DayRows(ctx, day, after, limit)
	if err != nil || len(rows) == limit { // a page that seems to be the last would end the day
		return rows, err
	}
	then, stale := c.then("DayRows" + day.String())
	if !stale {
		return rows, nil
	}
	for i := range rows {
		if old, there := c.l.p.world.past.at(then, rows[i].ID); there {
			rows[i].Status = old.Status // the rest of it never changes
		}
	}
	return slices.DeleteFunc(rows, func(r ledger.DayRow) bool {
		_, there := c.l.p.world.past.at(then, r.ID)
		return !there
	}), nil
}

// secondLook is the ledger as settlement has it: what it reads row by row, it tells
// people, and no compare-and-set comes behind that. It is never old.
type secondLook struct{ *ledgerLink }

func (s secondLook) Get(ctx context.Context, id tranid.ID) (ledger.Transaction, error) {
	book := s.p.world.book
	return ask(ctx, s.ledgerLink, request{name: "Get", id: id}, func(ctx context.Context) (ledger.Transaction, error) { return book.Get(ctx, id) })
}

func TestPast_IsAsItWasAtEachMoment(t *testing.T) {
	p, k := newPast(), ofClient{"shop", "key"}
	row := func(id tranid.ID, s ledger.Status) ledger.Transaction {
		return ledger.Transaction{ID: id, Status: s, Client: k.client, Key: k.key}
	}
	p.keep(10, row("A", ledger.StatusRequested))
	p.keep(15, row("A", ledger.StatusRequested))
	p.keep(20, row("A", ledger.StatusFailed))
	p.keep(25, row("refused", ledger.StatusFailed))
	p.keep(30, row("B", ledger.StatusRequested))
	for _, c := range []struct {
		then     time.Duration
		id       tranid.ID
		status   ledger.Status
		ofKey    tranid.ID
		versions int
	}{
		{9, "A", 0, "", 2},
		{10, "A", ledger.StatusRequested, "A", 2},
		{19, "A", ledger.StatusRequested, "A", 2},
		{20, "A", ledger.StatusFailed, "A", 2},
		{29, "B", 0, "A", 1},
		{30, "B", ledger.StatusRequested, "B", 1},
		{30, "refused", ledger.StatusFailed, "B", 1},
	} {
		got, _ := p.at(c.then, c.id)
		holder, _ := p.ofKey(c.then, k)
		if got.Status != c.status || holder.ID != c.ofKey || len(p.rows[c.id]) != c.versions {
			t.Errorf("at %d: %s is %s, the key is of %q, %d versions; want %s, %q, %d",
				c.then, c.id, got.Status, holder.ID, len(p.rows[c.id]), c.status, c.ofKey, c.versions)
		}
	}
}
