package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

var (
	// ErrRunNotFound says that there is no such settlement run.
	ErrRunNotFound = errors.New("settlement run not found")
	// ErrRunOver says that a settlement run is not RUNNING: it ended, or was
	// taken for dead. Nothing was stored.
	ErrRunOver = errors.New("the settlement run is over")
	// ErrDayRetired says that the rows of a business day have left the book, or
	// are leaving it: there is nothing to compare.
	ErrDayRetired = errors.New("the business day has left the ledger")
)

// RunID names one settlement run.
type RunID string

// RunState is how far a settlement run is. The zero RunState is invalid.
type RunState uint8

// The states of a run. Both ends are final.
const (
	RunRunning RunState = iota + 1
	RunSucceeded
	RunFailed
)

var runStates = closedSet{"", "RUNNING", "SUCCEEDED", "FAILED"}

// String is the name that is stored and shown.
func (s RunState) String() string { return runStates.name(uint8(s)) }

// ParseRunState reads a stored name.
func ParseRunState(s string) (RunState, error) {
	v, err := runStates.parse("run state", s)
	return RunState(v), err
}

// SettlementCounts are what a run has found so far.
type SettlementCounts struct {
	Match, Mismatch, LedgerOnly, CoreOnly, Unresolved int64
	// Unreadable are rows of the ledger that hold what no row may, and were
	// stepped over.
	Unreadable int64
	// Records are those of the core's book that were read.
	Records int64
}

// Add counts one more of a class.
func (c *SettlementCounts) Add(class DiscrepancyClass) {
	switch class {
	case ClassMismatch:
		c.Mismatch++
	case ClassLedgerOnly:
		c.LedgerOnly++
	case ClassCoreOnly:
		c.CoreOnly++
	case ClassUnresolved:
		c.Unresolved++
	}
}

// SettlementRun is one comparison of both books of a business day.
type SettlementRun struct {
	ID    RunID
	Day   tranid.Date
	State RunState
	// Scheduled is true for the daily run, false for one that was asked for.
	Scheduled bool
	// Instance is the process that does it.
	Instance string
	Counts   SettlementCounts
	// StartedAt and FinishedAt are by the database's clock; FinishedAt is zero
	// while it runs.
	StartedAt, FinishedAt time.Time
	// Error says why it FAILED, in a short English sentence; else empty.
	Error string
}

// LostRun is the Error of a run whose process was not heard of in time.
const LostRun = "the process that did it was lost"

// SettlementStart asks for a run.
type SettlementStart struct {
	Day tranid.Date
	// Scheduled asks for the daily run, of which one is enough.
	Scheduled bool
	// Again is how long after a scheduled run that FAILED another may begin.
	Again time.Duration
	// Lease is how long the run counts as alive without a word from it.
	Lease time.Duration
	// Instance is the process that will do it.
	Instance string
}

// SettlementProgress is a word from a run that is alive, and what it has found
// since the last.
type SettlementProgress struct {
	Run    RunID
	Counts SettlementCounts
	// Lease is how long it counts as alive from now on.
	Lease time.Duration
	// Found are differences, of the day of the run, and Equal are transactions of
	// which both books say the same; at most MaxClaim together.
	Found []Difference
	Equal []tranid.ID
}

// Validate reports what of it may not be stored for a day.
func (p *SettlementProgress) Validate(day tranid.Date) error {
	if len(p.Found)+len(p.Equal) > MaxClaim {
		return fmt.Errorf("%w: %d differences at a time", ErrInvalidRow, len(p.Found)+len(p.Equal))
	}
	for i := range p.Found {
		if err := p.Found[i].validate(day); err != nil {
			return err
		}
	}
	return nil
}

// SettlementEnd is the end of a run.
type SettlementEnd struct {
	Run RunID
	// State is RunSucceeded or RunFailed.
	State  RunState
	Counts SettlementCounts
	// Error says why it FAILED; as Text keeps it.
	Error string
}

// Validate reports whether no run may end like this.
func (e *SettlementEnd) Validate() error {
	if e.State == RunSucceeded && e.Error == "" || e.State == RunFailed && e.Error != "" {
		return nil
	}
	return fmt.Errorf("%w: a run that ends %s with error %q", ErrInvalidRow, e.State, e.Error)
}

