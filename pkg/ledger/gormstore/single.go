package gormstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// On PostgreSQL the plain case is one statement, which is a database transaction
// by itself: one way to the server and back in place of five. A statement cannot
// take back what it did for one row, so what is not plain fails as a whole, and is
// done in a transaction of several statements.

// errNotPlain says that one statement does not do; nothing is stored.
var errNotPlain = errors.New("needs several statements")

// single runs a statement that commits by itself. Like a COMMIT it may have
// happened when its error is not the server's.
func (s *Store) single(ctx context.Context, query func(db *gorm.DB) error) error {
	err := s.onLeash(ctx, query)
	var begin *beginError
	switch {
	case err == nil, errors.As(err, &begin):
		return err
	case isUnbegun(err):
		return &beginError{cause: err}
	case s.isVerdict(err), isRefused(err): // GORM's errors hide the server's
		return err
	default:
		return &commitError{cause: err}
	}
}

// isUnbegun reports whether a statement never reached PostgreSQL.
func isUnbegun(err error) bool {
	var noConnection *pgconn.ConnectError
	return errors.As(err, &noConnection) || errors.Is(err, driver.ErrBadConn) || pgconn.SafeToRetry(err)
}

// isRefused reports whether PostgreSQL says itself that a statement was not done.
// What ends a session may come when it was.
func isRefused(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && !hasClass(err, "57", "08", "XX")
}

// plainIntents stores intents whose keys and orders nobody has, all or none of
// them.
func (s *Store) plainIntents(ctx context.Context, batch []*intention) ([]reply[*ledger.Admission], error) {
	first, _ := sortOut(batch)
	if !s.dialect.arrays || len(first) < len(batch) || !areAlike(first) {
		return nil, errNotPlain
	}
	text, values := s.dialect.intents(first)
	bound := make(map[tranid.ID]time.Time, len(first))
	err := s.single(ctx, func(db *gorm.DB) error {
		clear(bound)
		var id string
		var at instant
		return eachRow(asWorded(db, text, values), func() { bound[tranid.ID(id)] = at.at }, &id, &at)
	})
	if s.isVerdict(err) {
		return nil, errNotPlain // and it is found out which row it is
	}
	if err != nil {
		return nil, err
	}
	replies := leftAlone[*ledger.Admission](len(batch), errAlone)
	for i, in := range batch {
		now, ok := bound[in.ID]
		if !ok { // the key is bound
			continue
		}
		t := &in.created.Transaction
		t.AdoptAt = ledger.Moment(now.Add(in.AdoptAfter))
		s.requested.remember(t)
		replies[i] = reply[*ledger.Admission]{answer: &in.created}
	}
	return replies, nil
}

// areAlike reports whether intents differ in nothing that one statement has but
// once: around midnight they may.
func areAlike(ins []*intention) bool {
	first := ins[0]
	return !slices.ContainsFunc(ins, func(in *intention) bool {
		return in.ID.Date() != first.ID.Date() || in.KeyLife != first.KeyLife || in.AdoptAfter != first.AdoptAfter ||
			in.By.Name != first.By.Name || in.By.Instance != first.By.Instance
	})
}

// intents is the statement of plainIntents.
func (d *dialect) intents(ins []*intention) (text string, values []any) {
	given := &relation{count: len(ins), columns: intentColumns(ins)}
	bought := slices.ContainsFunc(ins, func(in *intention) bool { return in.Order != "" })
	if bought {
		given.columns = append(given.columns, texts("order_id", ins, func(in **intention) string { return string((*in).Order) }))
	}
	text = d.wordings.text(wording{kind: "intents", alone: len(ins) == 1, more: bought}, func() string { return wordIntents(given, bought) })
	return text, given.carried()
}

