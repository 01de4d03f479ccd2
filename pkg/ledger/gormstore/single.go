package gormstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// On PostgreSQL the plain case is one statement, which is a database transaction
// by itself: one way to the server and back in place of five. A statement cannot
// take back what it did for one row, so what is not plain fails as a whole, and is
// done in a transaction of several statements.

// errNotPlain says that one statement does not do; nothing is stored.
var errNotPlain = errors.New("needs several statements")

// single runs a statement that commits by itself. Like a COMMIT it may have
// happened when its error is not the server's.
func (s *Store) single(ctx context.Context, query func(db *gorm.DB) error) error {
	err := s.onLeash(ctx, query)
	var begin *beginError
	switch {
	case err == nil, errors.As(err, &begin):
		return err
	case isUnbegun(err):
		return &beginError{cause: err}
	case s.isVerdict(err), isRefused(err): // GORM's errors hide the server's
		return err
	default:
		return &commitError{cause: err}
	}
}

// isUnbegun reports whether a statement never reached PostgreSQL.
func isUnbegun(err error) bool {
	var noConnection *pgconn.ConnectError
	return errors.As(err, &noConnection) || errors.Is(err, driver.ErrBadConn) || pgconn.SafeToRetry(err)
}

// isRefused reports whether PostgreSQL says itself that a statement was not done.
// What ends a session may come when it was.
func isRefused(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && !hasClass(err, "57", "08", "XX")
}

// plainIntents stores intents whose keys and orders nobody has, all or none of
// them.
func (s *Store) plainIntents(ctx context.Context, batch []*ledger.Intent) ([]reply[ledger.Admission], error) {
	first, _ := sortOut(batch)
	if !s.dialect.arrays || len(first) < len(batch) {
		return nil, errNotPlain
	}
	text, values, err := s.dialect.intents(first)
	if err != nil {
		return nil, err
	}
	bound := make(map[tranid.ID]time.Time, len(first))
	err = s.single(ctx, func(db *gorm.DB) error {
		clear(bound)
		var id string
		var at instant
		return eachRow(db.Raw(text, values...), func() { bound[tranid.ID(id)] = at.at }, &id, &at)
	})
	if s.isVerdict(err) {
		return nil, errNotPlain // and it is found out which row it is
	}
	if err != nil {
		return nil, err
	}
	replies := leftAlone[ledger.Admission](len(batch), errAlone)
	for i, in := range batch {
		now, ok := bound[in.ID]
		if !ok { // the key is bound
			continue
		}
		t, err := in.Row(now)
		if err != nil {
			return nil, err
		}
		s.requested.remember(t)
		replies[i] = reply[ledger.Admission]{answer: ledger.Admission{Transaction: t, Created: true}}
	}
	return replies, nil
}

// intents is the statement of plainIntents. Keys are bound first, in the order of
// the intents, then orders are taken, in theirs. A row whose order another has
// would have no status, so that the statement fails.
func (d *dialect) intents(ins []*ledger.Intent) (text string, values []any, err error) {
	rows := make([]transactionRow, len(ins))
	for i, in := range ins {
		t, err := in.Row(in.RequestedAt)
		if err != nil {
			return "", nil, err
		}
		rows[i] = *newTransactionRow(&t)
	}
	type intent = *ledger.Intent
	columns := append(rowColumns(rows),
		plain("fingerprint", "bytea", ins, func(in *intent) []byte { return (*in).Fingerprint[:] }),
		plain("key_life", "bigint", ins, func(in *intent) int64 { return (*in).KeyLife.Microseconds() }),
		plain("adopt_after", "bigint", ins, func(in *intent) int64 { return (*in).AdoptAfter.Microseconds() }),
		texts("actor", ins, func(in *intent) string { return (*in).By.Name }),
		texts("instance", ins, func(in *intent) string { return (*in).By.Instance }),
	)
	head, values := d.given(&relation{count: len(ins), columns: columns})
	into := (&relation{columns: rowColumns(nil)}).names()
	from := strings.Replace(into, "adopt_at", "bound_at + adopt_after * interval '1 microsecond'", 1)
	guarded, joined := "", ""
	if slices.ContainsFunc(ins, func(in intent) bool { return in.Order != "" }) {
		guarded, joined = guardedByOrder, " LEFT JOIN guarded ON transaction_id = guarded_id"
		from = strings.Replace(from, "status", "CASE WHEN order_id = '' OR guarded_id IS NOT NULL THEN status END", 1)
	}
	return head + `, bound AS (
	INSERT INTO idempotency_keys (client_id, idempotency_key, fingerprint, business_date, transaction_id, created_at, expires_at)
	SELECT client_id, idempotency_key, fingerprint, business_date, transaction_id,
		clock_timestamp(), clock_timestamp() + key_life * interval '1 microsecond' FROM given
	ON CONFLICT (client_id, idempotency_key) DO NOTHING RETURNING transaction_id AS bound_id, created_at AS bound_at
)` + guarded + `, stored AS (
	INSERT INTO transactions (` + into + `)
	SELECT ` + from + ` FROM given JOIN bound ON transaction_id = bound_id` + joined + `
), noted AS (
	INSERT INTO transaction_events (business_date, transaction_id, at, from_status, to_status, evidence, actor, instance, detail, trace_id)
	SELECT business_date, transaction_id, bound_at, '', status, '', actor, instance, '', trace_id
	FROM given JOIN bound ON transaction_id = bound_id
)
SELECT bound_id, bound_at FROM bound`, values, nil
}

