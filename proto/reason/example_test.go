package reason_test

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	"github.com/gwanmun/gwanmun/proto/reason"
)

// next is what a shop does after CreatePayment has returned err.
func next(err error) string {
	if err == nil {
		return "ship: the money moved, once"
	}
	switch reason.Of(err) {
	case ledgerv1.ErrorReason_ERROR_REASON_DECLINED,
		ledgerv1.ErrorReason_ERROR_REASON_ACCOUNT_NOT_FOUND,
		ledgerv1.ErrorReason_ERROR_REASON_PAYMENT_CANCELED,
		ledgerv1.ErrorReason_ERROR_REASON_NOT_EXECUTED:
		return "give up: it is final, and no money is gone"
	case ledgerv1.ErrorReason_ERROR_REASON_INVALID_REQUEST,
		ledgerv1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED,
		ledgerv1.ErrorReason_ERROR_REASON_ORDER_ALREADY_PAID,
		ledgerv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED,
		ledgerv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED:
		return "give up: this call is wrong, and would be again"
	case ledgerv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN:
		return "poll GetPayment until " + reason.Transaction(err).GetTransactionId() + " is final"
	default:
		return sameKeyAgain(err)
	}
}

// sameKeyAgain is what is always safe: nothing left, or it may have been done,
// and the same key finds out. The errors of the transport are among these.
func sameKeyAgain(err error) string {
	if wait, ok := reason.RetryAfter(err); ok {
		return fmt.Sprintf("same key again in %s", wait)
	}
	return "same key again"
}

// A declined payment is over. Its account may be fine for another order.
func Example_giveUp() {
	err := refused(codes.FailedPrecondition, "DECLINED", &ledgerv1.Transaction{
		TransactionId: "GWMNU20260102000000123",
		Status:        ledgerv1.TransactionStatus_TRANSACTION_STATUS_FAILED,
		ResponseCode:  "0051",
	})
	fmt.Println(next(err))
	fmt.Println("the core said", reason.Transaction(err).GetResponseCode())
	// Output:
	// give up: it is final, and no money is gone
	// the core said 0051
}

// A time-out is not a failure: the payment becomes final by itself.
func Example_poll() {
	err := refused(codes.DeadlineExceeded, "OUTCOME_UNKNOWN", &ledgerv1.Transaction{
		TransactionId: "GWMNU20260102000000124",
		Status:        ledgerv1.TransactionStatus_TRANSACTION_STATUS_UNKNOWN,
	})
	fmt.Println(next(err))
	// Output:
	// poll GetPayment until GWMNU20260102000000124 is final
}

// Nothing left. The same key may be used at once, or when the wait is over.
func Example_sameKeyAgain() {
	open := refused(codes.Unavailable, "CIRCUIT_OPEN",
		&errdetails.RetryInfo{RetryDelay: durationpb.New(7 * time.Second)})
	fmt.Println(next(fmt.Errorf("pay order 7: %w", open)))
	fmt.Println("nothing left:", reason.NothingLeft(open))
	// Output:
	// same key again in 7s
	// nothing left: true
}

// An error of the transport proves nothing: the payment may have been made.
func Example_transport() {
	for _, err := range []error{
		status.Error(codes.Unavailable, "connection reset by peer"),
		context.DeadlineExceeded,
	} {
		fmt.Println(next(err), "- nothing left:", reason.NothingLeft(err))
	}
	// Output:
	// same key again - nothing left: false
	// same key again - nothing left: false
}
