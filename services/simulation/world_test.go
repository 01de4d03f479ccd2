package simulation

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/simulation/audit"
)

// world is one day, in a synctest bubble.
type world struct {
	t       *testing.T
	plan    *plan
	dice    dice
	trace   *trace
	audit   *audit.Auditor
	hashKey ledger.HashKey
	start   time.Time

	// db is the database's clock.
	db   clock
	book *memstore.Store
	past *past
	core *core
	// aged counts the rows that were read as they were.
	aged atomic.Int64

	work    sync.WaitGroup
	callers sync.WaitGroup

	mu       sync.Mutex
	troubles []*event
	calm     bool
	struck   map[*event]bool
	places   []place
}

// place is a slot and what stands in it.
type place struct {
	now         *process
	clock       *clock
	incarnation int
}

// result is what came of a day.
type result struct {
	plan       *plan
	violations []audit.Violation
	tally      audit.Tally
	trace      *trace
	aged       int
	took       time.Duration
}

// play plays a plan.
func play(t *testing.T, p *plan) *result {
	t.Helper()
	r := &result{plan: p}
	begun := time.Now()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, p)
		w.day()
		r.violations, r.tally, r.trace, r.aged = w.audit.Violations(), w.audit.Tally(), w.trace, int(w.aged.Load())
	})
	r.took = time.Since(begun)
	return r
}

func newWorld(t *testing.T, p *plan) *world {
	// The bubble begins at nine in the morning in Seoul.
	midnight := tranid.DateOf(time.Now()).Start().Add(24 * time.Hour)
	time.Sleep(time.Until(midnight) - p.house.toMidnight)
	key, err := ledger.ParseHashKey("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, plan: p, dice: dice(p.seed).of("day"), hashKey: key, start: time.Now(), struck: map[*event]bool{},
		places: make([]place, p.house.slots()),
	}
	w.trace = &trace{start: w.start}
	w.audit = audit.New(audit.Options{KeyLife: p.house.keyLife, Now: time.Now, Doubles: true, Reasons: dayReasons, Accounts: slices.DeleteFunc(slices.Clone(accounts), func(a string) bool {
		return a == "00000000000000"
	})})
	w.book, w.past = memstore.New(w.db.now), newPast()
	w.core = newCore(w)
	for i := range p.events {
		if e := &p.events[i]; e.kind != aCall {
			w.troubles = append(w.troubles, e)
		}
	}
	for i := range w.places {
		w.places[i].clock = &clock{}
		if i < p.house.payments {
			w.places[i].clock.off.Store(int64(w.dice.of("skew").nth(i).between(-1500*time.Millisecond, 1500*time.Millisecond)))
		}
	}
	return w
}

func (w *world) elapsed() time.Duration { return time.Since(w.start) }

// run does work that the day waits for in the end.
func (w *world) run(work func()) { w.work.Go(work) }

// active is an event of a kind that goes on now, for a slot; nil if there is none.
func (w *world) active(k kind, s slot) *event {
	now := w.elapsed()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calm {
		return nil
	}
	for _, e := range w.troubles {
		if e.kind == k && e.at <= now && now < e.until && (e.slot == anywhere || s == anywhere || e.slot == s) {
			return e
		}
	}
	return nil
}

// first reports whether an event that strikes once has not struck.
func (w *world) first(e *event) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := !w.struck[e]
	w.struck[e] = true
	return first
}

// at is the process in a slot; nil while there is none.
func (w *world) at(s slot) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.places[s].now; p != nil && !p.isDead() && !p.leaving.Load() {
		return p
	}
	return nil
}

// fill starts a process in a slot that is empty.
func (w *world) fill(s slot) {
	if w.at(s) != nil {
		return
	}
	w.mu.Lock()
	w.places[s].incarnation++
	n, c := w.places[s].incarnation, w.places[s].clock
	w.mu.Unlock()
	p := newProcess(w, s, n, c)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.places[s].now = p
}

// look has the auditor look at a row.
func (w *world) look(who, why string, id tranid.ID) {
	ctx := context.Background()
	row, err := w.book.Get(ctx, id)
	if err != nil {
		return
	}
	w.past.keep(w.elapsed(), row)
	events, _ := w.book.Events(ctx, id)
	last := events[len(events)-1]
	w.trace.add(who, id, "%s: %s %s decision %q, %s", why, row.Status, row.Evidence, row.Decision, last.Detail)
	w.audit.Row(w.db.now(), row, events)
}

