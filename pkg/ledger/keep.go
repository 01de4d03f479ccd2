package ledger

import (
	"context"
	"time"

	"github.com/gwanmun/gwanmun/pkg/tranid"
)

const (
	// MaxPurge is the most keys that one step of unbinding looks at.
	MaxPurge = 500
	// MaxRetire is the most rows that one step of retiring deletes, and
	// EventsPerRow times as many events: what one database transaction touches.
	MaxRetire = 100
	// EventsPerRow bounds the events that a step deletes. A row that has more
	// takes more steps.
	EventsPerRow = 4
	// KeyRecheck is how long an expired key is left alone when its transaction is
	// not final yet. However many there are of those, they then cost a step once
	// in that time and keep no other key waiting.
	KeyRecheck = time.Hour
)

// Keeper keeps the book from growing for ever. Its steps are small, so that no
// payment waits for one, and any number of processes may take them at once.
type Keeper interface {
	// PurgeKeys looks at up to limit (1 to MaxPurge) keys whose life is over,
	// those that ended first: it unbinds what is bound to a final transaction,
	// and puts the rest off for KeyRecheck. When it looked at fewer than limit,
	// there are no more for now.
	PurgeKeys(ctx context.Context, limit int) (Purge, error)

	// RetireDay deletes up to o.Limit rows of the oldest business day that is to
	// leave the book, with their events and order guards. A day leaves whole or
	// not at all: nothing of it is deleted unless all of it is final, nothing is
	// owed to the core, and none of its keys is bound any more. What a crash
	// leaves of a day is deleted by later calls. An order of a deleted row can be
	// paid again.
	RetireDay(ctx context.Context, o RetireOptions) (Retirement, error)
}

// Purge is what one step of unbinding keys did.
type Purge struct {
	// Unbound keys are gone.
	Unbound int
	// Kept ones belong to transactions that are not final.
	Kept int
}

// RetireOptions say which business days may leave the book.
type RetireOptions struct {
	// RetainDays is how many whole days must lie between a day that leaves and
	// today, 1 at least.
	RetainDays int
	// Today is the caller's. Of it and the database's day in Seoul the earlier
	// counts, so that no one clock that runs ahead deletes anything.
	Today tranid.Date
	// After passes over a day and those before it; the zero Date none.
	After tranid.Date
	// Limit is the most rows to delete, 1 to MaxRetire.
	Limit int
}

// Retirement is what one step of retiring a day did.
type Retirement struct {
	// Day is the business day; the zero Date when there is none to retire.
	Day tranid.Date
	// Rows, Events and Orders were deleted by this step.
	Rows, Events, Orders int
	// Gone says that nothing of the day is left.
	Gone bool
	// Hold is why the day stays for now.
	Hold Hold
}

// Hold is why a business day cannot leave the book now. The zero Hold is none.
type Hold uint8

// The holds.
const (
	// HoldOpen: a transaction is not final, or is being changed.
	HoldOpen Hold = iota + 1
	// HoldOwed: an operator's net cancel is not answered yet.
	HoldOwed
	// HoldKeys: a key is bound to one of its transactions.
	HoldKeys
	// HoldBusy: another process is deleting it.
	HoldBusy
)

var holds = closedSet{"", "OPEN", "OWED", "KEYS", "BUSY"}

// String is the name that is shown; empty for none.
func (h Hold) String() string { return holds.name(uint8(h)) }

// LastRetired is the newest business day that may leave the book, by the
// database's clock and the caller's; the zero Date for options that allow none.
func (o *RetireOptions) LastRetired(now time.Time) tranid.Date {
	if o.RetainDays < 1 || o.Today.IsZero() || now.IsZero() {
		return tranid.Date{}
	}
	today := tranid.DateOf(now)
	if o.Today.Start().Before(today.Start()) {
		today = o.Today
	}
	return tranid.DateOf(today.Start().AddDate(0, 0, -o.RetainDays-1))
}
