package settlement

import (
	"context"
	"sort"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// stream is what is read page by page in the order of IDs, one page in hand.
type stream[T any] struct {
	// next reads the page behind an ID. last says that there is no other.
	next func(ctx context.Context, after tranid.ID) (page []T, last bool, err error)
	id   func(*T) tranid.ID

	page []T
	last bool
	at   tranid.ID // the last ID that was taken
}

// peek is the first that was not taken; nil at the end.
func (s *stream[T]) peek(ctx context.Context) (*T, error) {
	for len(s.page) == 0 {
		if s.last {
			return nil, nil //nolint:nilnil // the end is no error
		}
		var err error
		if s.page, s.last, err = s.next(ctx, s.at); err != nil {
			return nil, err
		}
	}
	return &s.page[0], nil
}

// take goes on to the next.
func (s *stream[T]) take() {
	s.at = s.id(&s.page[0])
	s.page = s.page[1:]
}

// rowsOf streams the rows of a day, of every kind.
func (c *comparison) rowsOf() *stream[ledger.DayRow] {
	return &stream[ledger.DayRow]{
		id: func(r *ledger.DayRow) tranid.ID { return r.ID },
		next: func(ctx context.Context, after tranid.ID) (page []ledger.DayRow, last bool, err error) {
			err = c.patience.try(ctx, func(ctx context.Context) (err error) {
				page, err = c.store.DayRows(ctx, c.run.Day, after, ledger.MaxDayRows)
				return err
			})
			return page, len(page) < ledger.MaxDayRows, err
		},
	}
}

// knownOf streams the discrepancies of a day that are not closed.
func (c *comparison) knownOf() *stream[tranid.ID] {
	return &stream[tranid.ID]{
		id: func(id *tranid.ID) tranid.ID { return *id },
		next: func(ctx context.Context, after tranid.ID) (page []tranid.ID, last bool, err error) {
			err = c.patience.try(ctx, func(ctx context.Context) (err error) {
				page, err = c.store.UnclosedDiscrepancies(ctx, c.run.Day, after, ledger.MaxDayRows)
				return err
			})
			return page, len(page) < ledger.MaxDayRows, err
		},
	}
}

// maxStalled is how many pages may follow each other that hold nothing new: so
// many payments may come into the book, before its place, while one is read.
const maxStalled = 100

// recordsOf streams the core's book. A payment that comes into it before the
// place of the reader moves the records behind it on, so that the next page
// begins with some that were read: they are passed over, if that is why.
func (c *comparison) recordsOf() *stream[Record] {
	c.page = -1
	stalled := 0
	return &stream[Record]{
		id: func(r *Record) tranid.ID { return r.ID },
		next: func(ctx context.Context, after tranid.ID) ([]Record, bool, error) {
			c.page++
			page, err := c.book.read(ctx, c.page)
			if err != nil {
				return nil, false, err
			}
			if err := c.book.continues(ctx, c.page, page, after); err != nil {
				return nil, false, err
			}
			last := len(page) < PageSize
			if last {
				if err := c.book.ends(ctx, c.page); err != nil {
					return nil, false, err
				}
			}
			fresh := page[sort.Search(len(page), func(i int) bool { return page[i].ID > after }):]
			if stalled++; len(fresh) > 0 {
				stalled = 0
			}
			if stalled > maxStalled {
				return nil, false, &ListingError{c.page, "and those before it hold nothing new"}
			}
			c.tally.read(len(fresh))
			return fresh, last, nil
		},
	}
}

// continues reports whether a page may follow those that were read as far as
// after. If it begins before that, the page before it must have moved on by now.
func (p *pages) continues(ctx context.Context, number int, page []Record, after tranid.ID) error {
	if number == 0 || len(page) == 0 || page[0].ID > after {
		return nil
	}
	before, err := p.read(ctx, number-1)
	if err != nil {
		return err
	}
	if before[len(before)-1].ID >= page[0].ID {
		return &ListingError{number, "overlaps the one before it"}
	}
	return nil
}

// ends reports whether a page with fewer records than it may have is the last:
// what is behind it came into the book when the page was full.
func (p *pages) ends(ctx context.Context, number int) error {
	behind, err := p.read(ctx, number+1)
	if err != nil || len(behind) == 0 {
		return err
	}
	again, err := p.read(ctx, number)
	if err == nil && len(again) < PageSize {
		return &ListingError{number, "is cut short: there are records behind it"}
	}
	return err
}
