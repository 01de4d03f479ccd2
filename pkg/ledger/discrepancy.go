package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// ErrDiscrepancyNotFound says that there is no such discrepancy.
var ErrDiscrepancyNotFound = errors.New("discrepancy not found")

// MaxNote is the most characters of an operator's note.
const MaxNote = 500

// Note is s as the book keeps it: like Text, and longer.
func Note(s string) string { return text(s, MaxNote) }

// DiscrepancyClass is in what both books differ. The zero DiscrepancyClass is
// invalid.
type DiscrepancyClass uint8

// The classes.
const (
	// ClassMismatch: both have it, with another amount, account or end.
	ClassMismatch DiscrepancyClass = iota + 1
	// ClassLedgerOnly: SUCCESS here, unknown at the core.
	ClassLedgerOnly
	// ClassCoreOnly: done at the core, and here FAILED, CANCELED or not at all: a
	// ghost.
	ClassCoreOnly
	// ClassUnresolved: not final here.
	ClassUnresolved
)

var classes = closedSet{"", "MISMATCH", "LEDGER_ONLY", "CORE_ONLY", "UNRESOLVED"}

// DiscrepancyClasses are all of them, in the order of the contract.
var DiscrepancyClasses = []DiscrepancyClass{ClassMismatch, ClassLedgerOnly, ClassCoreOnly, ClassUnresolved}

// String is the name that is stored and shown.
func (c DiscrepancyClass) String() string { return classes.name(uint8(c)) }

// ParseDiscrepancyClass reads a stored name.
func ParseDiscrepancyClass(s string) (DiscrepancyClass, error) {
	v, err := classes.parse("discrepancy class", s)
	return DiscrepancyClass(v), err
}

// DiscrepancyState is what became of a discrepancy. The zero DiscrepancyState is
// invalid.
type DiscrepancyState uint8

// The states: nobody has looked at it; an operator has; a later run found both
// books equal.
const (
	DiscrepancyOpen DiscrepancyState = iota + 1
	DiscrepancyNoted
	DiscrepancyClosed
)

var discrepancyStates = closedSet{"", "OPEN", "NOTED", "CLOSED"}

// String is the name that is stored and shown.
func (s DiscrepancyState) String() string { return discrepancyStates.name(uint8(s)) }

// ParseDiscrepancyState reads a stored name.
func ParseDiscrepancyState(s string) (DiscrepancyState, error) {
	v, err := discrepancyStates.parse("discrepancy state", s)
	return DiscrepancyState(v), err
}

// CoreState is what the core's book says of a payment, in the words of the 0510.
// The zero CoreState is nothing: the book does not have it.
type CoreState string

// What the core's book can say.
const (
	CoreDone     CoreState = "00"
	CoreCanceled CoreState = "99"
)

// Difference is one transaction of which both books say something else, as it was
// found.
type Difference struct {
	ID    tranid.ID
	Class DiscrepancyClass
	// LedgerStatus and LedgerAmount are what the ledger has; zero where it has no
	// such payment.
	LedgerStatus Status
	LedgerAmount account.Won
	// CoreState and CoreAmount are what the core's book has; zero where it does
	// not have it.
	CoreState  CoreState
	CoreAmount account.Won
}

