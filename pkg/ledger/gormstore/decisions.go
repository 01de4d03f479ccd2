package gormstore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// decision is one to cancel a payment.
type decision struct {
	id     tranid.ID
	by     ledger.Actor
	detail string
}

func (d *decision) event(now time.Time) ledger.Event {
	return ledger.NewEvent(ledger.StatusUnknown, ledger.StatusUnknown, 0, now, d.by, d.detail)
}

// writeDecisions settles a batch of decisions in one database transaction. A
// decision may be made again, so that one whose COMMIT may have happened is left
// alone like any other.
func (s *Store) writeDecisions(ctx context.Context, batch []*decision) []reply[ledger.Transaction] {
	var replies []reply[ledger.Transaction]
	err := s.writeTogether(ctx, func(tx *gorm.DB) (err error) {
		replies, err = s.decideMany(tx, batch)
		return err
	})
	if err != nil {
		return leftAlone[ledger.Transaction](len(batch), errors.Join(errAlone, err))
	}
	return replies
}

// decideMany sets the decision on rows, which it locks in the order of their IDs.
// The second of two decisions on one row is left alone, to find the first.
func (s *Store) decideMany(tx *gorm.DB, batch []*decision) ([]reply[ledger.Transaction], error) {
	first := make(map[tranid.ID]*decision, len(batch))
	for _, d := range batch {
		if first[d.id] == nil {
			first[d.id] = d
		}
	}
	found := make(map[tranid.ID]*reply[ledger.Transaction], len(batch))
	var undecided []string
	var events []eventRow
	err := s.lockRows(tx, slices.Collect(maps.Keys(first)), func(row *clockedRow) {
		d := first[tranid.ID(row.Row.TransactionID)]
		event := d.event(row.Clock.at)
		t, err := row.Row.transaction()
		found[d.id] = &reply[ledger.Transaction]{answer: t, err: err}
		switch {
		case err != nil:
		case !t.Decidable():
			found[d.id].err = &ledger.LostError{Current: t}
		case t.Decision == ledger.DecisionCancel:
		default:
			if found[d.id].err = event.Validate(); found[d.id].err == nil {
				undecided, events = append(undecided, string(d.id)), append(events, newEventRow(d.id, &event))
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if err := s.storeDecisions(tx, undecided, events); err != nil {
		return nil, err
	}
	for _, id := range undecided {
		found[tranid.ID(id)].answer.Decision = ledger.DecisionCancel
	}
	replies := leftAlone[ledger.Transaction](len(batch), errAlone)
	for i, d := range batch {
		switch {
		case first[d.id] != d:
		case found[d.id] == nil:
			replies[i].err = ledger.ErrNotFound
		default:
			replies[i] = *found[d.id]
		}
	}
	return replies, nil
}

// storeDecisions writes decisions on rows that are locked, and their events.
func (s *Store) storeDecisions(tx *gorm.DB, ids []string, events []eventRow) error {
	if len(ids) == 0 {
		return nil
	}
	among, values := s.dialect.amongRows(ids)
	result := tx.Exec("UPDATE transactions SET decision = ? WHERE "+among+
		" AND status IS NOT DISTINCT FROM 'UNKNOWN' AND decision = ''", append([]any{ledger.DecisionCancel.String()}, values...)...)
	switch {
	case result.Error != nil:
		return result.Error
	case result.RowsAffected != int64(len(ids)):
		return errOvertaken // by a lock that did not hold: each alone finds out
	}
	return s.dialect.insertEvents(tx, events)
}
