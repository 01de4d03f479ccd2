package settlement

import (
	"context"
	"errors"
	"fmt"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// PageSize is how many records a page of the core's book has; one with fewer is
// the last.
const PageSize = 199

// maxPages is more pages than a day has transaction IDs for.
const maxPages = (tranid.MaxNumber+1)/PageSize + 1

// Record is one payment in the core's book.
type Record struct {
	ID      tranid.ID
	Account account.Number
	Amount  account.Won
	State   ledger.CoreState
}

// Book is the core's book. It only ever grows: a payment may come between two
// others, and may become canceled, and nothing else happens to a record.
type Book interface {
	// Page returns a page, from 0, of the payments of a day: strictly ascending
	// by ID, at most PageSize; fewer are the last.
	Page(ctx context.Context, day tranid.Date, page int) ([]Record, error)
}

// ListingError says why the core's book cannot be what it says it is. Nothing
// follows from such a book.
type ListingError struct {
	// Page is where that showed.
	Page int
	// Fault is a clause, with nothing in it that may not be shown.
	Fault string
}

// Error names the page.
func (e *ListingError) Error() string {
	return fmt.Sprintf("page %d of the core's book %s", e.Page, e.Fault)
}

// errBook says that a page could not be had.
var errBook = errors.New("the core's book could not be read")

// pages reads the book of a day, and remembers what a page may not take back.
type pages struct {
	book     Book
	day      tranid.Date
	patience patience
	// full is how many pages, from the first, were seen full: they stay so.
	full int
}

// read returns a page that may be what it says.
func (p *pages) read(ctx context.Context, number int) ([]Record, error) {
	if number >= maxPages {
		return nil, &ListingError{number, "is one more than a day can have"}
	}
	var records []Record
	err := p.patience.try(ctx, func(ctx context.Context) (err error) {
		records, err = p.book.Page(ctx, p.day, number)
		return err
	})
	switch {
	case errors.Is(err, corelink.ErrGarbage):
		return nil, fmt.Errorf("%w: %w", &ListingError{number, "contradicts itself, or what was asked"}, err)
	case err != nil:
		return nil, fmt.Errorf("%w: page %d: %w", errBook, number, err)
	}
	if fault := p.fault(records); fault != "" {
		return nil, &ListingError{number, fault}
	}
	switch {
	case len(records) == PageSize:
		p.full = max(p.full, number+1)
	case number < p.full:
		return nil, &ListingError{number, "has lost records"}
	}
	return records, nil
}

// fault is what is wrong with a page by itself; empty for nothing.
func (p *pages) fault(records []Record) string {
	if len(records) > PageSize {
		return "has more records than a page may have"
	}
	for i := range records {
		r := &records[i]
		switch {
		case r.ID.Date() != p.day:
			return "has a record of another day"
		case i > 0 && r.ID == records[i-1].ID:
			return "has a record twice"
		case i > 0 && r.ID < records[i-1].ID:
			return "is not in order"
		case r.State != ledger.CoreDone && r.State != ledger.CoreCanceled:
			return "has a record in an unknown state"
		case r.Amount < 0 || r.Amount > account.MaxPayment || r.Account.IsZero():
			return "has a record without an amount or an account"
		}
	}
	return ""
}

// follows reports whether a record, read later, may be what became of another.
func (r *Record) follows(earlier *Record) bool {
	return r.Account == earlier.Account && r.Amount == earlier.Amount &&
		(r.State == earlier.State || r.State == ledger.CoreCanceled)
}
