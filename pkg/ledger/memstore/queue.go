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
	abandoned := s.first(limit, (*row).abandonedBefore, func(r *row) bool { return r.abandoned(now) })
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
	before := (*row).dueBefore
	switch {
	case o.Owed:
		before = (*row).owedBefore
	case o.Newest:
		before = (*row).dueAfter
	}
	due := s.first(o.Limit, before, func(r *row) bool {
		return r.wanted(&o) && !r.NextResolveAt.IsZero() && !r.NextResolveAt.After(now) && !r.leaseUntil.After(now)
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
	if r.Resolvable() {
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
	case r.Status != ledger.StatusUnknown && (p.NeedsReview || !r.Owed()), p.Token == "", r.leaseToken != p.Token:
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

// first returns up to limit of the rows that are eligible, in order. It keeps no
// more than those, however many there are.
func (s *Store) first(limit int, order func(a, b *row) int, eligible func(*row) bool) []*row {
	found := make([]*row, 0, limit+1)
	for _, r := range s.rows {
		if !eligible(r) || len(found) == limit && order(r, found[limit-1]) > 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(found, r, order)
		found = slices.Insert(found, at, r)
		found = found[:min(limit, len(found))]
	}
	return found
}

func (r *row) part() ledger.Part {
	if r.Asked {
		return ledger.PartAsked
	}
	return ledger.PartFresh
}

// dueBefore is the order of a claim: by part, by when they fell due, by ID.
func (r *row) dueBefore(o *row) int {
	return cmp.Or(cmp.Compare(r.part(), o.part()), r.NextResolveAt.Compare(o.NextResolveAt), cmp.Compare(r.ID, o.ID))
}

// dueAfter is dueBefore with what fell due last first.
func (r *row) dueAfter(o *row) int {
	return cmp.Or(cmp.Compare(r.part(), o.part()), o.NextResolveAt.Compare(r.NextResolveAt), cmp.Compare(o.ID, r.ID))
}

// wanted reports whether r is of the rows that a claim is of.
func (r *row) wanted(o *ledger.ClaimOptions) bool {
	if o.Owed {
		return r.Owed()
	}
	return r.Status == ledger.StatusUnknown && r.NeedsReview == o.Review && slices.Contains(o.Only.Parts(), r.part())
}

func (r *row) owedBefore(o *row) int {
	return cmp.Or(r.NextResolveAt.Compare(o.NextResolveAt), cmp.Compare(r.ID, o.ID))
}

func (r *row) abandonedBefore(o *row) int {
	return cmp.Or(r.AdoptAt.Compare(o.AdoptAt), cmp.Compare(r.ID, o.ID))
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
