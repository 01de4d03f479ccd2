package gormstore

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// writeOutcomes settles a batch of moves in one database transaction. After a
// COMMIT that may have happened, none is told that nothing is stored.
func (s *Store) writeOutcomes(ctx context.Context, batch []*ledger.Change) []reply[*ledger.Transaction] {
	defer s.requested.forget(batch)
	var replies []reply[*ledger.Transaction]
	err := s.retried(ctx, func(ctx context.Context) (err error) {
		replies, err = s.plainOutcomes(ctx, batch)
		return err
	})
	if errors.Is(err, errNotPlain) {
		err = s.writeTogether(ctx, func(tx *gorm.DB) (err error) {
			if len(batch) == 1 {
				var one reply[*ledger.Transaction]
				one.answer, err = s.moveOne(tx, batch[0])
				replies = []reply[*ledger.Transaction]{one}
				return err
			}
			replies, err = s.moveMany(tx, batch)
			return err
		})
	}
	var commit *commitError
	switch {
	case err == nil:
		return replies
	case errors.As(err, &commit), len(batch) == 1 && s.isVerdict(err):
		return leftAlone[*ledger.Transaction](len(batch), err)
	default:
		s.tellAlone(ctx, "outcome", len(batch), err)
		return leftAlone[*ledger.Transaction](len(batch), errors.Join(errAlone, err))
	}
}

// outcome is a move that is made of a row that was read and locked.
type outcome struct {
	before *ledger.Transaction
	after  ledger.Transaction
	event  ledger.Event
	stored bool
}

// moveMany makes moves of different rows, which it locks in the order of their
// IDs. A second move of a row is left alone.
func (s *Store) moveMany(tx *gorm.DB, batch []*ledger.Change) ([]reply[*ledger.Transaction], error) {
	changes := make(map[tranid.ID]*ledger.Change, len(batch))
	for _, c := range batch {
		if changes[c.ID] == nil {
			changes[c.ID] = c
		}
	}
	made, failed, err := s.prepareMoves(tx, changes, s.dialect.forUpdate)
	if err != nil {
		return nil, err
	}
	if err := s.storeMoves(tx, made); err != nil {
		return nil, err
	}
	replies := leftAlone[*ledger.Transaction](len(batch), errAlone)
	for i, c := range batch {
		o := made[c.ID]
		switch {
		case changes[c.ID] != c:
		case failed[c.ID] != nil:
			replies[i].err = failed[c.ID]
		case o.stored:
			replies[i] = reply[*ledger.Transaction]{answer: &o.after}
		}
	}
	return replies, nil
}

// prepareMoves reads the rows, locked as lock says, and finds out what each becomes, or why
// it does not move.
func (s *Store) prepareMoves(
	tx *gorm.DB, changes map[tranid.ID]*ledger.Change, lock string,
) (made map[tranid.ID]*outcome, failed map[tranid.ID]error, err error) {
	made, failed = make(map[tranid.ID]*outcome, len(changes)), make(map[tranid.ID]error)
	for id := range changes {
		failed[id] = ledger.ErrNotFound // unless it is found
	}
	err = s.readRows(tx, slices.Collect(maps.Keys(changes)), lock, func(row *clockedRow) {
		id := tranid.ID(row.Row.TransactionID)
		o, err := prepareMove(row, changes[id])
		if failed[id] = err; err == nil {
			made[id] = o
		}
	})
	return made, failed, err
}

func prepareMove(row *clockedRow, c *ledger.Change) (*outcome, error) {
	t, err := row.Row.transaction()
	if err != nil {
		return nil, err
	}
	return prepareMoveOf(&t, c, row.Clock.at)
}

func prepareMoveOf(t *ledger.Transaction, c *ledger.Change, now time.Time) (*outcome, error) {
	o := &outcome{before: t, after: *t, event: c.Event(now)}
	moved, err := c.Apply(&o.after, now)
	switch {
	case err != nil:
		return nil, err
	case !moved:
		return nil, &ledger.LostError{Current: *t}
	}
	return o, o.event.Validate()
}

// lockRows is readRows of rows that nobody else may change meanwhile.
func (s *Store) lockRows(tx *gorm.DB, wanted []tranid.ID, read func(*clockedRow)) error {
	return s.readRows(tx, wanted, s.dialect.forUpdate, read)
}

