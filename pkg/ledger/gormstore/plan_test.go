package gormstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// recorder is a plan test's way to the statements of a method: it notes each, and
// does it.
type recorder struct {
	statements []string
	values     [][]any
}

func (r *recorder) note(db *gorm.DB) {
	if text := db.Statement.SQL.String(); text != "" && !db.DryRun { // a part of another is not done
		r.statements = append(r.statements, text)
		r.values = append(r.values, db.Statement.Vars)
	}
}

func (r *recorder) on(t *testing.T, db *gorm.DB) {
	t.Helper()
	callbacks := db.Callback()
	for _, err := range []error{
		callbacks.Query().After("gorm:query").Register("test:query", r.note),
		callbacks.Row().After("gorm:row").Register("test:row", r.note),
		callbacks.Raw().After("gorm:raw").Register("test:raw", r.note),
		callbacks.Update().After("gorm:update").Register("test:update", r.note),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// plans are the methods whose statements must find their rows by an index, and
// by which, each by one of those.
var plans = map[string]struct {
	index string
	call  func(ctx context.Context, s *Store) error
}{
	"adopt": {"transactions_abandoned", func(ctx context.Context, s *Store) error {
		_, err := s.Adopt(ctx, 20, planner)
		return err
	}},
	"claim": {"transactions_due", func(ctx context.Context, s *Store) error {
		_, err := s.Claim(ctx, ledger.ClaimOptions{Limit: 20})
		return err
	}},
	"claim of the newest": {"transactions_due", func(ctx context.Context, s *Store) error {
		_, err := s.Claim(ctx, ledger.ClaimOptions{Limit: 20, Only: ledger.PartFresh, Newest: true})
		return err
	}},
	"claim of review": {"transactions_due", func(ctx context.Context, s *Store) error {
		_, err := s.Claim(ctx, ledger.ClaimOptions{Limit: 20, Review: true})
		return err
	}},
	"claim of what is owed": {"transactions_owed", func(ctx context.Context, s *Store) error {
		_, err := s.Claim(ctx, ledger.ClaimOptions{Limit: 20, Owed: true})
		return err
	}},
	"repay": {"PRIMARY KEY", func(ctx context.Context, s *Store) error {
		if _, err := s.Repay(ctx, ledger.Repayment{ID: planID, Token: "x", By: planner}); !errors.Is(err, ledger.ErrLost) {
			return fmt.Errorf("want it lost: %w", err)
		}
		return nil
	}},
	"hasten": {"PRIMARY KEY", func(ctx context.Context, s *Store) error {
		_, err := s.Hasten(ctx, planID)
		return err
	}},
	"unknown of clients": {"transactions_unknown_of_clients", func(ctx context.Context, s *Store) error {
		_, err := s.UnknownOfClients(ctx)
		return err
	}},
	"release": {"transactions_due|transactions_owed", func(ctx context.Context, s *Store) error { return s.Release(ctx, "x") }},
	"get": {"PRIMARY KEY", func(ctx context.Context, s *Store) error {
		_, err := s.Get(ctx, planID)
		return err
	}},
	"get by key": {"PRIMARY KEY", func(ctx context.Context, s *Store) error {
		_, err := s.GetByKey(ctx, "shop", "key")
		return err
	}},
	"bound": {"PRIMARY KEY", func(ctx context.Context, s *Store) error {
		_, err := s.Bound(ctx, "shop", "key", doubtfulIntent().Fingerprint)
		return err
	}},
	"backlog": {"COVERING INDEX transactions_due", func(ctx context.Context, s *Store) error {
		_, err := s.Backlog(ctx)
		return err
	}},
	"life of a payment": {"PRIMARY KEY", func(ctx context.Context, s *Store) error {
		_, err := s.Transition(ctx, ledger.Change{
			ID: planID, From: ledger.StatusRequested, To: ledger.StatusUnknown, By: planner,
		})
		if err != nil {
			return err
		}
		claim, err := s.ClaimOne(ctx, planID, time.Hour, planner)
		if err != nil {
			return err
		}
		if _, err := s.Decide(ctx, planID, planner, ""); err != nil {
			return err
		}
		if err := s.Postpone(ctx, ledger.Postponement{ID: planID, Token: claim.Token, By: planner}); err != nil {
			return err
		}
		_, err = s.Transition(ctx, ledger.Change{
			ID: planID, From: ledger.StatusUnknown, To: ledger.StatusCanceled, Evidence: ledger.EvidenceCancelConfirmed,
			Method: ledger.MethodNetCancel, By: planner,
		})
		return err
	}},
	"events": {"transaction_events_of", func(ctx context.Context, s *Store) error {
		_, err := s.Events(ctx, planID)
		return err
	}},
	"list": {"transactions_listed|transactions_by_time", list(ledger.Filter{})},
	"next page": {"transactions_listed|transactions_by_time", list(ledger.Filter{
		After: &ledger.Cursor{RequestedAt: someTime, ID: planID},
	})},
	"list of a client":         {"transactions_of_client|transactions_by_client", list(ledger.Filter{Client: "shop"})},
	"list of an account":       {"transactions_of_account|transactions_by_account", list(ledger.Filter{AccountHash: &ledger.Hash{1}})},
	"list of a correlation ID": {"transactions_of_correlation|transactions_by_correlation", list(ledger.Filter{CorrelationID: "x"})},
	"list of an order":         {"transactions_of_order|transactions_by_order", list(ledger.Filter{Order: "x"})},
}

const planID tranid.ID = "GWMNU20260725000000001"

var planner = ledger.Actor{Name: "planner"}

func list(f ledger.Filter) func(ctx context.Context, s *Store) error {
	f.Limit = 50
	return func(ctx context.Context, s *Store) error {
		_, err := s.List(ctx, f)
		return err
	}
}

func TestPlans_FindWhatTheyNeedByAnIndex(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ctx := context.Background()
		if _, err := s.CreateIntent(ctx, doubtfulIntent()); err != nil {
			t.Fatal(err)
		}
		var r recorder
		r.on(t, s.db)
		for what, p := range plans {
			r.statements, r.values = nil, nil
			if err := p.call(ctx, s); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if len(r.statements) == 0 {
				t.Errorf("%s: no statement", what)
			}
			for i, statement := range r.statements {
				if !strings.HasPrefix(statement, "INSERT") {
					checkPlan(t, s, what, p.index, statement, r.values[i])
				}
			}
		}
	})
}

