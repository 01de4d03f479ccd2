package resolve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// minPassTime is the least time that a pass may go on claiming; it is never less
// than the interval, so that a backlog is worked on without a break.
const minPassTime = 10 * time.Second

func (r *Resolver) passTime() time.Duration { return max(r.opts.Flags.SweepInterval, minPassTime) }

// Run sweeps at once and then every interval, until ctx is done; then it lets
// the rows at hand come to an end, for at most StopGrace, gives back what it
// claimed, and returns.
func (r *Resolver) Run(ctx context.Context) {
	now := r.opts.Now()
	r.swept.Store(&now)
	var loops sync.WaitGroup
	loops.Go(func() { r.every(ctx, r.sweep) })
	loops.Go(func() { r.every(ctx, r.review) })
	loops.Go(func() { r.every(ctx, r.count) })
	loops.Wait()
}

// every calls work at once and then every sweep interval, never twice at a
// time. A panic in it costs that call alone.
func (r *Resolver) every(ctx context.Context, work func(context.Context)) {
	ticker := time.NewTicker(r.opts.Flags.SweepInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if err := guarded(func() error { work(ctx); return nil }); err != nil {
			r.logFault(ctx, "pass failed", err)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// sweep is one pass: adopt what was abandoned and resolve what is due.
func (r *Resolver) sweep(ctx context.Context) {
	until := r.opts.Now().Add(r.passTime())
	err := r.adopt(ctx, until)
	if err == nil {
		err = newPass(r, false).run(ctx, until)
	}
	if r.cutShort(ctx, err) {
		return // no heartbeat: should every pass end like this, readiness tells
	}
	now := r.opts.Now()
	r.swept.Store(&now)
	r.metrics.lastPass.Set(float64(now.Unix()))
	r.metrics.poison.Set(float64(r.poison.count()))
}

// review is one pass over one batch of the rows in review. It has workers and a
// rhythm of its own, so that those rows never hold up the others, nor are
// forgotten for them.
func (r *Resolver) review(ctx context.Context) {
	r.cutShort(ctx, newPass(r, true).run(ctx, r.opts.Now().Add(r.passTime())))
}

// cutShort tells why a pass ended early, if it did, and whether by a panic.
func (r *Resolver) cutShort(ctx context.Context, err error) (panicked bool) {
	switch {
	case errors.As(err, new(*PanicError)):
		r.logFault(ctx, "sweep failed", err)
		return true
	case err != nil && ctx.Err() == nil:
		r.log.WarnContext(ctx, "sweep cut short", "error", err)
	}
	return false
}

// adopt takes over rows whose exchange never ended.
func (r *Resolver) adopt(ctx context.Context, until time.Time) error {
	for r.opts.Now().Before(until) && ctx.Err() == nil {
		n, err := r.adoptBatch(ctx)
		if err != nil {
			return fmt.Errorf("adopt abandoned transactions: %w", err)
		}
		if n > 0 {
			r.log.InfoContext(ctx, "abandoned transactions adopted", "count", n)
		}
		if n < ledger.MaxClaim {
			return nil
		}
	}
	return nil
}

func (r *Resolver) adoptBatch(ctx context.Context) (int, error) {
	ctx, stop := context.WithTimeout(ctx, ledgerTime)
	defer stop()
	return r.store.Adopt(ctx, ledger.MaxClaim, r.sweeper())
}
