package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/gormstore"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// writers is how many payments are written at once before a drain.
const writers = 128

// hashKey is the key of the ledger's digests.
var hashKey = strings.Repeat("0f", 32)

var filler = ledger.Actor{Name: ledger.ActorPayment, Instance: "bench"}

// errUndrained: the drain did not do to each row what it should.
var errUndrained = errors.New("the ledger does not hold what it should after the drain")

// backlog is the payments of one round.
type backlog struct {
	dsn  string
	rows int
	// since is when the first was requested; those of the rounds before are older.
	since time.Time
}

// open opens the ledger.
func (b *backlog) open(ctx context.Context) (ledger.Store, error) {
	store, _, err := gormstore.Open(ctx, gormstore.Options{
		Flags:  gormstore.Flags{LedgerDSN: b.dsn, HashKey: hashKey, Migrate: true},
		Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
	})
	return store, err
}

// fill makes the payments, under IDs that the core has never seen.
func (b *backlog) fill(ctx context.Context, c *core) error {
	store, err := b.open(ctx)
	if err != nil {
		return err
	}
	b.since = time.Now()
	ids, failures := make(chan tranid.ID), make(chan error, writers)
	var crew sync.WaitGroup
	for range writers {
		crew.Go(func() {
			for id := range ids {
				if err := unknown(ctx, store, id); err != nil {
					failures <- err
					for range ids { // the others' are not wanted any more
					}
				}
			}
		})
	}
	for range b.rows {
		ids <- c.fresh()
	}
	close(ids)
	crew.Wait()
	close(failures)
	return errors.Join(<-failures, store.Close())
}

// unknown stores a payment of which nobody knows what became.
func unknown(ctx context.Context, store ledger.Writer, id tranid.ID) error {
	now := time.Now()
	_, err := store.CreateIntent(ctx, ledger.Intent{
		ID: id, Client: "bench", Key: ledger.IdempotencyKey(id), AccountMasked: "123456****1234", Amount: 1000,
		Policy: ledger.PolicyNetCancel, RequestedAt: now, AdoptAfter: time.Hour, KeyLife: time.Hour, By: filler,
	})
	if err != nil {
		return err
	}
	_, err = store.Transition(ctx, ledger.Change{
		ID: id, From: ledger.StatusRequested, To: ledger.StatusUnknown,
		Reason: "no answer in time", SentAt: now, Elapsed: 3 * time.Second, By: filler,
	})
	return err
}

// audit is an error unless every payment has ended, and as it should.
func audit(ctx context.Context, book ledger.Reader, b *backlog, want outcome) error {
	filter := ledger.Filter{RequestedFrom: ledger.Moment(b.since), Limit: ledger.MaxPage}
	for rows := 0; ; {
		page, err := book.List(ctx, filter)
		if err != nil {
			return fmt.Errorf("read the ledger: %w", err)
		}
		for _, t := range page.Transactions {
			if got := (outcome{t.Status, t.Evidence}); got != want {
				return fmt.Errorf("%w: %s is %v, not %v", errUndrained, t.ID, got, want)
			}
		}
		rows += len(page.Transactions)
		switch {
		case page.Next != nil && rows < b.rows:
			filter.After = page.Next
		case page.Next != nil || rows != b.rows:
			return fmt.Errorf("%w: %d rows and not %d", errUndrained, rows, b.rows)
		default:
			return nil
		}
	}
}
