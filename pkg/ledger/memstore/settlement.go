package memstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// settlements are the runs and what they found. The zero value has none.
type settlements struct {
	runs          map[ledger.RunID]*run
	discrepancies map[tranid.ID]ledger.Discrepancy
	// retired are the days whose rows have left, or begun to.
	retired map[tranid.Date]bool
}

// run is a settlement run and until when it counts as alive.
type run struct {
	ledger.SettlementRun
	leaseUntil time.Time
}

func newSettlements() settlements {
	return settlements{
		runs:          make(map[ledger.RunID]*run),
		discrepancies: make(map[tranid.ID]ledger.Discrepancy),
		retired:       make(map[tranid.Date]bool),
	}
}

// BeginSettlement implements ledger.SettlementRuns.
func (s *Store) BeginSettlement(
	ctx context.Context, start ledger.SettlementStart,
) (ledger.SettlementRun, bool, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return ledger.SettlementRun{}, false, err
	}
	defer unlock()
	now := ledger.Moment(s.now())
	switch {
	case start.Day.IsZero():
		return ledger.SettlementRun{}, false, fmt.Errorf("begin a settlement of no day: out of range")
	case s.settled.retired[start.Day]:
		return ledger.SettlementRun{}, false, ledger.ErrDayRetired
	}
	s.failLost(now)
	var enough *run
	for _, r := range s.settled.runs {
		if r.Day == start.Day && r.suffices(&start, now) && (enough == nil || r.State == ledger.RunRunning) {
			enough = r
		}
	}
	if enough != nil {
		return enough.SettlementRun, false, nil
	}
	begun := &run{
		SettlementRun: ledger.SettlementRun{
			ID: ledger.RunID(rand.Text()), Day: start.Day, State: ledger.RunRunning,
			Scheduled: start.Scheduled, Instance: start.Instance, StartedAt: now,
		},
		leaseUntil: now.Add(start.Lease),
	}
	s.settled.runs[begun.ID] = begun
	return begun.SettlementRun, true, nil
}

// suffices reports whether a run makes another of its day needless.
func (r *run) suffices(start *ledger.SettlementStart, now time.Time) bool {
	return r.State == ledger.RunRunning || start.Scheduled && r.Scheduled &&
		(r.State == ledger.RunSucceeded || r.FinishedAt.After(now.Add(-start.Again)))
}

func (s *Store) failLost(now time.Time) int {
	lost := 0
	for _, r := range s.settled.runs {
		if r.State == ledger.RunRunning && !r.leaseUntil.After(now) {
			r.State, r.Error, r.FinishedAt = ledger.RunFailed, ledger.LostRun, now
			lost++
		}
	}
	return lost
}

// FailLostSettlements implements ledger.SettlementRuns.
func (s *Store) FailLostSettlements(ctx context.Context) (int, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	return s.failLost(ledger.Moment(s.now())), nil
}

// running is a run that has not ended, or ledger.ErrRunOver.
func (s *Store) running(id ledger.RunID) (*run, error) {
	r, ok := s.settled.runs[id]
	if !ok || r.State != ledger.RunRunning {
		return nil, ledger.ErrRunOver
	}
	return r, nil
}

// SaveSettlement implements ledger.SettlementRuns.
func (s *Store) SaveSettlement(ctx context.Context, p ledger.SettlementProgress) ([]tranid.ID, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	now := ledger.Moment(s.now())
	r, err := s.running(p.Run)
	if err != nil {
		return nil, err
	}
	if err := p.Validate(r.Day); err != nil {
		return nil, err
	}
	if s.settled.retired[r.Day] {
		return nil, ledger.ErrDayRetired
	}
	r.Counts, r.leaseUntil = p.Counts, now.Add(p.Lease)
	for _, id := range p.Equal {
		if d, ok := s.settled.discrepancies[id]; ok && id.Date() == r.Day && d.State != ledger.DiscrepancyClosed {
			d.State, d.ClosedAt = ledger.DiscrepancyClosed, now
			s.settled.discrepancies[id] = d
		}
	}
	var opened []tranid.ID
	for _, difference := range p.Found {
		d, isNew := s.settled.discrepancies[difference.ID].Found(p.Run, difference, now)
		if isNew {
			opened = append(opened, d.ID)
		}
		s.settled.discrepancies[d.ID] = d
	}
	return opened, nil
}

