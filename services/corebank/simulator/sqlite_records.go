package simulator

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Append implements Book.
func (b *SQLiteBook) Append(batch Batch) error {
	ctx := context.Background() // a commit is never given up half-way
	if _, err := b.write.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("begin a batch: %w", err)
	}
	if err := b.insert(ctx, batch); err != nil {
		_, rollbackErr := b.write.ExecContext(ctx, "ROLLBACK")
		return errors.Join(err, rollbackErr)
	}
	if _, err := b.write.ExecContext(ctx, "COMMIT"); err != nil {
		return fmt.Errorf("commit a batch: %w", err)
	}
	b.settings += int64(len(batch.Settings))
	return nil
}

func (b *SQLiteBook) insert(ctx context.Context, batch Batch) error {
	for i, s := range batch.Settings {
		number := b.settings + int64(i) + 1
		if _, err := b.insertSetting.ExecContext(ctx, number, string(s.Account.AppendDigits(nil)), int64(s.Balance),
			s.After, s.At.UnixNano()); err != nil {
			return fmt.Errorf("write a setting after entry %d: %w", s.After, err)
		}
	}
	args := make([]any, 0, entriesPerInsert*entryWidth)
	for entries := batch.Entries; len(entries) > 0; {
		insert, n := b.insertEntry, 1
		if len(entries) >= entriesPerInsert {
			insert, n = b.insertEntries, entriesPerInsert
		}
		args = args[:0]
		for _, e := range entries[:n] {
			args = append(args, e.Sequence, e.At.UnixNano(), e.MTI, string(e.TranID),
				string(e.Account.AppendDigits(nil)), int64(e.Amount), e.Effect.String(), e.ResponseCode, e.Connection)
		}
		if _, err := insert.ExecContext(ctx, args...); err != nil {
			return fmt.Errorf("write %d entries from %d on: %w", n, entries[0].Sequence, err)
		}
		entries = entries[n:]
	}
	return nil
}

const (
	entryColumns = `sequence, at_unix_nano, mti, transaction_id, account, amount_won, effect, response_code,
		connection`
	entryWidth     = 9
	settingColumns = "account, balance_won, after_sequence, at_unix_nano"

	// entriesPerInsert is how many entries one statement writes when so many
	// wait: a third less CPU for each than one by one.
	entriesPerInsert = 16
)

// insertSQL is the statement that writes some entries.
func insertSQL(entries int) string {
	row := "(" + strings.Repeat("?, ", entryWidth-1) + "?)"
	return "INSERT INTO journal (" + entryColumns + ") VALUES " + row + strings.Repeat(", "+row, entries-1)
}

const insertSettingSQL = "INSERT INTO settings (number, " + settingColumns + ") VALUES (?, ?, ?, ?, ?)"

// Replay implements Book.
func (b *SQLiteBook) Replay(ctx context.Context, to Recorder) error {
	settings, err := b.readDB.QueryContext(ctx, //nolint:rowserrcheck // settingCursor does
		"SELECT "+settingColumns+" FROM settings ORDER BY number")
	if err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	defer func() { _ = settings.Close() }()
	entries, err := b.readDB.QueryContext(ctx, "SELECT "+entryColumns+" FROM journal ORDER BY sequence")
	if err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	defer func() { _ = entries.Close() }()

	due := settingCursor{rows: settings}
	for entries.Next() {
		e, err := scanEntry(entries)
		if err != nil {
			return err
		}
		if err := due.setBefore(e.Sequence, to); err != nil {
			return err
		}
		if err := to.Enter(e); err != nil {
			return err
		}
	}
	if err := entries.Err(); err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	return due.setBefore(endOfBook, to)
}

// endOfBook is behind the last sequence that there can be.
const endOfBook = 1<<63 - 1

// settingCursor tells settings when their turn comes.
type settingCursor struct {
	rows *sql.Rows
	next Setting
	held bool // next was read and not told
}

// setBefore tells the settings that stand before an entry.
func (c *settingCursor) setBefore(sequence int64, to Recorder) error {
	for {
		if !c.held {
			if !c.rows.Next() {
				return c.rows.Err()
			}
			var err error
			if c.next, err = scanSetting(c.rows); err != nil {
				return err
			}
			c.held = true
		}
		if c.next.After >= sequence {
			return nil
		}
		if err := to.Set(c.next); err != nil {
			return err
		}
		c.held = false
	}
}

// Journal implements Book.
func (b *SQLiteBook) Journal(ctx context.Context, f Filter) (Page, error) {
	query := strings.Builder{}
	query.WriteString("SELECT " + entryColumns + " FROM journal WHERE sequence > ?")
	args := []any{f.After}
	if f.TranID != "" {
		query.WriteString(" AND transaction_id = ?")
		args = append(args, string(f.TranID))
	}
	if f.MTI != "" {
		query.WriteString(" AND mti = ?")
		args = append(args, f.MTI)
	}
	query.WriteString(" ORDER BY sequence LIMIT ?")
	rows, err := b.readDB.QueryContext(ctx, query.String(), append(args, f.Limit+1)...)
	if err != nil {
		return Page{}, err
	}
	defer func() { _ = rows.Close() }()
	var page Page
	for rows.Next() {
		e, err := scanEntry(rows)
		if err != nil {
			return Page{}, err
		}
		if len(page.Entries) == f.Limit {
			page.More = true
			break
		}
		page.Entries = append(page.Entries, e)
	}
	return page, rows.Err()
}

func scanEntry(rows *sql.Rows) (Entry, error) {
	var e Entry
	var at int64
	var number, effect, id string
	if err := rows.Scan(&e.Sequence, &at, &e.MTI, &id, &number, (*int64)(&e.Amount), &effect, &e.ResponseCode,
		&e.Connection); err != nil {
		return Entry{}, fmt.Errorf("read a journal entry: %w", err)
	}
	e.At, e.TranID = time.Unix(0, at).UTC(), tranid.ID(id)
	var err error
	if e.Effect, err = parseEffect(effect); err != nil {
		return Entry{}, fmt.Errorf("journal entry %d: %w", e.Sequence, err)
	}
	if number == "" {
		return e, nil
	}
	if e.Account, err = account.Parse(number); err != nil {
		return Entry{}, fmt.Errorf("journal entry %d: %w", e.Sequence, err)
	}
	return e, nil
}

func scanSetting(rows *sql.Rows) (Setting, error) {
	var s Setting
	var at int64
	var number string
	if err := rows.Scan(&number, (*int64)(&s.Balance), &s.After, &at); err != nil {
		return Setting{}, fmt.Errorf("read a setting: %w", err)
	}
	s.At = time.Unix(0, at).UTC()
	var err error
	if s.Account, err = account.Parse(number); err != nil {
		return Setting{}, fmt.Errorf("setting after entry %d: %w", s.After, err)
	}
	return s, nil
}
