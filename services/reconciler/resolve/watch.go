package resolve

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// missedPasses is how many intervals without a finished pass make the
	// resolver not ready.
	missedPasses = 3
	// summaryShare bounds what counting may cost: one part in so many.
	summaryShare = 20
)

// Ready reports why the resolver should not be relied on: the ledger cannot be
// written, or the sweep has stood still.
func (r *Resolver) Ready(ctx context.Context) error {
	if err := r.store.Ping(ctx); err != nil {
		return fmt.Errorf("ping the ledger: %w", err)
	}
	last := r.swept.Load()
	if last == nil {
		return errors.New("the sweep has not begun")
	}
	limit := missedPasses*r.opts.Flags.SweepInterval + r.passTime() + 2*r.rowTime()
	if age := r.opts.Now().Sub(*last); age > limit {
		return fmt.Errorf("the last sweep ended %s ago", age.Round(time.Second))
	}
	return nil
}

// gauges keep the numbers of the book that an operator watches.
type gauges struct {
	r *Resolver
	// notBefore is when counting is affordable again.
	notBefore time.Time
}

// refresh counts, unless it did so lately: in a large book counting is slow.
func (g *gauges) refresh(ctx context.Context) {
	r := g.r
	start := r.opts.Now()
	if start.Before(g.notBefore) {
		return
	}
	limited, stop := context.WithTimeout(ctx, ledgerTime)
	defer stop()
	sum, err := r.store.Summarize(limited, "", time.Time{}, time.Time{})
	now := r.opts.Now()
	g.notBefore = now.Add(summaryShare * now.Sub(start))
	switch {
	case err == nil:
		r.metrics.summarized(&sum, now)
	case ctx.Err() == nil:
		r.log.WarnContext(ctx, "transactions not counted", "error", err)
	}
}
