package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

var (
	// ErrNotFound says that there is no such transaction.
	ErrNotFound = errors.New("transaction not found")
	// ErrKeyReused says that the key is bound to a request with another
	// fingerprint. Nothing was stored.
	ErrKeyReused = errors.New("idempotency key is bound to another request")
	// ErrDuplicateID says that the transaction ID is taken, under another key.
	// Nothing was stored.
	ErrDuplicateID = errors.New("transaction ID is already in the ledger")
	// ErrUnavailable says that the store could not be reached or did not answer
	// in time. What was asked may or may not have been done.
	ErrUnavailable = errors.New("ledger unavailable")
	// ErrOrderTaken says that another payment of the order is under way, in doubt
	// or done. It comes as an *OrderError. Nothing was stored.
	ErrOrderTaken = errors.New("the order has a payment")
	// ErrLost says that a compare-and-set found another state than it expects.
	// It comes as a *LostError.
	ErrLost = errors.New("the transaction is not in the expected state")
)

// LostError is a lost compare-and-set and the state that won.
type LostError struct {
	Current Transaction
}

// Error names the transaction and its state.
func (e *LostError) Error() string {
	return fmt.Sprintf("%s is %s: %s", e.Current.ID, e.Current.Status, ErrLost)
}

// Unwrap is ErrLost.
func (e *LostError) Unwrap() error { return ErrLost }

// OrderError is an order that may not be paid again, and the payment that holds
// it: REQUESTED, UNKNOWN or SUCCESS.
type OrderError struct {
	Holder Transaction
}

// Error names the payment that holds the order.
func (e *OrderError) Error() string {
	return fmt.Sprintf("%s, %s: %s", ErrOrderTaken, e.Holder.ID, e.Holder.Status)
}

// Unwrap is ErrOrderTaken.
func (e *OrderError) Unwrap() error { return ErrOrderTaken }

// UnrecordedError says which rows of a Record are not in the book.
type UnrecordedError struct {
	// Errs has an entry for each row, in their order; nil for one that is stored.
	Errs []error
}

// Error is the first failure, and how many there are.
func (e *UnrecordedError) Error() string {
	var first error
	count := 0
	for _, err := range e.Errs {
		if err != nil {
			first = cmp.Or(first, err)
			count++
		}
	}
	return fmt.Sprintf("%d of %d rows are not recorded: %v", count, len(e.Errs), first)
}

// Unwrap is the failures.
func (e *UnrecordedError) Unwrap() []error { return e.Errs }

// Intent is a payment that is about to be sent.
type Intent struct {
	ID          tranid.ID
	Client      ClientID
	Key         IdempotencyKey
	Fingerprint Hash
	// Order is empty when the payment is for none.
	Order OrderID

	AccountMasked string
	AccountHash   Hash
	Amount        account.Won
	Policy        Policy

	RequestedAt   time.Time
	CorrelationID string
	// AdoptAfter is added to the database's clock to make AdoptAt: the longest
	// that the exchange may take, and a margin.
	AdoptAfter time.Duration
	// KeyLife is how long the key stays bound at least.
	KeyLife time.Duration
	By      Actor
}

// Admission is what became of an Intent.
type Admission struct {
	// Transaction is the new row, or the one that holds the key.
	Transaction Transaction
	// Created is true when the Intent is stored and this call may send. It is
	// false when the key was bound before: Transaction is then the current
	// state of the payment it is bound to.
	Created bool
}

// Store is the book. Every method may be called concurrently, and by several
// processes on one database. Every method ends when its context does. Errors
// other than those of this package wrap ErrUnavailable or are faults of ours.
//
// What a method says it stored is durable when it returns.
type Store interface {
	Writer
	Queue
	Errands
	Reader
	Keeper
	Settlements
	tranid.Blocks

	// Ping reports whether the book can be written now.
	Ping(ctx context.Context) error
	// Close releases what the store holds. No method may be called after it.
	Close() error
}

