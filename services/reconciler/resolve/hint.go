package resolve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

const (
	// hintRest is how long after a hint the next about the same row counts.
	hintRest = 5 * time.Second
	// hintRate is how many hints a second about nothing are looked into, on average;
	// the rest is dropped, since the sweep finds what is due without them.
	hintRate = 500
	// hintBacklog is how many wait to be looked into, and how many may come at once.
	hintBacklog = 4096
	// hintLookers is how many are looked into at a time.
	hintLookers = 8
	// hintRests is how many rows rest at most.
	hintRests = 1 << 16
	// hintLedgerTime bounds the look at the ledger, and again what is stored there.
	hintLedgerTime = time.Second
	// hintPatience is how long a row waits for a place of the hints' at the core,
	// before it is left to its own lane.
	hintPatience = 100 * time.Millisecond
	// hintRhythm is how often lanes are woken at most: what is hastened together is
	// claimed together.
	hintRhythm = 50 * time.Millisecond
	// hintRetry is how soon a lane tries again that finds no way to the core, and
	// hintHurry for how long after rows were hastened: the core is there, since it
	// calls, but its circuit may be open yet.
	hintRetry = time.Second
	hintHurry = 15 * time.Second
)

// What becomes of a hint.
const (
	hintTaken    = "taken"    // the core is asked at once, by this process
	hintHastened = "hastened" // this process is busy: the row is due, and its lane woken
	hintRepeated = "repeated" // the row was hinted at a moment ago
	hintIdle     = "idle"     // no such row, or one that is not UNKNOWN
	hintDropped  = "dropped"  // too many at a time, or the ledger did not answer
)

var hintResults = []string{hintTaken, hintHastened, hintRepeated, hintIdle, hintDropped}

// hints hurries rows that the core has something to tell of. A hint is never
// evidence: the inquiry is. It spends no attempt, and writes nothing about a row
// that is not UNKNOWN; one that nobody knows costs a read. A few rows are asked about
// in a lane of the hints' own; where there are more, they are made due and their lanes
// woken, which take them beside what is due by itself.
type hints struct {
	r    *Resolver
	lane *lane
	// waiting are looked into, ready are asked about by the workers.
	waiting chan tranid.ID
	ready   chan *ledger.Transaction
	// stirred has a token when lanes are to be woken.
	stirred chan struct{}

	mu sync.Mutex
	// pending are the rows that wait to be looked into.
	pending map[tranid.ID]struct{}
	// tokens are what may still be looked into now; they come back with time, and
	// from hints that were worth their look.
	tokens float64
	filled time.Time
	// rested are the rows that hints counted for lately, the oldest first.
	rested  []rested
	resting map[tranid.ID]*rest
}

type rested struct {
	id tranid.ID
	*rest
}

// rest is what is remembered of a row that was hinted at.
type rest struct {
	until time.Time
	// hastened is when the row was left to its lane; zero if it was not.
	hastened time.Time
	// due is when the row would have been, by the database's clock, until a pass has
	// it; zero if it was due anyway.
	due time.Time
}

func newHints(r *Resolver) *hints {
	return &hints{
		r: r, lane: hintLane(r.opts.Flags.Lease),
		waiting: make(chan tranid.ID, hintBacklog), ready: make(chan *ledger.Transaction),
		stirred: make(chan struct{}, 1), pending: map[tranid.ID]struct{}{},
		tokens: hintBacklog, resting: map[tranid.ID]*rest{},
	}
}

// Hint takes a hint that the core has come to the end of a transaction. It waits
// for nothing, and says nothing of whether there is such a transaction. Whatever
// is no ID is none of ours.
func (r *Resolver) Hint(text string) {
	id, err := tranid.Parse(text)
	if err != nil {
		r.hints.became(hintIdle)
		return
	}
	r.hints.take(id)
}

