package gormstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// discrepancyRow is a discrepancy as the table has it.
type discrepancyRow struct {
	BusinessDate  string
	TransactionID string
	RunID         *string
	Class         string
	State         string
	LedgerStatus  string
	LedgerAmount  int64
	CoreState     string
	CoreAmount    int64
	Note          string
	NotedBy       string
	FoundAt       instant
	ClosedAt      instant
}

// TableName implements GORM's Tabler.
func (discrepancyRow) TableName() string { return "settlement_discrepancies" }

// discrepancyColumns are those that are read; the business date is in the ID.
const discrepancyColumns = `transaction_id, run_id, class, state, ledger_status, ledger_amount, core_state, core_amount,
note, noted_by, found_at, closed_at`

// foundColumns are those that change when a run finds it again.
var foundColumns = []string{
	"run_id", "class", "state", "ledger_status", "ledger_amount", "core_state", "core_amount", "found_at", "closed_at",
}

func newDiscrepancyRow(d *ledger.Discrepancy) discrepancyRow {
	var run *string
	if d.Run != "" {
		named := string(d.Run)
		run = &named
	}
	return discrepancyRow{
		BusinessDate: d.ID.Date().String(), TransactionID: string(d.ID), RunID: run,
		Class: d.Class.String(), State: d.State.String(),
		LedgerStatus: statusName(d.LedgerStatus), LedgerAmount: int64(d.LedgerAmount),
		CoreState: string(d.CoreState), CoreAmount: int64(d.CoreAmount),
		Note: d.Note, NotedBy: d.NotedBy, FoundAt: instant{at: d.FoundAt}, ClosedAt: instant{at: d.ClosedAt},
	}
}

// statusName is the name of a status, or nothing where there is no row.
func statusName(s ledger.Status) string {
	if s == 0 {
		return ""
	}
	return s.String()
}

func (r *discrepancyRow) discrepancy() (ledger.Discrepancy, error) {
	d := ledger.Discrepancy{
		Difference: ledger.Difference{
			LedgerAmount: account.Won(r.LedgerAmount), CoreState: ledger.CoreState(r.CoreState), CoreAmount: account.Won(r.CoreAmount),
		},
		Note: r.Note, NotedBy: r.NotedBy, FoundAt: r.FoundAt.at, ClosedAt: r.ClosedAt.at,
	}
	if r.RunID != nil {
		d.Run = ledger.RunID(*r.RunID)
	}
	var errs [4]error
	d.ID, errs[0] = tranid.Parse(r.TransactionID)
	d.Class, errs[1] = ledger.ParseDiscrepancyClass(r.Class)
	d.State, errs[2] = ledger.ParseDiscrepancyState(r.State)
	if r.LedgerStatus != "" {
		d.LedgerStatus, errs[3] = ledger.ParseStatus(r.LedgerStatus)
	}
	if err := errors.Join(errs[:]...); err != nil || r.FoundAt.garbage || r.ClosedAt.garbage {
		return ledger.Discrepancy{}, fmt.Errorf("%w: discrepancy of %.30q: %w", ledger.ErrUnreadable, r.TransactionID, err)
	}
	return d, nil
}

// closeEqual closes the discrepancies of what both books say the same of.
func closeEqual(tx *gorm.DB, day tranid.Date, equal []tranid.ID, now instant) error {
	if len(equal) == 0 {
		return nil
	}
	return tx.Exec(`UPDATE settlement_discrepancies SET state = 'CLOSED', closed_at = ?
WHERE business_date = ? AND transaction_id IN ? AND state <> 'CLOSED'`, now, day.String(), idTexts(equal)).Error
}

// found stores what a run has found, and returns what that opened.
func (s *Store) found(tx *gorm.DB, p *ledger.SettlementProgress, now time.Time) ([]tranid.ID, error) {
	if len(p.Found) == 0 {
		return nil, nil
	}
	ids := make([]tranid.ID, len(p.Found))
	for i := range p.Found {
		ids[i] = p.Found[i].ID
	}
	known, err := s.lockDiscrepancies(tx, ids)
	if err != nil {
		return nil, err
	}
	var opened []tranid.ID
	for _, difference := range p.Found {
		d, isNew := known[difference.ID].Found(p.Run, difference, now)
		if isNew {
			opened = append(opened, d.ID)
		}
		known[d.ID] = d
	}
	rows := make([]discrepancyRow, 0, len(known))
	for _, d := range known {
		rows = append(rows, newDiscrepancyRow(&d))
	}
	return opened, storeDiscrepancies(tx, rows)
}

func storeDiscrepancies(tx *gorm.DB, rows []discrepancyRow) error {
	return tx.Clauses(clause.OnConflict{
		Columns:   []clause.Column{{Name: "business_date"}, {Name: "transaction_id"}},
		DoUpdates: clause.AssignmentColumns(foundColumns),
	}).Create(&rows).Error
}

