package ledger

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// MaxText is the most characters of a reason, a detail or a message in the
// book.
const MaxText = 300

// ErrUnreadable says that the book holds what no row may: someone went past its
// constraints.
var ErrUnreadable = errors.New("the ledger holds an impossible row")

// ErrInvalidRow says that something was to be stored that no row of the book may
// hold. Nothing was stored.
var ErrInvalidRow = errors.New("no row of the ledger may hold this")

// Moment is t as the book keeps it: UTC, in whole microseconds. The zero time
// stays the zero time.
func Moment(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// endOfYears is the first moment whose year has five digits.
var endOfYears = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)

// Holds reports whether the book can hold a moment: one of the years 1 to 9999.
// Beyond them no two databases agree, nor do those who read what an rpc tells.
func Holds(at time.Time) bool { return !at.Before(time.Time{}) && at.Before(endOfYears) }

// Text is s as the book keeps it, whatever s is: valid UTF-8, U+FFFD in place of
// what is not a character or controls a terminal, cut after MaxText characters.
// The outcome of a payment must not be lost because a database refuses a byte of
// the message that came with it.
func Text(s string) string { return text(s, MaxText) }

func text(s string, longest int) string {
	clean := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
	count := 0
	for i := range clean {
		if count == longest {
			return clean[:i]
		}
		count++
	}
	return clean
}

// Row is the intent as it enters the book: REQUESTED, and abandoned AdoptAfter
// from now, the database's clock. ErrInvalidRow when no row may look like it.
func (in *Intent) Row(now time.Time) (Transaction, error) {
	t := Transaction{
		ID: in.ID, Kind: KindPayment, Status: StatusRequested, Policy: in.Policy,
		Client: in.Client, Key: in.Key, Order: in.Order,
		AccountMasked: in.AccountMasked, AccountHash: in.AccountHash, Amount: in.Amount,
		RequestedAt: Moment(in.RequestedAt), AdoptAt: Moment(now.Add(in.AdoptAfter)),
		CorrelationID: in.CorrelationID, TraceID: in.By.TraceID,
	}
	if in.KeyLife == 0 { // unset, it would free the key at once
		return t, fmt.Errorf("%w: the key has no life", ErrInvalidRow)
	}
	return t, t.Validate()
}

// Ended is a transaction that had no intent as it enters the book: what t says
// that it is and became, moved there from REQUESTED by the table of moves, due at
// once if it is UNKNOWN. What t says of resolving is not taken over. Of what moves
// money only that may be recorded of which no byte left.
func Ended(t *Transaction, now time.Time) (Transaction, error) {
	if t.Kind.MovesMoney() && !t.NeverSent() {
		return Transaction{}, fmt.Errorf("%w: %q without an intent is %s, %s", ErrInvalidRow, t.Kind, t.Status, t.Evidence)
	}
	row := Transaction{
		ID: t.ID, Kind: t.Kind, Status: StatusRequested,
		Client: t.Client, Key: t.Key, Order: t.Order, Policy: t.Policy,
		AccountMasked: t.AccountMasked, AccountHash: t.AccountHash, Amount: t.Amount,
		RequestedAt: Moment(t.RequestedAt), AdoptAt: Moment(now),
		CorrelationID: t.CorrelationID, TraceID: t.TraceID,
	}
	end := Change{
		ID: t.ID, From: StatusRequested, To: t.Status, Evidence: t.Evidence, Method: t.Method,
		Answer: t.Answer, Reason: t.Reason, SentAt: t.SentAt, RespondedAt: t.RespondedAt, Elapsed: t.Elapsed,
	}
	if _, err := end.Apply(&row, now); err != nil {
		return Transaction{}, err
	}
	row.AdoptAt = time.Time{}
	return row, nil
}

// Adoption is the move of a row that nobody reported the end of.
func Adoption(id tranid.ID, by Actor) Change {
	return Change{
		ID: id, From: StatusRequested, To: StatusUnknown, By: by,
		Reason: "the exchange was not heard of again in time",
	}
}

// Event is the entry that goes with the move.
func (c *Change) Event(now time.Time) Event {
	return NewEvent(c.From, c.To, c.Evidence, now, c.By, c.Reason)
}

// NewEvent is an entry as it enters the book; the store numbers it.
func NewEvent(from, to Status, evidence Evidence, now time.Time, by Actor, detail string) Event {
	return Event{At: Moment(now), From: from, To: to, Evidence: evidence, By: by, Detail: Text(detail)}
}

// EndsLease reports whether nobody is to resolve t any more.
func (t *Transaction) EndsLease() bool { return t.Status.Final() || t.OperatorOnly() }

// FreesOrder reports whether t holds its order no longer.
func (t *Transaction) FreesOrder() bool {
	return t.Status == StatusFailed || t.Status == StatusCanceled
}

// FreesKey reports whether a key that is bound to t, and whose life ends then, may
// be bound again.
func (t *Transaction) FreesKey(expires, now time.Time) bool {
	return t.NeverSent() || t.Status.Final() && !now.Before(expires)
}

// NeverSent reports whether t is FAILED and no byte of it left, so that its key
// may be bound again.
func (t *Transaction) NeverSent() bool {
	return t.Status == StatusFailed && t.Evidence == EvidenceNotSent
}
