package gormstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/postgrestest"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// newOf is a store that has not looked at its book yet.
func newOf(t *testing.T, dsn string) *Store {
	t.Helper()
	d, err := parseDSN(dsn, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newStore(d, Options{
		Logger: slog.New(slog.NewJSONHandler(io.Discard, nil)), Now: time.Now, Flags: Flags{Migrate: true},
	}, ledger.HashKey{})
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

// bookOfVersion makes the tables of an earlier version.
func bookOfVersion(t *testing.T, dsn string, version int64) *Store {
	t.Helper()
	s := newOf(t, dsn)
	files, err := s.dialect.migrations()
	if err != nil {
		t.Fatal(err)
	}
	provider, err := goose.NewProvider(s.dialect.goose, poolOf(t, s), files,
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

// report is a session that keeps its snapshot, which an index that is made beside
// payments waits for.
func report(t *testing.T, s *Store) (end func()) {
	t.Helper()
	reader, err := poolOf(t, s).BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	var rows int
	if err := reader.QueryRowContext(t.Context(), "SELECT count(*) FROM transactions").Scan(&rows); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := reader.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
}

// found waits until a query of a number, of one of the database's views, finds one.
func found(t *testing.T, s *Store, query string) {
	t.Helper()
	for n := 0; n == 0; {
		if err := poolOf(t, s).QueryRowContext(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
}

const (
	indexWaits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
	ofMigrator = " FROM pg_locks WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)

// opened opens a book of an earlier version so many times at once.
func opened(t *testing.T, dsn string, times int) func() []*Store {
	stores := make(chan *Store, times)
	var opening sync.WaitGroup
	for range times {
		opening.Go(func() { stores <- openInternal(t, dsn) })
	}
	return func() []*Store {
		opening.Wait()
		close(stores)
		var all []*Store
		for s := range stores {
			all = append(all, s)
		}
		if len(all) != times {
			t.Fatalf("%d books of %d are open", len(all), times)
		}
		return all
	}
}

// wantIndexes checks that the indexes of lists are those of this version.
func wantIndexes(t *testing.T, s *Store) {
	t.Helper()
	var names []string
	var name string
	err := eachRow(s.db.WithContext(t.Context()).Raw(`SELECT relname FROM pg_index JOIN pg_class ON oid = indexrelid
		WHERE indrelid = 'transactions'::regclass AND indisvalid AND indnatts > 1
		AND (relname ~ 'transactions_(by|of)_' OR relname = 'transactions_listed') ORDER BY relname`), func() { names = append(names, name) }, &name)
	want := "[transactions_by_account transactions_by_client transactions_by_correlation transactions_by_order transactions_by_time]"
	if fmt.Sprint(names) != want || err != nil {
		t.Errorf("there are %v, error %v", names, err)
	}
}

// What is made beside payments is no transaction, and may have been cut short.
func TestMigrations_IndexThatWasCutShortIsMadeAnew(t *testing.T) {
	dsn := postgrestest.DSN(t)
	old := bookOfVersion(t, dsn, 7)
	mustExec(t, old, "CREATE INDEX transactions_by_time ON transactions (amount)",
		"UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'transactions_by_time'::regclass")
	wantIndexes(t, openInternal(t, dsn))
}

// A service of the version before goes on while a newer one makes the indexes, and
// those that come meanwhile wait for them.
func TestMigrations_PaymentsGoOnWhileIndexesAreMade(t *testing.T) {
	dsn := postgrestest.DSN(t)
	old := bookOfVersion(t, dsn, 7)
	end := report(t, old)
	all := opened(t, dsn, 2)
	found(t, old, indexWaits)
	if _, err := old.CreateIntent(t.Context(), doubtfulIntent()); err != nil {
		t.Fatal(err)
	}
	end()
	for _, s := range all() {
		if page, err := s.List(t.Context(), ledger.Filter{Limit: 10}); err != nil || len(page.Transactions) != 1 {
			t.Errorf("%d rows, error %v", len(page.Transactions), err)
		}
	}
	wantIndexes(t, old)
}

// A migration whose session is lost is over: it must not go on beside that of
// another, which has the lock now.
func TestMigrations_SessionThatIsLostTakesItsMigrationWithIt(t *testing.T) {
	dsn := postgrestest.DSN(t)
	old := bookOfVersion(t, dsn, 7)
	end := report(t, old)
	all := opened(t, dsn, 3)
	for range 3 {
		found(t, old, indexWaits)
		var pid int
		if err := poolOf(t, old).QueryRowContext(t.Context(), "SELECT pid"+ofMigrator).Scan(&pid); err != nil {
			t.Fatal(err)
		}
		mustExec(t, old, fmt.Sprintf("SELECT pg_terminate_backend(%d, 5000)", pid))
	}
	end()
	for _, s := range all() {
		s.connecting.Wait() // what was cut short is tried again after a pause
	}
	wantIndexes(t, old)
	var stamps int
	if err := poolOf(t, old).QueryRowContext(t.Context(), "SELECT count(*) FROM ledger_version WHERE version_id = 8").Scan(&stamps); err != nil || stamps != 1 {
		t.Errorf("version 8 was made %d times, error %v", stamps, err)
	}
}

// A service whose book is migrated for long runs meanwhile, so that nobody takes it
// for dead and begins the migration anew.
func TestMigrations_StartWaitsOnlyForAMoment(t *testing.T) {
	dsn := postgrestest.DSN(t)
	old := bookOfVersion(t, dsn, 7)
	end := report(t, old)
	for _, what := range []string{"who migrates", "who waits"} {
		s := newOf(t, dsn)
		s.patience = 50 * time.Millisecond
		if err := s.start(t.Context()); err != nil || !errors.Is(s.ready(), errNotReady) {
			t.Fatalf("%s: start %v, state %v", what, err, s.ready())
		}
		defer func() {
			s.connecting.Wait()
			if err := s.ready(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			wantIndexes(t, s)
		}()
	}
	end()
}

// A start that is given up ends, and so does what the server does for it: it would
// keep the lock, and others out, for as long as somebody reads.
func TestMigrations_StartThatIsGivenUpEnds(t *testing.T) {
	dsn := postgrestest.DSN(t)
	old := bookOfVersion(t, dsn, 7)
	end := report(t, old)
	defer end()
	s := newOf(t, dsn)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.start(ctx) }()
	found(t, old, indexWaits)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	var held int
	if err := poolOf(t, old).QueryRowContext(t.Context(), "SELECT count(*)"+ofMigrator).Scan(&held); err != nil || held != 0 {
		t.Errorf("%d locks are held, error %v", held, err)
	}
}

// A statement may take no longer than a bank says, but for an index of a large book.
func TestMigrations_NoLimitCutsThemShort(t *testing.T) {
	dsn := postgrestest.DSN(t)
	old := bookOfVersion(t, dsn, 7)
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, old, "ALTER DATABASE "+strings.TrimPrefix(u.Path, "/")+" SET statement_timeout = '300ms'")
	end := report(t, old)
	all := opened(t, dsn, 1)
	found(t, old, indexWaits)
	var longer bool
	for !longer {
		const waitsLonger = "SELECT now() - query_start > interval '900ms' FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
		if err := poolOf(t, old).QueryRowContext(t.Context(), waitsLonger).Scan(&longer); err != nil {
			t.Fatal(err) // it was cut short
		}
	}
	end()
	s := all()[0]
	wantIndexes(t, s)
	for range 10 { // whichever session it is
		var limit string
		if err := poolOf(t, s).QueryRowContext(t.Context(), "SHOW statement_timeout").Scan(&limit); err != nil || limit != "300ms" {
			t.Errorf("a statement may take %s, error %v", limit, err)
		}
	}
}

// Who may not change tables may not later either: it takes a human.
func TestMigrations_RoleThatMayNotIsAnError(t *testing.T) {
	dsn := postgrestest.DSN(t)
	old := bookOfVersion(t, dsn, 7)
	as, _ := asRole(t, old, dsn, "")
	var told bytes.Buffer
	s := newOf(t, as)
	s.log = slog.New(slog.NewTextHandler(&told, nil))
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(told.String(), `level=ERROR msg="ledger is not ready`) || strings.Contains(told.String(), "migrated") {
		t.Errorf("told:\n%s", told.String())
	}
}
