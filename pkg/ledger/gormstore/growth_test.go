package gormstore

import (
	"crypto/md5" //nolint:gosec // it only makes texts
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/postgrestest"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// grownDays are the business days of a grown book, each with as many payments.
var grownDays = []string{"2026-07-01", "2026-07-02", "2026-07-03", "2026-07-04"}

// grow fills a PostgreSQL book with payments, as its own statements would have
// written them, vacuumed as they would be by the way.
func grow(t *testing.T, s *Store, payments int) {
	t.Helper()
	const batch = 5_000
	pool := poolOf(t, s)
	perDay := payments / len(grownDays)
	for _, day := range grownDays {
		for first := 0; first < perDay; first += batch {
			for _, name := range []string{"fill", "settle"} {
				statement, err := os.ReadFile("testdata/" + name + ".postgres.sql")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := pool.ExecContext(t.Context(), string(statement), first, min(batch, perDay-first), day); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		}
		if _, err := pool.ExecContext(t.Context(), "VACUUM (ANALYZE)"); err != nil {
			t.Fatal(err)
		}
	}
}

func poolOf(t *testing.T, s *Store) *sql.DB {
	t.Helper()
	pool, err := s.db.DB()
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

// lookups are what support asks a book for, and the most pages that PostgreSQL may
// read for one page of it; by which index SQLite must find it.
var lookups = map[string]struct {
	filter ledger.Filter
	index  string
}{
	"all":                        {ledger.Filter{}, "transactions_listed"},
	"time":                       {ledger.Filter{RequestedFrom: grownAt(0), RequestedTo: grownAt(1)}, "transactions_listed"},
	"client":                     {ledger.Filter{Client: "small-shop"}, "transactions_of_client"},
	"client and time":            {ledger.Filter{Client: "small-shop", RequestedFrom: grownAt(0), RequestedTo: grownAt(1)}, "transactions_of_client"},
	"account":                    {ledger.Filter{AccountHash: &grownAccount}, "transactions_of_account"},
	"account and time":           {ledger.Filter{AccountHash: &grownAccount, RequestedFrom: grownAt(0), RequestedTo: grownAt(1)}, "transactions_of_account"},
	"account and client":         {ledger.Filter{AccountHash: &grownAccount, Client: "shop"}, "transactions_of_account"},
	"account, client and status": {ledger.Filter{AccountHash: &grownAccount, Client: "shop", Statuses: unknownOnly}, "transactions_of_account"},
	"order":                      {ledger.Filter{Order: grownOrder}, "transactions_of_order"},
	"order and client":           {ledger.Filter{Order: grownOrder, Client: "shop"}, "transactions_of_order"},
	"correlation ID":             {ledger.Filter{CorrelationID: grownCorrelation}, "transactions_of_correlation"},
	"correlation ID and client":  {ledger.Filter{CorrelationID: grownCorrelation, Client: "shop"}, "transactions_of_correlation"},
	"correlation ID and time": {
		ledger.Filter{CorrelationID: grownCorrelation, RequestedFrom: grownAt(0), RequestedTo: grownAt(1)},
		"transactions_of_correlation",
	},
	"unknown":             {ledger.Filter{Statuses: unknownOnly}, "transactions_due"},
	"unknown of a client": {ledger.Filter{Statuses: unknownOnly, Client: "small-shop"}, ""},
	"needs review":        {ledger.Filter{NeedsReview: &yes}, "transactions_due"},
	"requested":           {ledger.Filter{Statuses: []ledger.Status{ledger.StatusRequested}}, "transactions_abandoned"},
}

var (
	yes         = true
	unknownOnly = []ledger.Status{ledger.StatusUnknown}

	// One of a thousand accounts, and one payment.
	grownAccount     = ledger.Hash(sha256.Sum256([]byte("account0")))
	grownOrder       = ledger.OrderID("order-" + md5Of("orderGWMNU20260702000000101"))
	grownCorrelation = md5Of("correlationGWMNU20260702000000101")
)

// md5Of is PostgreSQL's md5.
func md5Of(text string) string {
	sum := md5.Sum([]byte(text)) //nolint:gosec // it only makes texts
	return hex.EncodeToString(sum[:])
}

// grownAt is midnight in UTC of one of the days.
func grownAt(i int) time.Time {
	at, err := time.Parse(time.DateOnly, grownDays[i])
	if err != nil {
		panic(err)
	}
	return at
}

// mostPages is what one page of a list may read: what it shows, and a few levels
// of an index. What is pending is read whole.
const mostPages = 250

var pagesRead = regexp.MustCompile(`Buffers: shared (?:hit=(\d+))? ?(?:read=(\d+))?`)

// pagesOf is how many pages PostgreSQL reads for a statement, and its plan.
func pagesOf(t *testing.T, pool *sql.DB, statement string, values []any) (int, string) {
	t.Helper()
	plan := explained(t, pool, "EXPLAIN (ANALYZE, BUFFERS) "+statement, values)
	match := pagesRead.FindStringSubmatch(plan)
	if match == nil {
		t.Fatalf("no pages in the plan:\n%s", plan)
	}
	pages := 0
	for _, digits := range match[1:] {
		if digits != "" {
			n, err := strconv.Atoi(digits)
			if err != nil {
				t.Fatal(err)
			}
			pages += n
		}
	}
	return pages, plan
}

// explained is the last column of what a statement answers, line by line.
func explained(t *testing.T, pool *sql.DB, statement string, values []any) string {
	t.Helper()
	rows, err := pool.QueryContext(t.Context(), statement, values...)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	line := make([]any, len(columns))
	for i := range line {
		line[i] = new(any)
	}
	var text strings.Builder
	for rows.Next() {
		if err := rows.Scan(line...); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&text, *line[len(line)-1].(*any))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestLookup_ReadsFewPagesOfALargeBook(t *testing.T) {
	s := openInternal(t, postgrestest.DSN(t))
	grow(t, s, 20_000)
	pool := poolOf(t, s)
	var r recorder
	r.on(t, s.db)
	for what, l := range lookups {
		for page, after := range map[string]*ledger.Cursor{
			"first": nil, "next": {RequestedAt: grownAt(0).Add(20 * time.Second), ID: tranid.ID("GWMNU20260701000002000")},
		} {
			f := l.filter
			f.Limit, f.After = 50, after
			r.statements, r.values = nil, nil
			list, err := s.List(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			if rare := l.filter.Order != "" || l.filter.CorrelationID != ""; rare && after == nil &&
				l.filter.RequestedFrom.IsZero() && len(list.Transactions) != 1 {
				t.Errorf("%s finds %d rows, want 1", what, len(list.Transactions))
			}
			if pages, plan := pagesOf(t, pool, r.statements[0], r.values[0]); pages > mostPages {
				t.Errorf("%s, %s page, reads %d pages:\n%s\n%s", what, page, pages, r.statements[0], plan)
			}
		}
	}
	t.Run("keeping", func(t *testing.T) { checkKeepingPlans(t, s, &r) })
}

func TestLookup_SQLiteSearchesTheNarrowestIndex(t *testing.T) {
	s := openInternal(t, "sqlite:"+t.TempDir()+"/ledger.db")
	if _, err := s.CreateIntent(t.Context(), doubtfulIntent()); err != nil {
		t.Fatal(err)
	}
	var r recorder
	r.on(t, s.db)
	for what, l := range lookups {
		for _, after := range []*ledger.Cursor{nil, {RequestedAt: someTime, ID: planID}} {
			if after != nil && l.index == "transactions_abandoned" {
				continue // more than a page of what is under way: rare, and not long so
			}
			f := l.filter
			f.Limit, f.After = 50, after
			r.statements, r.values = nil, nil
			if _, err := s.List(t.Context(), f); err != nil {
				t.Fatal(err)
			}
			plan := explained(t, poolOf(t, s), "EXPLAIN QUERY PLAN "+r.statements[0], r.values[0])
			sorts := strings.Contains(plan, "B-TREE") && l.index != "transactions_due" && l.index != "transactions_abandoned"
			if !strings.Contains(plan, "INDEX "+l.index) || sorts {
				t.Errorf("%s does not use %q:\n%s\n%s", what, l.index, r.statements[0], plan)
			}
		}
	}
}

// checkKeepingPlans fails the test if a step of a keeper would read a whole table
// of a grown book.
func checkKeepingPlans(t *testing.T, s *Store, r *recorder) {
	t.Helper()
	pool := poolOf(t, s)
	for _, statement := range []string{
		"UPDATE transactions SET status = 'SUCCESS', evidence = 'ANSWERED', response_code = '0000', next_resolve_at = NULL " +
			"WHERE status = 'UNKNOWN' AND business_date = '" + grownDays[0] + "'",
		"DELETE FROM idempotency_keys WHERE business_date = '" + grownDays[0] + "'",
	} {
		if _, err := pool.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	r.statements, r.values = nil, nil
	if purge, err := s.PurgeKeys(t.Context(), ledger.MaxPurge); err != nil || purge.Unbound == 0 || purge.Kept == 0 {
		t.Errorf("purged %+v, error %v", purge, err)
	}
	step, err := s.RetireDay(t.Context(), ledger.RetireOptions{
		RetainDays: 1, Today: tranid.DateOf(time.Now()), Limit: ledger.MaxRetire,
	})
	if err != nil || step.Rows != ledger.MaxRetire || step.Orders == 0 {
		t.Errorf("retired %+v, error %v", step, err)
	}
	for i, statement := range r.statements {
		plan := explained(t, pool, "EXPLAIN "+statement, r.values[i])
		for _, table := range []string{"transactions", "transaction_events", "idempotency_keys", "order_guards"} {
			if strings.Contains(plan, "Seq Scan on "+table) {
				t.Errorf("reads all of %s:\n%s\n%s", table, statement, plan)
			}
		}
	}
}

func TestKeeping_SQLiteReadsNoWholeTable(t *testing.T) {
	s := openInternal(t, "sqlite:"+t.TempDir()+"/ledger.db")
	in := doubtfulIntent()
	in.KeyLife = -time.Minute
	if _, err := s.CreateIntent(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	_, err := s.Transition(t.Context(), ledger.Change{
		ID: in.ID, From: ledger.StatusRequested, To: ledger.StatusFailed, Evidence: ledger.EvidenceNotSent, By: in.By,
	})
	if err != nil {
		t.Fatal(err)
	}
	var r recorder
	r.on(t, s.db)
	if purge, err := s.PurgeKeys(t.Context(), 1); err != nil || purge.Unbound != 1 {
		t.Fatalf("purged %+v, error %v", purge, err)
	}
	o := ledger.RetireOptions{RetainDays: 1, Today: tranid.DateOf(time.Now()), Limit: 1}
	if step, err := s.RetireDay(t.Context(), o); err != nil || !step.Gone {
		t.Fatalf("retired %+v, error %v", step, err)
	}
	for i, statement := range r.statements {
		plan := explained(t, poolOf(t, s), "EXPLAIN QUERY PLAN "+statement, r.values[i])
		for line := range strings.Lines(plan) {
			scan := strings.HasPrefix(line, "SCAN ") && !strings.Contains(line, " INDEX ")
			if scan && !strings.Contains(line, "SCAN expired") && !strings.Contains(line, "SCAN found") && !strings.Contains(line, "CONSTANT") {
				t.Errorf("reads a whole table:\n%s\n%s", statement, plan)
			}
		}
	}
}
