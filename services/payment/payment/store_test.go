package payment_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// errDown is a ledger that cannot be reached.
var errDown = fmt.Errorf("%w: down", ledger.ErrUnavailable)

// faultyStore is the ledger in memory, with faults between it and the service.
// Each hook that is set is called instead of the method and may call it. Set
// them before the service is used.
type faultyStore struct {
	*memstore.Store
	createIntent func(ctx context.Context, in ledger.Intent) (ledger.Admission, error)
	record       func(ctx context.Context, rows []ledger.Transaction, by ledger.Actor) error
	transition   func(ctx context.Context, c ledger.Change) (ledger.Transaction, error)
	appendEvent  func(ctx context.Context) error
	get          func(ctx context.Context, id tranid.ID) (ledger.Transaction, error)
	nextBlock    func(ctx context.Context, day tranid.Date, count, floor int64) (tranid.Block, error)
	bound        func() error
	getByKey     func() error

	unknownOfClients func(ctx context.Context) (map[ledger.ClientID]int64, error)

	// downUntil is the moment, in nanoseconds, up to which Transition fails. It
	// may be set at any time.
	downUntil atomic.Int64
}

// UnknownOfClients implements ledger.Reader.
func (f *faultyStore) UnknownOfClients(ctx context.Context) (map[ledger.ClientID]int64, error) {
	if f.unknownOfClients != nil {
		return f.unknownOfClients(ctx)
	}
	return f.Store.UnknownOfClients(ctx)
}

// CreateIntent implements ledger.Writer.
func (f *faultyStore) CreateIntent(ctx context.Context, in ledger.Intent) (ledger.Admission, error) {
	if f.createIntent != nil {
		return f.createIntent(ctx, in)
	}
	return f.Store.CreateIntent(ctx, in)
}

// Record implements ledger.Writer.
func (f *faultyStore) Record(ctx context.Context, rows []ledger.Transaction, by ledger.Actor) error {
	if f.record != nil {
		return f.record(ctx, rows, by)
	}
	return f.Store.Record(ctx, rows, by)
}

// Bound implements ledger.Reader.
func (f *faultyStore) Bound(
	ctx context.Context, client ledger.ClientID, key ledger.IdempotencyKey, fingerprint ledger.Hash,
) (ledger.Transaction, error) {
	if f.bound != nil {
		return ledger.Transaction{}, f.bound()
	}
	return f.Store.Bound(ctx, client, key, fingerprint)
}

// GetByKey implements ledger.Reader.
func (f *faultyStore) GetByKey(
	ctx context.Context, client ledger.ClientID, key ledger.IdempotencyKey,
) (ledger.Transaction, error) {
	if f.getByKey != nil {
		return ledger.Transaction{}, f.getByKey()
	}
	return f.Store.GetByKey(ctx, client, key)
}

// Transition implements ledger.Writer.
func (f *faultyStore) Transition(ctx context.Context, c ledger.Change) (ledger.Transaction, error) {
	if time.Now().UnixNano() < f.downUntil.Load() {
		return ledger.Transaction{}, errDown
	}
	if f.transition != nil {
		return f.transition(ctx, c)
	}
	return f.Store.Transition(ctx, c)
}

// AppendEvent implements ledger.Writer.
func (f *faultyStore) AppendEvent(ctx context.Context, id tranid.ID, e ledger.Evidence, by ledger.Actor, detail string) error {
	if f.appendEvent != nil {
		if err := f.appendEvent(ctx); err != nil {
			return err
		}
	}
	return f.Store.AppendEvent(ctx, id, e, by, detail)
}

// Get implements ledger.Reader.
func (f *faultyStore) Get(ctx context.Context, id tranid.ID) (ledger.Transaction, error) {
	if f.get != nil {
		return f.get(ctx, id)
	}
	return f.Store.Get(ctx, id)
}

// NextBlock implements tranid.Blocks.
func (f *faultyStore) NextBlock(ctx context.Context, day tranid.Date, count, floor int64) (tranid.Block, error) {
	if f.nextBlock != nil {
		return f.nextBlock(ctx, day, count, floor)
	}
	return f.Store.NextBlock(ctx, day, count, floor)
}

// hang waits as a ledger does that does not answer: until the caller's patience
// ends. Patience without end is a defect, which it reports by coming back.
func hang(ctx context.Context) error {
	if _, bounded := ctx.Deadline(); !bounded {
		panic("the ledger was asked without a deadline")
	}
	<-ctx.Done()
	return errors.Join(ledger.ErrUnavailable, ctx.Err())
}
