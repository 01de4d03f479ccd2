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

// Adopt implements ledger.Queue.
func (s *Store) Adopt(ctx context.Context, limit int, by ledger.Actor) (int, error) {
	if limit < 1 || limit > ledger.MaxClaim {
		return 0, fmt.Errorf("adopt %d rows: not 1 to %d", limit, ledger.MaxClaim)
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	now := ledger.Moment(s.now())
	abandoned := s.first(limit, func(r *row) (time.Time, bool) { return r.AdoptAt, r.abandoned(now) })
	for i, r := range abandoned {
		adoption := ledger.Adoption(r.ID, by)
		if _, err := s.move(r, &adoption, now); err != nil {
			return i, err
		}
	}
	return len(abandoned), nil
}

// Claim implements ledger.Queue.
func (s *Store) Claim(ctx context.Context, o ledger.ClaimOptions) ([]ledger.Claim, error) {
	if o.Limit < 1 || o.Limit > ledger.MaxClaim {
		return nil, fmt.Errorf("claim %d rows: not 1 to %d", o.Limit, ledger.MaxClaim)
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	now := ledger.Moment(s.now())
	due := s.first(o.Limit, func(r *row) (time.Time, bool) {
		return r.NextResolveAt, r.Status == ledger.StatusUnknown && r.NeedsReview == o.Review &&
			!r.NextResolveAt.IsZero() && !r.NextResolveAt.After(now) && !r.leaseUntil.After(now)
	})
	token := rand.Text()
	claims := make([]ledger.Claim, len(due))
	for i, r := range due {
		r.lease(token, now.Add(o.Lease))
		claims[i] = ledger.Claim{Transaction: r.Transaction, Token: token, At: now}
	}
	return claims, nil
}

// ClaimOne implements ledger.Queue.
func (s *Store) ClaimOne(
	ctx context.Context, id tranid.ID, lease time.Duration, by ledger.Actor,
) (ledger.Claim, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return ledger.Claim{}, err
	}
	defer unlock()
	r, ok := s.rows[id]
	if !ok {
		return ledger.Claim{}, ledger.ErrNotFound
	}
	claim := ledger.Claim{At: ledger.Moment(s.now())}
	if r.abandoned(claim.At) {
		adoption := ledger.Adoption(id, by)
		if _, err := s.move(r, &adoption, claim.At); err != nil {
			return ledger.Claim{}, err
		}
	}
	if r.Status == ledger.StatusUnknown && !r.OperatorOnly() {
		claim.Token = rand.Text()
		r.lease(claim.Token, claim.At.Add(lease))
	}
	claim.Transaction = r.Transaction
	return claim, nil
}

// Decide implements ledger.Queue.
func (s *Store) Decide(
	ctx context.Context, id tranid.ID, by ledger.Actor, detail string,
) (ledger.Transaction, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return ledger.Transaction{}, err
	}
	defer unlock()
	r, ok := s.rows[id]
	switch {
	case !ok:
		return ledger.Transaction{}, ledger.ErrNotFound
	case !r.Decidable():
		return ledger.Transaction{}, r.lost()
	case r.Decision == ledger.DecisionCancel:
		return r.Transaction, nil
	}
	if err := r.append(ledger.NewEvent(r.Status, r.Status, 0, s.now(), by, detail)); err != nil {
		return ledger.Transaction{}, err
	}
	r.Decision = ledger.DecisionCancel
	return r.Transaction, nil
}

// Postpone implements ledger.Queue.
func (s *Store) Postpone(ctx context.Context, p ledger.Postponement) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	r, ok := s.rows[p.ID]
	switch {
	case !ok:
		return ledger.ErrNotFound
	case r.Status != ledger.StatusUnknown, p.Token == "", r.leaseToken != p.Token:
		return r.lost()
	}
	now := s.now()
	if p.Detail != "" {
		if err := r.append(ledger.NewEvent(r.Status, r.Status, 0, now, p.By, p.Detail)); err != nil {
			return err
		}
	}
	r.NextResolveAt = ledger.Moment(now.Add(p.Delay))
	r.NeedsReview = r.NeedsReview || p.NeedsReview
	r.ResolveAttempts += one(p.Answered)
	r.NotFound += one(p.NotFound)
	r.Asked = true
	r.release()
	return nil
}

// Release implements ledger.Queue.
func (s *Store) Release(ctx context.Context, token string) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	for _, r := range s.rows {
		if token != "" && r.leaseToken == token {
			r.release()
		}
	}
	return nil
}

// first returns up to limit rows that are due: those never asked first, then by
// when they are, then by ID.
func (s *Store) first(limit int, due func(*row) (at time.Time, ok bool)) []*row {
	var found []*row
	for _, r := range s.rows {
		if _, ok := due(r); ok {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b *row) int {
		atA, _ := due(a)
		atB, _ := due(b)
		return cmp.Or(one(a.Asked)-one(b.Asked), atA.Compare(atB), cmp.Compare(a.ID, b.ID))
	})
	return found[:min(limit, len(found))]
}

func (r *row) abandoned(now time.Time) bool {
	return r.Status == ledger.StatusRequested && !r.AdoptAt.After(now)
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
