package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver named pgx
	_ "modernc.org/sqlite"             // the driver named sqlite
)

// The questions to the books, in SQL of our own: what a service says of itself is
// what is to be checked.
const (
	productRows = `SELECT count(*) FILTER (WHERE kind = 'PAYMENT'), count(*) FILTER (WHERE kind = 'BALANCE_INQUIRY')
FROM transactions WHERE status = 'SUCCESS'`
	naiveRows = `SELECT count(*), 0 FROM payments WHERE status = 'SUCCESS'`
)

// reader reads a book: sqlite:PATH or postgres://...
type reader struct {
	pool  *sql.DB
	query string
}

func openReader(dsn, query string) (*reader, error) {
	driver, name := "pgx", dsn
	if path, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
		driver, name = "sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(5000)"
	}
	pool, err := sql.Open(driver, name)
	if err != nil {
		return nil, fmt.Errorf("open a book: %w", err)
	}
	pool.SetMaxOpenConns(1)
	return &reader{pool: pool, query: query}, nil
}

func (r *reader) read(ctx context.Context) (t tally, err error) {
	err = r.pool.QueryRowContext(ctx, r.query).Scan(&t.payments, &t.inquiries)
	return t, err
}