// Writer is what the payment service changes the book by.
type Writer interface {
	// CreateIntent stores the row (REQUESTED), its key, its order and its first
	// event in one database transaction, unless the key is bound. A key is free
	// to be bound again, whatever its fingerprint, when its transaction is FAILED
	// with NOT_SENT, or is final and the key's life is over; of two that try, one
	// wins and the other is told of the winner's row. The order is looked at after
	// the key. Calling it again with the same ID is safe: should the first call
	// have stored it, and should it be REQUESTED still, it is Created.
	//
	// Errors: ErrKeyReused, ErrOrderTaken, ErrDuplicateID, ErrInvalidRow;
	// ErrUnavailable, after which the intent may be stored and must not be sent.
	CreateIntent(ctx context.Context, in Intent) (Admission, error)

	// Record stores rows of transactions that ended without an intent, each with
	// its event: inquiries, and payments that were refused before anything was
	// stored or sent (FAILED, NOT_SENT). It binds no key and no order. One bad row
	// harms no other: an *UnrecordedError says which are not stored and why, for
	// one ErrDuplicateID where its ID is taken. After any other error none is
	// known to be. At most MaxRecord rows.
	Record(ctx context.Context, rows []Transaction, by Actor) error

	// Transition makes one move and appends its event, in one database
	// transaction, which also frees the order when the row becomes FAILED or
	// CANCELED, and returns the row as it is after. It returns a *LostError
	// when the row is not in the state that the move needs, ErrNotFound when
	// there is none, and ErrIllegalMove for a move that no row may make.
	Transition(ctx context.Context, c Change) (Transaction, error)

	// AppendEvent adds what was learned without changing the row: evidence that
	// contradicts a final row, for one. From and To are the row's status.
	AppendEvent(ctx context.Context, id tranid.ID, evidence Evidence, by Actor, detail string) error
}

// MaxRecord is the most rows of one Record.
const MaxRecord = 500

// Claim is a row that its holder may resolve until the lease ends. The lease
// saves work; it is the compare-and-sets that keep the book right.
type Claim struct {
	Transaction Transaction
	// Token names the lease. It is empty when there is nothing to resolve.
	Token string
	// At is when it was claimed, by the database's clock.
	At time.Time
	// Err says that the row holds what no row may; Transaction then has its ID
	// alone.
	Err error
}

// ClaimOptions bound a Claim.
type ClaimOptions struct {
	// Limit is the most rows to claim, 1 to MaxClaim.
	Limit int
	// Lease is how long they are the caller's.
	Lease time.Duration
	// Review claims rows that need review, and no others; unset, it claims the
	// others alone.
	Review bool
	// Only is the part to claim of; its zero value is both.
	Only Part
	// Newest claims what fell due last, in place of what has been due longest.
	Newest bool
	// Owed claims final rows whose net cancel is owed, and no others; what Review,
	// Only and Newest say does not matter then.
	Owed bool
}

// Part is a part of the rows that are due.
type Part uint8

// The parts: rows that were never asked about, and rows that were. A resolver
// has a share of its time for each, so that neither waits for the other.
const (
	PartFresh Part = iota + 1
	PartAsked
)

// Parts are those that a claim with this Only is of, in its order.
func (p Part) Parts() []Part {
	if p == 0 {
		return []Part{PartFresh, PartAsked}
	}
	return []Part{p}
}

// MaxClaim is the most rows that one database transaction of a resolver
// touches.
const MaxClaim = 20

// Postponement ends a claim without a final status.
type Postponement struct {
	ID    tranid.ID
	Token string
	// Delay is added to the database's clock to make NextResolveAt.
	Delay time.Duration
	// Answered spends an attempt: the core answered something.
	Answered bool
	// NotFound counts an answer that the core had not done it.
	NotFound bool
	// NeedsReview raises the flag; it is never lowered by a postponement.
	NeedsReview bool
	// Detail is appended as an event if it is not empty.
	Detail string
	By     Actor
}