// wordIntents is the text of intents. Keys are bound first, in the order of the
// intents, then orders are taken, in theirs. A row whose order another has would
// have no status, so that the statement fails. What an intent has always is in the
// text.
func wordIntents(given *relation, bought bool) string {
	guarded, joined, order, status := "", "", "''", "'"+ledger.StatusRequested.String()+"'"
	free := ""
	if bought {
		free = ofFreeOrders
		guarded, joined, order = guardedByOrder, " LEFT JOIN guarded ON transaction_id = guarded_id", "order_id"
		status = "CASE WHEN order_id = '' OR guarded_id IS NOT NULL THEN " + status + " END"
	}
	return given.table(given.word()) + `, bound AS (
	INSERT INTO idempotency_keys (client_id, idempotency_key, fingerprint, business_date, transaction_id, created_at, expires_at)
	SELECT client_id, idempotency_key, fingerprint, business_date, transaction_id,
		clock_timestamp(), clock_timestamp() + key_life * interval '1 microsecond' FROM given` + free + `
	ON CONFLICT (client_id, idempotency_key) DO NOTHING
	RETURNING transaction_id AS bound_id, created_at AS bound_at
)` + guarded + `, stored AS (
	INSERT INTO transactions (business_date, transaction_id, kind, status, evidence, resolution_method, resolution_policy, decision,
		needs_review, client_id, idempotency_key, order_id, account_masked, account_hash, amount, response_code, response_message,
		approval_number, reason, elapsed_us, requested_at, adopt_at, resolve_attempts, not_found, asked, correlation_id, trace_id)
	SELECT business_date, transaction_id, '` + ledger.KindPayment.String() + `', ` + status + `, '', '', resolution_policy, '',
		false, client_id, idempotency_key, ` + order + `, account_masked, account_hash, amount, '', '',
		'', '', 0, requested_at, bound_at + adopt_after * interval '1 microsecond', 0, 0, false, correlation_id, trace_id
	FROM given JOIN bound ON transaction_id = bound_id` + joined + `
), noted AS (
	INSERT INTO transaction_events (business_date, transaction_id, at, from_status, to_status, evidence, actor, instance, detail, trace_id)
	SELECT business_date, transaction_id, bound_at, '', '` + ledger.StatusRequested.String() + `', '', actor, instance, '', trace_id
	FROM given JOIN bound ON transaction_id = bound_id
)
SELECT bound_id, bound_at FROM bound`
}

// intentColumns are what an intent has that another may not have.
func intentColumns(ins []*intention) []column {
	type intent = *intention
	first := ins[0]
	return []column{
		texts("transaction_id", ins, func(in *intent) string { return string((*in).ID) }),
		texts("client_id", ins, func(in *intent) string { return string((*in).Client) }),
		texts("idempotency_key", ins, func(in *intent) string { return string((*in).Key) }),
		plain("fingerprint", "bytea", ins, func(in *intent) []byte { return (*in).Fingerprint[:] }),
		texts("resolution_policy", ins, func(in *intent) string { return (*in).Policy.String() }),
		texts("account_masked", ins, func(in *intent) string { return (*in).AccountMasked }),
		plain("account_hash", "bytea", ins, func(in *intent) []byte { return (*in).AccountHash[:] }),
		plain("amount", "bigint", ins, func(in *intent) int64 { return int64((*in).Amount) }),
		plain("requested_at", "timestamptz", ins, func(in *intent) time.Time { return (*in).created.Transaction.RequestedAt }),
		texts("correlation_id", ins, func(in *intent) string { return (*in).CorrelationID }),
		texts("trace_id", ins, func(in *intent) string { return (*in).By.TraceID }),
		sharedDate("business_date", first.ID.Date()),
		shared("key_life", "bigint", first.KeyLife.Microseconds()),
		shared("adopt_after", "bigint", first.AdoptAfter.Microseconds()),
		shared("actor", "text", first.By.Name),
		shared("instance", "text", first.By.Instance),
	}
}

