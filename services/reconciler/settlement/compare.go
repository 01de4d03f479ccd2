package settlement

import (
	"context"
	"log/slog"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// maxPending is how many transactions wait for a second look at most.
const maxPending = 200

// maxLoggedRows is how many rows that cannot be read are named in the log of one
// run; all are counted.
const maxLoggedRows = 100

// comparison is one run's way along both books.
type comparison struct {
	run      ledger.SettlementRun
	store    Store
	key      ledger.HashKey
	log      *slog.Logger
	alarm    func(ctx context.Context, d *ledger.Difference)
	patience patience
	book     *pages
	tally    *tally

	// page is the page of the core's book at which the comparison is.
	page int
	// pending waits for a second look, found and equal to be stored.
	pending []candidate
	found   []ledger.Difference
	equal   []tranid.ID
}

// candidate is a transaction of which both books seem to say something else.
type candidate struct {
	id tranid.ID
	// record is what the core's book had of it; nil for nothing.
	record *Record
	// page is where it is in the core's book, or was.
	page int
	// known is true when it has a discrepancy that is not closed.
	known bool
	// absent is true when neither book had it.
	absent bool
}

// compare goes along the ledger, the core's book and the discrepancies that are
// known, all three in the order of IDs.
func (c *comparison) compare(ctx context.Context) error {
	rows, records, known := c.rowsOf(), c.recordsOf(), c.knownOf()
	for {
		row, err := rows.peek(ctx)
		if err != nil {
			return err
		}
		if row != nil && row.Err == nil && row.Kind != ledger.KindPayment {
			rows.take() // an inquiry, which no book of the core has
			continue
		}
		record, err := records.peek(ctx)
		if err != nil {
			return err
		}
		id, ended := first(row, record)
		if err := c.pass(ctx, known, id, ended); err != nil {
			return err
		}
		if ended {
			return c.finish(ctx)
		}
		isKnown, err := takeIf(ctx, known, id)
		if err != nil {
			return err
		}
		if row != nil && row.ID != id {
			row = nil
		}
		if record != nil && record.ID != id {
			record = nil
		}
		if err := c.pair(ctx, candidate{id: id, record: record, page: c.page, known: isKnown}, row); err != nil {
			return err
		}
		if row != nil {
			rows.take()
		}
		if record != nil {
			records.take()
		}
	}
}

// first is the lesser ID of the two; there is none at the end of both.
func first(row *ledger.DayRow, record *Record) (id tranid.ID, ended bool) {
	switch {
	case row == nil && record == nil:
		return "", true
	case record == nil, row != nil && row.ID < record.ID:
		return row.ID, false
	default:
		return record.ID, false
	}
}

// pass looks again at what is known to differ and is in neither book before an ID,
// or at all.
func (c *comparison) pass(ctx context.Context, known *stream[tranid.ID], before tranid.ID, all bool) error {
	for {
		id, err := known.peek(ctx)
		if err != nil || id == nil || !all && *id >= before {
			return err
		}
		if err := c.lookAgain(ctx, candidate{id: *id, page: max(c.page, 0), known: true, absent: true}); err != nil {
			return err
		}
		known.take()
	}
}

// takeIf takes the head of a stream if it is this ID.
func takeIf(ctx context.Context, known *stream[tranid.ID], id tranid.ID) (bool, error) {
	head, err := known.peek(ctx)
	if err != nil || head == nil || *head != id {
		return false, err
	}
	known.take()
	return true, nil
}

// pair compares what both books have of one transaction. The row is nil where the
// ledger has none.
func (c *comparison) pair(ctx context.Context, of candidate, row *ledger.DayRow) error {
	switch {
	case row != nil && row.Err != nil:
		return c.unreadable(ctx, of.id, row.Err)
	case c.underWay(row):
		return nil
	case classify(row, of.record, c.key) != 0:
		if of.record != nil {
			kept := *of.record // its page goes
			of.record = &kept
		}
		return c.lookAgain(ctx, of)
	}
	return c.same(ctx, of)
}

// classify is in what both books differ; 0 if they do not. What is nil a book
// does not have.
func classify(row *ledger.DayRow, record *Record, key ledger.HashKey) ledger.DiscrepancyClass {
	done := record != nil && record.State == ledger.CoreDone
	switch {
	case row == nil && done:
		return ledger.ClassCoreOnly
	case row == nil:
		return 0
	case !row.Status.Final():
		return ledger.ClassUnresolved
	case row.Status != ledger.StatusSuccess && done:
		return ledger.ClassCoreOnly
	case row.Status == ledger.StatusSuccess && record == nil:
		return ledger.ClassLedgerOnly
	case record == nil:
		return 0
	case row.Status == ledger.StatusSuccess && !done, row.Amount != record.Amount, row.AccountHash != key.Account(record.Account):
		return ledger.ClassMismatch
	default:
		return 0
	}
}

// underWay reports whether a row began after the run did and has not ended: it is
// of no concern to this run.
func (c *comparison) underWay(row *ledger.DayRow) bool {
	return row != nil && !row.Status.Final() && !row.RequestedAt.Before(c.run.StartedAt)
}

// same counts a transaction of which both books say the same.
func (c *comparison) same(ctx context.Context, of candidate) error {
	if !of.absent {
		c.tally.match()
	}
	if !of.known {
		return nil
	}
	c.equal = append(c.equal, of.id)
	return c.saveFull(ctx)
}

// unreadable steps over a row that holds what no row may.
func (c *comparison) unreadable(ctx context.Context, id tranid.ID, err error) error {
	if count := c.tally.unreadable(); count <= maxLoggedRows {
		c.log.ErrorContext(ctx, "settlement stepped over a row", "run_id", c.run.ID, "transaction_id", ledger.Text(string(id)), "error", err)
	}
	return nil
}

// saveFull stores what was found when it is as much as can be stored at a time.
func (c *comparison) saveFull(ctx context.Context) error {
	if len(c.found)+len(c.equal) < ledger.MaxClaim {
		return nil
	}
	return c.save(ctx)
}

// save stores what was found, and alarms on what is new of it.
func (c *comparison) save(ctx context.Context) error {
	if len(c.found)+len(c.equal) == 0 {
		return nil
	}
	opened, err := c.tally.save(ctx, c.found, c.equal)
	if err != nil {
		return err
	}
	isNew := make(map[tranid.ID]bool, len(opened))
	for _, id := range opened {
		isNew[id] = true
	}
	for i := range c.found {
		if isNew[c.found[i].ID] {
			c.alarm(ctx, &c.found[i])
		}
	}
	c.found, c.equal = c.found[:0], c.equal[:0]
	return nil
}

// finish looks at and stores what is left.
func (c *comparison) finish(ctx context.Context) error {
	if err := c.secondLook(ctx); err != nil {
		return err
	}
	return c.save(ctx)
}