// validate reports whether no discrepancy of a day may look like this.
func (d *Difference) validate(day tranid.Date) error {
	core := d.CoreState == CoreDone || d.CoreState == CoreCanceled
	sound := day == d.ID.Date() && !day.IsZero() &&
		(core || d.CoreState == "") && d.CoreAmount >= 0 && d.CoreAmount <= account.MaxPayment && (core || d.CoreAmount == 0) &&
		d.LedgerAmount >= 0 && d.LedgerAmount <= account.MaxPayment && (d.LedgerStatus == 0) == (d.LedgerAmount == 0)
	switch d.Class {
	case ClassMismatch:
		sound = sound && core && d.LedgerStatus.Final()
	case ClassLedgerOnly:
		sound = sound && !core && d.LedgerStatus == StatusSuccess
	case ClassCoreOnly:
		sound = sound && d.CoreState == CoreDone &&
			(d.LedgerStatus == 0 || d.LedgerStatus == StatusFailed || d.LedgerStatus == StatusCanceled)
	case ClassUnresolved:
		sound = sound && (d.LedgerStatus == StatusUnknown || d.LedgerStatus == StatusRequested)
	default:
		sound = false
	}
	if !sound {
		return fmt.Errorf("%w: %s of %.30q, %q here and %q there", ErrInvalidRow, d.Class, string(d.ID), d.LedgerStatus, d.CoreState)
	}
	return nil
}

// Discrepancy is a difference and what became of it. A transaction has one at
// most; its ID names it.
type Discrepancy struct {
	Difference
	// Run is the last run that found it; empty when none did.
	Run   RunID
	State DiscrepancyState
	// Note is the last that an operator wrote, NotedBy who that was; empty before.
	Note    string
	NotedBy string
	// FoundAt is when it was opened, ClosedAt when a run found both books equal;
	// zero before. By the database's clock.
	FoundAt, ClosedAt time.Time
}

// Found is d after a run has found it, and whether that opened it. The zero
// Discrepancy is one that was not there. What an operator wrote stays; that he
// has seen it counts until it is another difference, or comes back.
func (d Discrepancy) Found(run RunID, as Difference, now time.Time) (Discrepancy, bool) {
	opened := d.State == 0 || d.State == DiscrepancyClosed || d.Class != as.Class
	d.Difference, d.Run = as, run
	if opened {
		d.State, d.FoundAt, d.ClosedAt = DiscrepancyOpen, Moment(now), time.Time{}
	}
	return d, opened
}

// Noted is d after an operator has written a note. What is CLOSED stays so.
func (d Discrepancy) Noted(note, by string) Discrepancy {
	d.Note, d.NotedBy = note, by
	if d.State == DiscrepancyOpen {
		d.State = DiscrepancyNoted
	}
	return d
}

// DiscrepancyFilter selects discrepancies. What is not set lets everything pass.
type DiscrepancyFilter struct {
	Run   RunID
	State DiscrepancyState
	// Limit is the most discrepancies of a page, 1 to MaxPage.
	Limit int
	// After is where the page before ended.
	After *DiscrepancyCursor
}

// DiscrepancyCursor is a place in the order of ListDiscrepancies.
type DiscrepancyCursor struct {
	FoundAt time.Time
	ID      tranid.ID
}

// DiscrepancyPage is one page of ListDiscrepancies. Next is nil on the last.
type DiscrepancyPage struct {
	Discrepancies []Discrepancy
	Next          *DiscrepancyCursor
}

// Discrepancies is how differences are read and noted.
type Discrepancies interface {
	// ListDiscrepancies returns discrepancies, newest found first, then by ID
	// descending.
	ListDiscrepancies(ctx context.Context, f DiscrepancyFilter) (DiscrepancyPage, error)
	// UnclosedDiscrepancies returns the IDs of the first discrepancies of a day
	// behind an ID that are not CLOSED, in the order of IDs, at most limit (1 to
	// MaxDayRows). Fewer are the last.
	UnclosedDiscrepancies(ctx context.Context, day tranid.Date, after tranid.ID, limit int) ([]tranid.ID, error)
	// NoteDiscrepancy stores a note, as Note keeps it, and who wrote it, and makes
	// what is OPEN NOTED. ErrDiscrepancyNotFound; ErrInvalidRow for a note that is
	// empty.
	NoteDiscrepancy(ctx context.Context, id tranid.ID, note, by string) (Discrepancy, error)
	// CountDiscrepancies counts what is OPEN, by class; it has an entry for each.
	CountDiscrepancies(ctx context.Context) (map[DiscrepancyClass]int64, error)
}
