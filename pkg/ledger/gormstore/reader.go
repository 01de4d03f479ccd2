package gormstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Get implements ledger.Reader.
func (s *Store) Get(ctx context.Context, id tranid.ID) (ledger.Transaction, error) {
	var t ledger.Transaction
	err := s.read(ctx, "get "+string(id), func(db *gorm.DB) (err error) {
		t, err = getTransaction(db, id)
		return err
	})
	return t, err
}

// getTransaction reads one row. What is no ID is not asked for: PostgreSQL takes
// it for a mistake.
func getTransaction(db *gorm.DB, id tranid.ID) (ledger.Transaction, error) {
	if id.Date().IsZero() {
		return ledger.Transaction{}, ledger.ErrNotFound
	}
	return firstOf(db.Raw("SELECT "+columns+" FROM transactions WHERE "+byID, id.Date().String(), string(id)))
}

// firstOf reads the one row that a statement finds, or ErrNotFound.
func firstOf(query *gorm.DB) (ledger.Transaction, error) {
	var rows []transactionRow
	if err := query.Scan(&rows).Error; err != nil {
		return ledger.Transaction{}, err
	}
	if len(rows) == 0 {
		return ledger.Transaction{}, ledger.ErrNotFound
	}
	return rows[0].transaction()
}

// GetByKey implements ledger.Reader.
func (s *Store) GetByKey(
	ctx context.Context, client ledger.ClientID, key ledger.IdempotencyKey,
) (ledger.Transaction, error) {
	var t ledger.Transaction
	err := s.read(ctx, "get by key", func(db *gorm.DB) (err error) {
		t, err = firstOf(db.Raw(`SELECT `+columns+` FROM transactions WHERE (business_date, transaction_id) =
	(SELECT business_date, transaction_id FROM idempotency_keys WHERE client_id = ? AND idempotency_key = ?)`,
			string(client), string(key)))
		return err
	})
	return t, err
}

// boundRow is a transaction, the fingerprint with which it holds its key, and how
// long it does.
type boundRow struct {
	Row         transactionRow `gorm:"embedded"`
	Fingerprint []byte
	ExpiresAt   instant
	Clock       instant
}

// Bound implements ledger.Reader.
func (s *Store) Bound(
	ctx context.Context, client ledger.ClientID, key ledger.IdempotencyKey, fingerprint ledger.Hash,
) (ledger.Transaction, error) {
	var t ledger.Transaction
	err := s.read(ctx, "look for the holder of a key", func(db *gorm.DB) error {
		var rows []boundRow
		err := db.Raw(`WITH bound AS MATERIALIZED (
	SELECT business_date AS bound_date, transaction_id AS bound_id, fingerprint, expires_at
	FROM idempotency_keys WHERE client_id = ? AND idempotency_key = ?)
SELECT `+columns+`, fingerprint, expires_at, ? AS clock
FROM bound JOIN transactions ON business_date = bound_date AND transaction_id = bound_id`,
			string(client), string(key), s.dialect.clock(0)).Scan(&rows).Error
		switch {
		case err != nil:
			return err
		case len(rows) == 0:
			return ledger.ErrNotFound
		}
		holder, err := rows[0].Row.transaction()
		switch {
		case err != nil:
			return err
		case rows[0].ExpiresAt.garbage:
			return errNoKeyLife
		case holder.FreesKey(rows[0].ExpiresAt.at, rows[0].Clock.at):
			return ledger.ErrNotFound
		case !bytes.Equal(rows[0].Fingerprint, fingerprint[:]):
			return ledger.ErrKeyReused
		}
		t = holder
		return nil
	})
	return t, err
}

