package gormstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// recordPlain is recordMany in one statement, by which the database's clock is read
// too.
func (s *Store) recordPlain(ctx context.Context, given []ledger.Transaction, by ledger.Actor) error {
	if len(given) == 0 {
		return nil
	}
	rows := make([]ledger.Transaction, len(given))
	for i := range given {
		var err error
		if rows[i], err = ledger.Ended(&given[i], time.Now()); err != nil { // what is due is due by the statement's clock
			return err
		}
	}
	event := ledger.NewEvent(0, rows[0].Status, rows[0].Evidence, time.Now(), by, "")
	if err := event.Validate(); err != nil { // its actor is that of all
		return err
	}
	text, values := s.dialect.record(rows, by)
	err := s.single(ctx, func(db *gorm.DB) error { return db.Exec(text, values...).Error })
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return ledger.ErrDuplicateID
	}
	return err
}

// record is the statement of recordPlain. What only payments have is in it if there
// are any.
func (d *dialect) record(rows []ledger.Transaction, by ledger.Actor) (text string, values []any) {
	columns, ofPayments := recordColumns(rows, by), "'', '', '', 0"
	if slices.ContainsFunc(rows, func(t ledger.Transaction) bool { return t.Kind.MovesMoney() || t.Order != "" }) {
		columns, ofPayments = append(columns, paymentColumns(rows)...), "resolution_policy, idempotency_key, order_id, amount"
	}
	head, values := d.given(&relation{count: len(rows), columns: columns})
	return head + `, stored AS (
	INSERT INTO transactions (business_date, transaction_id, kind, status, evidence, resolution_method, decision, needs_review,
		client_id, account_masked, account_hash, response_code, response_message, approval_number, reason, elapsed_us, requested_at,
		sent_at, responded_at, resolve_attempts, not_found, asked, next_resolve_at, correlation_id, trace_id,
		resolution_policy, idempotency_key, order_id, amount)
	SELECT business_date, transaction_id, kind, status, evidence, '', '', false,
		client_id, account_masked, account_hash, response_code, response_message, approval_number, reason, elapsed_us, requested_at,
		sent_at, responded_at, 0, 0, false, CASE WHEN is_due THEN statement_timestamp() END, correlation_id, trace_id,
		` + ofPayments + ` FROM given
)
INSERT INTO transaction_events (business_date, transaction_id, at, from_status, to_status, evidence, actor, instance, detail, trace_id)
SELECT business_date, transaction_id, statement_timestamp(), '', status, evidence, event_actor, event_instance, reason, event_trace
FROM given`, values
}

// recordColumns are what a row without an intent has.
func recordColumns(rows []ledger.Transaction, by ledger.Actor) []column {
	type row = ledger.Transaction
	day := sharedDate("business_date", rows[0].ID.Date())
	if slices.ContainsFunc(rows, func(t row) bool { return t.ID.Date() != rows[0].ID.Date() }) {
		day = dates("business_date", rows, func(t *row) string { return t.ID.Date().String() })
	}
	return []column{
		day,
		texts("transaction_id", rows, func(t *row) string { return string(t.ID) }),
		texts("kind", rows, func(t *row) string { return t.Kind.String() }),
		texts("status", rows, func(t *row) string { return t.Status.String() }),
		texts("evidence", rows, func(t *row) string { return t.Evidence.String() }),
		texts("client_id", rows, func(t *row) string { return string(t.Client) }),
		texts("account_masked", rows, func(t *row) string { return t.AccountMasked }),
		plain("account_hash", "bytea", rows, func(t *row) []byte { return t.AccountHash[:] }),
		texts("response_code", rows, func(t *row) string { return t.Answer.Code }),
		texts("response_message", rows, func(t *row) string { return t.Answer.Message }),
		texts("approval_number", rows, func(t *row) string { return t.Answer.Approval }),
		texts("reason", rows, func(t *row) string { return t.Reason }),
		plain("elapsed_us", "bigint", rows, func(t *row) int64 { return t.Elapsed.Microseconds() }),
		plain("requested_at", "timestamptz", rows, func(t *row) time.Time { return t.RequestedAt }),
		instants("sent_at", rows, func(t *row) instant { return instant{at: t.SentAt} }),
		instants("responded_at", rows, func(t *row) instant { return instant{at: t.RespondedAt} }),
		plain("is_due", "boolean", rows, func(t *row) bool { return !t.NextResolveAt.IsZero() }),
		texts("correlation_id", rows, func(t *row) string { return t.CorrelationID }),
		texts("trace_id", rows, func(t *row) string { return t.TraceID }),
		shared("event_actor", "text", by.Name),
		shared("event_instance", "text", by.Instance),
		shared("event_trace", "text", by.TraceID),
	}
}

// paymentColumns are what a payment's row has besides.
func paymentColumns(rows []ledger.Transaction) []column {
	type row = ledger.Transaction
	return []column{
		texts("resolution_policy", rows, func(t *row) string { return t.Policy.String() }),
		texts("idempotency_key", rows, func(t *row) string { return string(t.Key) }),
		texts("order_id", rows, func(t *row) string { return string(t.Order) }),
		plain("amount", "bigint", rows, func(t *row) int64 { return int64(t.Amount) }),
	}
}
