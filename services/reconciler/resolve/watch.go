package resolve

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// missedPasses is how many intervals without a finished pass make the resolver
// not ready.
const missedPasses = 3

// Ready reports why the resolver should not be relied on: the ledger cannot be
// written, or the sweep has stood still.
func (r *Resolver) Ready(ctx context.Context) error {
	if err := r.store.Ping(ctx); err != nil {
		return fmt.Errorf("ping the ledger: %w", err)
	}
	slowest, last := r.oldestBeat()
	if slowest == nil {
		return errors.New("the sweep has not begun")
	}
	limit := missedPasses*r.opts.Flags.SweepInterval + r.passTime() + 2*r.rowTime()
	if age := r.opts.Now().Sub(last); age > limit {
		return fmt.Errorf("the last sweep of the %s rows ended %s ago", slowest.name, age.Round(time.Second))
	}
	return nil
}

// count sets the gauges of the book that an operator watches.
func (r *Resolver) count(ctx context.Context) {
	limited, stop := context.WithTimeout(ctx, ledgerTime)
	defer stop()
	backlog, err := r.store.Backlog(limited)
	switch {
	case err == nil:
		r.metrics.counted(&backlog, r.opts.Now())
	case ctx.Err() == nil:
		r.log.WarnContext(ctx, "transactions not counted", "error", err)
	}
}
