package memstore

import (
	"context"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// CreateIntent implements ledger.Writer.
func (s *Store) CreateIntent(ctx context.Context, in ledger.Intent) (ledger.Admission, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return ledger.Admission{}, err
	}
	defer unlock()
	now := s.now()
	t, err := in.Row(now)
	if err != nil {
		return ledger.Admission{}, err
	}
	key := boundKey{in.Client, in.Key}
	if bound, ok := s.keys[key]; ok {
		holder := s.rows[bound.id].Transaction
		mine := bound.id == in.ID
		rebind := holder.NeverSent() && !mine
		switch {
		case !rebind && bound.fingerprint != in.Fingerprint:
			return ledger.Admission{}, ledger.ErrKeyReused
		case !rebind:
			return ledger.Admission{Transaction: holder, Created: mine && holder.Status == ledger.StatusRequested}, nil
		}
	}
	if err := s.put(t, ledger.NewEvent(0, t.Status, 0, now, in.By, "")); err != nil {
		return ledger.Admission{}, err
	}
	s.keys[key] = binding{id: in.ID, fingerprint: in.Fingerprint}
	return ledger.Admission{Transaction: t, Created: true}, nil
}

// Record implements ledger.Writer.
func (s *Store) Record(ctx context.Context, t ledger.Transaction, by ledger.Actor) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	now := s.now()
	ended, err := ledger.Ended(&t, now)
	if err != nil {
		return err
	}
	return s.put(ended, ledger.NewEvent(0, ended.Status, ended.Evidence, now, by, ended.Reason))
}

// Transition implements ledger.Writer.
func (s *Store) Transition(ctx context.Context, c ledger.Change) (ledger.Transaction, error) {
	if _, err := c.Rule(); err != nil {
		return ledger.Transaction{}, err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return ledger.Transaction{}, err
	}
	defer unlock()
	r, ok := s.rows[c.ID]
	if !ok {
		return ledger.Transaction{}, ledger.ErrNotFound
	}
	made, err := r.move(&c, s.now())
	switch {
	case err != nil:
		return ledger.Transaction{}, err
	case !made:
		return ledger.Transaction{}, r.lost()
	default:
		return r.Transaction, nil
	}
}

// AppendEvent implements ledger.Writer.
func (s *Store) AppendEvent(
	ctx context.Context, id tranid.ID, evidence ledger.Evidence, by ledger.Actor, detail string,
) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	r, ok := s.rows[id]
	if !ok {
		return ledger.ErrNotFound
	}
	return r.append(ledger.NewEvent(r.Status, r.Status, evidence, s.now(), by, detail))
}
