package database

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the way round the store
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite" // the same

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/gormstore"
	"github.com/gwanmun/gwanmun/pkg/postgrestest"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/reconciler/resolve"
	"github.com/gwanmun/gwanmun/services/reconciler/settlement"
)

func TestMain(m *testing.M) {
	code := postgrestest.Main(m)
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, "database: left running:", err)
		code = 1
	}
	os.Exit(code)
}

var (
	payer = ledger.Actor{Name: ledger.ActorPayment, Instance: "payment-test"}
	day   = tranid.DateOf(time.Date(2026, 7, 25, 3, 0, 0, 0, time.UTC))
	quiet = slog.New(slog.NewTextHandler(io.Discard, nil))
)

// eachDatabase runs f on a new ledger of each kind.
func eachDatabase(tb testing.TB, f func(name, dsn string)) {
	tb.Helper()
	f("sqlite", "sqlite:"+filepath.Join(tb.TempDir(), "ledger.db"))
	f("postgresql", "")
}

// open opens a ledger until the test ends.
func open(tb testing.TB, dsn string) (*gormstore.Store, ledger.HashKey) {
	tb.Helper()
	s, key, err := gormstore.Open(context.Background(), gormstore.Options{
		Flags: gormstore.Flags{LedgerDSN: dsn, HashKey: strings.Repeat("5a", 32), Migrate: true}, Logger: quiet,
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s, key
}

func number(tb testing.TB, digits string) account.Number {
	tb.Helper()
	n, err := account.Parse(digits)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// fill stores payments with the numbers 0 to size of one account, that succeeded:
// one by the store, and the rest as copies of it.
func fill(tb testing.TB, s *gormstore.Store, dsn string, hash ledger.Hash, size int) {
	tb.Helper()
	ctx := context.Background()
	first := tranid.New(day, 0)
	_, err := s.CreateIntent(ctx, ledger.Intent{
		ID: first, Client: "shop", Key: "key", AccountMasked: "123456****1234", AccountHash: hash, Amount: 1000,
		Policy: ledger.PolicyConfirm, RequestedAt: day.Start(), AdoptAfter: time.Hour, KeyLife: time.Hour, By: payer,
	})
	if err != nil {
		tb.Fatal(err)
	}
	_, err = s.Transition(ctx, ledger.Change{
		ID: first, From: ledger.StatusRequested, To: ledger.StatusSuccess, Evidence: ledger.EvidenceAnswered,
		Answer: ledger.Answer{Code: "0000"}, By: payer,
	})
	if err != nil {
		tb.Fatal(err)
	}
	copies := `WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < %d)
INSERT INTO transactions (%s) SELECT %s FROM transactions CROSS JOIN numbers WHERE transaction_id = '%s'`
	driver, name, columns, number := "pgx", dsn, "SELECT column_name FROM information_schema.columns WHERE table_name = 'transactions'",
		"lpad(CAST(n AS text), 9, '0')"
	if path, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
		driver, name, columns, number = "sqlite", path, "SELECT name FROM pragma_table_info('transactions')", "printf('%09d', n)"
	}
	db, err := sql.Open(driver, name)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	into, from := columnsOf(tb, db, columns), []string{}
	for _, column := range into {
		if column == "transaction_id" {
			column = "'" + string(first[:13]) + "' || " + number
		}
		from = append(from, column)
	}
	statement := fmt.Sprintf(copies, size, strings.Join(into, ", "), strings.Join(from, ", "), first)
	if _, err := db.ExecContext(ctx, statement); err != nil {
		tb.Fatal(err)
	}
}

func columnsOf(tb testing.TB, db *sql.DB, query string) (columns []string) {
	tb.Helper()
	rows, err := db.QueryContext(context.Background(), query)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			tb.Fatal(err)
		}
		columns = append(columns, name)
	}
	if err := rows.Err(); err != nil || len(columns) == 0 {
		tb.Fatalf("%d columns, error %v", len(columns), err)
	}
	return columns
}

// book is a core's book with the numbers 0 to size, but for one.
type book struct {
	size, missing int
	owner         account.Number
}

func (b book) Page(_ context.Context, day tranid.Date, page int) ([]settlement.Record, error) {
	records := make([]settlement.Record, 0, settlement.PageSize)
	for place := page * settlement.PageSize; len(records) < settlement.PageSize && place < b.size-1; place++ {
		n := place
		if n >= b.missing {
			n++
		}
		records = append(records, settlement.Record{ID: tranid.New(day, int64(n)), Account: b.owner, Amount: 1000, State: ledger.CoreDone})
	}
	return records, nil
}

// idle is a Resolver with nothing to do.
type idle struct{}