// take has a row looked into, unless there is no reason or no room.
func (h *hints) take(id tranid.ID) {
	if result := h.admit(id, h.r.opts.Now()); result != "" {
		h.became(result)
		return
	}
	select {
	case h.waiting <- id:
	default:
		h.begun(id)
		h.became(hintDropped)
	}
}

func (h *hints) became(result string) { h.r.metrics.hints.WithLabelValues(result).Inc() }

// admit reports why a hint is not looked into; empty if it is.
func (h *hints) admit(id tranid.ID, now time.Time) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget(now)
	if _, again := h.resting[id]; again {
		return hintRepeated
	}
	if _, waits := h.pending[id]; waits {
		return hintRepeated
	}
	if !h.filled.IsZero() {
		h.tokens = min(hintBacklog, h.tokens+hintRate*max(0, now.Sub(h.filled).Seconds()))
	}
	h.filled = now
	if h.tokens < 1 {
		return hintDropped
	}
	h.tokens--
	h.pending[id] = struct{}{}
	return ""
}

// begun notes that a row waits no more: a hint that comes now may tell of what the
// look does not see yet.
func (h *hints) begun(id tranid.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.pending, id)
}

// counts reports whether a hint about a row counts, and notes that it did. Such a hint
// has its token back: the ledger bounds how many there are.
func (h *hints) counts(id tranid.ID, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget(now)
	if _, again := h.resting[id]; again {
		return false
	}
	if len(h.resting) >= hintRests {
		return false
	}
	h.tokens++
	h.resting[id] = &rest{until: now.Add(hintRest)}
	h.rested = append(h.rested, rested{id, h.resting[id]})
	return true
}

// forget lets the rows count again whose rest is over. The caller holds mu.
func (h *hints) forget(now time.Time) {
	over := 0
	for over < len(h.rested) && !h.rested[over].until.After(now) {
		if r := h.rested[over]; h.resting[r.id] == r.rest {
			delete(h.resting, r.id)
		}
		over++
	}
	h.rested = h.rested[over:]
}

// run looks into hints until ctx is done. Rows that are begun come to an end.
func (h *hints) run(ctx context.Context) {
	rows, stop := outlive(ctx, h.r.opts.StopGrace)
	defer stop()
	var crew sync.WaitGroup
	for range h.lane.hand.least {
		crew.Go(func() { h.work(ctx, rows) })
	}
	for range hintLookers {
		crew.Go(func() { h.lookAll(ctx) })
	}
	crew.Go(func() { h.wakeAll(ctx) })
	crew.Wait()
}

// lookAll looks into hints, one after the other.
func (h *hints) lookAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-h.waiting:
			h.begun(id)
			result := hintDropped
			if err := guarded(func() error { result = h.look(ctx, id); return nil }); err != nil {
				h.r.logFault(ctx, "hint not looked into", err, "transaction_id", id)
			}
			h.became(result)
		}
	}
}

// look finds out whether there is anything to hurry, and hurries it: by a worker
// that is free, or else by making it due to its lane.
func (h *hints) look(ctx context.Context, id tranid.ID) string {
	limited, stop := context.WithTimeout(ctx, hintLedgerTime)
	defer stop()
	t, err := h.r.store.Get(limited, id)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return hintIdle
	case err != nil:
		return hintDropped
	case t.Status != ledger.StatusUnknown || t.OperatorOnly():
		return hintIdle
	case !h.counts(id, h.r.opts.Now()):
		return hintRepeated
	}
	select {
	case h.ready <- &t:
		return hintTaken
	default:
	}
	if err := h.hasten(ctx, &t); err != nil {
		return hintDropped
	}
	return hintHastened
}

