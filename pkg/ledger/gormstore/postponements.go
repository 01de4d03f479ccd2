package gormstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Postpone implements ledger.Queue. Postponements that come at once are stored
// together.
func (s *Store) Postpone(ctx context.Context, p ledger.Postponement) error {
	defer s.claimed.forget(p.ID)
	doing := "postpone " + string(p.ID)
	_, err := together(ctx, s, s.postponements, &p, asking[struct{}]{
		doing: doing,
		alone: func(ctx context.Context, _ error) (none struct{}, err error) {
			return none, s.write(ctx, doing, func(tx *gorm.DB) error { return s.postponeOne(tx, &p) })
		},
	})
	return err
}

// writePostponements settles a batch of postponements in one database transaction.
// What has lost, or fails, is left alone. After a COMMIT that may have happened,
// none is told that nothing is stored: its lease has ended then, and it would look
// as if another had it.
func (s *Store) writePostponements(ctx context.Context, batch []*ledger.Postponement) []reply[struct{}] {
	first, other := sortPostponements(batch)
	put := make(map[tranid.ID]bool, len(first))
	if len(first) == 0 {
		return leftAlone[struct{}](len(batch), errAlone)
	}
	err := s.retried(ctx, func(ctx context.Context) error {
		clear(put)
		if !s.dialect.arrays {
			return s.transact(ctx, func(tx *gorm.DB) error { return s.postponeMany(tx, first, put) })
		}
		text, values := s.dialect.postponementsOf(first)
		return s.single(ctx, func(db *gorm.DB) error {
			var id string
			return eachRow(db.Raw(text, values...), func() { put[tranid.ID(id)] = true }, &id)
		})
	})
	if err != nil && !errors.As(err, new(*commitError)) {
		s.tellAlone(ctx, "postponement", len(first), err)
		err = errors.Join(errAlone, err)
	}
	replies := make([]reply[struct{}], len(batch))
	for i, p := range batch {
		switch {
		case other[p]:
			replies[i].err = errAlone
		case err != nil:
			replies[i].err = err
		case !put[p.ID]:
			replies[i].err = errAlone
		}
	}
	return replies
}

