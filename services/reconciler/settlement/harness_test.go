package settlement

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/reconciler/resolve"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	errTest = errors.New("planned by the test")
	payer   = ledger.Actor{Name: ledger.ActorPayment, Instance: "payment-test"}
	alice   = number("12345678901234")
	bob     = number("98765432109876")
	testKey = func() ledger.HashKey {
		k, err := ledger.ParseHashKey(strings.Repeat("5a", 32))
		if err != nil {
			panic(err)
		}
		return k
	}()
)

func number(digits string) account.Number {
	n, err := account.Parse(digits)
	if err != nil {
		panic(err)
	}
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// paperBook is a core's book that a test writes. Before each page it calls turn,
// if there is one, with how many pages were read before.
type paperBook struct {
	mu      sync.Mutex
	records map[tranid.ID]Record
	reads   int
	turn    func(reads, page int)
	spoil   func(reads, page int, records []Record) ([]Record, error)
}

func (b *paperBook) put(r Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.records == nil {
		b.records = map[tranid.ID]Record{}
	}
	b.records[r.ID] = r
}

// Page implements Book.
func (b *paperBook) Page(_ context.Context, day tranid.Date, page int) ([]Record, error) {
	b.mu.Lock()
	reads := b.reads
	b.reads++
	b.mu.Unlock()
	if b.turn != nil {
		b.turn(reads, page)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []Record
	for id, r := range b.records {
		if id.Date() == day {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, c Record) int { return strings.Compare(string(a.ID), string(c.ID)) })
	from, to := min(page*PageSize, len(all)), min((page+1)*PageSize, len(all))
	records := slices.Clone(all[from:to])
	if b.spoil != nil {
		return b.spoil(reads, page, records)
	}
	return records, nil
}

// resolving is a Resolver that does what a test says.
type resolving func(ctx context.Context, id tranid.ID) error

func (f resolving) ResolveWhile(ctx context.Context, id tranid.ID, _ ledger.Actor) (resolve.Report, error) {
	return resolve.Report{}, f(ctx, id)
}

// logBook keeps what was logged.
type logBook struct {
	mu    sync.Mutex
	lines []slog.Record
}

func (l *logBook) Enabled(context.Context, slog.Level) bool { return true }
func (l *logBook) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logBook) WithGroup(string) slog.Handler            { return l }
func (l *logBook) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, r)
	return nil
}

func (l *logBook) count(level slog.Level, message string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, r := range l.lines {
		if r.Level == level && r.Message == message {
			n++
		}
	}
	return n
}

// books are both books and a Service between them.
type books struct {
	*Service
	store    ledger.Store
	core     *paperBook
	registry *prometheus.Registry
	logs     *logBook
	day      tranid.Date
	resolve  resolving
}

// newBooks makes two empty books. Their day is today.
func newBooks(store ledger.Store, change ...func(o *Options)) *books {
	if store == nil {
		store = memstore.New(time.Now)
	}
	b := &books{
		store: store, core: &paperBook{}, logs: &logBook{}, registry: prometheus.NewRegistry(),
		day: tranid.DateOf(time.Now()),
	}
	b.resolve = func(context.Context, tranid.ID) error { return nil }
	b.Service = b.instance("reconciler-1", b.registry, change...)
	return b
}

// instance is another Service between the same books.
func (b *books) instance(name string, registry *prometheus.Registry, change ...func(o *Options)) *Service {
	ghosts := prometheus.NewCounter(prometheus.CounterOpts{Name: "gwanmun_ghost_total"})
	registry.MustRegister(ghosts)
	o := Options{
		Store: b.store, Book: b.core, Key: testKey, Ghosts: ghosts, Instance: name,
		Resolver: resolving(func(ctx context.Context, id tranid.ID) error { return b.resolve(ctx, id) }),
		Logger:   slog.New(b.logs), Registry: registry, Now: time.Now,
	}
	for _, f := range change {
		f(&o)
	}
	return New(o)
}

// running starts a Service and returns what stops it and waits for its end.
func running(t *testing.T, s *Service) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	return sync.OnceFunc(func() { cancel(); <-done })
}

