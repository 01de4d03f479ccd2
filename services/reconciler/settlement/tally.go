package settlement

import (
	"context"
	"sync"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

const (
	// lease is how long a run counts as alive without a word from it.
	lease = 30 * time.Second
	// beat is how often it gives one, and so how old its counts are at most.
	beat = 2 * time.Second
)

// tally counts what a run finds, and stores it. It is safe for concurrent use.
type tally struct {
	store    Store
	run      ledger.RunID
	patience patience
	// saving has one place: of two that store, the later stores the later counts.
	saving chan struct{}

	mu     sync.Mutex
	counts ledger.SettlementCounts
}

func newTally(store Store, run ledger.RunID, p patience) *tally {
	return &tally{store: store, run: run, patience: p, saving: make(chan struct{}, 1)}
}

func (t *tally) add(f func(c *ledger.SettlementCounts)) ledger.SettlementCounts {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.counts)
	return t.counts
}

func (t *tally) now() ledger.SettlementCounts { return t.add(func(*ledger.SettlementCounts) {}) }

func (t *tally) match() { t.add(func(c *ledger.SettlementCounts) { c.Match++ }) }

func (t *tally) read(n int) { t.add(func(c *ledger.SettlementCounts) { c.Records += int64(n) }) }

func (t *tally) unreadable() int64 {
	return t.add(func(c *ledger.SettlementCounts) { c.Unreadable++ }).Unreadable
}

func (t *tally) differs(class ledger.DiscrepancyClass) {
	t.add(func(c *ledger.SettlementCounts) { c.Add(class) })
}

// save stores the counts, what was found and what is equal, and keeps the run
// alive. It returns what was opened by that.
func (t *tally) save(ctx context.Context, found []ledger.Difference, equal []tranid.ID) (opened []tranid.ID, err error) {
	select {
	case t.saving <- struct{}{}:
		defer func() { <-t.saving }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	err = t.patience.try(ctx, func(ctx context.Context) (err error) {
		opened, err = t.store.SaveSettlement(ctx, ledger.SettlementProgress{
			Run: t.run, Counts: t.now(), Lease: lease, Found: found, Equal: equal,
		})
		return err
	})
	return opened, err
}

// keepAlive stores the counts every beat until ctx ends. It returns early when the
// run is over for the ledger. A ledger that is away may come back in time.
func (t *tally) keepAlive(ctx context.Context) error {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if _, err := t.save(ctx, nil, nil); isVerdict(err) {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}