// Queue is what a resolver works on.
type Queue interface {
	// Adopt moves up to limit (at most MaxClaim) rows that are REQUESTED past
	// their AdoptAt to UNKNOWN, and returns how many.
	Adopt(ctx context.Context, limit int, by Actor) (int, error)

	// Claim takes rows that are UNKNOWN, due and not leased: those never asked
	// first, so that what the core never answers keeps no fresh row waiting;
	// then the oldest due, or the newest. Several that claim at once share the
	// rows.
	Claim(ctx context.Context, o ClaimOptions) ([]Claim, error)

	// ClaimOne takes one row that is Resolvable, due or not, leased or not; one
	// that is REQUESTED past its AdoptAt is adopted first. In any other state
	// the claim has no Token. ErrNotFound if there is none.
	ClaimOne(ctx context.Context, id tranid.ID, lease time.Duration, by Actor) (Claim, error)

	// Decide sets DecisionCancel on a payment that is UNKNOWN and appends an
	// event, or finds it set, and returns the row. A *LostError otherwise; from
	// its nil error on, the row can only become CANCELED or FAILED.
	Decide(ctx context.Context, id tranid.ID, by Actor, detail string) (Transaction, error)

	// Postpone ends a claim and makes the row, from now on Asked, due again
	// later. ErrLost when the row is no longer UNKNOWN or owed a net cancel, when
	// it is owed one and is to need review, or when the lease is another's.
	Postpone(ctx context.Context, p Postponement) error

	// Release ends the claims of a token at once, for a resolver that stops.
	Release(ctx context.Context, token string) error
}

// Filter selects transactions. What is not set lets everything pass.
type Filter struct {
	Client        ClientID
	Statuses      []Status
	Kinds         []Kind
	NeedsReview   *bool
	Order         OrderID
	CorrelationID string
	AccountHash   *Hash
	// RequestedFrom is inclusive, RequestedTo is not.
	RequestedFrom, RequestedTo time.Time

	// Limit is the most rows of a page, 1 to MaxPage.
	Limit int
	// After is where the page before ended.
	After *Cursor
}

// MaxPage is the most rows that one List returns.
const MaxPage = 500

// Cursor is a place in the order of List.
type Cursor struct {
	RequestedAt time.Time
	ID          tranid.ID
}

// Page is one page of List. Next is nil on the last; a page before it may have
// fewer rows than were asked for where many could not be read.
type Page struct {
	Transactions []Transaction
	Next         *Cursor
	// Unreadable is how many rows among these hold what no row may, and were
	// stepped over.
	Unreadable int
}

// Total is the count and the sum of one status.
type Total struct {
	Status Status
	Count  int64
	Amount account.Won
}

// Summary is the book in a few numbers.
type Summary struct {
	// Totals has an entry for each status that occurs, in the order of
	// Statuses.
	Totals       []Total
	UnknownCount int64
	// OldestUnknown is when the oldest UNKNOWN was requested; zero if there is
	// none.
	OldestUnknown    time.Time
	NeedsReviewCount int64
	// Unreadable is how many rows have a status that there is not, and are in no
	// total.
	Unreadable int64
}

// Backlog is what is not known, in a few numbers.
type Backlog struct {
	Unknown int64
	// OldestUnknown is when the oldest UNKNOWN was requested; zero if there is
	// none.
	OldestUnknown time.Time
	// NeedsReview is how many of the UNKNOWN a human should look at.
	NeedsReview int64
}

// Reader is how the book is read.
type Reader interface {
	// Get returns one transaction, or ErrNotFound.
	Get(ctx context.Context, id tranid.ID) (Transaction, error)
	// GetByKey returns the transaction that a client's key is bound to, or
	// ErrNotFound.
	GetByKey(ctx context.Context, client ClientID, key IdempotencyKey) (Transaction, error)
	// Bound returns the transaction that holds a key against a request with this
	// fingerprint, or ErrKeyReused when it was made with another. It is
	// ErrNotFound while the key is free to be bound, as CreateIntent says.
	Bound(ctx context.Context, client ClientID, key IdempotencyKey, fingerprint Hash) (Transaction, error)
	// Events returns a transaction's history, oldest first; empty if there is
	// no such transaction.
	Events(ctx context.Context, id tranid.ID) ([]Event, error)
	// List returns transactions, newest requested first, then by ID descending.
	// What is inserted later does not shift a page.
	List(ctx context.Context, f Filter) (Page, error)
	// Summarize counts what was requested from (inclusive) to (exclusive); zero
	// times do not bound. A client of the empty name means all clients.
	Summarize(ctx context.Context, client ClientID, from, to time.Time) (Summary, error)
	// Backlog counts what is UNKNOWN. It costs what is pending, however large
	// the book is.
	Backlog(ctx context.Context) (Backlog, error)
	// UnknownOfClients counts the payments that are UNKNOWN, by client; a client
	// without any has no entry. It costs what is pending, too.
	UnknownOfClients(ctx context.Context) (map[ClientID]int64, error)
}
