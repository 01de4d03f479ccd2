package payment

import (
	"context"
	"fmt"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

const (
	// waiterMargin is how long before its caller's deadline a waiting call
	// gives up, so that the answer still arrives.
	waiterMargin = 100 * time.Millisecond
	// doubtRetry is what is told to wait whose answer depends on a payment that
	// is under way or in doubt.
	doubtRetry = time.Second
)

// reply is what a caller is told of a payment as it stands.
func reply(t ledger.Transaction, replayed bool) (Reply, error) {
	if t.Status == ledger.StatusSuccess {
		return Reply{Transaction: t, Replayed: replayed}, nil
	}
	return Reply{}, refusalBy(t, replayed)
}

// refusalBy is the refusal that a payment's state is. It stands apart because
// what it keeps the address of would else be allocated for every success, too.
func refusalBy(t ledger.Transaction, replayed bool) error {
	refusal := &ledger.Refusal{Reason: reasonFor(&t), Transaction: &t, Replayed: replayed}
	if refusal.Reason == ledger.ReasonInProgress {
		refusal.RetryAfter = doubtRetry
	}
	return refusal
}

// reasonFor names why a payment is not a success. What it does not know is in
// doubt.
func reasonFor(t *ledger.Transaction) ledger.Reason {
	switch {
	case t.Status == ledger.StatusRequested:
		return ledger.ReasonInProgress
	case t.Status == ledger.StatusCanceled:
		return ledger.ReasonPaymentCanceled
	case t.Status != ledger.StatusFailed:
		return ledger.ReasonOutcomeUnknown
	case t.Evidence == ledger.EvidenceNotSent:
		return refusalOfUnsent(t)
	case t.Evidence != ledger.EvidenceAnswered:
		return ledger.ReasonNotExecuted
	case t.Answer.Code == codeNoAccount:
		return ledger.ReasonAccountNotFound
	default:
		return ledger.ReasonDeclined
	}
}

// await waits for the call that holds the key to end: in this process, or in
// another one. It returns the row as it stands when that call has ended, or when
// this one can wait no longer.
func (s *Service) await(ctx context.Context, t ledger.Transaction, arrived time.Time) (ledger.Transaction, error) {
	if t.Status != ledger.StatusRequested {
		return t, nil
	}
	now := s.Now()
	left := arrived.Add(s.Flags.Deadline).Sub(now)
	if deadline, ok := ctx.Deadline(); ok {
		left = min(left, deadline.Add(-waiterMargin).Sub(now))
	}
	if left <= 0 {
		return t, nil
	}
	f := s.follow(ctx, &t)
	defer s.unfollow(t.ID, f)
	timer := time.NewTimer(left)
	defer timer.Stop()
	for {
		row, changed, err := f.state()
		switch {
		case err != nil:
			return t, ledgerError(err)
		case row.Status != ledger.StatusRequested:
			return row, nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return row, nil
		case <-ctx.Done():
			return t, fmt.Errorf("wait for the first call: %w", ctx.Err())
		}
	}
}

// Get returns a client's own payment by its transaction ID.
func (s *Service) Get(ctx context.Context, client ledger.ClientID, id tranid.ID) (ledger.Transaction, error) {
	t, err := s.Store.Get(ctx, id)
	if err != nil {
		return ledger.Transaction{}, readError(err)
	}
	if t.Client != client || t.Kind != ledger.KindPayment {
		return ledger.Transaction{}, readError(ledger.ErrNotFound)
	}
	return t, nil
}

// GetByKey returns a client's own payment by the key it was created with.
func (s *Service) GetByKey(ctx context.Context, client ledger.ClientID, key ledger.IdempotencyKey) (ledger.Transaction, error) {
	t, err := s.Store.GetByKey(ctx, client, key)
	if err != nil {
		return ledger.Transaction{}, readError(err)
	}
	return t, nil
}
