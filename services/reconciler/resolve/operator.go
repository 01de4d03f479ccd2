package resolve

import (
	"context"
	"errors"
	"fmt"

	"github.com/gwanmun/gwanmun/pkg/frame"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Settle makes a payment that needs review SUCCESS, FAILED or CANCELED, for the
// reason that an operator gives, of which what may be an account number is hidden.
// The net cancel that it may owe is sent by the sweep. The same settlement again,
// for the same reason, returns the row as it is.
//
// Errors: ledger.ErrNotFound, ledger.ErrUnavailable, ledger.ErrLost when the row
// is not one that may be settled so, with the row; and faults of ours.
func (r *Resolver) Settle(
	ctx context.Context, id tranid.ID, to ledger.Status, reason string, by ledger.Actor,
) (ledger.Transaction, error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), ledgerTime)
	defer stop()
	change := ledger.Settlement(id, to, frame.MaskDigits(reason), by)
	after, err := r.store.Transition(ctx, change)
	var lost *ledger.LostError
	switch {
	case errors.As(err, &lost) && repeats(&change, &lost.Current):
		return lost.Current, nil
	case err != nil:
		return ledger.Transaction{}, fmt.Errorf("settle %s: %w", id, err)
	}
	r.metrics.resolved(to, ledger.MethodOperator)
	r.log.WarnContext(ctx, "transaction settled by an operator", "transaction_id", id,
		"from", ledger.StatusUnknown.String(), "to", to.String(), "actor", by.Name, "owed", after.Owed())
	return after, nil
}

// repeats reports whether t is what this settlement made of it before.
func repeats(c *ledger.Change, t *ledger.Transaction) bool {
	return t.Status == c.To && t.Evidence == ledger.EvidenceOperator && t.Reason == ledger.Text(c.Reason)
}