// sortPostponements are those that are stored together, in the order of their rows,
// and those that are left alone: the second one of a row, and what is sure to fail.
func sortPostponements(batch []*ledger.Postponement) (first []*ledger.Postponement, other map[*ledger.Postponement]bool) {
	seen := make(map[tranid.ID]bool, len(batch))
	other = make(map[*ledger.Postponement]bool)
	for _, p := range batch {
		// The statement knows what time it is.
		event := ledger.NewEvent(ledger.StatusUnknown, ledger.StatusUnknown, 0, time.Unix(0, 0), p.By, p.Detail)
		if seen[p.ID] || p.Token == "" || p.ID.Date().IsZero() || event.Validate() != nil {
			other[p] = true
			continue
		}
		seen[p.ID] = true
		first = append(first, p)
	}
	slices.SortFunc(first, func(a, b *ledger.Postponement) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return first, other
}

// setByPostponement are the columns that a postponement sets, as the table given
// has them, and of which rows.
const (
	setByPostponement = `asked = TRUE, next_resolve_at = new_resolve_at, lease_token = '', lease_until = NULL,
	needs_review = (needs_review OR raises_review), resolve_attempts = resolve_attempts + more_attempts, not_found = not_found + more_not_found`
	whileClaimed = `lease_token = at_token AND (status IS NOT DISTINCT FROM 'UNKNOWN'
		OR evidence IS NOT DISTINCT FROM 'OPERATOR' AND next_resolve_at IS NOT NULL AND NOT raises_review)`
)

// postponing is the head of the statements about postponements, and their UPDATE.
func (d *dialect) postponing(batch []*ledger.Postponement) (head, update string, values []any) {
	type row = *ledger.Postponement
	head, values = d.given(&relation{count: len(batch), columns: []column{
		dates("at_date", batch, func(p *row) string { return (*p).ID.Date().String() }),
		texts("at_id", batch, func(p *row) string { return string((*p).ID) }),
		texts("at_token", batch, func(p *row) string { return (*p).Token }),
		clocks(d, "new_resolve_at", batch, func(p *row) time.Duration { return (*p).Delay }),
		plain("raises_review", "boolean", batch, func(p *row) bool { return (*p).NeedsReview }),
		plain("more_attempts", "integer", batch, func(p *row) int32 { return int32(count((*p).Answered)) }),  //nolint:gosec // 0 or 1
		plain("more_not_found", "integer", batch, func(p *row) int32 { return int32(count((*p).NotFound)) }), //nolint:gosec // 0 or 1
		texts("event_actor", batch, func(p *row) string { return (*p).By.Name }),
		texts("event_instance", batch, func(p *row) string { return (*p).By.Instance }),
		texts("event_detail", batch, func(p *row) string { return ledger.Text((*p).Detail) }),
		texts("event_trace", batch, func(p *row) string { return (*p).By.TraceID }),
	}})
	return head, "UPDATE transactions SET " + setByPostponement + " FROM " + d.joined + " AND " + whileClaimed, values
}

// postponementsOf stores postponements and their events in one statement.
func (d *dialect) postponementsOf(batch []*ledger.Postponement) (text string, values []any) {
	head, update, values := d.postponing(batch)
	return head + `, put AS (
	` + update + `
	RETURNING transaction_id AS put_id, status AS put_status
), noted AS (
	INSERT INTO transaction_events (business_date, transaction_id, at, from_status, to_status, evidence, actor, instance, detail, trace_id)
	SELECT at_date, at_id, clock_timestamp(), put_status, put_status, '', event_actor, event_instance, event_detail, event_trace
	FROM given JOIN put ON at_id = put_id WHERE event_detail <> ''
)
SELECT put_id FROM put`, values
}

// postponeMany stores postponements, and notes which are.
func (s *Store) postponeMany(tx *gorm.DB, batch []*ledger.Postponement, put map[tranid.ID]bool) error {
	if len(batch) == 0 {
		return nil
	}
	head, update, values := s.dialect.postponing(batch)
	statuses := make(map[tranid.ID]string, len(batch))
	var id, status string
	var clock instant
	err := eachRow(tx.Raw(head+update+" RETURNING transaction_id, status, ? AS clock", append(values, s.dialect.clock(0))...),
		func() { statuses[tranid.ID(id)] = status }, &id, &status, &clock)
	if err != nil {
		return err
	}
	var events []eventRow
	for _, p := range batch {
		text, ok := statuses[p.ID]
		if !ok {
			continue
		}
		put[p.ID] = true
		if p.Detail == "" {
			continue
		}
		status, err := ledger.ParseStatus(text)
		if err != nil {
			return fmt.Errorf("%w: %w", ledger.ErrUnreadable, err)
		}
		event := ledger.NewEvent(status, status, 0, clock.at, p.By, p.Detail)
		if err := event.Validate(); err != nil {
			return err
		}
		events = append(events, newEventRow(p.ID, &event))
	}
	if len(events) == 0 {
		return nil
	}
	return s.dialect.insertEvents(tx, events)
}

// postponeOne stores a postponement alone. It reads no row unless it has lost, so
// that one that holds garbage can be put off too.
func (s *Store) postponeOne(tx *gorm.DB, p *ledger.Postponement) error {
	if p.ID.Date().IsZero() {
		return ledger.ErrNotFound
	}
	put := make(map[tranid.ID]bool, 1)
	if p.Token != "" {
		if err := s.postponeMany(tx, []*ledger.Postponement{p}, put); err != nil {
			return err
		}
	}
	if !put[p.ID] {
		return s.lostTo(tx, p.ID)
	}
	return nil
}
