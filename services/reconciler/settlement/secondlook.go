package settlement

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// lookAgain puts a transaction off to a second look, which is taken at many at a
// time.
func (c *comparison) lookAgain(ctx context.Context, of candidate) error {
	c.pending = append(c.pending, of)
	if len(c.pending) < maxPending {
		return nil
	}
	return c.secondLook(ctx)
}

// secondLook reads all that is pending again: first the rows, then their pages of
// the core's book. What is final in the ledger then is no news to the core, so
// what differs now differs indeed, whatever was written since the first look.
func (c *comparison) secondLook(ctx context.Context) error {
	rows := make([]ledger.DayRow, len(c.pending))
	for i, of := range c.pending {
		var err error
		if rows[i], err = c.rowAgain(ctx, of.id); err != nil {
			return err
		}
	}
	look := seeker{pages: c.book}
	for i, of := range c.pending {
		record, err := look.find(ctx, of.id, of.page)
		if err != nil {
			return err
		}
		if of.record != nil && (record == nil || !record.follows(of.record)) {
			return &ListingError{of.page, "has taken back a record"}
		}
		if err := c.judge(ctx, of, &rows[i], record); err != nil {
			return err
		}
	}
	c.pending = c.pending[:0]
	return nil
}

// rowAgain reads a row. One that is not there has no ID, one that cannot be read
// an Err.
func (c *comparison) rowAgain(ctx context.Context, id tranid.ID) (ledger.DayRow, error) {
	var t ledger.Transaction
	var bad error
	err := c.patience.try(ctx, func(ctx context.Context) (err error) {
		t, err = c.store.Get(ctx, id)
		if err != nil && !errors.Is(err, ledger.ErrUnavailable) && ctx.Err() == nil {
			bad, err = err, nil
		}
		return err
	})
	switch {
	case err != nil:
		return ledger.DayRow{}, fmt.Errorf("read %s again: %w", id, err)
	case errors.Is(bad, ledger.ErrNotFound):
		return ledger.DayRow{}, nil
	case bad != nil:
		return ledger.DayRow{ID: id, Err: bad}, nil //nolint:nilerr // the row tells it
	case t.Kind != ledger.KindPayment:
		return ledger.DayRow{}, nil
	}
	return ledger.DayRow{
		ID: id, Kind: t.Kind, Status: t.Status, AccountHash: t.AccountHash, Amount: t.Amount, RequestedAt: t.RequestedAt,
	}, nil
}

// judge says what a second look has shown.
func (c *comparison) judge(ctx context.Context, of candidate, row *ledger.DayRow, record *Record) error {
	if row.ID == "" {
		row = nil
	}
	of.absent = row == nil && record == nil
	switch {
	case row != nil && row.Err != nil:
		return c.unreadable(ctx, of.id, row.Err)
	case c.underWay(row):
		return nil
	}
	class := classify(row, record, c.key)
	if class == 0 {
		return c.same(ctx, of)
	}
	d := ledger.Difference{ID: of.id, Class: class}
	if row != nil {
		d.LedgerStatus, d.LedgerAmount = row.Status, row.Amount
	}
	if record != nil {
		d.CoreState, d.CoreAmount = record.State, record.Amount
	}
	c.tally.differs(class)
	c.found = append(c.found, d)
	return c.saveFull(ctx)
}

// maxSteps is how many pages a record may have moved between two looks.
const maxSteps = 10_000

// seeker finds records in the core's book, those of one look, in the order of
// IDs. Each page is read anew, but for that in hand.
type seeker struct {
	pages  *pages
	number int
	page   []Record
	held   bool
}

// find returns the record of an ID, looking at a page first; nil if the book does
// not have it. That it is between two pages is true only if the second was read
// after the first: records move on, and never back.
func (s *seeker) find(ctx context.Context, id tranid.ID, hint int) (*Record, error) {
	if !s.held || len(s.page) == 0 || id < s.page[0].ID {
		if err := s.turn(ctx, hint); err != nil {
			return nil, err
		}
	}
	rose := false
	for range maxSteps {
		var step int
		switch {
		case len(s.page) == PageSize && id > s.page[PageSize-1].ID:
			step, rose = 1, true
		case s.number > 0 && !rose && (len(s.page) == 0 || id < s.page[0].ID):
			step = -1
		default:
			i := sort.Search(len(s.page), func(i int) bool { return s.page[i].ID >= id })
			if i < len(s.page) && s.page[i].ID == id {
				return &s.page[i], nil
			}
			return nil, nil //nolint:nilnil // it is not there
		}
		if err := s.turn(ctx, s.number+step); err != nil {
			return nil, err
		}
	}
	return nil, &ListingError{s.number, "is too far from where its records were"}
}

func (s *seeker) turn(ctx context.Context, number int) error {
	page, err := s.pages.read(ctx, number)
	s.number, s.page, s.held = number, page, err == nil
	return err
}
