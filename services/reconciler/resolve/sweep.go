package resolve

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// minPassTime is the least time that a pass may go on claiming; it is never less
// than the interval, so that a backlog is worked on without a break.
const minPassTime = 10 * time.Second

func (r *Resolver) passTime() time.Duration { return max(r.opts.Flags.SweepInterval, minPassTime) }

// ledgerRetry is how soon after a pass that the ledger has cut short there is another.
const ledgerRetry = time.Second

// outagePasses is how many passes there are in an interval while there is no way
// to the core: one may be there for a moment only, as when a circuit is tried.
const outagePasses = 5

// Run sweeps at once and then every interval, each lane by itself, until ctx is
// done; then it lets the rows at hand come to an end, for at most StopGrace, gives
// back what it claimed, and returns.
func (r *Resolver) Run(ctx context.Context) {
	for _, l := range r.lanes {
		l.beats(r.opts.Now())
	}
	var loops sync.WaitGroup
	for _, l := range r.lanes {
		loops.Go(func() { r.every(ctx, l.nudged, func(ctx context.Context) time.Duration { return r.sweep(ctx, l) }) })
	}
	loops.Go(func() { r.every(ctx, nil, func(ctx context.Context) time.Duration { r.count(ctx); return 0 }) })
	loops.Go(func() { r.hints.run(ctx) })
	loops.Wait()
}

// every calls work at once and then every sweep interval, never twice at a
// time, and sooner when it is nudged or wants that, which is when it returns how soon.
// A panic in it costs that call alone.
func (r *Resolver) every(ctx context.Context, nudged <-chan struct{}, work func(context.Context) (soon time.Duration)) {
	ticker := time.NewTicker(r.opts.Flags.SweepInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		soon := time.Duration(0)
		if err := guarded(func() error { soon = work(ctx); return nil }); err != nil {
			r.logFault(ctx, "pass failed", err)
		}
		var sooner <-chan time.Time
		if soon > 0 {
			sooner = time.After(soon)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-sooner:
		case <-nudged:
		}
	}
}

// sweep is one pass along a lane. It returns how soon there is to be another, 0 if that
// is in an interval.
func (r *Resolver) sweep(ctx context.Context, l *lane) (soon time.Duration) {
	p := newPass(r, l)
	err := p.run(ctx, r.opts.Now().Add(r.passTime()))
	now := r.opts.Now()
	switch {
	case errors.As(err, new(*PanicError)):
		r.logFault(ctx, "sweep failed", err, "lane", l.name)
		return 0 // no heartbeat: should every pass end like this, readiness tells
	case err != nil && ctx.Err() == nil && r.mayTell(&l.told):
		r.log.WarnContext(ctx, "sweep cut short", "lane", l.name, "error", err)
	}
	l.beats(now)
	if _, oldest := r.oldestBeat(); !oldest.IsZero() {
		r.metrics.lastPass.Set(float64(oldest.Unix()))
	}
	r.metrics.poison.Set(float64(r.poison.count()))
	switch {
	case errors.Is(err, ledger.ErrUnavailable): // rows that are due were not had
		return min(ledgerRetry, r.opts.Flags.SweepInterval)
	case !p.noWay:
		return 0
	case now.Before(l.hurried):
		return min(hintRetry, r.opts.Flags.SweepInterval/outagePasses)
	default:
		return r.opts.Flags.SweepInterval / outagePasses
	}
}

// mayTell reports whether something was last told an interval ago, and notes that it
// is told now. Passes may follow each other sooner.
func (r *Resolver) mayTell(last *time.Time) bool {
	now := r.opts.Now()
	if now.Sub(*last) < r.opts.Flags.SweepInterval {
		return false
	}
	*last = now
	return true
}

// adopt takes over a batch of rows whose exchange never ended, and reports whether
// there may be more. Should it fail, what is due is resolved all the same.
func (r *Resolver) adopt(ctx context.Context, l *lane) (more bool) {
	limited, stop := context.WithTimeout(ctx, ledgerTime)
	defer stop()
	n, err := r.store.Adopt(limited, ledger.MaxClaim, r.sweeper())
	switch {
	case err != nil && ctx.Err() == nil && r.mayTell(&l.toldOfAdoption):
		r.log.WarnContext(ctx, "abandoned transactions not adopted", "error", err)
	case n > 0:
		r.log.InfoContext(ctx, "abandoned transactions adopted", "count", n)
	}
	return err == nil && n == ledger.MaxClaim
}
