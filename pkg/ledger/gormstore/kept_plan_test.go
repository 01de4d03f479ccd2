package gormstore

import (
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/postgrestest"
)

// planLog is the plans that the sessions of a store really use, as PostgreSQL
// tells them, with what it found when it followed them.
type planLog struct {
	mu    sync.Mutex
	plans []string
}

func (l *planLog) note(_ *pgconn.PgConn, n *pgconn.Notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if strings.Contains(n.Message, "plan:") {
		l.plans = append(l.plans, n.Message)
	}
}

// take is what was noted since the last time.
func (l *planLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	plans := l.plans
	l.plans = nil
	return plans
}

// openExplained opens a book on one connection that tells of its plans.
func openExplained(t *testing.T) (*Store, *planLog) {
	t.Helper()
	config, err := pgx.ParseConfig(postgrestest.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	var log planLog
	config.OnNotice = log.note
	for setting, value := range map[string]string{
		"session_preload_libraries": "auto_explain", "client_min_messages": "notice",
		"auto_explain.log_min_duration": "0", "auto_explain.log_level": "notice", "auto_explain.log_analyze": "on",
		"auto_explain.log_timing": "off",
	} {
		config.RuntimeParams[setting] = value
	}
	s, err := newStore(postgresDialect(config), Options{
		Flags: Flags{Migrate: true}, Logger: slog.New(slog.NewJSONHandler(io.Discard, nil)),
	}, ledger.HashKey{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	pool, err := s.db.DB()
	if err != nil {
		t.Fatal(err)
	}
	pool.SetMaxOpenConns(1)
	for _, table := range []string{"transactions", "idempotency_keys", "order_guards", "transaction_events"} {
		if err := s.db.Exec("ALTER TABLE " + table + " SET (autovacuum_enabled = false)").Error; err != nil {
			t.Fatal(err)
		}
	}
	log.take()
	return s, &log
}

// payTogether stores payments in batches of so many, with and without orders,
// ends them, and reads them.
func payTogether(t *testing.T, s *Store, from, count int) {
	t.Helper()
	ins, changes := make([]*intention, count), make([]*ledger.Change, count)
	for i := range count {
		in := numbered(from + i)
		if i%2 == 0 {
			in.Order = ledger.OrderID(in.Key)
		}
		c := success(in.ID)
		ins[i], changes[i] = intended(t, in), &c
	}
	settled(t, s.writeIntents(t.Context(), ins))
	for i := range (count + 1) / 2 { // some come to be unknown, and are decided
		changes[i] = &ledger.Change{ID: ins[i].ID, From: ledger.StatusRequested, To: ledger.StatusUnknown, By: planner}
	}
	settled(t, s.writeOutcomes(t.Context(), changes))
	decisions, canceled := make([]*decision, (count+1)/2), make([]*ledger.Change, (count+1)/2)
	for i := range decisions {
		decisions[i] = &decision{id: ins[i].ID, by: planner}
		canceled[i] = &ledger.Change{
			ID: ins[i].ID, From: ledger.StatusUnknown, To: ledger.StatusCanceled, Evidence: ledger.EvidenceCancelConfirmed,
			Method: ledger.MethodNetCancel, By: planner,
		}
	}
	settled(t, s.writeDecisions(t.Context(), decisions))
	settled(t, s.writeOutcomes(t.Context(), canceled)) // which free their orders
	look(t, s, &ins[0].Intent)
}

func settled[A any](t *testing.T, replies []reply[A]) {
	t.Helper()
	for _, r := range replies {
		if r.err != nil {
			t.Fatal(r.err)
		}
	}
}

// look reads a payment in each way that a call does; the book may not have it.
func look(t *testing.T, s *Store, in *ledger.Intent) {
	t.Helper()
	for what, err := range map[string]error{
		"get":        second(s.Get(t.Context(), in.ID)),
		"get by key": second(s.GetByKey(t.Context(), in.Client, in.Key)),
		"bound":      second(s.Bound(t.Context(), in.Client, in.Key, in.Fingerprint)),
	} {
		if err != nil && !strings.Contains(err.Error(), ledger.ErrNotFound.Error()) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

var removed = regexp.MustCompile(`Rows Removed by (Join )?Filter: (\d+)`)

// isWasteful reports whether a plan looked at rows of which it was not told.
func isWasteful(plan string) bool {
	for _, bad := range []string{"Seq Scan on ", "Bitmap", "transactions_due", "transactions_abandoned", "Merge Join"} {
		if strings.Contains(plan, bad) {
			return true
		}
	}
	for _, match := range removed.FindAllStringSubmatch(plan, -1) {
		if n, err := strconv.Atoi(match[2]); err != nil || n > keptBatch {
			return true
		}
	}
	return false
}

// A session keeps the plan of a statement that it does often. One that was made
// while the book was empty must do when it is full, and nobody has counted since.
func TestPlans_MadeForAnEmptyBookDoForAFullOne(t *testing.T) {
	s, log := openExplained(t)
	for range often {
		absent := make([]*ledger.Change, 3)
		for i := range absent {
			c := success(numbered(90_000 + i).ID)
			absent[i] = &c
		}
		s.writeOutcomes(t.Context(), absent)
		s.writeOutcomes(t.Context(), absent[:1])
		in := numbered(90_000)
		look(t, s, &in)
	}
	payOften(t, s, 0)
	payMuch(t, s)
	checkPlans(t, log)
}

// Counted when there are a few rows, a table looks as if it were best read whole,
// by whatever way is left.
func TestPlans_MadeForAYoungBookDoForAFullOne(t *testing.T) {
	s, log := openExplained(t)
	payTogether(t, s, 0, 3)
	if err := s.db.Exec("ANALYZE").Error; err != nil {
		t.Fatal(err)
	}
	payOften(t, s, 100)
	payMuch(t, s)
	checkPlans(t, log)
}

// payOften makes few payments at a time.
func payOften(t *testing.T, s *Store, from int) {
	t.Helper()
	for i := range often {
		payTogether(t, s, from+10*i, 3)
		payTogether(t, s, from+10*i+5, 1)
	}
}

// payMuch makes many payments, many at a time.
func payMuch(t *testing.T, s *Store) {
	t.Helper()
	for from := 1000; from < 1000+rowsPending; from += keptBatch {
		payTogether(t, s, from, keptBatch)
	}
}

func checkPlans(t *testing.T, log *planLog) {
	t.Helper()
	wasteful := slices.DeleteFunc(log.take(), func(plan string) bool { return !isWasteful(plan) })
	if len(wasteful) > 0 {
		t.Errorf("%d plans are wasteful, the last one\n%s", len(wasteful), wasteful[len(wasteful)-1])
	}
}

// often is more than it takes until a plan is kept.
const often = 8

// keptBatch is how many rows are written together where plans are noted.
const keptBatch = 250