func (idle) ResolveWhile(context.Context, tranid.ID, ledger.Actor) (resolve.Report, error) {
	return resolve.Report{}, nil
}

// running starts a Service over a ledger, and stops it when the test ends.
func running(tb testing.TB, s *gormstore.Store, key ledger.HashKey, b settlement.Book, instance string) *settlement.Service {
	tb.Helper()
	service := settlement.New(settlement.Options{
		Store: s, Resolver: idle{}, Book: b, Key: key, Instance: instance, Logger: quiet, Now: time.Now,
		Ghosts: prometheus.NewCounter(prometheus.CounterOpts{Name: "ghosts"}), Registry: prometheus.NewRegistry(),
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { service.Run(ctx) })
	tb.Cleanup(func() { cancel(); running.Wait() })
	return service
}

// ended waits for the end of a run.
func ended(tb testing.TB, s *gormstore.Store, id ledger.RunID) ledger.SettlementRun {
	tb.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); <-tick.C {
		run, err := s.GetSettlement(context.Background(), id)
		if err != nil {
			tb.Fatal(err)
		}
		if run.State != ledger.RunRunning {
			return run
		}
	}
	tb.Fatal("the run does not end")
	return ledger.SettlementRun{}
}

func TestSettlement_TwoInstancesOnOneLedgerRunADayOnce(t *testing.T) {
	eachDatabase(t, func(name, dsn string) {
		t.Run(name, func(t *testing.T) {
			if dsn == "" {
				dsn = postgrestest.DSN(t)
			}
			const size, missing = 5000, 4321
			s, key := open(t, dsn)
			other, _ := open(t, dsn)
			owner := number(t, "12345678901234")
			fill(t, s, dsn, key.Account(owner), size)
			core := book{size: size, missing: missing, owner: owner}
			services := []*settlement.Service{running(t, s, key, core, "reconciler-1"), running(t, other, key, core, "reconciler-2")}
			for range 2 {
				started := make([]ledger.SettlementRun, 8)
				var all sync.WaitGroup
				for i := range started {
					all.Go(func() {
						var err error
						if started[i], err = services[i%2].Start(context.Background(), day); err != nil {
							t.Errorf("start: %v", err)
						}
					})
				}
				all.Wait()
				for _, run := range started {
					run = ended(t, s, run.ID)
					want := ledger.SettlementCounts{Match: size - 1, LedgerOnly: 1, Records: size - 1}
					if run.State != ledger.RunSucceeded || run.Counts != want {
						t.Errorf("%s %q: %+v", run.State, run.Error, run.Counts)
					}
				}
			}
			checkKept(t, other, tranid.New(day, missing))
		})
	})
}

// checkKept fails the test unless the one discrepancy is stored once, and runs of
// the day did not overlap.
func checkKept(t *testing.T, s *gormstore.Store, id tranid.ID) {
	t.Helper()
	found, err := s.ListDiscrepancies(context.Background(), ledger.DiscrepancyFilter{Limit: 10})
	if err != nil || len(found.Discrepancies) != 1 || found.Discrepancies[0].ID != id {
		t.Errorf("found %+v, error %v", found.Discrepancies, err)
	}
	runs, err := s.ListSettlements(context.Background(), ledger.SettlementFilter{Day: day, Limit: 100})
	if err != nil || len(runs.Runs) < 2 {
		t.Fatalf("%d runs, error %v", len(runs.Runs), err)
	}
	for i := range runs.Runs[1:] {
		if later, earlier := runs.Runs[i], runs.Runs[i+1]; later.StartedAt.Before(earlier.FinishedAt) {
			t.Errorf("%s began before %s ended", later.ID, earlier.ID)
		}
	}
}

// BenchmarkSettlement compares a day of a real ledger, of a hundred thousand
// payments, with a generated book.
func BenchmarkSettlement(b *testing.B) {
	const size = 100_000
	eachDatabase(b, func(name, dsn string) {
		b.Run(name, func(b *testing.B) {
			if dsn == "" {
				dsn = postgrestest.DSN(b)
			}
			s, key := open(b, dsn)
			owner := number(b, "12345678901234")
			fill(b, s, dsn, key.Account(owner), size)
			service := running(b, s, key, book{size: size, missing: size / 2, owner: owner}, "reconciler-1")
			for b.Loop() {
				run, err := service.Start(context.Background(), day)
				if err != nil {
					b.Fatal(err)
				}
				if run = ended(b, s, run.ID); run.Counts.Match != size-1 || run.Counts.LedgerOnly != 1 {
					b.Fatalf("%s %q: %+v", run.State, run.Error, run.Counts)
				}
			}
			b.ReportMetric(float64(size)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	})
}
