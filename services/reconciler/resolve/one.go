package resolve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Report is what an attempt did and where it led.
type Report struct {
	// Before is the status that was found.
	Before ledger.Status
	// Transaction is the row afterwards, by whomever it was changed.
	Transaction ledger.Transaction
	// Steps are what was done, in order; empty when there was nothing to do.
	Steps []Step
	// unsent: something was to be, and there was no way to the core.
	unsent bool
}

// ResolveOne makes one attempt at one transaction now, due or not, as a sweep
// would, for whoever by names: of a final one, that is to send the net cancel that
// is owed, if one is. It is no error that the transaction stays
// UNKNOWN, was final before, or becomes final by another meanwhile. A caller
// that leaves does not stop what has begun; it ends within the time of one row
// and a few ledger calls.
//
// Errors: ledger.ErrNotFound, ledger.ErrUnavailable, and faults of ours.
func (r *Resolver) ResolveOne(ctx context.Context, id tranid.ID, by ledger.Actor) (Report, error) {
	return r.resolveOne(context.WithoutCancel(ctx), id, by)
}

// ResolveWhile is ResolveOne for work that this process does for itself: once ctx
// has ended, it goes on for StopGrace at most.
func (r *Resolver) ResolveWhile(ctx context.Context, id tranid.ID, by ledger.Actor) (Report, error) {
	ctx, stop := outlive(ctx, r.opts.StopGrace)
	defer stop()
	return r.resolveOne(ctx, id, by)
}

func (r *Resolver) resolveOne(ctx context.Context, id tranid.ID, by ledger.Actor) (Report, error) {
	return r.resolveInTurn(ctx, r.operator.turn(), id, by)
}

// resolveInTurn is resolveOne by whoever has a turn.
func (r *Resolver) resolveInTurn(ctx context.Context, t turn, id tranid.ID, by ledger.Actor) (Report, error) {
	ctx, stop := context.WithTimeout(ctx, r.rowTime()+ledgerTime)
	defer stop()
	claim, err := r.store.ClaimOne(ctx, id, r.opts.Flags.Lease, by)
	if err != nil {
		return Report{}, fmt.Errorf("claim %s: %w", id, err)
	}
	report := Report{Before: claim.Transaction.Status, Transaction: claim.Transaction}
	switch {
	case claim.Err != nil:
		r.poison.add(id)
		r.giveBack(ctx, claim.Token)
		return Report{}, fmt.Errorf("read %s: %w", id, claim.Err)
	case claim.Transaction.Status.Final() && !claim.Transaction.Owed():
		return report, nil
	case claim.Transaction.Status == ledger.StatusRequested:
		report.Steps = []Step{{Outcome: inFlight(&claim.Transaction)}}
		return report, nil
	}
	a, err := r.attempt(ctx, t, claim, by)
	if err != nil {
		r.giveBack(ctx, claim.Token)
		if !errors.Is(err, ledger.ErrUnavailable) {
			r.poison.add(id)
		}
		return Report{}, r.faultOf(ctx, id, err)
	}
	if a.row.OperatorOnly() || a.reply == replyUnsent {
		r.giveBack(ctx, claim.Token)
	}
	report.Steps, report.unsent = a.steps, a.reply == replyUnsent
	// Another may have been at the same row: what counts is what the book says.
	if report.Transaction, err = r.store.Get(ctx, id); err != nil {
		return Report{}, fmt.Errorf("read %s again: %w", id, err)
	}
	return report, nil
}

// faultOf logs a panic, whose stack its error does not show, and passes on the
// rest.
func (r *Resolver) faultOf(ctx context.Context, id tranid.ID, err error) error {
	var panicked *PanicError
	if errors.As(err, &panicked) {
		r.logFault(ctx, "transaction not resolved", err, "transaction_id", id)
	}
	return fmt.Errorf("resolve %s: %w", id, err)
}

// giveBack ends a claim that did not come to an end. Should it fail, the lease
// runs out by itself.
func (r *Resolver) giveBack(ctx context.Context, token string) {
	if token == "" {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer stop()
	if err := r.store.Release(ctx, token); err != nil {
		r.log.WarnContext(ctx, "claim not released", "error", err)
	}
}

// inFlight is said of a row whose exchange has not ended, as far as is known.
func inFlight(t *ledger.Transaction) string {
	return "still in flight: the exchange may not have ended; to be taken over after " +
		t.AdoptAt.UTC().Format(time.RFC3339)
}