// DayRow is what settlement compares of a transaction.
type DayRow struct {
	ID          tranid.ID
	Kind        Kind
	Status      Status
	AccountHash Hash
	Amount      account.Won
	RequestedAt time.Time
	// Err says that the row holds what no row may; it then has its ID alone, as
	// it is stored.
	Err error
}

// Validate reports what a row of a day may not hold, of what settlement compares.
func (r *DayRow) Validate(day tranid.Date) error {
	switch {
	case r.ID.Date() != day || day.IsZero():
		return fmt.Errorf("%w: %.30q is not of %s", ErrInvalidRow, string(r.ID), day)
	case r.Kind == KindPayment && (r.Amount < 1 || r.Amount > account.MaxPayment):
		return fmt.Errorf("%w: %s is a payment of an impossible amount", ErrInvalidRow, r.ID)
	default:
		return nil
	}
}

// MaxDayRows is the most rows that one DayRows returns.
const MaxDayRows = 1000

// SettlementFilter selects runs.
type SettlementFilter struct {
	// Day is a business day; the zero Date lets all pass.
	Day tranid.Date
	// Limit is the most runs of a page, 1 to MaxPage.
	Limit int
	// After is where the page before ended.
	After *SettlementCursor
}

// SettlementCursor is a place in the order of ListSettlements.
type SettlementCursor struct {
	StartedAt time.Time
	ID        RunID
}

// SettlementPage is one page of ListSettlements. Next is nil on the last.
type SettlementPage struct {
	Runs []SettlementRun
	Next *SettlementCursor
}

// Settlements is what settlement reconciliation needs of the book.
type Settlements interface {
	SettlementRuns
	SettlementReader
	Discrepancies
}

// SettlementRuns is how a run begins, stays alive and ends. A run whose lease has
// passed, by the database's clock, is lost: it becomes FAILED with LostRun by
// whoever sees it first, and can store nothing more.
type SettlementRuns interface {
	// BeginSettlement stores a run and reports true, or answers with the run
	// that makes another needless and reports false: of a day, one run is live at
	// a time over all processes. A scheduled one is not begun either when a
	// scheduled run of that day SUCCEEDED, or FAILED less than Again ago.
	// ErrDayRetired.
	BeginSettlement(ctx context.Context, s SettlementStart) (SettlementRun, bool, error)

	// SaveSettlement stores the counts, prolongs the lease, stores each
	// difference as Discrepancy.Found says, and closes the discrepancies of
	// what is equal, in one database transaction. It returns those that were
	// opened by that: which were not there, were CLOSED, or have become another
	// class. ErrRunOver if the run is not RUNNING; ErrDayRetired; ErrInvalidRow.
	SaveSettlement(ctx context.Context, p SettlementProgress) ([]tranid.ID, error)

	// EndSettlement ends a run, with its last counts. ErrRunOver if it is not
	// RUNNING; ErrDayRetired when it SUCCEEDED; ErrInvalidRow.
	EndSettlement(ctx context.Context, e SettlementEnd) error

	// FailLostSettlements makes FAILED what is lost, and returns how many.
	FailLostSettlements(ctx context.Context) (int, error)
}

// SettlementReader is how runs, and the days that they compare, are read.
type SettlementReader interface {
	// GetSettlement returns a run, as far as it is, or ErrRunNotFound.
	GetSettlement(ctx context.Context, id RunID) (SettlementRun, error)
	// ListSettlements returns runs, newest started first, then by ID descending.
	ListSettlements(ctx context.Context, f SettlementFilter) (SettlementPage, error)

	// DayRows returns the first rows of a business day behind an ID, in the order
	// of IDs, at most limit (1 to MaxDayRows) of them, of every kind. Fewer are
	// the last. It costs no more than what it returns.
	DayRows(ctx context.Context, day tranid.Date, after tranid.ID, limit int) ([]DayRow, error)
	// DayUnknown is DayRows of what is UNKNOWN, and IDs alone. It costs no more
	// than what is UNKNOWN of the whole book.
	DayUnknown(ctx context.Context, day tranid.Date, after tranid.ID, limit int) ([]tranid.ID, error)
}
