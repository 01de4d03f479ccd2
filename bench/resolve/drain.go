package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/bench/child"
	"github.com/gwanmun/gwanmun/bench/machine"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/gormstore"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

const (
	// maxRows bounds --rows.
	maxRows = 1_000_000
	// drainsWithin is how long a backlog may take.
	drainsWithin = 10 * time.Minute
	// writers is how many payments are written at once before a drain.
	writers = 128
	// exchangesPerRow: a status inquiry and a net cancel.
	exchangesPerRow = 2
)

// hashKey is the key of the ledger's digests.
var hashKey = strings.Repeat("0f", 32)

var filler = ledger.Actor{Name: ledger.ActorPayment, Instance: "bench"}

// transactionID is one of a day of long ago.
func transactionID(number int64) tranid.ID {
	return tranid.New(tranid.DateOf(time.Date(2026, 1, 5, 3, 0, 0, 0, time.UTC)), number)
}

// drain is a ledger whose backlog is drained over and over.
type drain struct {
	cfg  config
	core *core
	book book
	log  string
	// rows is how many were made so far.
	rows int64
}

// rounds makes them all.
func (d *drain) rounds(ctx context.Context) (result, error) {
	var r result
	for range d.cfg.Rounds {
		if err := d.fill(ctx); err != nil {
			return result{}, fmt.Errorf("fill the ledger: %w", err)
		}
		before, err := base(ctx, d.core.addr, d.cfg.Burst)
		if err != nil {
			return result{}, err
		}
		perSecond, used, err := d.once(ctx)
		if err != nil {
			return result{}, err
		}
		after, err := base(ctx, d.core.addr, d.cfg.Burst)
		if err != nil {
			return result{}, err
		}
		r.add(before, perSecond, after, used)
	}
	return r, nil
}

// fill makes a backlog.
func (d *drain) fill(ctx context.Context) error {
	store, _, err := gormstore.Open(ctx, gormstore.Options{
		Flags:  gormstore.Flags{LedgerDSN: d.book.dsn, HashKey: hashKey, Migrate: true},
		Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		return err
	}
	numbers, failures := make(chan int64), make(chan error, writers)
	var crew sync.WaitGroup
	for range writers {
		crew.Go(func() {
			for n := range numbers {
				if err := unknown(ctx, store, transactionID(n)); err != nil {
					failures <- err
					for range numbers { // the others' are not wanted any more
					}
				}
			}
		})
	}
	for range d.cfg.Rows {
		d.rows++
		numbers <- d.rows
	}
	close(numbers)
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

// cpus is CPU time of an exchange.
type cpus struct{ reconciler, database time.Duration }

// once starts the reconciler, lets it drain the backlog, and says how many
// exchanges it made a second, and the CPU time of one.
func (d *drain) once(ctx context.Context) (perSecond float64, used cpus, err error) {
	if _, _, err := d.core.tell(true); err != nil {
		return 0, cpus{}, err
	}
	before, err := d.book.cpu()
	if err != nil {
		return 0, cpus{}, err
	}
	// Not CommandContext: it is stopped by a signal. The binary is the caller's choice.
	command := exec.Command(d.cfg.Reconciler, "--ledger-dsn", d.book.dsn, "--hash-key", hashKey, //nolint:gosec,noctx // see above
		"--core-addr", d.core.addr, "--grpc-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0")
	reconciler, err := child.Launch("the reconciler", d.log, command)
	if err != nil {
		return 0, cpus{}, err
	}
	took, err := d.await(ctx, reconciler)
	own, errOwn := machine.CPU(reconciler.PID())
	after, errDatabase := d.book.cpu()
	if err = errors.Join(err, errOwn, errDatabase, reconciler.Stop()); err != nil {
		return 0, cpus{}, err
	}
	exchanges := time.Duration(exchangesPerRow * d.cfg.Rows)
	return float64(exchanges) / took.Seconds(), cpus{own / exchanges, (after - before) / exchanges}, nil
}

// await waits until every row has had its exchanges.
func (d *drain) await(ctx context.Context, reconciler *child.Process) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, drainsWithin)
	defer cancel()
	var requests int64
	var failure error
	err = reconciler.Await(ctx, func() bool {
		requests, took, failure = d.core.tell(false)
		return failure != nil || requests >= int64(exchangesPerRow*d.cfg.Rows)
	})
	if err != nil {
		return 0, fmt.Errorf("after %d requests: %w", requests, err)
	}
	return took, failure
}
