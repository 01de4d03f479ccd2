package gormstore_test

import (
	"context"
	"database/sql"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/gormstore"
	"github.com/gwanmun/gwanmun/pkg/ledger/ledgertest"
	"github.com/gwanmun/gwanmun/pkg/postgrestest"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

var testKey = strings.Repeat("5a", 32)

func TestConformance_SQLite(t *testing.T) {
	template := sqliteDSN(t)
	t.Run("migrate", func(t *testing.T) { openBook(t, template) })
	ledgertest.Exercise(t, func(t *testing.T) ledger.Store { return openBook(t, copyOf(t, template)) })
}

func TestConformance_PostgreSQL(t *testing.T) {
	dsn := postgrestest.DSN(t)
	t.Run("migrate", func(t *testing.T) { openBook(t, dsn) })
	ledgertest.Exercise(t, func(t *testing.T) ledger.Store {
		empty(t, dsn)
		return openBook(t, dsn)
	})
}

// empty makes a migrated book new again, in a tenth of the time that a new
// database takes. Only a superuser can, past the triggers.
func empty(t *testing.T, dsn string) {
	t.Helper()
	db := rawDB(t, "pgx", dsn)
	db.SetMaxOpenConns(1)
	mustExec(t, db, "SET session_replication_role = replica")
	mustExec(t, db, "TRUNCATE transactions, transaction_events, idempotency_keys, tranid_blocks")
}

// rawDB is the way round the store, until the test ends.
func rawDB(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func mustExec(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(context.Background(), statement, args...); err != nil {
		t.Fatalf("%.60s: %v", statement, err)
	}
}

func sqliteDSN(t *testing.T) string {
	t.Helper()
	return "sqlite:" + filepath.Join(t.TempDir(), "ledger.db")
}

// copyOf is the DSN of a copy of a book that no one has open.
func copyOf(t *testing.T, dsn string) string {
	t.Helper()
	file, err := os.ReadFile(strings.TrimPrefix(dsn, "sqlite:"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ledger.db")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	return "sqlite:" + path
}

func options(dsn string) gormstore.Options {
	return gormstore.Options{
		Flags:  gormstore.Flags{LedgerDSN: dsn, HashKey: testKey, Migrate: true},
		Logger: slog.New(slog.NewJSONHandler(io.Discard, nil)),
	}
}

// openBook opens a book until the test ends.
func openBook(t *testing.T, dsn string) *gormstore.Store {
	t.Helper()
	return openWith(t, options(dsn))
}

func openWith(t *testing.T, o gormstore.Options) *gormstore.Store {
	t.Helper()
	s, _, err := gormstore.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
