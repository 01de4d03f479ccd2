package gormstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/postgrestest"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

func mustExec(t *testing.T, s *Store, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if err := s.db.WithContext(t.Context()).Exec(statement).Error; err != nil {
			t.Fatalf("%.60s: %v", statement, err)
		}
	}
}

// oneConnection makes sure that what is set is set for all that follows.
func oneConnection(t *testing.T, s *Store) {
	t.Helper()
	pool, err := s.db.DB()
	if err != nil {
		t.Fatal(err)
	}
	pool.SetMaxOpenConns(1)
}

// fill leaves the store's database no room for more, until what it returns is
// called.
func fill(t *testing.T, s *Store) (makeRoom func()) {
	t.Helper()
	if s.Name() == "sqlite" {
		oneConnection(t, s) // of which the limit is
		mustExec(t, s, "PRAGMA max_page_count = 1")
		return func() { mustExec(t, s, "PRAGMA max_page_count = 1000000") }
	}
	tables := []string{"idempotency_keys", "write_probe"}
	mustExec(t, s, `CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$`)
	for _, table := range tables {
		mustExec(t, s, "CREATE TRIGGER no_room BEFORE INSERT OR UPDATE ON "+table+" EXECUTE FUNCTION no_room()")
	}
	return func() {
		for _, table := range tables {
			mustExec(t, s, "DROP TRIGGER no_room ON "+table)
		}
	}
}

// pay stores intents until one fails, or there are enough.
func pay(t *testing.T, s *Store, first int64) error {
	t.Helper()
	for number := first; number < first+200; number++ {
		in := doubtfulIntent()
		in.ID = tranid.New(in.ID.Date(), number)
		in.Key = ledger.IdempotencyKey(in.ID)
		if _, err := s.CreateIntent(t.Context(), in); err != nil {
			return err
		}
	}
	return nil
}

func TestPing_IsNotReadyAfterAFailedWriteUntilOneSucceeds(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		makeRoom := fill(t, s)
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("before anything was written: %v", err)
		}
		if err := pay(t, s, 1000); !errors.Is(err, ledger.ErrUnavailable) {
			t.Fatalf("intent: %v", err)
		}
		for range 2 {
			if err := s.Ping(t.Context()); !errors.Is(err, ledger.ErrUnavailable) || !strings.Contains(err.Error(), "probe") {
				t.Errorf("after a failed write: %v", err)
			}
		}
		makeRoom()
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("with room: %v", err)
		}
		if s.failed.Load() != nil {
			t.Error("the failure is remembered still")
		}
		if err := pay(t, s, 2000); err != nil {
			t.Errorf("intent with room: %v", err)
		}
	})
}

func TestPing_IsNotReadyWhileTheDatabaseIsReadOnly(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		oneConnection(t, s)
		set := func(on bool) {
			setting := map[string]string{"sqlite": "PRAGMA query_only = %t", "postgresql": "SET default_transaction_read_only = %t"}
			mustExec(t, s, fmt.Sprintf(setting[s.Name()], on))
		}
		set(true)
		if err := pay(t, s, 1000); !errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("intent: %v", err)
		}
		// On PostgreSQL this is the session's own setting, and the next one's not.
		for range map[string]int{"sqlite": 2, "postgresql": 1}[s.Name()] {
			if err := s.Ping(t.Context()); !errors.Is(err, ledger.ErrUnavailable) {
				t.Errorf("read-only: %v", err)
			}
		}
		set(false)
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("no longer read-only: %v", err)
		}
	})
}

func TestPing_OfAHealthyBookWritesNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		in := doubtfulIntent()
		if _, err := s.CreateIntent(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		in.Fingerprint[0]++
		if _, err := s.CreateIntent(t.Context(), in); !errors.Is(err, ledger.ErrKeyReused) {
			t.Errorf("a verdict: %v", err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.CreateIntent(gone, in); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller who left: %v", err)
		}
		var r recorder
		r.on(t, s.db)
		if err := s.Ping(t.Context()); err != nil {
			t.Error(err)
		}
		for _, statement := range r.statements {
			if !strings.HasPrefix(statement, "SHOW") {
				t.Errorf("statement %s", statement)
			}
		}
	})
}

// A session takes over what its database says of it when it begins, and keeps it.
func TestPing_SessionsThatBeganReadOnlyAreNotKept(t *testing.T) {
	dsn := postgrestest.DSN(t)
	s := openInternal(t, dsn)
	var name string
	if err := s.db.Raw("SELECT current_database()").Scan(&name).Error; err != nil {
		t.Fatal(err)
	}
	mustExec(t, s, `ALTER DATABASE "`+name+`" SET default_transaction_read_only = on`)
	if err := s.renewed(errReadOnly); !errors.Is(err, errReadOnly) { // the next session is a new one
		t.Fatal(err)
	}
	if err := s.Ping(t.Context()); !errors.Is(err, errReadOnly) {
		t.Fatalf("read-only: %v", err)
	}
	if err := pay(t, s, 1); err == nil {
		t.Fatal("a read-only database takes payments")
	}
	mustExec(t, s, `BEGIN READ WRITE; ALTER DATABASE "`+name+`" RESET default_transaction_read_only; COMMIT`)
	for range 2 { // the first may meet a session of before
		if err := s.Ping(t.Context()); err == nil {
			return
		}
	}
	t.Errorf("writable again: %v", s.Ping(t.Context()))
}
