package gormstore

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// The statuses, as a term of SQL.
const (
	open  = "('REQUESTED', 'UNKNOWN')"
	final = "('SUCCESS', 'FAILED', 'CANCELED')"
)

// PurgeKeys implements ledger.Keeper.
func (s *Store) PurgeKeys(ctx context.Context, limit int) (ledger.Purge, error) {
	if limit < 1 || limit > ledger.MaxPurge {
		return ledger.Purge{}, fmt.Errorf("purge %d keys: %w", limit, errArgument)
	}
	var purge ledger.Purge
	due, err := s.anyFound(ctx, "look for expired keys",
		"SELECT 1 FROM idempotency_keys WHERE expires_at <= ? ORDER BY expires_at", s.dialect.due())
	if err != nil || !due {
		return ledger.Purge{}, err
	}
	err = s.write(ctx, "purge keys", func(tx *gorm.DB) error {
		purge = ledger.Purge{}
		kept := tx.Exec(s.ofExpired("UPDATE idempotency_keys SET expires_at = ?", open),
			s.dialect.due(), limit, s.dialect.clock(ledger.KeyRecheck))
		purge.Kept = int(kept.RowsAffected)
		if kept.Error != nil || purge.Kept == limit {
			return kept.Error
		}
		unbound := tx.Exec(s.ofExpired("DELETE FROM idempotency_keys", final), s.dialect.due(), limit-purge.Kept)
		purge.Unbound = int(unbound.RowsAffected)
		return unbound.Error
	})
	if err != nil {
		return ledger.Purge{}, err
	}
	return purge, nil
}

// ofExpired is a statement on those of the keys that expired first whose
// transaction is in such a status. A key that another writer has is passed over.
// The transaction is compared again, lest a key that was bound anew meanwhile be
// taken for the old one. The status is asked for key by key, so that it is found
// by the primary key whatever a planner thinks.
func (s *Store) ofExpired(statement, status string) string {
	return `WITH expired AS MATERIALIZED (
	SELECT client_id AS client, idempotency_key AS bound_key, business_date AS bound_date, transaction_id AS bound_id
	FROM idempotency_keys WHERE expires_at <= ? ORDER BY expires_at LIMIT ? ` + s.dialect.skipLocked + `)
` + statement + ` WHERE (client_id, idempotency_key, transaction_id) IN (
	SELECT client, bound_key, bound_id FROM expired
	WHERE (SELECT status FROM transactions WHERE business_date = bound_date AND transaction_id = bound_id) IN ` + status + ")"
}

// anyFound reports whether a SELECT finds a row. It takes no lock, so that one who
// only looks keeps nobody waiting who writes. The SELECT should have an order: who
// wants one row of many, in none, is given a scan of the table by PostgreSQL.
func (s *Store) anyFound(ctx context.Context, doing, query string, values ...any) (bool, error) {
	var found bool
	err := s.read(ctx, doing, func(db *gorm.DB) (err error) {
		found, err = exists(db, query, values...)
		return err
	})
	return found, err
}

func exists(db *gorm.DB, query string, values ...any) (bool, error) {
	var count int
	err := db.Raw("SELECT count(*) FROM ("+query+" LIMIT 1) AS found", values...).Scan(&count).Error
	return count > 0, err
}

// RetireDay implements ledger.Keeper.
func (s *Store) RetireDay(ctx context.Context, o ledger.RetireOptions) (ledger.Retirement, error) {
	if o.Limit < 1 || o.Limit > ledger.MaxRetire || o.RetainDays < 1 {
		return ledger.Retirement{}, fmt.Errorf("retire %d rows older than %d days: %w", o.Limit, o.RetainDays, errArgument)
	}
	var day tranid.Date
	err := s.read(ctx, "look for a day to retire", func(db *gorm.DB) (err error) {
		day, err = s.oldestDay(db, &o)
		return err
	})
	if err != nil || day.IsZero() {
		return ledger.Retirement{}, err
	}
	step := ledger.Retirement{Day: day}
	if step.Hold, err = s.hold(ctx, day); err != nil || step.Hold != 0 {
		return step, err
	}
	err = s.write(ctx, "retire "+day.String(), func(tx *gorm.DB) error {
		step = ledger.Retirement{Day: day}
		return s.retire(tx, &step, o.Limit)
	})
	if err != nil {
		return ledger.Retirement{}, err
	}
	return step, nil
}

// oldestDay finds the oldest day that has rows and may go.
func (s *Store) oldestDay(db *gorm.DB, o *ledger.RetireOptions) (tranid.Date, error) {
	now, err := s.readClock(db)
	if err != nil {
		return tranid.Date{}, err
	}
	last, after := o.LastRetired(now), "1999-12-31" // no day is before 2000
	if last.IsZero() {
		return tranid.Date{}, nil
	}
	if !o.After.IsZero() {
		after = o.After.String()
	}
	var ids []string
	err = db.Raw(`SELECT transaction_id FROM transactions WHERE business_date > ? AND business_date <= ?
ORDER BY business_date, transaction_id LIMIT 1`, after, last.String()).Scan(&ids).Error
	if err != nil || len(ids) == 0 {
		return tranid.Date{}, err
	}
	day := tranid.ID(ids[0]).Date()
	if day.IsZero() {
		return tranid.Date{}, fmt.Errorf("%w: %.30q", ledger.ErrUnreadable, ids[0])
	}
	return day, nil
}

