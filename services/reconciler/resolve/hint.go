package resolve

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

const (
	// hintRest is how long after a hint the next about the same row counts.
	hintRest = 5 * time.Second
	// hintRate is how many hints a second are looked into, on average; the rest is
	// dropped, since the sweep finds what is due without them.
	hintRate = 500
	// hintBacklog is how many wait to be looked into.
	hintBacklog = 1024
	// hintReadTime bounds the look at the ledger.
	hintReadTime = time.Second
)

// What becomes of a hint.
const (
	hintTaken    = "taken"    // the core is asked at once, by this process
	hintHastened = "hastened" // this process is busy: the row is due, to whoever sweeps
	hintRepeated = "repeated" // the row was hinted at a moment ago
	hintIdle     = "idle"     // no such row, or one that is not UNKNOWN
	hintDropped  = "dropped"  // too many at a time, or the ledger did not answer
)

var hintResults = []string{hintTaken, hintHastened, hintRepeated, hintIdle, hintDropped}

// hints hurries rows that the core has something to tell of. A hint is never
// evidence: the inquiry is. It spends no attempt, and writes nothing about a row
// that is not UNKNOWN; one that nobody knows costs a read.
type hints struct {
	r    *Resolver
	lane *lane
	// waiting are looked into one by one, ready are asked about by the workers.
	waiting, ready chan tranid.ID

	mu sync.Mutex
	// tokens are what may still be looked into now; they come back with time.
	tokens float64
	filled time.Time
	// rested are the rows that hints counted for lately, the oldest first; what
	// comes in is bounded by hintRate, and so are they.
	rested  []rested
	resting map[tranid.ID]struct{}
}

type rested struct {
	id    tranid.ID
	until time.Time
}

func newHints(r *Resolver) *hints {
	return &hints{
		r: r, lane: hintLane(r.opts.Flags.Lease),
		waiting: make(chan tranid.ID, hintBacklog), ready: make(chan tranid.ID),
		tokens: hintRate, resting: map[tranid.ID]struct{}{},
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
	if result := r.hints.admit(id, r.opts.Now()); result != "" {
		r.hints.became(result)
		return
	}
	select {
	case r.hints.waiting <- id:
	default:
		r.hints.became(hintDropped)
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
	if !h.filled.IsZero() {
		h.tokens = min(hintRate, h.tokens+hintRate*max(0, now.Sub(h.filled).Seconds()))
	}
	h.filled = now
	if h.tokens < 1 {
		return hintDropped
	}
	h.tokens--
	return ""
}

// counts reports whether a hint about a row counts, and notes that it did.
func (h *hints) counts(id tranid.ID, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget(now)
	if _, again := h.resting[id]; again {
		return false
	}
	h.resting[id] = struct{}{}
	h.rested = append(h.rested, rested{id, now.Add(hintRest)})
	return true
}

// forget lets the rows count again whose rest is over. The caller holds mu.
func (h *hints) forget(now time.Time) {
	over := 0
	for over < len(h.rested) && !h.rested[over].until.After(now) {
		delete(h.resting, h.rested[over].id)
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
	defer crew.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-h.waiting:
			result := hintDropped
			if err := guarded(func() error { result = h.look(ctx, id); return nil }); err != nil {
				h.r.logFault(ctx, "hint not looked into", err, "transaction_id", id)
			}
			h.became(result)
		}
	}
}

// look finds out whether there is anything to hurry, and hurries it: by a worker
// that is free, or else by making it due to whoever sweeps next.
func (h *hints) look(ctx context.Context, id tranid.ID) string {
	ctx, stop := context.WithTimeout(ctx, hintReadTime)
	defer stop()
	t, err := h.r.store.Get(ctx, id)
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
	case h.ready <- id:
		return hintTaken
	default:
	}
	if _, err := h.r.store.Hasten(ctx, id); err != nil {
		return hintDropped
	}
	return hintHastened
}

// work asks about rows, one after the other, each from when there is a place for it
// at the core.
func (h *hints) work(ctx, rows context.Context) {
	by := ledger.Actor{Name: ledger.ActorCallback, Instance: h.r.opts.Instance}
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-h.ready:
			if err := guarded(func() error { return h.follow(rows, id, by) }); err != nil && rows.Err() == nil {
				h.r.log.WarnContext(rows, "hint not followed", "transaction_id", id, "error", err)
			}
		}
	}
}

func (h *hints) follow(ctx context.Context, id tranid.ID, by ledger.Actor) error {
	if err := h.lane.inquiries.enter(ctx); err != nil {
		return err
	}
	turn := h.lane.turn()
	defer turn.leave()
	_, err := h.r.resolveInTurn(ctx, turn, id, by)
	return err
}
