package rpcerr

import (
	"google.golang.org/grpc/codes"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// answer is what a reason looks like to a caller. The message is a constant: it
// never holds input, a host, SQL or what a driver said.
type answer struct {
	code    codes.Code
	message string
}

// answers has every reason (DESIGN §6).
var answers = map[ledger.Reason]answer{
	ledger.ReasonInvalidRequest: {
		codes.InvalidArgument,
		"the request is invalid; the BadRequest detail says where. Nothing was stored or sent.",
	},
	ledger.ReasonAccountNotFound: {
		codes.NotFound,
		"the core has no such account",
	},
	ledger.ReasonTransactionNotFound: {
		codes.NotFound,
		"there is no such transaction",
	},
	ledger.ReasonDeclined: {
		codes.FailedPrecondition,
		"the core declined; the metadata has its response code",
	},
	ledger.ReasonOutcomeUnknown: {
		codes.DeadlineExceeded,
		"the outcome is not known. A payment may have been done: what became of it is found out, by an operator if need be; ask, watch, or call again with the same key. An inquiry changed nothing: ask again.",
	},
	ledger.ReasonPaymentCanceled: {
		codes.FailedPrecondition,
		"the payment of this key was canceled; whatever money had moved is back",
	},
	ledger.ReasonNotExecuted: {
		codes.FailedPrecondition,
		"the payment of this key was not done and never will be",
	},
	ledger.ReasonDeadlineTooShort: {
		codes.DeadlineExceeded,
		"the deadline leaves no time for it. Nothing was sent.",
	},
	ledger.ReasonSendWindowMissed: {
		codes.Unavailable,
		"it took too long to get ready to send. Nothing was sent.",
	},
	ledger.ReasonCircuitOpen: {
		codes.Unavailable,
		"the circuit to the core is open. Nothing was sent.",
	},
	ledger.ReasonCoreUnreachable: {
		codes.Unavailable,
		"the core cannot be reached. Nothing was sent.",
	},
	ledger.ReasonLedgerUnavailable: {
		codes.Unavailable,
		"the ledger is unavailable. Nothing was sent.",
	},
	ledger.ReasonLinkSaturated: {
		codes.ResourceExhausted,
		"all connections to the core are in use. Nothing was sent.",
	},
	ledger.ReasonRateLimited: {
		codes.ResourceExhausted,
		"too much at once: calls of this client, its payments that are not known yet, or runs of settlement. Nothing was sent.",
	},
	ledger.ReasonIdempotencyKeyReused: {
		codes.AlreadyExists,
		"the idempotency key belongs to a request with other fields. Nothing was sent.",
	},
	ledger.ReasonInProgress: {
		codes.Aborted,
		"the first call with this key is still running",
	},
	ledger.ReasonOrderAlreadyPaid: {
		codes.FailedPrecondition,
		"the order is paid already. Nothing was sent.",
	},
	ledger.ReasonOrderInDoubt: {
		codes.FailedPrecondition,
		"another payment of the order is running or unknown. Nothing was sent.",
	},
	ledger.ReasonIllegalState: {
		codes.FailedPrecondition,
		"the transaction's state forbids this. Nothing was sent.",
	},
	ledger.ReasonRunNotFound: {
		codes.NotFound,
		"there is no such settlement run or discrepancy",
	},
	ledger.ReasonInternal: {
		codes.Internal,
		"a fault of ours; it may have been done. The correlation ID finds it in the log.",
	},
	ledger.ReasonUnauthenticated: {
		codes.Unauthenticated,
		"the call names no client that is known. Nothing was sent.",
	},
	ledger.ReasonPermissionDenied: {
		codes.PermissionDenied,
		"this client may not call this. Nothing was sent.",
	},
}
