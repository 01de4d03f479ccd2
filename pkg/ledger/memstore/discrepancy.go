package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// ListDiscrepancies implements ledger.Discrepancies.
func (s *Store) ListDiscrepancies(ctx context.Context, f ledger.DiscrepancyFilter) (ledger.DiscrepancyPage, error) {
	if f.Limit < 1 || f.Limit > ledger.MaxPage {
		return ledger.DiscrepancyPage{}, fmt.Errorf("list %d discrepancies: not 1 to %d", f.Limit, ledger.MaxPage)
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return ledger.DiscrepancyPage{}, err
	}
	defer unlock()
	place := func(d *ledger.Discrepancy) ledger.DiscrepancyCursor {
		return ledger.DiscrepancyCursor{FoundAt: d.FoundAt, ID: d.ID}
	}
	newer := func(a, b ledger.DiscrepancyCursor) int {
		return cmp.Or(b.FoundAt.Compare(a.FoundAt), cmp.Compare(b.ID, a.ID))
	}
	var found []ledger.Discrepancy
	for _, d := range s.settled.discrepancies {
		if (f.Run == "" || f.Run == d.Run) && (f.State == 0 || f.State == d.State) &&
			(f.After == nil || newer(*f.After, place(&d)) < 0) {
			found = append(found, d)
		}
	}
	slices.SortFunc(found, func(a, b ledger.Discrepancy) int { return newer(place(&a), place(&b)) })
	page := ledger.DiscrepancyPage{Discrepancies: found[:min(f.Limit, len(found))]}
	if len(found) > f.Limit {
		next := place(&found[f.Limit-1])
		page.Next = &next
	}
	return page, nil
}

// UnclosedDiscrepancies implements ledger.Discrepancies.
func (s *Store) UnclosedDiscrepancies(
	ctx context.Context, day tranid.Date, after tranid.ID, limit int,
) ([]tranid.ID, error) {
	if err := checkDayRead(day, limit); err != nil {
		return nil, err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var ids []tranid.ID
	for id, d := range s.settled.discrepancies {
		if id > after && id.Date() == day && d.State != ledger.DiscrepancyClosed {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids[:min(limit, len(ids))], nil
}

// NoteDiscrepancy implements ledger.Discrepancies.
func (s *Store) NoteDiscrepancy(ctx context.Context, id tranid.ID, note, by string) (ledger.Discrepancy, error) {
	note = ledger.Note(note)
	if note == "" || by == "" {
		return ledger.Discrepancy{}, fmt.Errorf("note: %w", ledger.ErrInvalidRow)
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return ledger.Discrepancy{}, err
	}
	defer unlock()
	d, ok := s.settled.discrepancies[id]
	if !ok {
		return ledger.Discrepancy{}, ledger.ErrDiscrepancyNotFound
	}
	d = d.Noted(note, by)
	s.settled.discrepancies[id] = d
	return d, nil
}

// CountDiscrepancies implements ledger.Discrepancies.
func (s *Store) CountDiscrepancies(ctx context.Context) (map[ledger.DiscrepancyClass]int64, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	counts := make(map[ledger.DiscrepancyClass]int64, len(ledger.DiscrepancyClasses))
	for _, class := range ledger.DiscrepancyClasses {
		counts[class] = 0
	}
	for _, d := range s.settled.discrepancies {
		if d.State == ledger.DiscrepancyOpen {
			counts[d.Class]++
		}
	}
	return counts, nil
}
