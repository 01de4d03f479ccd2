package memstore

import (
	"context"
	"time"

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
		rebind := holder.FreesKey(bound.expires, now) && !mine
		switch {
		case !rebind && bound.fingerprint != in.Fingerprint:
			return ledger.Admission{}, ledger.ErrKeyReused
		case !rebind:
			return ledger.Admission{Transaction: holder, Created: mine && holder.Status == ledger.StatusRequested}, nil
		}
	}
	order := paidOrder{in.Client, in.Order}
	if holder, taken := s.orders[order]; taken {
		return ledger.Admission{}, &ledger.OrderError{Holder: s.rows[holder].Transaction}
	}
	if err := s.put(t, ledger.NewEvent(0, t.Status, 0, now, in.By, "")); err != nil {
		return ledger.Admission{}, err
	}
	s.keys[key] = binding{id: in.ID, fingerprint: in.Fingerprint, expires: now.Add(in.KeyLife)}
	if in.Order != "" {
		s.orders[order] = in.ID
	}
	return ledger.Admission{Transaction: t, Created: true}, nil
}

// Record implements ledger.Writer.
func (s *Store) Record(ctx context.Context, rows []ledger.Transaction, by ledger.Actor) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	now, errs, failed := s.now(), make([]error, len(rows)), false
	for i := range rows {
		errs[i] = s.record(&rows[i], by, now)
		failed = failed || errs[i] != nil
	}
	if failed {
		return &ledger.UnrecordedError{Errs: errs}
	}
	return nil
}

func (s *Store) record(t *ledger.Transaction, by ledger.Actor, now time.Time) error {
	ended, err := ledger.Ended(t, now)
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
	made, err := s.move(r, &c, s.now())
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
