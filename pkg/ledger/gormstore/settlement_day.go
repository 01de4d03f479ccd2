package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// dayRow is a row of DayRows as the table has it. It is read by hand: a day may
// have ten million, and reflection would take most of the time.
type dayRow struct {
	id, kind, status string
	hash             sql.RawBytes
	amount           int64
	requestedAt      instant
}

// DayRows implements ledger.SettlementReader. It reads along the primary key.
func (s *Store) DayRows(ctx context.Context, day tranid.Date, after tranid.ID, limit int) ([]ledger.DayRow, error) {
	if err := checkDayRead(day, limit); err != nil {
		return nil, err
	}
	var page []ledger.DayRow
	err := s.read(ctx, "read the rows of "+day.String(), func(db *gorm.DB) (err error) {
		page = make([]ledger.DayRow, 0, limit)
		rows, err := db.Raw(`SELECT transaction_id, kind, status, account_hash, amount, requested_at FROM transactions
WHERE business_date = ? AND transaction_id > ? ORDER BY business_date, transaction_id LIMIT ?`,
			day.String(), string(after), limit).Rows()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		var raw dayRow
		for rows.Next() {
			err := rows.Scan(&raw.id, &raw.kind, &raw.status, &raw.hash, &raw.amount, &raw.requestedAt)
			if err != nil {
				return err
			}
			page = append(page, raw.row(day))
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return page, nil
}

// row is what was read; whatever a row may not hold is its Err.
func (r *dayRow) row(day tranid.Date) ledger.DayRow {
	row := ledger.DayRow{ID: tranid.ID(r.id), Amount: account.Won(r.amount), RequestedAt: r.requestedAt.at}
	var errs [2]error
	row.Kind, errs[0] = ledger.ParseKind(r.kind)
	row.Status, errs[1] = ledger.ParseStatus(r.status)
	err := errors.Join(errs[:]...)
	if err == nil && (copy(row.AccountHash[:], r.hash) != len(row.AccountHash) || r.requestedAt.garbage) {
		err = errors.New("an account hash or a time is none")
	}
	if err == nil {
		err = row.Validate(day)
	}
	if err != nil {
		return ledger.DayRow{ID: row.ID, Err: fmt.Errorf("%w: %.30q: %w", ledger.ErrUnreadable, r.id, err)}
	}
	return row
}

// DayUnknown implements ledger.SettlementReader. What is UNKNOWN is found by the
// index of what is due, which has the ID, and the ID has the day. A planner that
// takes it for the primary key's matter would read the whole day.
func (s *Store) DayUnknown(ctx context.Context, day tranid.Date, after tranid.ID, limit int) ([]tranid.ID, error) {
	if err := checkDayRead(day, limit); err != nil {
		return nil, err
	}
	first, last := string(tranid.New(day, 0)), string(tranid.New(day, tranid.MaxNumber))
	return s.readIDs(ctx, "read what is UNKNOWN of "+day.String(), `WITH pending AS MATERIALIZED (
	SELECT transaction_id AS id FROM transactions WHERE status = 'UNKNOWN')
SELECT id FROM pending WHERE id BETWEEN ? AND ? AND id > ? ORDER BY id LIMIT ?`,
		first, last, string(after), limit)
}

// UnclosedDiscrepancies implements ledger.Discrepancies.
func (s *Store) UnclosedDiscrepancies(
	ctx context.Context, day tranid.Date, after tranid.ID, limit int,
) ([]tranid.ID, error) {
	if err := checkDayRead(day, limit); err != nil {
		return nil, err
	}
	return s.readIDs(ctx, "read the discrepancies of "+day.String(), `SELECT transaction_id FROM settlement_discrepancies
WHERE business_date = ? AND transaction_id > ? AND state IN ('OPEN', 'NOTED') ORDER BY transaction_id LIMIT ?`,
		day.String(), string(after), limit)
}

func checkDayRead(day tranid.Date, limit int) error {
	if day.IsZero() || limit < 1 || limit > ledger.MaxDayRows {
		return fmt.Errorf("read %d rows of %s: %w", limit, day, errArgument)
	}
	return nil
}

func (s *Store) readIDs(ctx context.Context, doing, query string, values ...any) ([]tranid.ID, error) {
	var texts []string
	err := s.read(ctx, doing, func(db *gorm.DB) error { return db.Raw(query, values...).Scan(&texts).Error })
	if err != nil {
		return nil, err
	}
	ids := make([]tranid.ID, len(texts))
	for i, text := range texts {
		ids[i] = tranid.ID(text)
	}
	return ids, nil
}
