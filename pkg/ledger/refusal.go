package ledger

import (
	"fmt"
	"time"
)

// Reason is why a call is refused or did not succeed. The names are those of
// the contract's ErrorReason. The zero Reason is invalid.
type Reason uint8

// The reasons, in the order of the contract.
const (
	ReasonInvalidRequest Reason = iota + 1
	ReasonAccountNotFound
	ReasonTransactionNotFound
	ReasonDeclined
	ReasonOutcomeUnknown
	ReasonPaymentCanceled
	ReasonNotExecuted
	ReasonDeadlineTooShort
	ReasonSendWindowMissed
	ReasonCircuitOpen
	ReasonCoreUnreachable
	ReasonLedgerUnavailable
	ReasonLinkSaturated
	ReasonRateLimited
	ReasonIdempotencyKeyReused
	ReasonInProgress
	ReasonOrderAlreadyPaid
	ReasonOrderInDoubt
	ReasonIllegalState
	ReasonRunNotFound
	ReasonInternal
	ReasonUnauthenticated
	ReasonPermissionDenied
)

var reasons = closedSet{
	"", "INVALID_REQUEST", "ACCOUNT_NOT_FOUND", "TRANSACTION_NOT_FOUND", "DECLINED", "OUTCOME_UNKNOWN",
	"PAYMENT_CANCELED", "NOT_EXECUTED", "DEADLINE_TOO_SHORT", "SEND_WINDOW_MISSED", "CIRCUIT_OPEN",
	"CORE_UNREACHABLE", "LEDGER_UNAVAILABLE", "LINK_SATURATED", "RATE_LIMITED", "IDEMPOTENCY_KEY_REUSED",
	"IN_PROGRESS", "ORDER_ALREADY_PAID", "ORDER_IN_DOUBT", "ILLEGAL_STATE", "RUN_NOT_FOUND", "INTERNAL",
	"UNAUTHENTICATED", "PERMISSION_DENIED",
}

// String is the name in google.rpc.ErrorInfo.
func (r Reason) String() string { return reasons.name(uint8(r)) }

// FieldViolation is one field of a request that is wrong, without its value.
type FieldViolation struct {
	// Field is its name in the contract.
	Field string
	// Description says what is asked of it.
	Description string
}

// Refusal is the error with which a use case ends otherwise than in success.
type Refusal struct {
	Reason Reason
	// Transaction is the row it is about; nil where there is none.
	Transaction *Transaction
	// Replayed is true when an earlier call made the row what it is.
	Replayed bool
	// RetryAfter is when calling again may help; zero where it is not known.
	RetryAfter time.Duration
	// Fields name what is wrong with the request.
	Fields []FieldViolation
	// Err is the cause, for the log; it is never shown to a caller.
	Err error
}

// Error is for the log.
func (r *Refusal) Error() string {
	if r.Err == nil {
		return r.Reason.String()
	}
	return fmt.Sprintf("%s: %s", r.Reason, r.Err)
}

// Unwrap is the cause.
func (r *Refusal) Unwrap() error { return r.Err }
