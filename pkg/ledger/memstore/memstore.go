// Package memstore is the ledger in memory: for tests, and for the simulation of
// the whole house under virtual time. It starts nothing and waits for nothing,
// so that it can stand inside a synctest bubble, and it passes the same suite as
// the stores that keep what they are told.
package memstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

var errClosed = errors.New("store is closed")

// Store is a ledger.Store that forgets everything with its process.
type Store struct {
	now func() time.Time

	mu     sync.Mutex
	closed bool
	rows   map[tranid.ID]*row
	keys   map[boundKey]binding
	orders map[paidOrder]tranid.ID
	next   map[tranid.Date]int64

	settled settlements
}

// row is a transaction with what belongs to it.
type row struct {
	ledger.Transaction
	events     []ledger.Event
	leaseToken string
	leaseUntil time.Time
}

type boundKey struct {
	client ledger.ClientID
	key    ledger.IdempotencyKey
}

type binding struct {
	id          tranid.ID
	fingerprint ledger.Hash
	expires     time.Time
}

type paidOrder struct {
	client ledger.ClientID
	order  ledger.OrderID
}

var _ ledger.Store = (*Store)(nil)

// New returns an empty Store. now is what its callers see as the database's
// clock.
func New(now func() time.Time) *Store {
	return &Store{
		now:    now,
		rows:   make(map[tranid.ID]*row),
		keys:   make(map[boundKey]binding),
		orders: make(map[paidOrder]tranid.ID),
		next:   make(map[tranid.Date]int64),

		settled: newSettlements(),
	}
}

// Name is what the store is called in a report.
func (s *Store) Name() string { return "memory" }

// Ping reports whether the store is open.
func (s *Store) Ping(ctx context.Context) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	unlock()
	return nil
}

// Close makes every later call fail with ErrUnavailable.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// NextBlock implements tranid.Blocks.
func (s *Store) NextBlock(ctx context.Context, day tranid.Date, count, floor int64) (tranid.Block, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return tranid.Block{}, err
	}
	defer unlock()
	block, err := tranid.TakeBlock(day, s.next[day], count, floor)
	if err != nil {
		return tranid.Block{}, err
	}
	s.next[day] = block.First + block.Count
	return block, nil
}

// lock is the way into the store: what is returned leads out again.
func (s *Store) lock(ctx context.Context) (unlock func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, fmt.Errorf("%w: %w", ledger.ErrUnavailable, errClosed)
	}
	return s.mu.Unlock, nil
}

// put stores a new row with its first event.
func (s *Store) put(t ledger.Transaction, e ledger.Event) error {
	if _, taken := s.rows[t.ID]; taken {
		return ledger.ErrDuplicateID
	}
	r := &row{Transaction: t}
	if err := r.append(e); err != nil {
		return err
	}
	s.rows[t.ID] = r
	return nil
}

func (r *row) append(e ledger.Event) error {
	if err := e.Validate(); err != nil {
		return err
	}
	e.Sequence = int64(len(r.events)) + 1
	r.events = append(r.events, e)
	return nil
}

// move makes a change of the row, with its event; it reports whether it was
// made.
func (s *Store) move(r *row, c *ledger.Change, now time.Time) (bool, error) {
	next, event := r.Transaction, c.Event(now)
	made, err := c.Apply(&next, now)
	if err != nil || !made {
		return false, err
	}
	if err := r.append(event); err != nil {
		return false, err
	}
	r.Transaction = next
	if held := (paidOrder{next.Client, next.Order}); next.FreesOrder() && s.orders[held] == next.ID {
		delete(s.orders, held)
	}
	if next.EndsLease() {
		r.release()
	}
	return true, nil
}

func (r *row) lease(token string, until time.Time) { r.leaseToken, r.leaseUntil = token, until }

func (r *row) release() { r.lease("", time.Time{}) }

func (r *row) lost() error { return &ledger.LostError{Current: r.Transaction} }
