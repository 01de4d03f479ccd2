package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Get implements ledger.Reader.
func (s *Store) Get(ctx context.Context, id tranid.ID) (ledger.Transaction, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return ledger.Transaction{}, err
	}
	defer unlock()
	r, ok := s.rows[id]
	if !ok {
		return ledger.Transaction{}, ledger.ErrNotFound
	}
	return r.Transaction, nil
}

// GetByKey implements ledger.Reader.
func (s *Store) GetByKey(
	ctx context.Context, client ledger.ClientID, key ledger.IdempotencyKey,
) (ledger.Transaction, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return ledger.Transaction{}, err
	}
	defer unlock()
	bound, ok := s.keys[boundKey{client, key}]
	if !ok {
		return ledger.Transaction{}, ledger.ErrNotFound
	}
	return s.rows[bound.id].Transaction, nil
}

// Bound implements ledger.Reader.
func (s *Store) Bound(
	ctx context.Context, client ledger.ClientID, key ledger.IdempotencyKey, fingerprint ledger.Hash,
) (ledger.Transaction, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return ledger.Transaction{}, err
	}
	defer unlock()
	bound, ok := s.keys[boundKey{client, key}]
	if !ok {
		return ledger.Transaction{}, ledger.ErrNotFound
	}
	holder := s.rows[bound.id].Transaction
	switch {
	case holder.FreesKey(bound.expires, s.now()):
		return ledger.Transaction{}, ledger.ErrNotFound
	case bound.fingerprint != fingerprint:
		return ledger.Transaction{}, ledger.ErrKeyReused
	default:
		return holder, nil
	}
}

// Events implements ledger.Reader.
func (s *Store) Events(ctx context.Context, id tranid.ID) ([]ledger.Event, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	r, ok := s.rows[id]
	if !ok {
		return nil, nil
	}
	return slices.Clone(r.events), nil
}

// List implements ledger.Reader.
func (s *Store) List(ctx context.Context, f ledger.Filter) (ledger.Page, error) {
	if f.Limit < 1 || f.Limit > ledger.MaxPage {
		return ledger.Page{}, fmt.Errorf("list %d rows: not 1 to %d", f.Limit, ledger.MaxPage)
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return ledger.Page{}, err
	}
	defer unlock()
	var found []ledger.Transaction
	for _, r := range s.rows {
		if selects(&f, &r.Transaction) {
			found = append(found, r.Transaction)
		}
	}
	slices.SortFunc(found, func(a, b ledger.Transaction) int { return place(&b).compare(place(&a)) })
	if len(found) <= f.Limit {
		return ledger.Page{Transactions: found}, nil
	}
	last := ledger.Cursor(place(&found[f.Limit-1]))
	return ledger.Page{Transactions: found[:f.Limit:f.Limit], Next: &last}, nil
}

// Summarize implements ledger.Reader.
func (s *Store) Summarize(
	ctx context.Context, client ledger.ClientID, from, to time.Time,
) (ledger.Summary, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return ledger.Summary{}, err
	}
	defer unlock()
	filter := ledger.Filter{Client: client, RequestedFrom: from, RequestedTo: to}
	totals := make(map[ledger.Status]*ledger.Total)
	var sum ledger.Summary
	for _, r := range s.rows {
		if !selects(&filter, &r.Transaction) {
			continue
		}
		total := totals[r.Status]
		if total == nil {
			total = &ledger.Total{Status: r.Status}
			totals[r.Status] = total
		}
		if total.Amount, err = total.Amount.Add(r.Amount); err != nil {
			return ledger.Summary{}, fmt.Errorf("sum up %s: %w", r.Status, err)
		}
		total.Count++
		sum.NeedsReviewCount += int64(one(r.NeedsReview))
		if r.Status == ledger.StatusUnknown {
			sum.UnknownCount++
			if sum.OldestUnknown.IsZero() || r.RequestedAt.Before(sum.OldestUnknown) {
				sum.OldestUnknown = r.RequestedAt
			}
		}
	}
	for _, status := range ledger.Statuses {
		if total := totals[status]; total != nil {
			sum.Totals = append(sum.Totals, *total)
		}
	}
	return sum, nil
}

// Backlog implements ledger.Reader.
func (s *Store) Backlog(ctx context.Context) (ledger.Backlog, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return ledger.Backlog{}, err
	}
	defer unlock()
	var b ledger.Backlog
	for _, r := range s.rows {
		if r.Status != ledger.StatusUnknown {
			continue
		}
		b.Unknown++
		b.NeedsReview += int64(one(r.NeedsReview))
		if b.OldestUnknown.IsZero() || r.RequestedAt.Before(b.OldestUnknown) {
			b.OldestUnknown = r.RequestedAt
		}
	}
	return b, nil
}

// UnknownOfClients implements ledger.Reader.
func (s *Store) UnknownOfClients(ctx context.Context) (map[ledger.ClientID]int64, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	counts := make(map[ledger.ClientID]int64)
	for _, r := range s.rows {
		if r.Status == ledger.StatusUnknown && r.Kind.MovesMoney() {
			counts[r.Client]++
		}
	}
	return counts, nil
}

func selects(f *ledger.Filter, t *ledger.Transaction) bool {
	switch {
	case f.Client != "" && t.Client != f.Client,
		len(f.Statuses) > 0 && !slices.Contains(f.Statuses, t.Status),
		len(f.Kinds) > 0 && !slices.Contains(f.Kinds, t.Kind),
		f.NeedsReview != nil && t.NeedsReview != *f.NeedsReview,
		f.Order != "" && t.Order != f.Order,
		f.CorrelationID != "" && t.CorrelationID != f.CorrelationID,
		f.AccountHash != nil && t.AccountHash != *f.AccountHash,
		!f.RequestedFrom.IsZero() && t.RequestedAt.Before(ledger.Moment(f.RequestedFrom)),
		!f.RequestedTo.IsZero() && !t.RequestedAt.Before(ledger.Moment(f.RequestedTo)),
		f.After != nil && place(t).compare(position(*f.After)) >= 0:
		return false
	default:
		return true
	}
}

// position is a place in the order of List, oldest first.
type position ledger.Cursor

func place(t *ledger.Transaction) position { return position{RequestedAt: t.RequestedAt, ID: t.ID} }

func (p position) compare(q position) int {
	return cmp.Or(p.RequestedAt.Compare(q.RequestedAt), cmp.Compare(p.ID, q.ID))
}
