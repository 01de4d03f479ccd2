package keep

import (
	"context"
	"fmt"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// retire deletes all days that may go, the oldest first, and passes over those
// that are held. Ended keys go first, since they hold their day.
func (k *Keeper) retire(ctx context.Context) error {
	if off := k.clockOff(); off >= clockStep {
		return fmt.Errorf("the clock was set by %s while the process ran: no day is retired before a restart", off.Round(time.Second))
	}
	if err := k.purge(ctx); err != nil {
		return err
	}
	o := ledger.RetireOptions{
		RetainDays: k.opts.Flags.RetainDays, Today: tranid.DateOf(k.opts.Now()), Limit: rowsPerStep,
	}
	return k.pass(ctx, func(ctx context.Context) (bool, error) {
		step, err := k.store.RetireDay(ctx, o)
		if err != nil {
			return false, fmt.Errorf("retire a business day: %w", err)
		}
		if step.Day.IsZero() {
			return false, nil
		}
		k.note(ctx, step)
		if step.Gone || step.Hold != 0 {
			o.After = step.Day
		}
		return true, nil
	})
}

// clockOff is by how much the clock on the wall was set since the keeper was made.
// A clock that jumps ahead makes every day look old.
func (k *Keeper) clockOff() time.Duration {
	return (k.opts.Now().Round(0).Sub(k.booted) - k.opts.Uptime()).Abs()
}

// note counts a step, and tells of a day once when it is gone, and once when it is
// held for another reason than before.
func (k *Keeper) note(ctx context.Context, step ledger.Retirement) {
	k.rows.Add(float64(step.Rows))
	sum := k.sums[step.Day]
	sum.Rows, sum.Events, sum.Orders = sum.Rows+step.Rows, sum.Events+step.Events, sum.Orders+step.Orders
	k.sums[step.Day] = sum
	day := step.Day.String()
	switch {
	case step.Gone:
		k.log.InfoContext(ctx, "business day retired",
			"business_date", day, "rows", sum.Rows, "events", sum.Events, "orders", sum.Orders)
		delete(k.sums, step.Day)
		delete(k.held, step.Day)
	case step.Hold != k.held[step.Day]:
		if step.Hold == ledger.HoldOpen || step.Hold == ledger.HoldOwed {
			k.log.WarnContext(ctx, "business day kept beyond its time", "business_date", day, "held_by", step.Hold.String())
		}
		k.held[step.Day] = step.Hold
	}
}
