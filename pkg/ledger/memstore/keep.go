package memstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// PurgeKeys implements ledger.Keeper.
func (s *Store) PurgeKeys(ctx context.Context, limit int) (ledger.Purge, error) {
	if limit < 1 || limit > ledger.MaxPurge {
		return ledger.Purge{}, fmt.Errorf("purge %d keys: not 1 to %d", limit, ledger.MaxPurge)
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return ledger.Purge{}, err
	}
	defer unlock()
	now := s.now()
	var expired []boundKey
	for key, bound := range s.keys {
		if !now.Before(bound.expires) {
			expired = append(expired, key)
		}
	}
	slices.SortFunc(expired, func(a, b boundKey) int {
		return cmp.Or(s.keys[a].expires.Compare(s.keys[b].expires), cmp.Compare(a.client, b.client), cmp.Compare(a.key, b.key))
	})
	var purge ledger.Purge
	for _, key := range expired[:min(limit, len(expired))] {
		bound := s.keys[key]
		if s.rows[bound.id].Status.Final() {
			delete(s.keys, key)
			purge.Unbound++
			continue
		}
		bound.expires = now.Add(ledger.KeyRecheck)
		s.keys[key] = bound
		purge.Kept++
	}
	return purge, nil
}

// RetireDay implements ledger.Keeper. All rows of a day are looked at in every
// step, which is what a map can do.
func (s *Store) RetireDay(ctx context.Context, o ledger.RetireOptions) (ledger.Retirement, error) {
	if o.Limit < 1 || o.Limit > ledger.MaxRetire || o.RetainDays < 1 {
		return ledger.Retirement{}, fmt.Errorf("retire %d rows older than %d days: out of range", o.Limit, o.RetainDays)
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return ledger.Retirement{}, err
	}
	defer unlock()
	day, rows := s.oldestDay(o.After, o.LastRetired(s.now()))
	step := ledger.Retirement{Day: day}
	if day.IsZero() {
		return step, nil
	}
	if step.Hold = s.hold(day, rows); step.Hold != 0 {
		return step, nil
	}
	s.settled.retired[day] = true
	slices.SortFunc(rows, func(a, b *row) int { return cmp.Compare(a.ID, b.ID) })
	for _, r := range rows[:min(o.Limit, len(rows))] {
		s.forget(r, &step)
	}
	step.Gone = step.Rows == len(rows)
	return step, nil
}

// oldestDay returns the oldest day after one and not after another that has rows,
// and those.
func (s *Store) oldestDay(after, last tranid.Date) (tranid.Date, []*row) {
	days := make(map[tranid.Date][]*row)
	for _, r := range s.rows {
		day := r.ID.Date()
		if !last.IsZero() && !day.Start().After(last.Start()) && (after.IsZero() || day.Start().After(after.Start())) {
			days[day] = append(days[day], r)
		}
	}
	if len(days) == 0 {
		return tranid.Date{}, nil
	}
	oldest := slices.MinFunc(slices.Collect(maps.Keys(days)), func(a, b tranid.Date) int {
		return a.Start().Compare(b.Start())
	})
	return oldest, days[oldest]
}

func (s *Store) hold(day tranid.Date, rows []*row) ledger.Hold {
	if slices.ContainsFunc(rows, func(r *row) bool { return !r.Status.Final() }) {
		return ledger.HoldOpen
	}
	if slices.ContainsFunc(rows, func(r *row) bool { return !r.NextResolveAt.IsZero() }) {
		return ledger.HoldOwed
	}
	for _, bound := range s.keys {
		if bound.id.Date() == day {
			return ledger.HoldKeys
		}
	}
	return 0
}

// forget deletes a row and what belongs to it, and counts that.
func (s *Store) forget(r *row, step *ledger.Retirement) {
	if held := (paidOrder{r.Client, r.Order}); s.orders[held] == r.ID {
		delete(s.orders, held)
		step.Orders++
	}
	delete(s.rows, r.ID)
	step.Rows++
	step.Events += len(r.events)
}
