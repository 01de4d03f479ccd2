package gormstore

import (
	"database/sql"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/postgrestest"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// bookOfVersion makes the tables of an earlier version.
func bookOfVersion(t *testing.T, dsn string, version int64) *Store {
	t.Helper()
	d, err := parseDSN(dsn, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newStore(d, Options{Logger: slog.New(slog.NewJSONHandler(io.Discard, nil)), Now: time.Now}, ledger.HashKey{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	files, err := d.migrations()
	if err != nil {
		t.Fatal(err)
	}
	provider, err := goose.NewProvider(d.goose, poolOf(t, s), files,
		goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	s.setState(nil)
	return s
}

// Before version 7 PostgreSQL took times that are none, and the rule that refuses
// them would refuse whatever is to be done with the row: the claim of all that is
// due, for one.
func TestMigrations_MendTheTimesOfWhatIsPending(t *testing.T) {
	dsn := postgrestest.DSN(t)
	old := bookOfVersion(t, dsn, 6)
	spoilt := []string{
		"requested_at = 'infinity'", "requested_at = '12000-01-01'", "sent_at = '-infinity'", "responded_at = '0044-03-15 BC'",
		"adopt_at = 'infinity'", "next_resolve_at = 'infinity'", "lease_until = 'infinity', lease_token = 'x'",
	}
	for i, set := range append(spoilt, "reason = 'good'") {
		in := doubtfulIntent()
		in.ID, in.Key = tranid.New(in.ID.Date(), int64(i)), ledger.IdempotencyKey(rune('a'+i))
		if _, err := old.CreateIntent(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		_, err := old.Transition(t.Context(), ledger.Change{ID: in.ID, From: ledger.StatusRequested, To: ledger.StatusUnknown, By: in.By})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := poolOf(t, old).ExecContext(t.Context(),
			"UPDATE transactions SET "+set+" WHERE transaction_id = $1", string(in.ID)); err != nil {
			t.Fatal(err)
		}
	}
	now := openInternal(t, dsn)
	claims, err := now.Claim(t.Context(), ledger.ClaimOptions{Limit: ledger.MaxClaim, Lease: time.Hour})
	if err != nil || len(claims) != len(spoilt)+1 {
		t.Errorf("claimed %d, error %v", len(claims), err)
	}
	for _, c := range claims {
		if c.Err != nil {
			t.Errorf("%s: %v", c.Transaction.ID, c.Err)
		}
	}
}

// What is made beside payments is no transaction, and may have been cut short.
func TestMigrations_IndexThatWasCutShortIsMadeAnew(t *testing.T) {
	dsn := postgrestest.DSN(t)
	old := bookOfVersion(t, dsn, 7)
	mustExec(t, old, "CREATE INDEX transactions_by_time ON transactions (amount)",
		"UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'transactions_by_time'::regclass")
	now := openInternal(t, dsn)
	var made int
	err := poolOf(t, now).QueryRowContext(t.Context(), `SELECT count(*) FROM pg_index JOIN pg_class ON oid = indexrelid
		WHERE indrelid = 'transactions'::regclass AND relname LIKE 'transactions_by_%' AND indisvalid AND indnatts > 1`).Scan(&made)
	if err != nil || made != 5 {
		t.Errorf("%d indexes of lists are made, error %v", made, err)
	}
}

// A service of the version before goes on while a newer one makes the indexes, and
// those that come meanwhile wait for them.
func TestMigrations_PaymentsGoOnWhileIndexesAreMade(t *testing.T) {
	dsn := postgrestest.DSN(t)
	old := bookOfVersion(t, dsn, 7)
	reader, err := poolOf(t, old).BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	var rows int
	if err := reader.QueryRowContext(t.Context(), "SELECT count(*) FROM transactions").Scan(&rows); err != nil {
		t.Fatal(err)
	}
	opened := make(chan *Store, 2)
	var opening sync.WaitGroup
	for range cap(opened) {
		opening.Go(func() { opened <- openInternal(t, dsn) })
	}
	waits := "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
	for waiting := 0; waiting == 0; { // for the reader, with an index
		if err := poolOf(t, old).QueryRowContext(t.Context(), waits).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	in := doubtfulIntent()
	if _, err := old.CreateIntent(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	opening.Wait()
	close(opened)
	if len(opened) != cap(opened) {
		t.Fatalf("%d books are open", len(opened))
	}
	for s := range opened {
		if page, err := s.List(t.Context(), ledger.Filter{Limit: 10}); err != nil || len(page.Transactions) != 1 {
			t.Errorf("%d rows, error %v", len(page.Transactions), err)
		}
	}
}
