package matrix

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/gormstore"
	"github.com/gwanmun/gwanmun/pkg/postgrestest"
)

const (
	// coldPayments come at once.
	coldPayments = 50
	// scarce is how many connections to the database there are for them, and for
	// the resolver too.
	scarce = 2
	// unanswered is an account that is debited and closed on without an answer.
	unanswered = "44444444444444"
)

// TestColdStart_OnTwoConnections makes fifty payments at once on a ledger that was
// just made, while the resolver sweeps it, and all of them share a pool of two
// connections. Whoever held one and waited for another would wait for ever: all
// end, what was lost is resolved, and the books agree.
func TestColdStart_OnTwoConnections(t *testing.T) {
	for name, dsn := range map[string]func(t *testing.T) string{
		"sqlite":     func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "ledger.db") },
		"postgresql": func(t *testing.T) string { return postgrestest.DSN(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tn, sweep := buildCold(t, dsn(t))
			sweep()
			var paying sync.WaitGroup
			ended := make(chan struct{})
			for i := range coldPayments {
				paying.Go(func() {
					digits := subject
					if i%5 == 0 {
						digits = unanswered
					}
					tn.pay(digits, account.Won(1+i), ledger.PolicyNetCancel)
				})
			}
			go func() {
				paying.Wait()
				close(ended)
			}()
			select {
			case <-ended:
			case <-time.After(2 * patience):
				t.Fatal("payments wait for connections that those hold who wait for others")
			}
			eventually(t, "every payment is final", func() bool {
				for _, row := range tn.rows() {
					if !row.Status.Final() {
						return false
					}
				}
				return true
			})
			tn.audit()
			if n := len(tn.rows()); n != coldPayments {
				t.Errorf("the ledger has %d rows", n)
			}
		})
	}
}

// buildCold returns a town on a new ledger with few connections, and what begins
// to sweep it until the test ends.
func buildCold(t *testing.T, dsn string) (tn *town, sweep func()) {
	t.Helper()
	store, _, err := gormstore.Open(context.Background(), gormstore.Options{
		Flags:  gormstore.Flags{LedgerDSN: dsn, HashKey: hashKeyText, Migrate: true, LedgerMaxConns: scarce},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	c := openCore(t)
	tn = &town{house: buildOn(t, store, c.door.Addr().String(), atOnce), core: c}
	ctx, stop := context.WithCancel(context.Background())
	var sweeping sync.WaitGroup
	t.Cleanup(func() {
		stop()
		sweeping.Wait()
		tn.close()
		if err := store.Close(); err != nil {
			t.Errorf("close the ledger: %v", err)
		}
	})
	return tn, func() { sweeping.Go(func() { tn.resolver.Run(ctx) }) }
}
