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
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/gormstore"
	"github.com/gwanmun/gwanmun/pkg/postgrestest"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

var (
	testKey = strings.Repeat("5a", 32)
	payer   = ledger.Actor{Name: ledger.ActorPayment, Instance: "payment-1"}
	today   = tranid.DateOf(time.Date(2026, 7, 25, 3, 0, 0, 0, time.UTC))
)

// eachDatabase runs a test on a new, empty book of each kind.
func eachDatabase(t *testing.T, test func(t *testing.T, dsn string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, sqliteDSN(t)) })
	t.Run("postgresql", func(t *testing.T) { test(t, postgrestest.DSN(t)) })
}

func sqliteDSN(t *testing.T) string {
	t.Helper()
	return "sqlite:" + filepath.Join(t.TempDir(), "ledger.db")
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

// raw is the way round the store, until the test ends.
func raw(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	driver, name := "pgx", dsn
	if path, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
		driver, name = "sqlite", path+"?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)"
	}
	db, err := sql.Open(driver, name)
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

func mustExec(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(context.Background(), statement); err != nil {
		t.Fatalf("%.80s: %v", statement, err)
	}
}

func intent(number int64) ledger.Intent {
	id := tranid.New(today, number)
	return ledger.Intent{
		ID: id, Client: "shop", Key: ledger.IdempotencyKey("key-" + string(id)), AccountMasked: "123456****1234",
		Amount: 5000, Policy: ledger.PolicyNetCancel, RequestedAt: time.Now(), AdoptAfter: time.Hour, KeyLife: time.Hour, By: payer,
	}
}

// inStatus stores a payment that has come to a status.
func inStatus(t *testing.T, s *gormstore.Store, number int64, status ledger.Status) ledger.Transaction {
	t.Helper()
	ctx := context.Background()
	admission, err := s.CreateIntent(ctx, intent(number))
	if err != nil {
		t.Fatal(err)
	}
	steps := map[ledger.Status][]ledger.Change{
		ledger.StatusRequested: {},
		ledger.StatusSuccess:   {{To: status, Evidence: ledger.EvidenceAnswered, Answer: ledger.Answer{Code: "0000"}}},
		ledger.StatusFailed:    {{To: status, Evidence: ledger.EvidenceAnswered, Answer: ledger.Answer{Code: "0051"}}},
		ledger.StatusUnknown:   {{To: status}},
		ledger.StatusCanceled: {
			{To: ledger.StatusUnknown}, {To: status, Evidence: ledger.EvidenceCancelConfirmed, Method: ledger.MethodNetCancel},
		},
	}
	now := admission.Transaction
	for _, step := range steps[status] {
		step.ID, step.From, step.By = now.ID, now.Status, payer
		if now, err = s.Transition(ctx, step); err != nil {
			t.Fatal(err)
		}
	}
	return now
}