// hasten makes a row due to whoever sweeps next, and that is soon. Whoever sweeps in
// this process spends nothing on it, and asks again if he has asked before. Should the
// ledger refuse, the next hint about the row counts.
func (h *hints) hasten(ctx context.Context, t *ledger.Transaction) error {
	ctx, stop := context.WithTimeout(ctx, hintLedgerTime)
	defer stop()
	now := h.r.opts.Now()
	due := t.NextResolveAt
	if !due.After(now) {
		due = time.Time{}
	}
	h.note(t.ID, func(r *rest) { r.hastened, r.due = now, due })
	made, err := h.r.store.Hasten(ctx, t.ID)
	if err != nil {
		h.again(t.ID)
		return fmt.Errorf("hasten %s: %w", t.ID, err)
	}
	if !made {
		h.note(t.ID, func(r *rest) { r.due = time.Time{} })
	}
	h.stir(h.r.laneOf(t))
	asked := *t // as it may be by now
	asked.Asked = true
	h.stir(h.r.laneOf(&asked))
	return nil
}

// note changes what is remembered of a row, if it rests.
func (h *hints) note(id tranid.ID, change func(*rest)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.resting[id]; r != nil {
		change(r)
	}
}

// again lets the next hint about a row count.
func (h *hints) again(id tranid.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.resting, id)
}

// dueBefore is when a row would have been due that a hint has made due; the zero time
// if none has, or another pass has had the row since.
func (h *hints) dueBefore(id tranid.ID) (due time.Time) {
	h.note(id, func(r *rest) { due, r.due = r.due, time.Time{} })
	return due
}

// outdated reports whether a row was left to its lane after it was asked about: what
// the core has said may be from before what it hints at. The row is to be asked about
// again, in place of when it would be due.
func (h *hints) outdated(id tranid.ID, asked, due time.Time) (again bool) {
	h.note(id, func(r *rest) {
		if again = r.hastened.After(asked); again {
			r.due = due
		}
	})
	return again
}

// stir has a lane woken.
func (h *hints) stir(l *lane) {
	l.wanted.Store(true)
	select {
	case h.stirred <- struct{}{}:
	default:
	}
}

// wakeAll wakes the lanes that are wanted, in a rhythm, until ctx is done. One whose
// pass has claimed meanwhile is not wanted any more.
func (h *hints) wakeAll(ctx context.Context) {
	rhythm := time.NewTicker(hintRhythm)
	defer rhythm.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.stirred:
		}
		for _, l := range h.r.lanes {
			if l.wanted.Load() {
				l.wake()
			}
		}
		rhythm.Reset(hintRhythm)
		select {
		case <-ctx.Done():
			return
		case <-rhythm.C:
		}
	}
}

// work asks about rows, one after the other, each from when there is a place for it
// at the core.
func (h *hints) work(ctx, rows context.Context) {
	by := ledger.Actor{Name: ledger.ActorCallback, Instance: h.r.opts.Instance}
	for {
		select {
		case <-ctx.Done():
			return
		case t := <-h.ready:
			if err := guarded(func() error { return h.follow(rows, t, by) }); err != nil && rows.Err() == nil {
				h.r.log.WarnContext(rows, "hint not followed", "transaction_id", t.ID, "error", err)
			}
		}
	}
}

// follow asks about a row, unless what is ahead of it takes long: then it is hastened
// like those that came to no worker, and so is one about which nothing could be sent.
func (h *hints) follow(ctx context.Context, t *ledger.Transaction, by ledger.Actor) error {
	waiting, stop := context.WithTimeout(ctx, hintPatience)
	defer stop()
	if h.lane.inquiries.enter(waiting) != nil {
		return h.hastenAsItIs(ctx, t.ID)
	}
	turn := h.lane.turn()
	defer turn.leave()
	report, err := h.r.resolveInTurn(ctx, turn, t.ID, by)
	if err == nil && report.unsent {
		return h.hasten(ctx, &report.Transaction)
	}
	return err
}

// hastenAsItIs is hasten of a row that may have changed since it was looked at.
func (h *hints) hastenAsItIs(ctx context.Context, id tranid.ID) error {
	limited, stop := context.WithTimeout(ctx, hintLedgerTime)
	defer stop()
	t, err := h.r.store.Get(limited, id)
	if err != nil {
		return fmt.Errorf("look at %s: %w", id, err)
	}
	return h.hasten(ctx, &t)
}
