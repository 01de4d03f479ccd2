package gormstore

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// unobserved is told of rows that are counted elsewhere, or are none.
var unobserved = prometheus.ObserverFunc(func(float64) {})

// inTurns has what a resolver writes together written by as many rows as one
// database transaction of its may touch where the database takes one writer at a
// time, so that payments get their turns between; elsewhere all at once.
func inTurns[Q, A any](
	d *dialect, rows prometheus.Observer, write func(context.Context, []Q) []reply[A],
) func(context.Context, []Q) []reply[A] {
	return func(ctx context.Context, batch []Q) []reply[A] {
		most := len(batch)
		if d.writers == 1 {
			most = ledger.MaxClaim
		}
		replies := make([]reply[A], 0, len(batch))
		for len(replies) < len(batch) {
			rest := batch[len(replies):]
			settled := 0
			for _, r := range write(ctx, rest[:min(most, len(rest))]) {
				if !errors.Is(r.err, errAlone) {
					settled++
				}
				replies = append(replies, r)
			}
			if settled > 0 {
				rows.Observe(float64(settled))
			}
		}
		return replies
	}
}