// ofFreeOrders leaves alone an intent whose order another has already: a statement that
// fails for it fails for all, and is an error in the log of the database. One that is
// taken at the same time still fails. The guard is looked up for each row, since EXISTS
// may be made a table of all guards; and of IS NULL the planner expects so few rows that
// it compares each with each.
const ofFreeOrders = `
	WHERE order_id = '' OR NOT COALESCE(
		(SELECT true FROM order_guards AS held WHERE held.client_id = given.client_id AND held.order_id = given.order_id), false)`

// guardedByOrder is the part of intents that takes orders.
const guardedByOrder = `, guarded AS (
	INSERT INTO order_guards (client_id, order_id, business_date, transaction_id)
	SELECT client_id, order_id, business_date, transaction_id FROM given JOIN bound ON transaction_id = bound_id
	WHERE order_id <> '' ORDER BY client_id COLLATE "C", order_id COLLATE "C"
	ON CONFLICT (client_id, order_id) DO NOTHING RETURNING transaction_id AS guarded_id
)`

// plainOutcomes makes moves of rows that nobody else may change meanwhile but by
// moving them: those that are REQUESTED. They are remembered, or read without being
// locked; the update finds out whether they still are what they were. A move that
// frees an order is not plain.
func (s *Store) plainOutcomes(ctx context.Context, batch []*ledger.Change) ([]reply[*ledger.Transaction], error) {
	changes := make(map[tranid.ID]*ledger.Change, len(batch))
	for _, c := range batch {
		changes[c.ID] = c
	}
	pending := func(c *ledger.Change) bool { return c.From != ledger.StatusRequested }
	if !s.dialect.arrays || len(changes) < len(batch) || slices.ContainsFunc(batch, pending) {
		return nil, errNotPlain
	}
	known := s.prepareKnown(changes)
	made, failed, err := s.prepareMoves(s.db.WithContext(ctx), changes, "")
	if err != nil {
		return nil, &beginError{cause: err} // it was read, and no more
	}
	maps.Copy(made, known)
	outcomes := make([]*outcome, 0, len(made))
	for _, o := range made {
		if o.before.Status != ledger.StatusRequested || len(outcomes) > 0 && !o.isLike(outcomes[0]) || o.after.Order != "" && o.after.FreesOrder() {
			return nil, errNotPlain
		}
		outcomes = append(outcomes, o)
	}
	if len(outcomes) > 0 {
		if err := s.storePlain(ctx, made, outcomes); err != nil {
			return nil, err
		}
	}
	replies := leftAlone[*ledger.Transaction](len(batch), errAlone)
	for i, c := range batch {
		if o := made[c.ID]; failed[c.ID] != nil {
			replies[i].err = failed[c.ID]
		} else if o.stored {
			replies[i] = reply[*ledger.Transaction]{answer: &o.after}
		}
	}
	return replies, nil
}

// prepareKnown finds out what becomes of rows that are remembered, and takes them
// off the changes. What depends on the database's clock, which only a row that is
// read comes with, is left there, and what may not be.
func (s *Store) prepareKnown(changes map[tranid.ID]*ledger.Change) map[tranid.ID]*outcome {
	known := make(map[tranid.ID]*outcome, len(changes))
	for id, c := range changes {
		row, ok := s.requested.find(id)
		if !ok || !c.To.Final() {
			continue
		}
		if o, err := prepareMoveOf(row, c, row.RequestedAt); err == nil {
			o.event.At = time.Time{} // the statement knows
			known[id] = o
			delete(changes, id)
		}
	}
	return known
}

// isLike reports whether two outcomes differ in nothing that one statement has but
// once.
func (o *outcome) isLike(other *outcome) bool {
	return o.before.ID.Date() == other.before.ID.Date() &&
		o.event.By.Name == other.event.By.Name && o.event.By.Instance == other.event.By.Instance
}

