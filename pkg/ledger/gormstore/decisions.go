package gormstore

import (
	"cmp"
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

// writeDecisions settles a batch of decisions: those on rows that are remembered in
// one statement, the others in one database transaction. A decision may be made
// again, so that one whose COMMIT may have happened is left alone like any other.
func (s *Store) writeDecisions(ctx context.Context, batch []*decision) []reply[ledger.Transaction] {
	replies := leftAlone[ledger.Transaction](len(batch), errAlone)
	known, other := s.knownDecisions(batch)
	if err := s.decideKnown(ctx, known, replies); err != nil {
		s.tellAlone(ctx, "decision", len(known), err)
	}
	if len(other) == 0 {
		return replies
	}
	rest := make([]*decision, len(other))
	for i, at := range other {
		rest[i] = batch[at]
	}
	var settled []reply[ledger.Transaction]
	err := s.writeTogether(ctx, func(tx *gorm.DB) (err error) {
		settled, err = s.decideMany(tx, rest)
		return err
	})
	if err != nil {
		s.tellAlone(ctx, "decision", len(rest), err)
		settled = leftAlone[ledger.Transaction](len(rest), errors.Join(errAlone, err))
	}
	for i, at := range other {
		replies[at] = settled[i]
	}
	return replies
}

// knownDecision is a decision on a row that is remembered, and its place in the
// batch.
type knownDecision struct {
	*decision
	row claimedRow
	at  int
}

// knownDecisions are those that one statement stores, in the order of their rows,
// and the places of the others: a second one on a row, one on a row that is not
// known to have none, and one that needs to be told why it may not be.
func (s *Store) knownDecisions(batch []*decision) (known []knownDecision, other []int) {
	seen := make(map[tranid.ID]bool, len(batch))
	for i, d := range batch {
		row, ok := s.claimed.find(d.id)
		event := d.event(row.NextResolveAt)
		if !s.dialect.arrays || !ok || seen[d.id] || !row.Decidable() || row.Decision != 0 || event.Validate() != nil {
			other = append(other, i)
			continue
		}
		seen[d.id] = true
		known = append(known, knownDecision{decision: d, row: row, at: i})
	}
	slices.SortFunc(known, func(a, b knownDecision) int { return cmp.Compare(a.id, b.id) })
	return known, other
}

// decideKnown sets the decision on rows that still are as they are remembered, each
// with its event. A row that is not is left alone, to find out what it is.
func (s *Store) decideKnown(ctx context.Context, known []knownDecision, replies []reply[ledger.Transaction]) error {
	if len(known) == 0 {
		return nil
	}
	text, values := s.dialect.decisionsOf(known)
	made := make(map[tranid.ID]bool, len(known))
	err := s.retried(ctx, func(ctx context.Context) error {
		clear(made)
		return s.single(ctx, func(db *gorm.DB) error {
			var id string
			return eachRow(db.Raw(text, values...), func() { made[tranid.ID(id)] = true }, &id)
		})
	})
	for i := range known {
		k := &known[i]
		switch {
		case err != nil:
			replies[k.at].err = errors.Join(errAlone, err)
		case made[k.id]:
			k.row.Decision = ledger.DecisionCancel
			replies[k.at] = reply[ledger.Transaction]{answer: k.row.Transaction}
			s.claimed.decided(k.id)
		}
	}
	return err
}

// decisionsOf is the statement of decideKnown.
func (d *dialect) decisionsOf(known []knownDecision) (text string, values []any) {
	type row = knownDecision
	head, values := d.given(&relation{count: len(known), columns: []column{
		dates("at_date", known, func(k *row) string { return k.id.Date().String() }),
		texts("at_id", known, func(k *row) string { return string(k.id) }),
		texts("at_token", known, func(k *row) string { return k.row.token }),
		texts("event_actor", known, func(k *row) string { return k.by.Name }),
		texts("event_instance", known, func(k *row) string { return k.by.Instance }),
		texts("event_detail", known, func(k *row) string { return ledger.Text(k.detail) }),
		texts("event_trace", known, func(k *row) string { return k.by.TraceID }),
	}})
	return head + `, made AS (
	UPDATE transactions SET decision = 'CANCEL' FROM ` + d.joined + `
		AND status IS NOT DISTINCT FROM 'UNKNOWN' AND decision = '' AND lease_token = at_token
	RETURNING transaction_id AS made_id
), noted AS (
	INSERT INTO transaction_events (business_date, transaction_id, at, from_status, to_status, evidence, actor, instance, detail, trace_id)
	SELECT at_date, at_id, clock_timestamp(), 'UNKNOWN', 'UNKNOWN', '', event_actor, event_instance, event_detail, event_trace
	FROM given JOIN made ON at_id = made_id
)
SELECT made_id FROM made`, values
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
