package grpcapi

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	reconciliationv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/reconciliation/v1"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/reconciler/resolve"
)

const id = "GWMNU20260105000000123"

// answering is a Resolver with one answer, which remembers who asked.
type answering struct {
	report resolve.Report
	err    error
	asked  tranid.ID
	by     ledger.Actor
}

func (a *answering) ResolveOne(_ context.Context, id tranid.ID, by ledger.Actor) (resolve.Report, error) {
	a.asked, a.by = id, by
	return a.report, a.err
}

func resolveWith(t *testing.T, a *answering, id string) (*reconciliationv1.ResolveTransactionResponse, error) {
	t.Helper()
	s := &server{resolver: a, instance: "reconciler-test"}
	return s.ResolveTransaction(t.Context(), &reconciliationv1.ResolveTransactionRequest{TransactionId: id})
}

func TestResolveTransaction_ShowsEveryStep(t *testing.T) {
	a := &answering{report: resolve.Report{
		Before: ledger.StatusUnknown,
		Transaction: ledger.Transaction{
			ID: id, Kind: ledger.KindPayment, Status: ledger.StatusCanceled, Evidence: ledger.EvidenceCancelConfirmed,
			Method: ledger.MethodNetCancel, Decision: ledger.DecisionCancel, RequestedAt: time.Unix(1, 0),
		},
		Steps: []resolve.Step{
			{MTI: "0400", Request: []byte("0400 request"), Response: []byte("0410"), Processed: "01", ResponseCode: "0000", CoreMessage: "조회", Outcome: "done"},
			{MTI: "0420", Request: []byte("0420 request"), CancelResult: "01", ResponseCode: "0000", Outcome: "canceled"},
			{Outcome: "another was faster"},
		},
	}}
	res, err := resolveWith(t, a, id)
	if err != nil {
		t.Fatal(err)
	}
	if a.asked != id || a.by != (ledger.Actor{Name: "operator:local", Instance: "reconciler-test"}) {
		t.Errorf("asked about %s by %+v", a.asked, a.by)
	}
	if res.GetBefore() != ledgerv1.TransactionStatus_TRANSACTION_STATUS_UNKNOWN ||
		res.GetAfter() != ledgerv1.TransactionStatus_TRANSACTION_STATUS_CANCELED ||
		res.GetTransaction().GetTransactionId() != id || res.GetTransaction().GetStatus() != res.GetAfter() {
		t.Errorf("%v", res)
	}
	steps := res.GetSteps()
	if len(steps) != 3 {
		t.Fatalf("%d steps", len(steps))
	}
	first, second, third := steps[0], steps[1], steps[2]
	if first.GetMti() != "0400" || first.GetRequestHex() != hex.EncodeToString([]byte("0400 request")) ||
		first.GetResponseHex() != hex.EncodeToString([]byte("0410")) || first.GetProcessed() != "01" ||
		first.GetResponseCode() != "0000" || first.GetCoreMessage() != "조회" || first.GetOutcome() != "done" {
		t.Errorf("first step %v", first)
	}
	if second.GetCancelResult() != "01" || second.GetResponseHex() != "" || second.GetProcessed() != "" {
		t.Errorf("second step %v", second)
	}
	if third.GetMti() != "" || third.GetRequestHex() != "" || third.GetOutcome() != "another was faster" {
		t.Errorf("third step %v", third)
	}
}

func TestResolveTransaction_NamesTheReason(t *testing.T) {
	for _, tc := range []struct {
		name, id string
		err      error
		want     ledger.Reason
	}{
		{"a day that does not exist", "GWMNU20260230000000123", nil, ledger.ReasonInvalidRequest},
		{"no such transaction", id, fmt.Errorf("claim: %w", ledger.ErrNotFound), ledger.ReasonTransactionNotFound},
		{"the ledger is gone", id, fmt.Errorf("claim: %w", ledger.ErrUnavailable), ledger.ReasonLedgerUnavailable},
		{"a panic", id, fmt.Errorf("resolve: %w", &resolve.PanicError{Value: "canary"}), ledger.ReasonInternal},
		{"anything else", id, errors.New("canary"), ledger.ReasonInternal},
	} {
		res, err := resolveWith(t, &answering{err: tc.err}, tc.id)
		var refusal *ledger.Refusal
		if res != nil || !errors.As(err, &refusal) || refusal.Reason != tc.want {
			t.Errorf("%s: %v, %v; want %s", tc.name, res, err, tc.want)
			continue
		}
		if named := len(refusal.Fields) == 1 && refusal.Fields[0].Field == "transaction_id"; named != (tc.want == ledger.ReasonInvalidRequest) {
			t.Errorf("%s: the fields are %v", tc.name, refusal.Fields)
		}
		if tc.name == "a panic" && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: the error shows it: %v", tc.name, err)
		}
	}
}
