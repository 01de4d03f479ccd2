package resolve

import (
	"context"
	"sync/atomic"
	"time"
)

// begun counts the rows of a pass that are with workers, and tells when one has come
// to its end.
type begun struct {
	rows atomic.Int32
	left chan struct{}
}

func newBegun() begun { return begun{left: make(chan struct{}, 1)} }

func (b *begun) enter() { b.rows.Add(1) }

func (b *begun) leave() {
	b.rows.Add(-1)
	select {
	case b.left <- struct{}{}:
	default:
	}
}

// lingers waits while rows are with workers, and reports whether something was hastened
// meanwhile: a row that the core is slow about keeps no hint waiting. When it reports
// false, there is nothing left to wait for, or no point in it.
func (p *pass) lingers(ctx context.Context, until time.Time) bool {
	for p.begun.rows.Load() > 0 && p.goesOn(ctx, until) {
		select {
		case <-p.lane.nudged:
			return true
		case <-p.begun.left:
		case <-p.over:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return false
}

// isOver reports whether a time is over: a worker who is free as well is no reason to
// begin a row whose lease is old already.
func isOver(c <-chan time.Time) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
