package gormstore_test

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/gormstore"
	"github.com/gwanmun/gwanmun/pkg/postgrestest"
)

// BenchmarkPayment is what one payment costs the ledger: its intent and its
// outcome, two durable commits (but that a throwaway PostgreSQL does not sync),
// 64 payments at a time.
func BenchmarkPayment(b *testing.B) {
	for name, dsn := range map[string]func() string{
		"sqlite":     func() string { return "sqlite:" + filepath.Join(b.TempDir(), "ledger.db") },
		"postgresql": func() string { return postgrestest.DSN(b) },
	} {
		b.Run(name, func(b *testing.B) {
			s, _, err := gormstore.Open(b.Context(), gormstore.Options{
				Flags:  gormstore.Flags{LedgerDSN: dsn(), HashKey: testKey, Migrate: true},
				Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
			})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			var number atomic.Int64
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					in := intent(number.Add(1))
					if _, err := s.CreateIntent(context.Background(), in); err != nil {
						b.Error(err)
					}
					if _, err := s.Transition(context.Background(), ledger.Change{
						ID: in.ID, From: ledger.StatusRequested, To: ledger.StatusSuccess,
						Evidence: ledger.EvidenceAnswered, Answer: ledger.Answer{Code: "0000"}, By: payer,
					}); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
