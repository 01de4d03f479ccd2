package ledger

import (
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// CodeIDUsed is the core's answer that a transaction ID is already used: by
// this payment's earlier copy or, after a lost database, by another's. Nothing
// follows from it; only an operator settles such a row.
const CodeIDUsed = "0094"

// IdempotencyKey is the caller's name for one payment, unique to a client.
type IdempotencyKey string

// ClientID is who called.
type ClientID string

// OrderID is the caller's order.
type OrderID string

// Hash is a keyed digest (HashKey).
type Hash [32]byte

// Answer is what the core said about a transaction.
type Answer struct {
	// Code is the response code, 4 digits; empty when no valid answer came.
	Code string
	// Message is UTF-8 text with runs of digits masked.
	Message string
	// Approval is the approval number, 11 digits; empty where there is none.
	Approval string
}

// Transaction is one row of the ledger. Times are UTC with microseconds; the
// zero time means that it did not happen.
type Transaction struct {
	ID       tranid.ID
	Kind     Kind
	Status   Status
	Evidence Evidence
	Method   Method
	Policy   Policy
	Decision Decision
	// NeedsReview is raised when a human should look, and only on UNKNOWN.
	NeedsReview bool

	Client        ClientID
	Key           IdempotencyKey
	Order         OrderID
	AccountMasked string
	AccountHash   Hash
	Amount        account.Won
	Answer        Answer
	// Reason is a short English sentence on how it got to where it is.
	Reason string

	// Elapsed is from the arrival of the call to the end of the exchange.
	Elapsed     time.Duration
	RequestedAt time.Time
	SentAt      time.Time
	RespondedAt time.Time
	ResolvedAt  time.Time
	// AdoptAt is when a row still REQUESTED is taken for abandoned, by the
	// database's clock.
	AdoptAt time.Time

	// ResolveAttempts counts the attempts that the core answered without making
	// the row final, NotFound those in which it said that it had not done it.
	ResolveAttempts int
	NotFound        int
	// Asked is true once a claim was postponed: a resolver had its turn.
	Asked bool
	// NextResolveAt is when it is due, by the database's clock; zero when it is
	// never due by itself.
	NextResolveAt time.Time

	CorrelationID string
	TraceID       string
}

// OperatorOnly reports whether the core may neither be asked about t nor told
// to cancel it: its ID may be another transaction's.
func (t *Transaction) OperatorOnly() bool {
	return t.Status == StatusUnknown && t.Kind.MovesMoney() && t.Answer.Code == CodeIDUsed
}

// Owed reports whether the core is still to be told to cancel t: an operator made
// it FAILED or CANCELED, and no net cancel was answered since.
func (t *Transaction) Owed() bool {
	return t.Status.Final() && t.Evidence == EvidenceOperator && !t.NextResolveAt.IsZero()
}

// Resolvable reports whether a resolver may have a claim on t: it is UNKNOWN and
// may be asked about, or owed a net cancel.
func (t *Transaction) Resolvable() bool {
	return t.Status == StatusUnknown && !t.OperatorOnly() || t.Owed()
}

// Actor is who changes the book.
type Actor struct {
	// Name is `payment`, `reconciler`, `callback` or `operator:<client>`.
	Name string
	// Instance is the process.
	Instance string
	// TraceID is the W3C trace ID of the work; empty when it is not traced.
	TraceID string
}

// The names of the actors that are services.
const (
	ActorPayment    = "payment"
	ActorReconciler = "reconciler"
	ActorCallback   = "callback"
)

// Event is one entry of a transaction's history.
type Event struct {
	// Sequence ascends within one transaction.
	Sequence int64
	// At is by the database's clock.
	At       time.Time
	From, To Status
	Evidence Evidence
	By       Actor
	Detail   string
}

// Decidable reports whether DecisionCancel may be set on t, or is.
func (t *Transaction) Decidable() bool {
	return t.Status == StatusUnknown && t.Kind.MovesMoney() && !t.OperatorOnly()
}