// guardedByOrder is the part of intents that takes orders.
const guardedByOrder = `, guarded AS (
	INSERT INTO order_guards (client_id, order_id, business_date, transaction_id)
	SELECT client_id, order_id, business_date, transaction_id FROM given JOIN bound ON transaction_id = bound_id
	WHERE order_id <> '' ORDER BY client_id COLLATE "C", order_id COLLATE "C"
	ON CONFLICT (client_id, order_id) DO NOTHING RETURNING transaction_id AS guarded_id
)`

// plainOutcomes makes moves of rows that nobody else may change meanwhile but by
// moving them: those that are REQUESTED. They are remembered, or read without being
// locked; the update finds out whether they still are what they were. A move that
// frees an order is not plain.
func (s *Store) plainOutcomes(ctx context.Context, batch []*ledger.Change) ([]reply[ledger.Transaction], error) {
	changes := make(map[tranid.ID]*ledger.Change, len(batch))
	for _, c := range batch {
		changes[c.ID] = c
	}
	pending := func(c *ledger.Change) bool { return c.From != ledger.StatusRequested }
	if !s.dialect.arrays || len(changes) < len(batch) || slices.ContainsFunc(batch, pending) {
		return nil, errNotPlain
	}
	known := s.prepareKnown(changes)
	made, failed, err := s.prepareMoves(s.db.WithContext(ctx), changes, "")
	if err != nil {
		return nil, &beginError{cause: err} // it was read, and no more
	}
	maps.Copy(made, known)
	outcomes := make([]*outcome, 0, len(made))
	for _, o := range made {
		if o.before.Status != ledger.StatusRequested || o.after.Order != "" && o.after.FreesOrder() {
			return nil, errNotPlain
		}
		outcomes = append(outcomes, o)
	}
	if len(outcomes) > 0 {
		if err := s.storePlain(ctx, made, outcomes); err != nil {
			return nil, err
		}
	}
	replies := leftAlone[ledger.Transaction](len(batch), errAlone)
	for i, c := range batch {
		if o := made[c.ID]; failed[c.ID] != nil {
			replies[i].err = failed[c.ID]
		} else if o.stored {
			replies[i] = reply[ledger.Transaction]{answer: o.after}
		}
	}
	return replies, nil
}

// prepareKnown finds out what becomes of rows that are remembered, and takes them
// off the changes. What depends on the database's clock, which only a row that is
// read comes with, is left there, and what may not be.
func (s *Store) prepareKnown(changes map[tranid.ID]*ledger.Change) map[tranid.ID]*outcome {
	known := make(map[tranid.ID]*outcome, len(changes))
	for id, c := range changes {
		row, ok := s.requested.find(id)
		if !ok || !c.To.Final() {
			continue
		}
		if o, err := prepareMoveOf(row, c, row.RequestedAt); err == nil {
			o.event.At = time.Time{} // the statement knows
			known[id] = o
			delete(changes, id)
		}
	}
	return known
}

// storePlain is the statement of plainOutcomes.
func (s *Store) storePlain(ctx context.Context, made map[tranid.ID]*outcome, outcomes []*outcome) error {
	sortOutcomes(outcomes)
	head, where, values := s.dialect.updateOf(outcomes, []column{
		instants("event_at", outcomes, func(o **outcome) instant { return instant{at: (*o).event.At} }),
		texts("event_actor", outcomes, func(o **outcome) string { return (*o).event.By.Name }),
		texts("event_instance", outcomes, func(o **outcome) string { return (*o).event.By.Instance }),
		texts("event_detail", outcomes, func(o **outcome) string { return (*o).event.Detail }),
		texts("event_trace", outcomes, func(o **outcome) string { return (*o).event.By.TraceID }),
	})
	text := head + `, moved AS (
	` + where + ` AS moved_id
), noted AS (
	INSERT INTO transaction_events (business_date, transaction_id, at, from_status, to_status, evidence, actor, instance, detail, trace_id)
	SELECT at_date, at_id, COALESCE(event_at, clock_timestamp()), was_status, new_status, new_evidence, event_actor, event_instance, event_detail, event_trace
	FROM given JOIN moved ON at_id = moved_id
)
SELECT moved_id FROM moved`
	err := s.single(ctx, func(db *gorm.DB) error {
		var id string
		return eachRow(db.Raw(text, values...), func() { made[tranid.ID(id)].stored = true }, &id)
	})
	if s.isVerdict(err) {
		return errNotPlain
	}
	return err
}

// recordPlain is recordMany in one statement.
func (s *Store) recordPlain(ctx context.Context, given []ledger.Transaction, by ledger.Actor) error {
	if len(given) == 0 {
		return nil
	}
	now, err := s.readClock(s.db.WithContext(ctx))
	if err != nil {
		return &beginError{cause: err} // it was read, and no more
	}
	rows, events, err := endedRows(given, by, now)
	if err != nil {
		return err
	}
	into := (&relation{columns: rowColumns(nil)}).names()
	head, values := s.dialect.given(&relation{count: len(rows), columns: append(rowColumns(rows),
		instants("event_at", events, func(e *eventRow) instant { return e.At }),
		texts("event_actor", events, func(e *eventRow) string { return e.Actor }),
		texts("event_instance", events, func(e *eventRow) string { return e.Instance }),
		texts("event_detail", events, func(e *eventRow) string { return e.Detail }),
		texts("event_trace", events, func(e *eventRow) string { return e.TraceID }),
	)})
	err = s.single(ctx, func(db *gorm.DB) error {
		return db.Exec(head+`, stored AS (
	INSERT INTO transactions (`+into+`) SELECT `+into+` FROM given
)
INSERT INTO transaction_events (business_date, transaction_id, at, from_status, to_status, evidence, actor, instance, detail, trace_id)
SELECT business_date, transaction_id, event_at, '', status, evidence, event_actor, event_instance, event_detail, event_trace
FROM given`, values...).Error
	})
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return ledger.ErrDuplicateID
	}
	return err
}