// lockDiscrepancies reads those of a day that are to be changed.
func (s *Store) lockDiscrepancies(tx *gorm.DB, ids []tranid.ID) (map[tranid.ID]ledger.Discrepancy, error) {
	var rows []discrepancyRow
	err := tx.Raw("SELECT "+discrepancyColumns+` FROM settlement_discrepancies
WHERE business_date = ? AND transaction_id IN ? ORDER BY transaction_id `+s.dialect.forUpdate,
		ids[0].Date().String(), idTexts(ids)).Scan(&rows).Error
	if err != nil {
		return nil, err
	}
	known := make(map[tranid.ID]ledger.Discrepancy, len(ids))
	for i := range rows {
		d, err := rows[i].discrepancy()
		if err != nil {
			return nil, err
		}
		known[d.ID] = d
	}
	return known, nil
}

func idTexts(ids []tranid.ID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return out
}

// ListDiscrepancies implements ledger.Discrepancies.
func (s *Store) ListDiscrepancies(ctx context.Context, f ledger.DiscrepancyFilter) (ledger.DiscrepancyPage, error) {
	if f.Limit < 1 || f.Limit > ledger.MaxPage {
		return ledger.DiscrepancyPage{}, fmt.Errorf("list %d discrepancies: %w", f.Limit, errArgument)
	}
	var page ledger.DiscrepancyPage
	err := s.read(ctx, "list discrepancies", func(db *gorm.DB) error {
		query := db.Table("settlement_discrepancies").Select(discrepancyColumns)
		if f.Run != "" {
			query = query.Where("run_id = ?", string(f.Run))
		}
		if f.State != 0 {
			query = query.Where("state = ?", f.State.String())
		}
		if f.After != nil {
			query = query.Where("(found_at, transaction_id) < (?, ?)", instant{at: f.After.FoundAt}, string(f.After.ID))
		}
		var rows []discrepancyRow
		if err := query.Order("found_at DESC, transaction_id DESC").Limit(f.Limit + 1).Find(&rows).Error; err != nil {
			return err
		}
		page = ledger.DiscrepancyPage{Discrepancies: make([]ledger.Discrepancy, min(len(rows), f.Limit))}
		for i := range page.Discrepancies {
			var err error
			if page.Discrepancies[i], err = rows[i].discrepancy(); err != nil {
				return err
			}
		}
		if len(rows) > f.Limit {
			last := &page.Discrepancies[f.Limit-1]
			page.Next = &ledger.DiscrepancyCursor{FoundAt: last.FoundAt, ID: last.ID}
		}
		return nil
	})
	if err != nil {
		return ledger.DiscrepancyPage{}, err
	}
	return page, nil
}

// NoteDiscrepancy implements ledger.Discrepancies.
func (s *Store) NoteDiscrepancy(ctx context.Context, id tranid.ID, note, by string) (ledger.Discrepancy, error) {
	note = ledger.Note(note)
	if note == "" || by == "" {
		return ledger.Discrepancy{}, fmt.Errorf("note: %w", ledger.ErrInvalidRow)
	}
	var d ledger.Discrepancy
	err := s.write(ctx, "note the discrepancy of "+string(id), func(tx *gorm.DB) error {
		if id.Date().IsZero() {
			return ledger.ErrDiscrepancyNotFound
		}
		known, err := s.lockDiscrepancies(tx, []tranid.ID{id})
		if err != nil {
			return err
		}
		var there bool
		if d, there = known[id]; !there {
			return ledger.ErrDiscrepancyNotFound
		}
		d = d.Noted(note, by)
		return one(tx.Exec("UPDATE settlement_discrepancies SET note = ?, noted_by = ?, state = ? WHERE "+byID,
			d.Note, d.NotedBy, d.State.String(), id.Date().String(), string(id)), ledger.ErrDiscrepancyNotFound)
	})
	if err != nil {
		return ledger.Discrepancy{}, err
	}
	return d, nil
}

// classCount is what CountDiscrepancies reads of one class.
type classCount struct {
	Class         string
	Discrepancies int64
}

// CountDiscrepancies implements ledger.Discrepancies.
func (s *Store) CountDiscrepancies(ctx context.Context) (map[ledger.DiscrepancyClass]int64, error) {
	var rows []classCount
	err := s.read(ctx, "count discrepancies", func(db *gorm.DB) error {
		return db.Raw(`SELECT class, count(*) AS discrepancies FROM settlement_discrepancies
WHERE state = 'OPEN' GROUP BY class`).Scan(&rows).Error
	})
	if err != nil {
		return nil, err
	}
	counts := make(map[ledger.DiscrepancyClass]int64, len(ledger.DiscrepancyClasses))
	for _, class := range ledger.DiscrepancyClasses {
		counts[class] = 0
	}
	for _, r := range rows {
		class, err := ledger.ParseDiscrepancyClass(r.Class)
		if err != nil {
			return nil, fmt.Errorf("count discrepancies: %w: %w", ledger.ErrUnreadable, err)
		}
		counts[class] = r.Discrepancies
	}
	return counts, nil
}
