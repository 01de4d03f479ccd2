package gormstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// runRow is a settlement run as the table has it.
type runRow struct {
	RunID           string
	Day             string
	State           string
	Scheduled       bool
	Instance        string
	MatchCount      int64
	MismatchCount   int64
	LedgerOnlyCount int64
	CoreOnlyCount   int64
	UnresolvedCount int64
	UnreadableCount int64
	RecordsRead     int64
	StartedAt       instant
	FinishedAt      instant
	Error           string
}

const runColumns = `run_id, CAST(business_date AS text) AS day, state, scheduled, instance, match_count, mismatch_count,
ledger_only_count, core_only_count, unresolved_count, unreadable_count, records_read, started_at, finished_at, error`

// countsSet sets the counts of a run.
const countsSet = `match_count = ?, mismatch_count = ?, ledger_only_count = ?, core_only_count = ?, unresolved_count = ?,
unreadable_count = ?, records_read = ?`

func countValues(c *ledger.SettlementCounts) []any {
	return []any{c.Match, c.Mismatch, c.LedgerOnly, c.CoreOnly, c.Unresolved, c.Unreadable, c.Records}
}

func (r *runRow) run() (ledger.SettlementRun, error) {
	state, err := ledger.ParseRunState(r.State)
	day, badDay := tranid.ParseDate(r.Day)
	if err := errors.Join(err, badDay); err != nil || r.StartedAt.garbage || r.FinishedAt.garbage {
		return ledger.SettlementRun{}, fmt.Errorf("%w: run %.30q: %w", ledger.ErrUnreadable, r.RunID, err)
	}
	return ledger.SettlementRun{
		ID: ledger.RunID(r.RunID), Day: day, State: state, Scheduled: r.Scheduled, Instance: r.Instance,
		Counts: ledger.SettlementCounts{
			Match: r.MatchCount, Mismatch: r.MismatchCount, LedgerOnly: r.LedgerOnlyCount, CoreOnly: r.CoreOnlyCount,
			Unresolved: r.UnresolvedCount, Unreadable: r.UnreadableCount, Records: r.RecordsRead,
		},
		StartedAt: r.StartedAt.at, FinishedAt: r.FinishedAt.at, Error: r.Error,
	}, nil
}

// runOf reads the one run that a statement finds, or ledger.ErrRunNotFound.
func runOf(query *gorm.DB) (ledger.SettlementRun, error) {
	var rows []runRow
	if err := query.Scan(&rows).Error; err != nil {
		return ledger.SettlementRun{}, err
	}
	if len(rows) == 0 {
		return ledger.SettlementRun{}, ledger.ErrRunNotFound
	}
	return rows[0].run()
}

// BeginSettlement implements ledger.SettlementRuns. What two that begin at once
// do not see of each other, the unique indexes do.
func (s *Store) BeginSettlement(ctx context.Context, start ledger.SettlementStart) (ledger.SettlementRun, bool, error) {
	id := rand.Text()
	var run ledger.SettlementRun
	var begun bool
	err := s.write(ctx, "begin a settlement of "+start.Day.String(), func(tx *gorm.DB) (err error) {
		begun = false
		if err := stillInTheBook(tx, start.Day); err != nil {
			return err
		}
		if _, err := s.failLost(tx); err != nil {
			return err
		}
		run, err = s.enough(tx, start)
		if !errors.Is(err, ledger.ErrRunNotFound) {
			return err
		}
		result := tx.Exec(`INSERT INTO settlement_runs (run_id, business_date, state, scheduled, instance, match_count,
	mismatch_count, ledger_only_count, core_only_count, unresolved_count, unreadable_count, records_read, started_at,
	lease_until, error)
VALUES (?, ?, 'RUNNING', ?, ?, 0, 0, 0, 0, 0, 0, 0, ?, ?, '') ON CONFLICT DO NOTHING`,
			id, start.Day.String(), start.Scheduled, start.Instance, s.dialect.clock(0), s.dialect.clock(start.Lease))
		if result.Error != nil {
			return result.Error
		}
		begun = result.RowsAffected == 1
		if begun {
			run, err = runOf(tx.Raw("SELECT "+runColumns+" FROM settlement_runs WHERE run_id = ?", id))
			return err
		}
		run, err = runOf(tx.Raw("SELECT "+runColumns+` FROM settlement_runs WHERE business_date = ?
ORDER BY started_at DESC, run_id DESC LIMIT 1`, start.Day.String()))
		return err
	})
	if err != nil {
		return ledger.SettlementRun{}, false, err
	}
	return run, begun, nil
}

// enough finds the run that makes another needless, or ledger.ErrRunNotFound.
func (s *Store) enough(tx *gorm.DB, start ledger.SettlementStart) (ledger.SettlementRun, error) {
	return runOf(tx.Raw("SELECT "+runColumns+` FROM settlement_runs WHERE business_date = ?
	AND (state = 'RUNNING' OR (scheduled AND ? AND (state = 'SUCCEEDED' OR finished_at > ?)))
ORDER BY (state = 'RUNNING') DESC, started_at DESC, run_id DESC LIMIT 1`,
		start.Day.String(), start.Scheduled, s.dialect.clock(-start.Again)))
}

// stillInTheBook is ledger.ErrDayRetired for a day whose rows are gone, or going.
func stillInTheBook(tx *gorm.DB, day tranid.Date) error {
	if day.IsZero() {
		return fmt.Errorf("no day: %w", errArgument)
	}
	retired, err := exists(tx, "SELECT 1 FROM retired_days WHERE business_date = ?", day.String())
	if err == nil && retired {
		return ledger.ErrDayRetired
	}
	return err
}

