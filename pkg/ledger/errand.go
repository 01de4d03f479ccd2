package ledger

import (
	"context"
	"time"

	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Repayment ends the claim of a row whose net cancel was owed, with what the core
// answered.
type Repayment struct {
	ID    tranid.ID
	Token string
	// Evidence and Detail are what the core said, for the history.
	Evidence Evidence
	Detail   string
	// Undone is true when the core canceled a debit: it had done what an operator
	// said was not done, where that is what he said.
	Undone bool
	By     Actor
}

// Difference is what both books differ in, should the core have done what the
// ledger calls FAILED, which it has undone since; false if they do not.
func (r *Repayment) Difference(t *Transaction) (Difference, bool) {
	if !r.Undone || t.Status != StatusFailed {
		return Difference{}, false
	}
	return Difference{
		ID: t.ID, Class: ClassMismatch, LedgerStatus: t.Status, LedgerAmount: t.Amount,
		CoreState: CoreCanceled, CoreAmount: t.Amount,
	}, true
}

// Event is the entry that goes with the repayment of t.
func (r *Repayment) Event(t *Transaction, now time.Time) Event {
	return NewEvent(t.Status, t.Status, r.Evidence, now, r.By, r.Detail)
}

// Errands are what a resolver does besides its queue.
type Errands interface {
	// Repay ends the claim of a row that is owed a net cancel: it is owed no more.
	// It appends an event and, where the core has undone what the ledger calls
	// FAILED, stores an open discrepancy that no run has found, all in one database
	// transaction. A *LostError when the row is not owed one, or when the lease is
	// another's.
	Repay(ctx context.Context, r Repayment) (Transaction, error)

	// Hasten makes a row that is UNKNOWN due now, if it would be later, and reports
	// whether it did. It spends nothing, and changes no other row: one that is
	// REQUESTED least of all, nor one that is never due.
	Hasten(ctx context.Context, id tranid.ID) (bool, error)
}
