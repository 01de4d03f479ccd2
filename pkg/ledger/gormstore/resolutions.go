package gormstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// resolution is a move that makes a row final which is remembered as it was
// claimed, and its place in the batch.
type resolution struct {
	by    ledger.Actor
	was   claimedRow
	after ledger.Transaction
	at    int
}

// writeResolutions settles a batch of moves of rows that are UNKNOWN: those of rows
// that are remembered in one statement, the others as any outcomes are. After a
// COMMIT that may have happened, none is told that nothing is stored.
func (s *Store) writeResolutions(ctx context.Context, batch []*ledger.Change) []reply[*ledger.Transaction] {
	known, other := s.knownResolutions(batch)
	replies := leftAlone[*ledger.Transaction](len(batch), errAlone)
	if err := s.resolveKnown(ctx, known, replies); err != nil {
		s.tellAlone(ctx, "resolution", len(known), err)
	}
	if len(other) == 0 {
		return replies
	}
	rest := make([]*ledger.Change, len(other))
	for i, at := range other {
		rest[i] = batch[at]
	}
	for i, r := range s.writeOutcomes(ctx, rest) {
		replies[other[i]] = r
	}
	return replies
}

// knownResolutions are those that one statement makes, in the order of their rows,
// and the places of the others: a second move of a row, one that brings more than
// a status, one of a row that is not known, and one that needs to be told why the
// row does not move.
func (s *Store) knownResolutions(batch []*ledger.Change) (known []resolution, other []int) {
	seen := make(map[tranid.ID]bool, len(batch))
	for i, c := range batch {
		row, ok := s.claimed.find(c.ID)
		if s.dialect.arrays && ok && !seen[c.ID] && isBare(c) {
			// The statement knows what time it is.
			after, event := row.Transaction, c.Event(row.NextResolveAt)
			if moved, err := c.Apply(&after, row.NextResolveAt); moved && err == nil && event.Validate() == nil {
				seen[c.ID] = true
				known = append(known, resolution{by: c.By, was: row, after: after, at: i})
				continue
			}
		}
		other = append(other, i)
	}
	slices.SortFunc(known, func(a, b resolution) int { return cmp.Compare(a.after.ID, b.after.ID) })
	return known, other
}

// isBare reports whether a move makes a row final for good, on evidence alone.
func isBare(c *ledger.Change) bool {
	return c.From == ledger.StatusUnknown && c.To.Final() && c.Evidence != ledger.EvidenceOperator &&
		c.Answer.Code == "" && c.SentAt.IsZero() && c.RespondedAt.IsZero() && c.Elapsed == 0
}

// resolveKnown moves rows that still are as they are remembered, each with its
// event, and frees their orders. A row that is not is left alone, to find out what
// it is.
func (s *Store) resolveKnown(ctx context.Context, known []resolution, replies []reply[*ledger.Transaction]) error {
	if len(known) == 0 {
		return nil
	}
	text, values := s.dialect.resolutionsOf(known)
	made := make(map[tranid.ID]time.Time, len(known))
	err := s.retried(ctx, func(ctx context.Context) error {
		clear(made)
		return s.single(ctx, func(db *gorm.DB) error {
			var id string
			var at instant
			return eachRow(db.Raw(text, values...), func() { made[tranid.ID(id)] = at.at }, &id, &at)
		})
	})
	if err != nil && !errors.As(err, new(*commitError)) {
		err = errors.Join(errAlone, err)
	}
	for i := range known {
		r := &known[i]
		switch at, ok := made[r.after.ID]; {
		case err != nil:
			replies[r.at].err = err
		case ok:
			r.after.ResolvedAt = at
			replies[r.at] = reply[*ledger.Transaction]{answer: &r.after}
			s.claimed.forget(r.after.ID)
		}
	}
	return err
}

// resolutionsOf is the statement of resolveKnown.
func (d *dialect) resolutionsOf(known []resolution) (text string, values []any) {
	type row = resolution
	head, values := d.given(&relation{count: len(known), columns: []column{
		dates("at_date", known, func(r *row) string { return r.after.ID.Date().String() }),
		texts("at_id", known, func(r *row) string { return string(r.after.ID) }),
		texts("at_token", known, func(r *row) string { return r.was.token }),
		texts("was_decision", known, func(r *row) string { return r.was.Decision.String() }),
		texts("new_status", known, func(r *row) string { return r.after.Status.String() }),
		texts("new_evidence", known, func(r *row) string { return r.after.Evidence.String() }),
		texts("new_method", known, func(r *row) string { return r.after.Method.String() }),
		texts("new_reason", known, func(r *row) string { return r.after.Reason }),
		texts("event_actor", known, func(r *row) string { return r.by.Name }),
		texts("event_instance", known, func(r *row) string { return r.by.Instance }),
		texts("event_trace", known, func(r *row) string { return r.by.TraceID }),
		texts("of_client", known, func(r *row) string { return string(r.after.Client) }),
		texts("of_order", known, freedOrder),
	}})
	text = head + `, made AS (
	UPDATE transactions SET status = new_status, evidence = new_evidence, resolution_method = new_method, reason = new_reason,
		needs_review = FALSE, resolved_at = clock_timestamp(), next_resolve_at = NULL, lease_token = '', lease_until = NULL
	FROM ` + d.joined + `
		AND status IS NOT DISTINCT FROM 'UNKNOWN' AND decision = was_decision AND lease_token = at_token
	RETURNING transaction_id AS made_id, resolved_at AS made_at
), noted AS (
	INSERT INTO transaction_events (business_date, transaction_id, at, from_status, to_status, evidence, actor, instance, detail, trace_id)
	SELECT at_date, at_id, made_at, 'UNKNOWN', new_status, new_evidence, event_actor, event_instance, new_reason, event_trace
	FROM given JOIN made ON at_id = made_id
)`
	if slices.ContainsFunc(known, func(r row) bool { return freedOrder(&r) != "" }) {
		text += `, freed AS (
	DELETE FROM order_guards WHERE ctid = ANY(ARRAY(
		SELECT place FROM given JOIN made ON at_id = made_id CROSS JOIN LATERAL (SELECT ctid AS place FROM order_guards
			WHERE client_id = of_client AND order_id = of_order AND transaction_id = at_id OFFSET 0) AS sought))
)`
	}
	return text + "\nSELECT made_id, made_at FROM made", values
}

// freedOrder is the order that the move frees; empty if there is none.
func freedOrder(r *resolution) string {
	if !r.after.FreesOrder() {
		return ""
	}
	return string(r.after.Order)
}
