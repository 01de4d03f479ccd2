package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"testing"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	reconciliationv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/reconciliation/v1"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// settling is an Operator that remembers what it was told.
type settling struct {
	change ledger.Change
	err    error
}

func (s *settling) Settle(_ context.Context, id tranid.ID, to ledger.Status, reason string, by ledger.Actor) (ledger.Transaction, error) {
	s.change = ledger.Settlement(id, to, reason, by)
	return ledger.Transaction{ID: id, Kind: ledger.KindPayment, Status: to}, s.err
}

func TestSettleTransaction_PassesOnWhoAndWhy(t *testing.T) {
	for status, want := range map[ledgerv1.TransactionStatus]ledger.Status{
		ledgerv1.TransactionStatus_TRANSACTION_STATUS_SUCCESS:  ledger.StatusSuccess,
		ledgerv1.TransactionStatus_TRANSACTION_STATUS_FAILED:   ledger.StatusFailed,
		ledgerv1.TransactionStatus_TRANSACTION_STATUS_CANCELED: ledger.StatusCanceled,
	} {
		o := &settling{}
		s := &server{operator: o, instance: "reconciler-test"}
		res, err := s.SettleTransaction(t.Context(), &reconciliationv1.SettleTransactionRequest{
			TransactionId: id, Status: status, Reason: "the bank was called",
		})
		by := ledger.Actor{Name: "operator:local", Instance: "reconciler-test"}
		if err != nil || res.GetTransaction().GetStatus() != status || o.change != ledger.Settlement(id, want, "the bank was called", by) {
			t.Errorf("%s: %v, %v, %+v", status, res, err, o.change)
		}
	}
}

func TestSettleTransaction_NamesTheReason(t *testing.T) {
	row := ledger.Transaction{ID: id, Kind: ledger.KindPayment, Status: ledger.StatusSuccess}
	for _, tc := range []struct {
		name, id string
		err      error
		want     ledger.Reason
	}{
		{"a day that does not exist", "GWMNU20260230000000123", nil, ledger.ReasonInvalidRequest},
		{"not so from where it is", id, fmt.Errorf("settle: %w", &ledger.LostError{Current: row}), ledger.ReasonIllegalState},
		{"no such transaction", id, fmt.Errorf("settle: %w", ledger.ErrNotFound), ledger.ReasonTransactionNotFound},
		{"the ledger is gone", id, fmt.Errorf("settle: %w", ledger.ErrUnavailable), ledger.ReasonLedgerUnavailable},
		{"anything else", id, errors.New("canary"), ledger.ReasonInternal},
	} {
		s := &server{operator: &settling{err: tc.err}}
		res, err := s.SettleTransaction(t.Context(), &reconciliationv1.SettleTransactionRequest{
			TransactionId: tc.id, Status: ledgerv1.TransactionStatus_TRANSACTION_STATUS_FAILED, Reason: "why",
		})
		var refusal *ledger.Refusal
		if res != nil || !errors.As(err, &refusal) || refusal.Reason != tc.want {
			t.Errorf("%s: %v, %v; want %s", tc.name, res, err, tc.want)
			continue
		}
		if tc.want == ledger.ReasonIllegalState && (refusal.Transaction == nil || refusal.Transaction.ID != id) {
			t.Errorf("%s: about %+v", tc.name, refusal.Transaction)
		}
	}
}

type hinting []string

func (h *hinting) Hint(text string) { *h = append(*h, text) }

func TestNotifyOutcome_AcceptsWhateverItIsAbout(t *testing.T) {
	var taken hinting
	s := &callbackServer{hinter: &taken}
	for _, text := range []string{id, "x", "GWMNU20260230000000123"} {
		res, err := s.NotifyOutcome(t.Context(), &reconciliationv1.NotifyOutcomeRequest{TransactionId: text})
		if err != nil || !res.GetAccepted() {
			t.Errorf("%s: %v, %v", text, res, err)
		}
	}
	if len(taken) != 3 || taken[0] != id {
		t.Errorf("hinted at %v", taken)
	}
}
