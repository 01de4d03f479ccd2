package gormstore_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/ledgertest"
	"github.com/gwanmun/gwanmun/pkg/postgrestest"
)

func TestConformance_SQLite(t *testing.T) {
	template := sqliteDSN(t)
	t.Run("migrate", func(t *testing.T) { openBook(t, template) })
	ledgertest.Exercise(t, func(t *testing.T) ledger.Store { return openBook(t, copyOf(t, template)) })
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

func TestConformance_PostgreSQL(t *testing.T) {
	t.Cleanup(func() {
		if t.Skipped() {
			ledgertest.Report(t, "postgresql", "skipped, no server binaries found")
		}
	})
	dsn := postgrestest.DSN(t)
	setOddly(t, dsn)
	t.Run("migrate", func(t *testing.T) { openBook(t, dsn) })
	ledgertest.Exercise(t, func(t *testing.T) ledger.Store {
		empty(t, dsn)
		return openBook(t, dsn)
	})
}

// oddSettings are what a bank may have set for whoever connects to a database, and
// what changes how its sessions read and write values.
var oddSettings = map[string]string{
	"client_encoding":             "'UHC'",
	"DateStyle":                   "'German, DMY'",
	"IntervalStyle":               "'sql_standard'",
	"TimeZone":                    "'Asia/Kathmandu'",
	"bytea_output":                "'escape'",
	"extra_float_digits":          "-15",
	"standard_conforming_strings": "off",
	"array_nulls":                 "off",
	"transform_null_equals":       "on",
}

// setOddly sets them for the sessions that a database will have. The suite is run
// with them; all other tests are run without.
func setOddly(t *testing.T, dsn string) {
	t.Helper()
	for setting, value := range oddSettings {
		setForSessions(t, dsn, setting, value)
	}
}

// setForSessions sets something for whoever connects to a database from now on.
func setForSessions(t *testing.T, dsn, setting, value string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, raw(t, dsn), "ALTER DATABASE "+strings.TrimPrefix(u.Path, "/")+" SET "+setting+" = "+value)
}

// empty makes a migrated book new again, in a tenth of the time that a new
// database takes. Only a superuser can, past the triggers.
func empty(t *testing.T, dsn string) {
	t.Helper()
	db := raw(t, dsn)
	db.SetMaxOpenConns(1)
	mustExec(t, db, "SET session_replication_role = replica")
	mustExec(t, db, "TRUNCATE transactions, transaction_events, idempotency_keys, order_guards, tranid_blocks, retired_days, "+
		"settlement_discrepancies, settlement_runs")
}