// hold finds out why a day may not leave yet. What it asks for can only become
// less: final is final, and no key is bound to a transaction of an older day. A
// day that has begun to leave is not asked for again.
//
// By the ID, and not by the day, each is found in the index of what is pending;
// else the whole day would be read.
func (s *Store) hold(ctx context.Context, day tranid.Date) (ledger.Hold, error) {
	first, last := string(tranid.New(day, 0)), string(tranid.New(day, tranid.MaxNumber))
	begun, err := s.anyFound(ctx, "look for a retired day",
		"SELECT 1 FROM retired_days WHERE business_date = ?", day.String())
	if err != nil || begun {
		return 0, err
	}
	for _, question := range []struct {
		hold   ledger.Hold
		query  string
		values []any
	}{
		{ledger.HoldOpen, `SELECT 1 FROM transactions WHERE status = 'UNKNOWN' AND transaction_id BETWEEN ? AND ?
ORDER BY needs_review, asked, next_resolve_at`, []any{first, last}},
		{ledger.HoldOpen, `SELECT 1 FROM transactions WHERE status = 'REQUESTED' AND transaction_id BETWEEN ? AND ?
ORDER BY adopt_at`, []any{first, last}},
		{ledger.HoldOwed, `SELECT 1 FROM transactions
WHERE evidence = 'OPERATOR' AND next_resolve_at IS NOT NULL AND transaction_id BETWEEN ? AND ?
ORDER BY next_resolve_at`, []any{first, last}},
		{ledger.HoldKeys, "SELECT 1 FROM idempotency_keys WHERE business_date = ? ORDER BY transaction_id", []any{day.String()}},
	} {
		held, err := s.anyFound(ctx, "look for what holds "+day.String(), question.query, question.values...)
		switch {
		case err != nil:
			return 0, err
		case held:
			return question.hold, nil
		}
	}
	return 0, nil
}

// retire deletes rows of a day that may go: events first, then what belongs to
// the rows, then the rows. One process at a time is at a day.
func (s *Store) retire(tx *gorm.DB, step *ledger.Retirement, limit int) error {
	day := step.Day.String()
	err := tx.Exec("INSERT INTO retired_days (business_date, begun_at) VALUES (?, ?) ON CONFLICT DO NOTHING",
		day, s.dialect.clock(0)).Error
	if err != nil {
		return err
	}
	var mine []int
	err = tx.Raw("SELECT 1 FROM retired_days WHERE business_date = ? "+s.dialect.skipLocked, day).Scan(&mine).Error
	if err != nil || len(mine) == 0 {
		step.Hold = ledger.HoldBusy
		return err
	}
	var ids []string
	err = tx.Raw("SELECT transaction_id FROM transactions WHERE business_date = ? AND status IN "+final+
		" AND next_resolve_at IS NULL ORDER BY transaction_id LIMIT ? "+s.dialect.skipLocked, day, limit).Scan(&ids).Error
	if err != nil {
		return err
	}
	if len(ids) > 0 {
		if err := deleteRows(tx, step, ids); err != nil {
			return err
		}
	}
	return lookForMore(tx, step, len(ids))
}

// deleteRows deletes the rows, unless they have so many events that those alone
// are enough for a step.
func deleteRows(tx *gorm.DB, step *ledger.Retirement, ids []string) error {
	day, most := step.Day.String(), ledger.EventsPerRow*len(ids)
	events := tx.Exec(`DELETE FROM transaction_events WHERE sequence IN (
	SELECT sequence FROM transaction_events WHERE business_date = ? AND transaction_id IN ?
	ORDER BY transaction_id, sequence LIMIT ?)`, day, ids, most)
	step.Events = int(events.RowsAffected)
	if events.Error != nil || step.Events == most {
		return events.Error
	}
	orders := tx.Exec(`DELETE FROM order_guards WHERE business_date = ? AND transaction_id IN ?
	AND (client_id, order_id) IN (
		SELECT client_id, order_id FROM transactions WHERE business_date = ? AND transaction_id IN ? AND order_id <> '')`,
		day, ids, day, ids)
	step.Orders = int(orders.RowsAffected)
	if orders.Error != nil {
		return orders.Error
	}
	rows := tx.Exec("DELETE FROM transactions WHERE business_date = ? AND transaction_id IN ?", day, ids)
	step.Rows = int(rows.RowsAffected)
	if rows.Error == nil && step.Rows != len(ids) {
		return fmt.Errorf("%d of %d rows deleted: %w", step.Rows, len(ids), ledger.ErrUnreadable)
	}
	return rows.Error
}

// lookForMore says whether the day is gone when nothing was found that may go on,
// or why not.
func lookForMore(tx *gorm.DB, step *ledger.Retirement, found int) error {
	if found > 0 && step.Rows < found { // its events are not all deleted
		return nil
	}
	left, err := exists(tx, "SELECT 1 FROM transactions WHERE business_date = ? ORDER BY transaction_id", step.Day.String())
	step.Gone = !left
	if left && found == 0 {
		step.Hold = ledger.HoldOpen
	}
	return err
}