// EndSettlement implements ledger.SettlementRuns.
func (s *Store) EndSettlement(ctx context.Context, e ledger.SettlementEnd) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	e.Error = ledger.Text(e.Error)
	if err := e.Validate(); err != nil {
		return err
	}
	r, err := s.running(e.Run)
	switch {
	case err != nil:
		return err
	case e.State == ledger.RunSucceeded && s.settled.retired[r.Day]:
		return ledger.ErrDayRetired
	}
	r.State, r.Counts, r.Error, r.FinishedAt = e.State, e.Counts, e.Error, ledger.Moment(s.now())
	return nil
}

// GetSettlement implements ledger.SettlementReader.
func (s *Store) GetSettlement(ctx context.Context, id ledger.RunID) (ledger.SettlementRun, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return ledger.SettlementRun{}, err
	}
	defer unlock()
	r, ok := s.settled.runs[id]
	if !ok {
		return ledger.SettlementRun{}, ledger.ErrRunNotFound
	}
	return r.SettlementRun, nil
}

// ListSettlements implements ledger.SettlementReader.
func (s *Store) ListSettlements(ctx context.Context, f ledger.SettlementFilter) (ledger.SettlementPage, error) {
	if f.Limit < 1 || f.Limit > ledger.MaxPage {
		return ledger.SettlementPage{}, fmt.Errorf("list %d runs: not 1 to %d", f.Limit, ledger.MaxPage)
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return ledger.SettlementPage{}, err
	}
	defer unlock()
	place := func(r *ledger.SettlementRun) ledger.SettlementCursor {
		return ledger.SettlementCursor{StartedAt: r.StartedAt, ID: r.ID}
	}
	newer := func(a, b ledger.SettlementCursor) int {
		return cmp.Or(b.StartedAt.Compare(a.StartedAt), cmp.Compare(b.ID, a.ID))
	}
	var found []ledger.SettlementRun
	for _, r := range s.settled.runs {
		if (f.Day.IsZero() || f.Day == r.Day) && (f.After == nil || newer(*f.After, place(&r.SettlementRun)) < 0) {
			found = append(found, r.SettlementRun)
		}
	}
	slices.SortFunc(found, func(a, b ledger.SettlementRun) int { return newer(place(&a), place(&b)) })
	page := ledger.SettlementPage{Runs: found[:min(f.Limit, len(found))]}
	if len(found) > f.Limit {
		next := place(&found[f.Limit-1])
		page.Next = &next
	}
	return page, nil
}

// DayRows implements ledger.SettlementReader.
func (s *Store) DayRows(ctx context.Context, day tranid.Date, after tranid.ID, limit int) ([]ledger.DayRow, error) {
	if err := checkDayRead(day, limit); err != nil {
		return nil, err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	ids := s.idsOf(day, after, limit, func(*row) bool { return true })
	rows := make([]ledger.DayRow, len(ids))
	for i, id := range ids {
		r := s.rows[id]
		rows[i] = ledger.DayRow{
			ID: r.ID, Kind: r.Kind, Status: r.Status, AccountHash: r.AccountHash, Amount: r.Amount, RequestedAt: r.RequestedAt,
		}
	}
	return rows, nil
}

// DayUnknown implements ledger.SettlementReader.
func (s *Store) DayUnknown(ctx context.Context, day tranid.Date, after tranid.ID, limit int) ([]tranid.ID, error) {
	if err := checkDayRead(day, limit); err != nil {
		return nil, err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return s.idsOf(day, after, limit, func(r *row) bool { return r.Status == ledger.StatusUnknown }), nil
}

// idsOf are the first IDs of a day behind one, in order.
func (s *Store) idsOf(day tranid.Date, after tranid.ID, limit int, wanted func(*row) bool) []tranid.ID {
	var ids []tranid.ID
	for id, r := range s.rows {
		if id > after && id.Date() == day && wanted(r) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids[:min(limit, len(ids))]
}

func checkDayRead(day tranid.Date, limit int) error {
	if day.IsZero() || limit < 1 || limit > ledger.MaxDayRows {
		return fmt.Errorf("read %d rows of %s: out of range", limit, day)
	}
	return nil
}
