package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/gwanmun/gwanmun/bench/child"
	"github.com/gwanmun/gwanmun/bench/machine"
	"github.com/gwanmun/gwanmun/pkg/ledger"
)

const (
	// maxRows bounds --rows.
	maxRows = 1_000_000
	// drainsWithin is how long a backlog may take.
	drainsWithin = 10 * time.Minute
	// exchangesPerRow: a status inquiry and a net cancel.
	exchangesPerRow = 2
)

// drain is a ledger whose backlog is drained over and over.
type drain struct {
	cfg  config
	core *core
	book book
	log  string
}

// rounds makes them all.
func (d *drain) rounds(ctx context.Context) (result, error) {
	var r result
	for range d.cfg.Rounds {
		b := &backlog{dsn: d.book.dsn, rows: d.cfg.Rows}
		if err := b.fill(ctx, d.core); err != nil {
			return result{}, fmt.Errorf("fill the ledger: %w", err)
		}
		before, err := base(ctx, d.core, d.cfg.Burst)
		if err != nil {
			return result{}, err
		}
		perSecond, used, err := d.once(ctx, b)
		if err != nil {
			return result{}, err
		}
		after, err := base(ctx, d.core, d.cfg.Burst)
		if err != nil {
			return result{}, err
		}
		r.add(before, perSecond, after, used)
	}
	return r, nil
}

// cpus is CPU time of an exchange.
type cpus struct{ reconciler, database time.Duration }

// once starts the reconciler, lets it drain the backlog, and says how many
// exchanges it made a second, and the CPU time of one.
func (d *drain) once(ctx context.Context, b *backlog) (perSecond float64, used cpus, err error) {
	ctx, cancel := context.WithTimeout(ctx, drainsWithin)
	defer cancel()
	if _, _, err := d.core.tell(ctx, true); err != nil {
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
	err = d.asked(ctx, reconciler)
	own, errOwn := machine.CPU(reconciler.PID())
	after, errDatabase := d.book.cpu()
	if err = errors.Join(err, errOwn, errDatabase); err != nil {
		return 0, cpus{}, errors.Join(err, reconciler.Stop())
	}
	took, err := d.ended(ctx, reconciler, b)
	if err = errors.Join(err, reconciler.Stop()); err != nil {
		return 0, cpus{}, err
	}
	exchanges := time.Duration(exchangesPerRow * d.cfg.Rows)
	return float64(exchanges) / took.Seconds(), cpus{own / exchanges, (after - before) / exchanges}, nil
}

// asked waits until as many requests have come as the rows need. Only the core is
// asked meanwhile: the ledger is left alone.
func (d *drain) asked(ctx context.Context, reconciler *child.Process) error {
	var requests int64
	var failure error
	err := reconciler.Await(ctx, func() bool {
		requests, _, failure = d.core.tell(ctx, false)
		return failure != nil || requests >= int64(exchangesPerRow*d.cfg.Rows)
	})
	if err != nil {
		return fmt.Errorf("after %d requests: %w", requests, err)
	}
	return failure
}

// ended waits until every row is final, looks whether each is as it should be, and
// says how long it was from the first request to the last. A request that had to
// be repeated is within that time, and is no further exchange.
func (d *drain) ended(ctx context.Context, reconciler *child.Process, b *backlog) (took time.Duration, err error) {
	store, err := b.open(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	var left ledger.Backlog
	var failure error
	err = reconciler.Await(ctx, func() bool {
		left, failure = store.Backlog(ctx)
		return failure != nil || left.Unknown == 0
	})
	if err = errors.Join(err, failure); err != nil {
		return 0, fmt.Errorf("with %d rows left: %w", left.Unknown, err)
	}
	_, took, err = d.core.tell(ctx, false)
	if err != nil {
		return 0, err
	}
	return took, audit(ctx, store, b, d.core.ends)
}
