package memstore

import (
	"context"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Repay implements ledger.Errands.
func (s *Store) Repay(ctx context.Context, p ledger.Repayment) (ledger.Transaction, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return ledger.Transaction{}, err
	}
	defer unlock()
	r, ok := s.rows[p.ID]
	switch {
	case !ok:
		return ledger.Transaction{}, ledger.ErrNotFound
	case !r.Owed(), p.Token == "", r.leaseToken != p.Token:
		return ledger.Transaction{}, r.lost()
	}
	now := ledger.Moment(s.now())
	if err := r.append(p.Event(&r.Transaction, now)); err != nil {
		return ledger.Transaction{}, err
	}
	if difference, differs := p.Difference(&r.Transaction); differs {
		s.settled.discrepancies[p.ID], _ = s.settled.discrepancies[p.ID].Found("", difference, now)
	}
	r.NextResolveAt = time.Time{}
	r.release()
	return r.Transaction, nil
}

// Hasten implements ledger.Errands.
func (s *Store) Hasten(ctx context.Context, id tranid.ID) (bool, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	r, ok := s.rows[id]
	now := ledger.Moment(s.now())
	if !ok || r.Status != ledger.StatusUnknown || !r.NextResolveAt.After(now) {
		return false, nil
	}
	r.NextResolveAt = now
	return true, nil
}
