package integration

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	reconciliationv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/reconciliation/v1"
	simulatorv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/simulator/v1"

	"github.com/gwanmun/gwanmun/proto/reason"
)

// doneUnsaid is closed on when it is done.
const doneUnsaid = "44444444444444"

// TestOperator_SettlesWhatTheCoreDoesNotTell has a core that answers no inquiry
// with evidence. What needs review is listed by the reconciler, is settled by an
// operator there, and the core is told of it until it answers: the money that had
// moved is back, and that it had moved is a discrepancy.
func TestOperator_SettlesWhatTheCoreDoesNotTell(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		p := s.startPayment(t)
		r := s.startReconciler(t, "--max-attempts=1")
		r.dirty = true // it is to alarm a ghost
		book := ledgerv1.NewLedgerServiceClient(r.dial(t))
		for _, fault := range []*simulatorv1.Fault{
			{Mti: "0400", When: simulatorv1.FaultPoint_FAULT_POINT_AFTER_EXECUTION, Action: simulatorv1.FaultAction_FAULT_ACTION_RESPONSE_CODE, ResponseCode: "0096"},
			{Mti: "0420", When: simulatorv1.FaultPoint_FAULT_POINT_BEFORE_EXECUTION, Action: simulatorv1.FaultAction_FAULT_ACTION_CLOSE, Times: 2},
		} {
			if _, err := s.core.SetFault(t.Context(), &simulatorv1.SetFaultRequest{Fault: fault}); err != nil {
				t.Fatal(err)
			}
		}
		kept, returned := p.pay(t, "kept", doneUnsaid, 1_000, confirm).id(), p.pay(t, "undone", doneUnsaid, 2_000, confirm).id()
		eventually(t, "both need review", func(ctx context.Context) error {
			page, err := book.ListTransactions(ctx, &ledgerv1.ListTransactionsRequest{NeedsReview: new(true)})
			if err == nil && len(page.GetTransactions()) != 2 {
				err = errUnseen
			}
			return err
		})
		settle := func(id string, to ledgerv1.TransactionStatus) error {
			res, err := r.SettleTransaction(t.Context(), &reconciliationv1.SettleTransactionRequest{
				TransactionId: id, Status: to, Reason: "the branch was called about " + doneUnsaid,
			})
			if err == nil && (res.GetTransaction().GetStatus() != to || res.GetTransaction().GetEvidence() != ledgerv1.Evidence_EVIDENCE_OPERATOR) {
				t.Errorf("settled as %v", res.GetTransaction())
			}
			return err
		}
		for id, to := range map[string]ledgerv1.TransactionStatus{kept: success, returned: failed} {
			for range 2 { // the same again is as good
				if err := settle(id, to); err != nil {
					t.Fatal(err)
				}
			}
			if err := settle(id, canceled); status.Code(err) != codes.FailedPrecondition || reason.Of(err) != ledgerv1.ErrorReason_ERROR_REASON_ILLEGAL_STATE {
				t.Errorf("settled otherwise: %v", err)
			}
		}
		eventually(t, "the core is told", func(ctx context.Context) error {
			res, err := book.GetTransaction(ctx, &ledgerv1.GetTransactionRequest{TransactionId: returned})
			if err == nil && res.GetTransaction().GetNextResolveAt() != nil {
				err = errors.New("it is owed a net cancel")
			}
			return err
		})
		got := s.audit(t, p)
		if done := got.of(kept); done.effects[undone] != 0 || done.mtis["0420"] != 0 {
			t.Errorf("of what is SUCCESS the core heard %v", done.entries)
		}
		if back := got.of(returned); back.effects[undone] != 1 || back.mtis["0420"] != 3 {
			t.Errorf("of what is FAILED the core heard %v", back.entries)
		}
		if ghosts := r.log.with("msg", "ghost"); len(ghosts) != 1 || ghosts[0].field("transaction_id") != returned {
			t.Errorf("ghosts that were alarmed: %v", ghosts)
		}
		found, err := r.ListDiscrepancies(t.Context(), &reconciliationv1.ListDiscrepanciesRequest{})
		if err != nil || len(found.GetDiscrepancies()) != 1 || found.GetDiscrepancies()[0].GetTransactionId() != returned {
			t.Errorf("discrepancies %v, %v", found, err)
		}
	})
}
