package gormstore_test

import (
	"context"
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
	template := migratedPostgres(t)
	ledgertest.Exercise(t, func(t *testing.T) ledger.Store { return openBook(t, postgrestest.Clone(t, template)) })
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

// migratedPostgres is the DSN of an empty book that no one is connected to.
func migratedPostgres(t *testing.T) string {
	t.Helper()
	dsn := postgrestest.DSN(t)
	t.Run("migrate", func(t *testing.T) { openBook(t, dsn) })
	return dsn
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