// failLost ends the runs that are lost.
func (s *Store) failLost(tx *gorm.DB) (int, error) {
	result := tx.Exec(`UPDATE settlement_runs SET state = 'FAILED', error = ?, finished_at = ?, lease_until = NULL
WHERE state = 'RUNNING' AND lease_until <= ?`, ledger.LostRun, s.dialect.clock(0), s.dialect.due())
	return int(result.RowsAffected), result.Error
}

// FailLostSettlements implements ledger.SettlementRuns. Mostly there is nothing to
// fail, and then it waits for no writer.
func (s *Store) FailLostSettlements(ctx context.Context) (int, error) {
	const doing = "fail lost settlements"
	lost, err := s.anyFound(ctx, doing,
		"SELECT 1 FROM settlement_runs WHERE state = 'RUNNING' AND lease_until <= ?", s.dialect.due())
	if err != nil || !lost {
		return 0, err
	}
	failed := 0
	err = s.write(ctx, doing, func(tx *gorm.DB) (err error) {
		failed, err = s.failLost(tx)
		return err
	})
	if err != nil {
		return 0, err
	}
	return failed, nil
}

// clockedRun is what is known of a run that was just changed.
type clockedRun struct {
	Day   string
	Clock instant
}

// SaveSettlement implements ledger.SettlementRuns. From its UPDATE on, nobody else
// changes the run or finds anything of its day.
func (s *Store) SaveSettlement(ctx context.Context, p ledger.SettlementProgress) ([]tranid.ID, error) {
	var opened []tranid.ID
	err := s.write(ctx, "save settlement run "+string(p.Run), func(tx *gorm.DB) error {
		var rows []clockedRun
		values := append(countValues(&p.Counts), s.dialect.clock(p.Lease), string(p.Run), s.dialect.clock(0))
		result := tx.Raw(`UPDATE settlement_runs SET `+countsSet+`, lease_until = ?
WHERE run_id = ? AND state = 'RUNNING' RETURNING CAST(business_date AS text) AS day, ? AS clock`, values...).Scan(&rows)
		if err := one(result, ledger.ErrRunOver); err != nil {
			return err
		}
		day, err := tranid.ParseDate(rows[0].Day)
		if err != nil {
			return fmt.Errorf("%w: %w", ledger.ErrUnreadable, err)
		}
		if err := errors.Join(p.Validate(day), stillInTheBook(tx, day)); err != nil {
			return err
		}
		if err := closeEqual(tx, day, p.Equal, rows[0].Clock); err != nil {
			return err
		}
		opened, err = s.found(tx, &p, rows[0].Clock.at)
		return err
	})
	if err != nil {
		return nil, err
	}
	return opened, nil
}

// EndSettlement implements ledger.SettlementRuns.
func (s *Store) EndSettlement(ctx context.Context, e ledger.SettlementEnd) error {
	e.Error = ledger.Text(e.Error)
	return s.write(ctx, "end settlement run "+string(e.Run), func(tx *gorm.DB) error {
		if err := e.Validate(); err != nil {
			return err
		}
		var rows []clockedRun
		values := append(countValues(&e.Counts), e.State.String(), e.Error, s.dialect.clock(0), string(e.Run), s.dialect.clock(0))
		result := tx.Raw(`UPDATE settlement_runs SET `+countsSet+`, state = ?, error = ?, finished_at = ?, lease_until = NULL
WHERE run_id = ? AND state = 'RUNNING' RETURNING CAST(business_date AS text) AS day, ? AS clock`, values...).Scan(&rows)
		if err := one(result, ledger.ErrRunOver); err != nil || e.State != ledger.RunSucceeded {
			return err
		}
		day, err := tranid.ParseDate(rows[0].Day)
		if err != nil {
			return fmt.Errorf("%w: %w", ledger.ErrUnreadable, err)
		}
		return stillInTheBook(tx, day)
	})
}

// GetSettlement implements ledger.SettlementReader.
func (s *Store) GetSettlement(ctx context.Context, id ledger.RunID) (ledger.SettlementRun, error) {
	var run ledger.SettlementRun
	err := s.read(ctx, "get a settlement run", func(db *gorm.DB) (err error) {
		run, err = runOf(db.Raw("SELECT "+runColumns+" FROM settlement_runs WHERE run_id = ?", string(id)))
		return err
	})
	return run, err
}

// ListSettlements implements ledger.SettlementReader.
func (s *Store) ListSettlements(ctx context.Context, f ledger.SettlementFilter) (ledger.SettlementPage, error) {
	if f.Limit < 1 || f.Limit > ledger.MaxPage {
		return ledger.SettlementPage{}, fmt.Errorf("list %d runs: %w", f.Limit, errArgument)
	}
	var page ledger.SettlementPage
	err := s.read(ctx, "list settlement runs", func(db *gorm.DB) error {
		query := db.Table("settlement_runs").Select(runColumns)
		if !f.Day.IsZero() {
			query = query.Where("business_date = ?", f.Day.String())
		}
		if f.After != nil {
			query = query.Where("(started_at, run_id) < (?, ?)", instant{at: f.After.StartedAt}, string(f.After.ID))
		}
		var rows []runRow
		if err := query.Order("started_at DESC, run_id DESC").Limit(f.Limit + 1).Find(&rows).Error; err != nil {
			return err
		}
		page = ledger.SettlementPage{Runs: make([]ledger.SettlementRun, min(len(rows), f.Limit))}
		for i := range page.Runs {
			var err error
			if page.Runs[i], err = rows[i].run(); err != nil {
				return err
			}
		}
		if len(rows) > f.Limit {
			last := &page.Runs[f.Limit-1]
			page.Next = &ledger.SettlementCursor{StartedAt: last.StartedAt, ID: last.ID}
		}
		return nil
	})
	if err != nil {
		return ledger.SettlementPage{}, err
	}
	return page, nil
}