// checkPlan fails the test if the statement reads a whole table, or does not use
// the index.
func checkPlan(t *testing.T, s *Store, what, index, statement string, values []any) {
	t.Helper()
	pool, err := s.db.DB()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pool.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	explain, whole := "EXPLAIN QUERY PLAN ", "SCAN transactions"
	if s.Name() == "postgresql" {
		// An empty table is read whole unless that is made to look dear.
		explain, whole = "EXPLAIN ", "Seq Scan"
		index = strings.NewReplacer("PRIMARY KEY", "_pkey", "COVERING INDEX", "Index Only Scan using").Replace(index)
		for _, setting := range []string{"enable_seqscan = off", "enable_bitmapscan = off", "enable_sort = off"} {
			if _, err := conn.ExecContext(t.Context(), "SET "+setting); err != nil {
				t.Fatal(err)
			}
		}
	} else {
		index = strings.ReplaceAll(index, "PRIMARY KEY", "sqlite_autoindex_transactions_1")
	}
	rows, err := conn.QueryContext(t.Context(), explain+statement, values...)
	if err != nil {
		t.Fatalf("%s: explain %s: %v", what, statement, err)
	}
	defer func() { _ = rows.Close() }()
	var plan strings.Builder
	for rows.Next() {
		line := make([]any, 1)
		if s.Name() == "sqlite" {
			line = make([]any, 4)
		}
		for i := range line {
			line[i] = new(any)
		}
		if err := rows.Scan(line...); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&plan, *line[len(line)-1].(*any))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	text := plan.String()
	used := slices.ContainsFunc(strings.Split(index, "|"), func(index string) bool { return strings.Contains(text, index) })
	if !used || strings.Contains(text, whole) && !strings.Contains(text, " INDEX ") ||
		strings.Contains(text, "TEMP B-TREE FOR ORDER BY") {
		t.Errorf("%s does not use %s:\n%s\n%s", what, index, statement, text)
	}
}

func TestSQLite_EveryConnectionKeepsWhatWasCommitted(t *testing.T) {
	s := openInternal(t, "sqlite:"+t.TempDir()+"/ledger.db")
	pool, err := s.db.DB()
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		conn, err := pool.Conn(t.Context()) // held, so that each is another
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		for pragma, want := range map[string]string{
			"synchronous": "2", "journal_mode": "wal", "foreign_keys": "1", "busy_timeout": "1000",
		} {
			var got string
			if err := conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
				t.Errorf("%s is %s, want %s, error %v", pragma, got, want, err)
			}
		}
	}
}

func TestSQLite_NewConnectionIsToTheFileThatWasOpenedOrNone(t *testing.T) {
	for what, replace := range map[string]func(path string) error{
		"removed":  os.Remove,
		"replaced": func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)) },
	} {
		path := filepath.Join(t.TempDir(), "ledger.db")
		s := openInternal(t, "sqlite:"+path)
		pool, err := s.db.DB()
		if err != nil {
			t.Fatal(err)
		}
		pool.SetMaxIdleConns(-1) // every call is on a connection of its own
		if err := replace(path); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), planID); !errors.Is(err, errGone) || !errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("%s: error %v", what, err)
		}
		if stat, err := os.Stat(path); err == nil && stat.Size() > 0 || err != nil && what == "replaced" {
			t.Errorf("%s: the file is changed, error %v", what, err)
		}
	}
}
