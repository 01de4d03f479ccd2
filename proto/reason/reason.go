// Package reason reads gwanmun's errors for Go callers: why a call failed, what
// is known about the payment, and whether anything left.
//
// The one rule that it serves: a payment may be called again with the SAME
// idempotency key, always, and with another key only when it is known that the
// first did not and will not happen. The examples show the decision.
package reason

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
)

// Domain is that of gwanmun's google.rpc.ErrorInfo. The errors of proxies and
// of gRPC itself do not have it.
const Domain = "gwanmun"

// namePrefix is what ErrorInfo leaves out of an ErrorReason's name.
const namePrefix = "ERROR_REASON_"

// nothingLeft has the reasons by which nothing left in the call, and the code
// that each comes with.
var nothingLeft = map[ledgerv1.ErrorReason]codes.Code{
	ledgerv1.ErrorReason_ERROR_REASON_INVALID_REQUEST:        codes.InvalidArgument,
	ledgerv1.ErrorReason_ERROR_REASON_DEADLINE_TOO_SHORT:     codes.DeadlineExceeded,
	ledgerv1.ErrorReason_ERROR_REASON_SEND_WINDOW_MISSED:     codes.Unavailable,
	ledgerv1.ErrorReason_ERROR_REASON_CIRCUIT_OPEN:           codes.Unavailable,
	ledgerv1.ErrorReason_ERROR_REASON_CORE_UNREACHABLE:       codes.Unavailable,
	ledgerv1.ErrorReason_ERROR_REASON_LEDGER_UNAVAILABLE:     codes.Unavailable,
	ledgerv1.ErrorReason_ERROR_REASON_LINK_SATURATED:         codes.ResourceExhausted,
	ledgerv1.ErrorReason_ERROR_REASON_RATE_LIMITED:           codes.ResourceExhausted,
	ledgerv1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED: codes.AlreadyExists,
	ledgerv1.ErrorReason_ERROR_REASON_ORDER_ALREADY_PAID:     codes.FailedPrecondition,
	ledgerv1.ErrorReason_ERROR_REASON_ORDER_IN_DOUBT:         codes.FailedPrecondition,
	ledgerv1.ErrorReason_ERROR_REASON_ILLEGAL_STATE:          codes.FailedPrecondition,
	ledgerv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED:        codes.Unauthenticated,
	ledgerv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED:      codes.PermissionDenied,
}

// Of is the reason that gwanmun gave. It is UNSPECIFIED for nil, for an error
// that gwanmun did not make, and for a reason that this version of the contract
// does not know: treat them all as "it may have been done". Wrapped errors are
// looked into.
func Of(err error) ledgerv1.ErrorReason {
	info := detail[*errdetails.ErrorInfo](err, func(i *errdetails.ErrorInfo) bool { return i.GetDomain() == Domain })
	if info == nil {
		return ledgerv1.ErrorReason_ERROR_REASON_UNSPECIFIED
	}
	return ledgerv1.ErrorReason(ledgerv1.ErrorReason_value[namePrefix+info.GetReason()])
}

// Transaction is the ledger's row that an error of gwanmun is about, as it was
// when the call ended; nil if there is none.
func Transaction(err error) *ledgerv1.Transaction {
	return detail[*ledgerv1.Transaction](err, nil)
}

// RetryAfter is how long to wait before calling again can help; false if the
// error does not say.
func RetryAfter(err error) (time.Duration, bool) {
	info := detail[*errdetails.RetryInfo](err, nil)
	if info.GetRetryDelay() == nil {
		return 0, false
	}
	return info.GetRetryDelay().AsDuration(), true
}

// NothingLeft reports whether gwanmun says that nothing of this call left for
// the core. False means that something may have, or that nothing is known, as
// with every error of the transport.
//
// It speaks of this call alone. An earlier call with the same key may have been
// sent, so it is no leave to pay under another key: for that, see what
// GetPayment says of the first.
func NothingLeft(err error) bool {
	code, ok := nothingLeft[Of(err)]
	return ok && status.Code(err) == code
}

// detail is the first detail of its type that is accepted; zero if there is
// none. A nil accept takes any.
func detail[T any](err error, accept func(T) bool) T {
	var none T
	if err == nil {
		return none
	}
	st, ok := status.FromError(err)
	if !ok {
		return none
	}
	for _, d := range st.Details() {
		if found, ok := d.(T); ok && (accept == nil || accept(found)) {
			return found
		}
	}
	return none
}
