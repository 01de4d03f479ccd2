package gormstore

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Repay implements ledger.Errands.
func (s *Store) Repay(ctx context.Context, p ledger.Repayment) (ledger.Transaction, error) {
	var after ledger.Transaction
	err := s.write(ctx, "repay "+string(p.ID), func(tx *gorm.DB) error {
		t, now, err := s.lockTransaction(tx, p.ID)
		if err != nil {
			return err
		}
		err = one(tx.Exec(`UPDATE transactions SET next_resolve_at = NULL, lease_token = '', lease_until = NULL
WHERE `+whileOwed+` AND lease_token = ? AND lease_token <> ''`,
			p.ID.Date().String(), string(p.ID), p.Token), ledger.ErrLost)
		switch {
		case errors.Is(err, ledger.ErrLost):
			return &ledger.LostError{Current: t}
		case err != nil:
			return err
		}
		after = t
		after.NextResolveAt = time.Time{}
		if err := appendEvents(tx, p.Event(&t, now), p.ID); err != nil {
			return err
		}
		difference, differs := p.Difference(&t)
		if !differs {
			return nil
		}
		return s.foundByNoRun(tx, difference, now)
	})
	if err != nil {
		return ledger.Transaction{}, err
	}
	return after, nil
}

// foundByNoRun stores a difference that was found outside of any run.
func (s *Store) foundByNoRun(tx *gorm.DB, difference ledger.Difference, now time.Time) error {
	known, err := s.lockDiscrepancies(tx, []tranid.ID{difference.ID})
	if err != nil {
		return err
	}
	d, _ := known[difference.ID].Found("", difference, now)
	return storeDiscrepancies(tx, []discrepancyRow{newDiscrepancyRow(&d)})
}

// Hasten implements ledger.Errands. It locks nothing unless there is something to
// hasten.
func (s *Store) Hasten(ctx context.Context, id tranid.ID) (bool, error) {
	day := id.Date()
	if day.IsZero() {
		return false, nil
	}
	later := whileUnknown + " AND next_resolve_at > ?"
	found, err := s.anyFound(ctx, "look for what is not due",
		"SELECT 1 FROM transactions WHERE "+later+" ORDER BY transaction_id", day.String(), string(id), s.dialect.clock(0))
	if err != nil || !found {
		return false, err
	}
	hastened := false
	err = s.write(ctx, "hasten "+string(id), func(tx *gorm.DB) error {
		result := tx.Exec("UPDATE transactions SET next_resolve_at = ? WHERE "+later,
			s.dialect.clock(0), day.String(), string(id), s.dialect.clock(0))
		hastened = result.RowsAffected > 0
		return result.Error
	})
	return hastened, err
}
