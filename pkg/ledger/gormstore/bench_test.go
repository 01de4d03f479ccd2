package gormstore_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/gormstore"
	"github.com/gwanmun/gwanmun/pkg/postgrestest"
)

// payerOf is how a payment's two rows are written.
type payerOf struct {
	name   string
	create func(ctx context.Context, s *gormstore.Store, in ledger.Intent) (ledger.Admission, error)
	end    func(ctx context.Context, s *gormstore.Store, c ledger.Change) (ledger.Transaction, error)
}

var payersOf = []payerOf{
	{
		"together",
		func(ctx context.Context, s *gormstore.Store, in ledger.Intent) (ledger.Admission, error) {
			return s.CreateIntent(ctx, in)
		},
		func(ctx context.Context, s *gormstore.Store, c ledger.Change) (ledger.Transaction, error) {
			return s.Transition(ctx, c)
		},
	},
	{"alone", gormstore.CreateAlone, gormstore.MoveAlone},
}

// BenchmarkPayment is what one payment costs the ledger: its intent and its
// outcome, two durable commits, by so many callers at once; together is what the
// product does, alone is the same with a commit for each row. `make bench-ledger`
// runs it on a PostgreSQL that syncs as it does by default.
func BenchmarkPayment(b *testing.B) {
	for name, dsn := range map[string]func(b *testing.B) string{
		"postgresql": func(b *testing.B) string { return postgrestest.DSN(b) },
		"sqlite":     func(b *testing.B) string { return "sqlite:" + filepath.Join(b.TempDir(), "ledger.db") },
	} {
		for _, callers := range []int{1, 64, 256} {
			for _, order := range []bool{false, true} {
				for _, p := range payersOf {
					b.Run(fmt.Sprintf("%s/callers=%d/order=%t/%s", name, callers, order, p.name), func(b *testing.B) {
						payAll(b, dsn(b), callers, order, p)
					})
				}
			}
		}
	}
}

func payAll(b *testing.B, dsn string, callers int, order bool, p payerOf) {
	o, registry := options(dsn), prometheus.NewRegistry()
	o.Registry = registry
	s, _, err := gormstore.Open(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var number atomic.Int64
	took := make([][]time.Duration, callers)
	var all sync.WaitGroup
	b.ResetTimer()
	for i := range callers {
		all.Go(func() {
			for n := number.Add(1); n <= int64(b.N); n = number.Add(1) {
				begin := time.Now()
				pay(b, s, n, order, p)
				took[i] = append(took[i], time.Since(begin))
			}
		})
	}
	all.Wait()
	b.StopTimer()
	each := slices.Sorted(slices.Values(slices.Concat(took...)))
	b.ReportMetric(float64(len(each))/b.Elapsed().Seconds(), "payments/s")
	b.ReportMetric(float64(each[len(each)*99/100].Microseconds())/1000, "p99-ms")
	if perCommit := rowsPerCommit(b, registry); perCommit > 0 {
		b.ReportMetric(perCommit, "rows/commit")
	}
}

func pay(b *testing.B, s *gormstore.Store, number int64, order bool, p payerOf) {
	in := intent(number)
	if order {
		in.Order = ledger.OrderID(in.ID)
	}
	if _, err := p.create(context.Background(), s, in); err != nil {
		b.Error(err)
	}
	if _, err := p.end(context.Background(), s, ledger.Change{
		ID: in.ID, From: ledger.StatusRequested, To: ledger.StatusSuccess,
		Evidence: ledger.EvidenceAnswered, Answer: ledger.Answer{Code: "0000"}, By: payer,
	}); err != nil {
		b.Error(err)
	}
}

// rowsPerCommit is the mean of what was written together.
func rowsPerCommit(tb testing.TB, registry prometheus.Gatherer) float64 {
	tb.Helper()
	rows, commits := batches(tb, registry)
	return float64(rows) / float64(max(commits, 1))
}

// batches is how many rows were written together, in how many commits.
func batches(tb testing.TB, registry prometheus.Gatherer) (rows, commits uint64) {
	tb.Helper()
	families, err := registry.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "gwanmun_ledger_batch_rows" && f.GetType() == dto.MetricType_HISTOGRAM {
				rows += uint64(m.GetHistogram().GetSampleSum())
				commits += m.GetHistogram().GetSampleCount()
			}
		}
	}
	return rows, commits
}