// Events implements ledger.Reader.
func (s *Store) Events(ctx context.Context, id tranid.ID) ([]ledger.Event, error) {
	var events []ledger.Event
	err := s.read(ctx, "read events of "+string(id), func(db *gorm.DB) error {
		if id.Date().IsZero() {
			return nil
		}
		var rows []eventRow
		err := db.Raw("SELECT "+eventColumns+" FROM transaction_events WHERE "+byID+" ORDER BY sequence",
			id.Date().String(), string(id)).Scan(&rows).Error
		if err != nil {
			return err
		}
		events = make([]ledger.Event, len(rows))
		for i := range rows {
			if events[i], err = rows[i].event(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return events, nil
}

func names[T fmt.Stringer](values []T) []string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = v.String()
	}
	return texts
}

// totalRow is what Summarize reads of one status.
type totalRow struct {
	Status          string
	Transactions    int64
	Amount          int64
	NeedsReview     int64
	OldestRequested instant
}

// Summarize implements ledger.Reader.
func (s *Store) Summarize(
	ctx context.Context, client ledger.ClientID, from, to time.Time,
) (ledger.Summary, error) {
	var rows []totalRow
	err := s.read(ctx, "summarize transactions", func(db *gorm.DB) error {
		f := ledger.Filter{Client: client, RequestedFrom: from, RequestedTo: to}
		return union(db, s.dialect.partsOf(db, &f, "status, amount, needs_review, requested_at")).
			Select(`status, count(*) AS transactions, CAST(sum(amount) AS bigint) AS amount,
count(*) FILTER (WHERE needs_review) AS needs_review, min(requested_at) AS oldest_requested`).
			Group("status").Scan(&rows).Error
	})
	if err != nil {
		return ledger.Summary{}, err
	}
	var sum ledger.Summary
	for _, r := range rows {
		status, err := ledger.ParseStatus(r.Status)
		if err != nil {
			sum.Unreadable += r.Transactions
			continue
		}
		sum.Totals = append(sum.Totals, ledger.Total{Status: status, Count: r.Transactions, Amount: account.Won(r.Amount)})
		sum.NeedsReviewCount += r.NeedsReview
		if status == ledger.StatusUnknown {
			sum.UnknownCount, sum.OldestUnknown = r.Transactions, r.OldestRequested.at
		}
	}
	s.unreadable.count(sum.Unreadable)
	slices.SortFunc(sum.Totals, func(a, b ledger.Total) int {
		return slices.Index(ledger.Statuses, a.Status) - slices.Index(ledger.Statuses, b.Status)
	})
	return sum, nil
}

// backlogRow is what Backlog reads.
type backlogRow struct {
	Unknown     int64
	NeedsReview int64
	Oldest      instant
}

// Backlog implements ledger.Reader. The index of what is due has all that it
// asks for.
func (s *Store) Backlog(ctx context.Context) (ledger.Backlog, error) {
	var row backlogRow
	err := s.read(ctx, "count the backlog", func(db *gorm.DB) error {
		return db.Raw(`SELECT count(*) AS unknown, count(*) FILTER (WHERE needs_review) AS needs_review,
	min(requested_at) AS oldest FROM transactions WHERE status = 'UNKNOWN'`).Scan(&row).Error
	})
	if err != nil {
		return ledger.Backlog{}, err
	}
	return ledger.Backlog{Unknown: row.Unknown, OldestUnknown: row.Oldest.at, NeedsReview: row.NeedsReview}, nil
}

// UnknownOfClients implements ledger.Reader, from an index of what is UNKNOWN.
func (s *Store) UnknownOfClients(ctx context.Context) (map[ledger.ClientID]int64, error) {
	counts := make(map[ledger.ClientID]int64)
	err := s.read(ctx, "count what is unknown of clients", func(db *gorm.DB) error {
		clear(counts)
		var client string
		var count int64
		return eachRow(db.Raw(`SELECT client_id, count(*) FROM transactions
WHERE status = 'UNKNOWN' AND kind = 'PAYMENT' GROUP BY client_id ORDER BY client_id`),
			func() { counts[ledger.ClientID(client)] = count }, &client, &count)
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}

// NextBlock implements tranid.Blocks.
func (s *Store) NextBlock(ctx context.Context, day tranid.Date, count, floor int64) (tranid.Block, error) {
	doing := "take transaction numbers of " + day.String()
	if _, err := tranid.TakeBlock(day, 0, count, floor); err != nil {
		return tranid.Block{}, fmt.Errorf("%s: %w", doing, err)
	}
	var block tranid.Block
	err := s.write(ctx, doing, func(tx *gorm.DB) error {
		err := tx.Exec("INSERT INTO tranid_blocks (business_date, next_number) VALUES (?, 0) ON CONFLICT DO NOTHING",
			day.String()).Error
		if err != nil {
			return err
		}
		var next int64
		err = tx.Raw("SELECT next_number FROM tranid_blocks WHERE business_date = ? "+s.dialect.forUpdate,
			day.String()).Scan(&next).Error
		if err != nil {
			return err
		}
		if block, err = tranid.TakeBlock(day, next, count, floor); err != nil {
			return err
		}
		return one(tx.Exec("UPDATE tranid_blocks SET next_number = ? WHERE business_date = ? AND next_number = ?",
			block.First+block.Count, day.String(), next), fmt.Errorf("the day's numbers moved: %w", ledger.ErrUnreadable))
	})
	if err != nil {
		return tranid.Block{}, err
	}
	return block, nil
}
