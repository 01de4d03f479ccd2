package settlement

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// rowsVariable names the environment variable with how many payments the
// benchmark's day has.
const rowsVariable = "GWANMUN_BENCH_ROWS"

// missingEvery is how often a payment is missing from the generated book.
const missingEvery = 10_000

var benchDay = tranid.DateOf(time.Date(2026, 7, 25, 3, 0, 0, 0, time.UTC))

// heapWatch is the most heap that was in use whenever it was looked at.
type heapWatch struct {
	looks, peak uint64
}

func (h *heapWatch) look() {
	if h.looks++; h.looks%64 == 1 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		h.peak = max(h.peak, m.HeapAlloc)
	}
}

// generatedAccount is an account of its own for every eighth payment.
func generatedAccount(n int64) account.Number { return number(fmt.Sprintf("%014d", 10_000_000+n/8)) }

// generatedLedger has the numbers 0 to size as payments that succeeded, and stores
// nothing.
type generatedLedger struct {
	Store
	size  int64
	found atomic.Int64
	last  account.Number
	hash  ledger.Hash
}

func (g *generatedLedger) DayRows(_ context.Context, day tranid.Date, after tranid.ID, limit int) ([]ledger.DayRow, error) {
	from := int64(0)
	if after != "" {
		from = numberOf(after) + 1
	}
	rows := make([]ledger.DayRow, 0, limit)
	for n := from; n < g.size && len(rows) < limit; n++ {
		rows = append(rows, g.row(day, n))
	}
	return rows, nil
}

func (g *generatedLedger) row(day tranid.Date, n int64) ledger.DayRow {
	if owner := generatedAccount(n); owner != g.last {
		g.last, g.hash = owner, testKey.Account(owner)
	}
	return ledger.DayRow{ID: tranid.New(day, n), Kind: ledger.KindPayment, Status: ledger.StatusSuccess, AccountHash: g.hash, Amount: 1000}
}

func (g *generatedLedger) Get(_ context.Context, id tranid.ID) (ledger.Transaction, error) {
	row := g.row(id.Date(), numberOf(id))
	return ledger.Transaction{ID: id, Kind: row.Kind, Status: row.Status, AccountHash: row.AccountHash, Amount: row.Amount}, nil
}

func (g *generatedLedger) UnclosedDiscrepancies(context.Context, tranid.Date, tranid.ID, int) ([]tranid.ID, error) {
	return nil, nil
}

func (g *generatedLedger) SaveSettlement(_ context.Context, p ledger.SettlementProgress) ([]tranid.ID, error) {
	g.found.Add(int64(len(p.Found)))
	return nil, nil
}

// generatedBook has those numbers too, but for every ten-thousandth.
type generatedBook struct {
	size int64
	heap heapWatch
}

func (g *generatedBook) Page(_ context.Context, day tranid.Date, page int) ([]Record, error) {
	g.heap.look()
	records := make([]Record, 0, PageSize)
	for place := int64(page) * PageSize; len(records) < PageSize; place++ {
		n := place + place/(missingEvery-1) + 1
		if n >= g.size {
			break
		}
		records = append(records, Record{ID: tranid.New(day, n), Account: generatedAccount(n), Amount: 1000, State: ledger.CoreDone})
	}
	return records, nil
}

// settleGenerated compares two generated books of a size and checks what is found.
func settleGenerated(tb testing.TB, size int64) (peak uint64) {
	tb.Helper()
	store, book := &generatedLedger{size: size}, &generatedBook{size: size}
	s := New(Options{
		Store: store, Book: book, Key: testKey, Ghosts: prometheus.NewCounter(prometheus.CounterOpts{Name: "x"}),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Registry: prometheus.NewRegistry(), Now: time.Now,
	})
	run := ledger.SettlementRun{ID: "run", Day: benchDay, StartedAt: time.Now()}
	t := newTally(store, run.ID, ledgerPatience)
	if err := s.comparison(&run, t).compare(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	missing := (size + missingEvery - 1) / missingEvery
	want := ledger.SettlementCounts{Match: size - missing, LedgerOnly: missing, Records: size - missing}
	if got := t.now(); got != want || store.found.Load() != missing {
		tb.Fatalf("counted %+v, want %+v; %d stored", got, want, store.found.Load())
	}
	return book.heap.peak
}

// BenchmarkCompare compares both books of a large day, a million payments unless
// GWANMUN_BENCH_ROWS says otherwise. What it makes of the pages is part of it.
func BenchmarkCompare(b *testing.B) {
	size := int64(1_000_000)
	if text := os.Getenv(rowsVariable); text != "" {
		var err error
		if size, err = strconv.ParseInt(text, 10, 64); err != nil {
			b.Fatal(err)
		}
	}
	peak := uint64(0)
	for b.Loop() {
		peak = max(peak, settleGenerated(b, size))
	}
	b.ReportMetric(float64(size)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(peak)/(1<<20), "peak-heap-MiB")
}

// However long the day is, it takes the same memory.
func TestCompare_TakesLittleMemory(t *testing.T) {
	const limit = 64 << 20
	if peak := settleGenerated(t, 150_000); peak > limit {
		t.Errorf("the heap came to %d MiB", peak>>20)
	}
}