// open are the payments that are not final, in order.
func (w *world) open() []tranid.ID {
	var ids []tranid.ID
	for id := range w.audit.Open() {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// day plays the day from its first moment to its last.
func (w *world) day() {
	w.core.start()
	w.core.openPoor()
	for s := range w.places {
		w.fill(slot(s))
	}
	for i := range w.plan.events {
		e := &w.plan.events[i]
		if wait := e.at - w.elapsed(); wait > 0 {
			time.Sleep(wait)
		}
		w.begin(e)
	}
	if rest := w.plan.house.troubles - w.elapsed(); rest > 0 {
		time.Sleep(rest)
	}
	w.calmDown()
	w.callers.Wait()
	w.settleDown()
	if w.plan.house.reviewed {
		w.review()
	}
	w.repay()
	w.compareBooks()
	w.audit.Finish()
	for s := range w.places {
		if p := w.at(slot(s)); p != nil {
			p.kill("at the end of the day")
		}
	}
	w.core.crash()
	w.work.Wait()
}

// begin lets an event begin.
func (w *world) begin(e *event) {
	if e.kind == aCall {
		w.callers.Go(func() { w.caller(e) })
		return
	}
	w.trace.add("plan", "", "%s", e)
	switch e.kind {
	case coreDown:
		w.core.crash()
		w.later(e.until-e.at, w.core.start)
	case coreFault:
		f, err := w.core.faults.Set(e.fault)
		if err != nil {
			w.t.Fatalf("set %+v: %v", e.fault, err)
		}
		w.later(e.until-e.at, func() { w.core.faults.Clear(f.ID) })
	case crash:
		if p := w.at(e.slot); p != nil {
			p.kill("")
		}
		w.later(e.amount, func() { w.fill(e.slot) })
	case graceful:
		if p := w.at(e.slot); p != nil {
			w.run(func() { p.leave() })
		}
		w.later(e.amount, func() { w.fill(e.slot) })
	case crashInLedger:
		w.later(e.until-e.at+e.amount, func() { w.fill(e.slot) })
	case pause:
		if p := w.at(e.slot); p != nil {
			p.stop(e.until)
		}
	case clockStep:
		if e.slot == anywhere {
			w.db.off.Add(int64(e.amount))
		} else {
			w.places[e.slot].clock.off.Add(int64(e.amount))
		}
	case hints:
		w.run(func() { w.hint(e, w.pending) })
	case operator:
		w.run(func() { w.operate(e, w.pending) })
	case oldList:
		w.run(func() { w.hint(e, w.pendingBefore(e.amount)) })
		w.run(func() { w.operate(e, w.pendingBefore(e.amount)) })
	case settlementRun:
		w.settle()
	default: // it is asked after by whom it concerns
	}
}

// later does something in the time of troubles; calmDown does what is left.
func (w *world) later(d time.Duration, what func()) {
	if w.elapsed()+d >= w.plan.house.troubles {
		return
	}
	time.AfterFunc(d, what)
}

// calmDown ends all troubles: from now on everything works.
func (w *world) calmDown() {
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	w.trace.add("plan", "", "the troubles are over")
	w.core.faults.Clear("")
	w.core.start()
	for s := range w.places {
		w.fill(slot(s))
	}
}

// settleDown waits until everything is final or in review, and no longer than that
// may take (P4). A row may come when all troubles are over: a ledger that was away
// then does what it held.
func (w *world) settleDown() {
	h := &w.plan.house
	bound := h.bound()
	limits := map[tranid.ID]time.Time{}
	begun := time.Now()
	for open := w.audit.Open(); len(open) > 0 || time.Since(begun) < deadline; open = w.audit.Open() {
		for id, due := range open {
			limit, known := limits[id]
			if !known {
				limit = time.Now()
				if due = due.Add(-w.db.skew()); due.After(limit) {
					limit = due
				}
				limit = limit.Add(bound)
				limits[id] = limit
			}
			if time.Now().After(limit) {
				w.audit.Late(id, bound)
				return
			}
		}
		time.Sleep(500*time.Millisecond + 7*time.Nanosecond)
	}
}

// bound is how long a payment may stay UNKNOWN that is due, when everything works
// (P4), whatever has died meanwhile.
func (h *house) bound() time.Duration {
	bound := 2*h.sweep + 10*time.Second
	if !h.fences {
		bound += h.lateWindow
	}
	return bound
}

// openPoor gives an account little money.
func (c *core) openPoor() {
	n, err := account.Parse(poorAccount)
	if err != nil {
		c.w.t.Fatal(err)
	}
	if _, err := c.life.bank.PutAccount(n, 150_000); err != nil {
		c.w.t.Fatal(err)
	}
}