// storePlain stores the outcomes that are left of plainOutcomes.
func (s *Store) storePlain(ctx context.Context, made map[tranid.ID]*outcome, outcomes []*outcome) error {
	sortOutcomes(outcomes)
	text, values := s.dialect.outcomes(outcomes)
	err := s.single(ctx, func(db *gorm.DB) error {
		var id string
		return eachRow(asWorded(db, text, values), func() { made[tranid.ID(id)].stored = true }, &id)
	})
	if s.isVerdict(err) {
		return errNotPlain
	}
	return err
}

// outcomes is the statement of plainOutcomes: the update of rows that are
// REQUESTED, whatever they become, if they still are, and their events.
func (d *dialect) outcomes(outcomes []*outcome) (text string, values []any) {
	for _, o := range outcomes {
		o.stored = false
	}
	given := &relation{count: len(outcomes), columns: outcomeColumns(outcomes)}
	text = d.wordings.text(wording{kind: "outcomes", alone: len(outcomes) == 1}, func() string { return d.wordOutcomes(given) })
	return text, given.carried()
}

// wordOutcomes is the text of outcomes.
func (d *dialect) wordOutcomes(given *relation) string {
	return given.table(given.word()) + `, moved AS (
	UPDATE transactions SET status = new_status, evidence = new_evidence, needs_review = new_review,
		response_code = new_code, response_message = new_message, approval_number = new_approval, reason = new_reason,
		elapsed_us = new_elapsed, sent_at = new_sent_at, responded_at = new_responded_at, next_resolve_at = new_resolve_at
	FROM ` + d.joined + `
		AND status IS NOT DISTINCT FROM '` + ledger.StatusRequested.String() + `'
	RETURNING transaction_id AS moved_id
), noted AS (
	INSERT INTO transaction_events (business_date, transaction_id, at, from_status, to_status, evidence, actor, instance, detail, trace_id)
	SELECT at_date, at_id, COALESCE(event_at, clock_timestamp()), '` + ledger.StatusRequested.String() + `', new_status, new_evidence,
		event_actor, event_instance, event_detail, event_trace
	FROM given JOIN moved ON at_id = moved_id
)
SELECT moved_id FROM moved`
}

// outcomeColumns are what an outcome has that another may not have.
func outcomeColumns(outcomes []*outcome) []column {
	type move = *outcome
	first := outcomes[0]
	return []column{
		texts("at_id", outcomes, func(o *move) string { return string((*o).after.ID) }),
		texts("new_status", outcomes, func(o *move) string { return (*o).after.Status.String() }),
		texts("new_evidence", outcomes, func(o *move) string { return (*o).after.Evidence.String() }),
		plain("new_review", "boolean", outcomes, func(o *move) bool { return (*o).after.NeedsReview }),
		texts("new_code", outcomes, func(o *move) string { return (*o).after.Answer.Code }),
		texts("new_message", outcomes, func(o *move) string { return (*o).after.Answer.Message }),
		texts("new_approval", outcomes, func(o *move) string { return (*o).after.Answer.Approval }),
		texts("new_reason", outcomes, func(o *move) string { return (*o).after.Reason }),
		plain("new_elapsed", "bigint", outcomes, func(o *move) int64 { return (*o).after.Elapsed.Microseconds() }),
		instants("new_sent_at", outcomes, func(o *move) instant { return instant{at: (*o).after.SentAt} }),
		instants("new_responded_at", outcomes, func(o *move) instant { return instant{at: (*o).after.RespondedAt} }),
		instants("new_resolve_at", outcomes, func(o *move) instant { return instant{at: (*o).after.NextResolveAt} }),
		instants("event_at", outcomes, func(o *move) instant { return instant{at: (*o).event.At} }),
		texts("event_detail", outcomes, func(o *move) string { return (*o).event.Detail }),
		texts("event_trace", outcomes, func(o *move) string { return (*o).event.By.TraceID }),
		sharedDate("at_date", first.after.ID.Date()),
		shared("event_actor", "text", first.event.By.Name),
		shared("event_instance", "text", first.event.By.Instance),
	}
}