// readRows reads rows that are to be changed, in the order of their IDs, and the
// clock after each was locked.
func (s *Store) readRows(tx *gorm.DB, wanted []tranid.ID, lock string, read func(*clockedRow)) error {
	ids := make([]string, 0, len(wanted))
	for _, id := range wanted {
		if !id.Date().IsZero() { // PostgreSQL takes what is no day for a mistake
			ids = append(ids, string(id))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids) // and so their days
	rows, values := s.dialect.each(columns, ids, lock)
	query := tx.Raw(`WITH locked AS MATERIALIZED (
	`+rows+`)
SELECT `+columns+`, ? AS clock FROM locked`, append(values, s.dialect.clock(0))...)
	var row clockedRow
	return eachRow(query, func() { read(&row) }, append(row.Row.targets(), &row.Clock)...)
}

// setByMove are the columns that a move sets, as the table given has them.
var setByMove = strings.Join([]string{
	"status = new_status", "evidence = new_evidence", "resolution_method = new_method", "needs_review = new_review",
	"response_code = new_code", "response_message = new_message", "approval_number = new_approval", "reason = new_reason",
	"elapsed_us = new_elapsed", "sent_at = new_sent_at", "responded_at = new_responded_at", "resolved_at = new_resolved_at",
	"next_resolve_at = new_resolve_at", "decision = new_decision",
	"lease_token = CASE WHEN ends_lease THEN '' ELSE lease_token END",
	"lease_until = CASE WHEN ends_lease THEN NULL ELSE lease_until END",
}, ", ")

// storeMoves writes what the moves made of the rows that still are where they
// were, their events, and frees their orders.
func (s *Store) storeMoves(tx *gorm.DB, made map[tranid.ID]*outcome) error {
	if len(made) == 0 {
		return nil
	}
	outcomes := make([]*outcome, 0, len(made))
	for _, o := range made {
		outcomes = append(outcomes, o)
	}
	sortOutcomes(outcomes)
	if err := s.updateMany(tx, made, outcomes); err != nil {
		return err
	}
	outcomes = slices.DeleteFunc(outcomes, func(o *outcome) bool { return !o.stored })
	if len(outcomes) == 0 {
		return nil
	}
	events := make([]eventRow, len(outcomes))
	for i, o := range outcomes {
		events[i] = newEventRow(o.after.ID, &o.event)
	}
	if err := s.dialect.insertEvents(tx, events); err != nil {
		return err
	}
	return s.freeOrders(tx, outcomes)
}

func sortOutcomes(outcomes []*outcome) {
	slices.SortFunc(outcomes, func(a, b *outcome) int { return cmp.Compare(a.before.ID, b.before.ID) })
}

// updateMany is update of many rows. It notes which are stored.
func (s *Store) updateMany(tx *gorm.DB, made map[tranid.ID]*outcome, outcomes []*outcome) error {
	head, update, values := s.dialect.updateOf(outcomes)
	var stored string
	return eachRow(tx.Raw(head+update, values...), func() { made[tranid.ID(stored)].stored = true }, &stored)
}

// updateOf is the update of many rows, if they still are where they were, which
// returns the IDs of those that were.
func (d *dialect) updateOf(outcomes []*outcome) (head, update string, values []any) {
	rows := make([]transactionRow, len(outcomes))
	for i, o := range outcomes {
		o.stored = false
		rows[i] = *newTransactionRow(&o.after)
	}
	head, values = d.given(&relation{count: len(outcomes), columns: moveColumns(outcomes, rows)})
	return head, "UPDATE transactions SET " + setByMove + " FROM " + d.joined + `
	AND status IS NOT DISTINCT FROM was_status AND decision = was_decision
RETURNING transaction_id`, values
}

// moveColumns are what an update of many rows needs of each.
func moveColumns(outcomes []*outcome, rows []transactionRow) []column {
	type row = transactionRow
	type move = *outcome
	return []column{
		dates("at_date", rows, func(r *row) string { return r.BusinessDate }),
		texts("at_id", rows, func(r *row) string { return r.TransactionID }),
		texts("was_status", outcomes, func(o *move) string { return (*o).before.Status.String() }),
		texts("was_decision", outcomes, func(o *move) string { return (*o).before.Decision.String() }),
		texts("new_status", rows, func(r *row) string { return r.Status }),
		texts("new_evidence", rows, func(r *row) string { return r.Evidence }),
		texts("new_decision", rows, func(r *row) string { return r.Decision }),
		texts("new_method", rows, func(r *row) string { return r.ResolutionMethod }),
		plain("new_review", "boolean", rows, func(r *row) bool { return r.NeedsReview.set }),
		texts("new_code", rows, func(r *row) string { return r.ResponseCode }),
		texts("new_message", rows, func(r *row) string { return r.ResponseMessage }),
		texts("new_approval", rows, func(r *row) string { return r.ApprovalNumber }),
		texts("new_reason", rows, func(r *row) string { return r.Reason }),
		plain("new_elapsed", "bigint", rows, func(r *row) int64 { return r.ElapsedUs }),
		instants("new_sent_at", rows, func(r *row) instant { return r.SentAt }),
		instants("new_responded_at", rows, func(r *row) instant { return r.RespondedAt }),
		instants("new_resolved_at", rows, func(r *row) instant { return r.ResolvedAt }),
		instants("new_resolve_at", rows, func(r *row) instant { return r.NextResolveAt }),
		plain("ends_lease", "boolean", outcomes, func(o *move) bool { return (*o).after.EndsLease() }),
	}
}

// freeOrders is freeOrder of many payments.
func (s *Store) freeOrders(tx *gorm.DB, outcomes []*outcome) error {
	var rows []clientRow
	for _, o := range outcomes {
		if t := &o.after; t.Order != "" && t.FreesOrder() {
			rows = append(rows, clientRow{client: string(t.Client), name: string(t.Order), id: string(t.ID)})
		}
	}
	return s.deleteOf(tx, "order_guards", "order_id", rows)
}
