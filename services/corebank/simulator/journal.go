package simulator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Effect is what a frame did to the books. The zero Effect is invalid.
type Effect uint8

// The effects.
const (
	EffectNone Effect = iota + 1
	EffectDebit
	EffectCancel
	EffectFence
)

var effects = []string{"", "NONE", "DEBIT", "CANCEL", "FENCE"}

// String is the name that is stored and shown.
func (e Effect) String() string {
	if int(e) >= len(effects) {
		return fmt.Sprintf("INVALID(%d)", e)
	}
	return effects[e]
}

// parseEffect reads a stored name.
func parseEffect(s string) (Effect, error) {
	if i := slices.Index(effects, s); i > 0 {
		return Effect(i), nil
	}
	return 0, fmt.Errorf("unknown effect %.20q", s)
}

// Entry is one frame that arrived, and what became of it.
type Entry struct {
	// Sequence ascends by one, from 1.
	Sequence int64
	// At is when the bank decided it.
	At time.Time
	// MTI is the frame's message type.
	MTI string
	// TranID is the frame's transaction ID; of a 0400 or 0420 the original's.
	TranID tranid.ID
	// Account is the frame's; of a 0400 or 0420 the original's, and zero when
	// the bank does not know it.
	Account account.Number
	// Amount is what a 0100 asked for or a 0420 restored; else 0.
	Amount account.Won
	// Effect is what it did to the books.
	Effect Effect
	// ResponseCode is what was decided; empty when the frame was dropped
	// without deciding.
	ResponseCode string
	// Connection is the connection that the frame arrived on.
	Connection int64
}

// Setting gives an account a balance: when it is opened, and when the bank's
// staff (PutAccount) says so.
type Setting struct {
	Account account.Number
	Balance account.Won
	// After is the sequence of the last entry before it; the entries behind
	// that one see it.
	After int64
	At    time.Time
}

// Batch is what is written at once.
type Batch struct {
	Settings []Setting
	Entries  []Entry
}

// Empty reports whether there is nothing to write.
func (b Batch) Empty() bool { return len(b.Settings) == 0 && len(b.Entries) == 0 }

// Filter selects a page of the journal. What is not set lets everything pass.
type Filter struct {
	TranID tranid.ID
	MTI    string
	// After is the sequence behind which the page starts.
	After int64
	// Limit is the most entries of the page, 1 to MaxPage.
	Limit int
}

// MaxPage is the most entries that one page of the journal has.
const MaxPage = 500

// Page is one page of the journal, oldest first.
type Page struct {
	Entries []Entry
	// More is true when entries that pass the filter follow.
	More bool
}

// Recorder is told a book's content in the order in which it was written. Its
// error ends the telling.
type Recorder interface {
	Set(s Setting) error
	Enter(e Entry) error
}

// Book keeps the journal and the settings. It is append-only: there is no way
// to change or to take back what was written.
type Book interface {
	// Append writes a batch whole or not at all, and returns when it is durable.
	// After an error it may be there or not. One caller at a time.
	Append(b Batch) error
	// Replay tells everything, each Setting where its After says.
	Replay(ctx context.Context, to Recorder) error
	// Journal returns a page of what is durable. It may run beside Append.
	Journal(ctx context.Context, f Filter) (Page, error)
	// Close ends the use of the book.
	Close() error
}