// settled starts a run and waits for its end. Only in a bubble.
func (b *books) settled(t *testing.T) ledger.SettlementRun {
	t.Helper()
	run, err := b.Start(t.Context(), b.day)
	must(t, err)
	return b.ended(t, run.ID)
}

func (b *books) ended(t *testing.T, id ledger.RunID) ledger.SettlementRun {
	t.Helper()
	for range 100_000 {
		run, err := b.store.GetSettlement(t.Context(), id)
		must(t, err)
		if run.State != ledger.RunRunning {
			return run
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("run %s does not end", id)
	return ledger.SettlementRun{}
}

// succeeds is settled of a run that must succeed.
func (b *books) succeeds(t *testing.T) ledger.SettlementRun {
	t.Helper()
	run := b.settled(t)
	if run.State != ledger.RunSucceeded {
		t.Fatalf("the run is %s: %s", run.State, run.Error)
	}
	return run
}

// found is what is not closed, by number.
func (b *books) found(t *testing.T) map[int64]ledger.Discrepancy {
	t.Helper()
	page, err := b.store.ListDiscrepancies(t.Context(), ledger.DiscrepancyFilter{Limit: ledger.MaxPage})
	must(t, err)
	got := map[int64]ledger.Discrepancy{}
	for _, d := range page.Discrepancies {
		if d.State != ledger.DiscrepancyClosed {
			got[numberOf(d.ID)] = d
		}
	}
	return got
}

func numberOf(id tranid.ID) int64 {
	var n int64
	if _, err := fmt.Sscanf(string(id[13:]), "%d", &n); err != nil {
		panic(err)
	}
	return n
}

func (b *books) id(n int64) tranid.ID { return tranid.New(b.day, n) }

// The ways in which a payment of a test ends in the ledger.
var endings = map[string][]ledger.Change{
	"REQUESTED": {},
	"SUCCESS":   {{To: ledger.StatusSuccess, Evidence: ledger.EvidenceAnswered, Answer: ledger.Answer{Code: "0000"}}},
	"FAILED":    {{To: ledger.StatusFailed, Evidence: ledger.EvidenceAnswered, Answer: ledger.Answer{Code: "0051"}}},
	"NOT_SENT":  {{To: ledger.StatusFailed, Evidence: ledger.EvidenceNotSent}},
	"UNKNOWN":   {{To: ledger.StatusUnknown}},
	"CANCELED": {
		{To: ledger.StatusUnknown},
		{To: ledger.StatusCanceled, Evidence: ledger.EvidenceCancelConfirmed, Method: ledger.MethodNetCancel},
	},
}

// pay stores a payment of 1,000 won by alice that came to an end in the ledger,
// requested an hour ago.
func (b *books) pay(t *testing.T, n int64, ending string) tranid.ID {
	t.Helper()
	id := b.id(n)
	_, err := b.store.CreateIntent(t.Context(), ledger.Intent{
		ID: id, Client: "shop", Key: ledger.IdempotencyKey("key-" + string(id)), AccountMasked: alice.Masked(),
		AccountHash: testKey.Account(alice), Amount: 1000, Policy: ledger.PolicyNetCancel,
		RequestedAt: time.Now().Add(-time.Hour), AdoptAfter: time.Hour, KeyLife: time.Hour, By: payer,
	})
	must(t, err)
	b.move(t, id, ledger.StatusRequested, ending)
	return id
}

// move makes the moves of an ending, from a status on.
func (b *books) move(t *testing.T, id tranid.ID, from ledger.Status, ending string) {
	t.Helper()
	steps, ok := endings[ending]
	if !ok {
		t.Fatalf("no ending %s", ending)
	}
	for _, step := range steps {
		if from == ledger.StatusUnknown && step.To == from {
			continue
		}
		step.ID, step.From, step.By = id, from, payer
		_, err := b.store.Transition(t.Context(), step)
		must(t, err)
		from = step.To
	}
}

// lists puts a payment into the core's book as the ledger would have it.
func (b *books) lists(n int64, state ledger.CoreState) {
	b.core.put(Record{ID: b.id(n), Account: alice, Amount: 1000, State: state})
}

// metric is the value of a metric with that label; without one, the sum.
func metric(t *testing.T, registry *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := registry.Gather()
	must(t, err)
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if label == "" || m.GetLabel()[0].GetValue() == label {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}
