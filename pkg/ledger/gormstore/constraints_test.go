package gormstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/postgrestest"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// forged are changes by SQL that would make a row lie, each with the constraint
// that must refuse it; with two where both would, and either may come first.
var forged = []struct {
	constraint string
	status     ledger.Status
	set        string
}{
	{"kind|amount", ledger.StatusRequested, "kind = 'REFUND'"},
	{"standing", ledger.StatusRequested, "status = 'SUCCESS'"},
	{"standing", ledger.StatusRequested, "status = 'FAILED'"},
	{"standing", ledger.StatusRequested, "status = 'CANCELED'"},
	{"standing", ledger.StatusRequested, "status = 'DONE'"},
	{"standing", ledger.StatusRequested, "status = ''"},
	{"standing|answered", ledger.StatusRequested, "evidence = 'ANSWERED'"},
	{"standing", ledger.StatusRequested, "decision = 'CANCEL'"},
	{"standing", ledger.StatusSuccess, "evidence = ''"},
	{"standing", ledger.StatusSuccess, "evidence = 'FENCED'"},
	{"standing", ledger.StatusSuccess, "decision = 'CANCEL'"},
	{"standing", ledger.StatusFailed, "evidence = 'FENCED', resolution_method = 'STATUS_INQUIRY', resolved_at = requested_at"},
	{"standing", ledger.StatusFailed, "evidence = 'WINDOW_ELAPSED', resolution_method = 'STATUS_INQUIRY', resolved_at = requested_at"},
	{"standing", ledger.StatusFailed, "evidence = 'NO_EFFECT', resolution_method = 'NONE', resolved_at = requested_at"},
	{"standing", ledger.StatusFailed, "evidence = ''"},
	{"standing|answered", ledger.StatusCanceled, "evidence = 'ANSWERED'"},
	{"standing", ledger.StatusUnknown, "evidence = 'PROCESSED'"},
	{"standing", ledger.StatusUnknown, "status = 'SUCCESS', evidence = 'PROCESSED', resolution_method = 'STATUS_INQUIRY', " +
		"decision = 'CANCEL', resolved_at = requested_at, next_resolve_at = NULL"},
	{"decision", ledger.StatusUnknown, "decision = 'CONFIRM'"},
	{"review", ledger.StatusSuccess, "needs_review = TRUE"},
	{"review", ledger.StatusRequested, "needs_review = TRUE"},
	{"policy", ledger.StatusRequested, "resolution_policy = ''"},
	{"policy", ledger.StatusRequested, "resolution_policy = 'MAYBE'"},
	{"amount", ledger.StatusRequested, "amount = 0"},
	{"amount", ledger.StatusRequested, "amount = -1"},
	{"amount", ledger.StatusRequested, "amount = 1000000000000"},
	{"idempotency_key", ledger.StatusRequested, "idempotency_key = ''"},
	{"names", ledger.StatusRequested, "client_id = ''"},
	{"names", ledger.StatusRequested, "trace_id = 'x'"},
	{"account_masked", ledger.StatusRequested, "account_masked = ''"},
	{"account_masked", ledger.StatusRequested, "account_masked = '12345678901234'"},
	{"account_masked", ledger.StatusRequested, "account_masked = '1234567****1234'"},
	{"account_masked", ledger.StatusRequested, "account_masked = '123456***1234'"},
	{"account_masked", ledger.StatusRequested, "account_masked = '123456****12345'"},
	{"answer", ledger.StatusFailed, "response_code = '51'"},
	{"answer", ledger.StatusFailed, "response_code = 'ABCD'"},
	{"answer", ledger.StatusSuccess, "approval_number = '1'"},
	{"answered", ledger.StatusSuccess, "response_code = '0051'"},
	{"answered", ledger.StatusSuccess, "response_code = ''"},
	{"answered", ledger.StatusFailed, "response_code = ''"},
	{"answered", ledger.StatusFailed, "response_code = '0000'"},
	{"answered", ledger.StatusFailed, "response_code = '0094'"},
	{"answered", ledger.StatusFailed, "evidence = 'NOT_SENT'"},
	{"answered", ledger.StatusRequested, "response_code = '0000'"},
	{"answered", ledger.StatusUnknown, "response_code = '0000'"},
	{"times", ledger.StatusRequested, "adopt_at = NULL"},
	{"times", ledger.StatusRequested, "elapsed_us = -1"},
	{"times", ledger.StatusUnknown, "resolved_at = requested_at"},
	{"times", ledger.StatusCanceled, "resolved_at = NULL"},
	{"due", ledger.StatusUnknown, "next_resolve_at = NULL"},
	{"due", ledger.StatusUnknown, "response_code = '0094'"},
	{"due", ledger.StatusSuccess, "next_resolve_at = requested_at"},
	{"counters", ledger.StatusUnknown, "asked = TRUE, resolve_attempts = -1"},
	{"counters", ledger.StatusUnknown, "asked = TRUE, not_found = -1"},
	{"asked", ledger.StatusUnknown, "resolve_attempts = 1"},
	{"asked", ledger.StatusUnknown, "not_found = 1"},
	{"asked", ledger.StatusRequested, "asked = TRUE"},
	{"lease", ledger.StatusUnknown, "lease_token = 'x'"},
	{"lease", ledger.StatusUnknown, "lease_until = requested_at"},
	{"lease", ledger.StatusSuccess, "lease_token = 'x', lease_until = requested_at"},
	{"transaction_id|keeps its ID", ledger.StatusRequested, "business_date = '2026-07-26'"},
	{"transaction_id|keeps its ID", ledger.StatusRequested, "transaction_id = 'GWMNU20260725000000077'"},
}

func TestConstraints_RefuseWhatWouldMakeARowLie(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		s, db := openBook(t, dsn), raw(t, dsn)
		rows := map[ledger.Status]ledger.Transaction{}
		for i, status := range ledger.Statuses {
			rows[status] = inStatus(t, s, int64(i), status)
		}
		mustExec(t, db, "DELETE FROM idempotency_keys") // they hold their transactions
		for _, f := range forged {
			id := rows[f.status].ID
			_, err := db.ExecContext(context.Background(),
				"UPDATE transactions SET "+f.set+" WHERE transaction_id = '"+string(id)+"'")
			one, other, _ := strings.Cut(f.constraint, "|")
			if err == nil || !strings.Contains(err.Error(), one) && (other == "" || !strings.Contains(err.Error(), other)) {
				t.Errorf("%s SET %s: error %v, want %s", f.status, f.set, err, f.constraint)
			}
		}
		for status, want := range rows {
			if got, err := s.Get(context.Background(), want.ID); got != want || err != nil {
				t.Errorf("%s row is %+v, error %v", status, got, err)
			}
		}
	})
}

func TestConstraints_RefuseEventsKeysAndBlocksThatCannotBe(t *testing.T) {
	const event = "INSERT INTO transaction_events (business_date, transaction_id, at, from_status, to_status, evidence, " +
		"actor, instance, detail, trace_id) VALUES ('2026-07-25', 'GWMNU20260725000000001', '2026-07-25T03:00:00.000000Z', "
	statements := map[string]string{
		"event without a status":  event + "'', '', '', 'payment', '', '', '')",
		"event of no such status": event + "'', 'DONE', '', 'payment', '', '', '')",
		"event of no evidence":    event + "'', 'UNKNOWN', 'HEARSAY', 'payment', '', '', '')",
		"event of no actor":       event + "'', 'UNKNOWN', '', '', '', '', '')",
		"event of half a trace":   event + "'', 'UNKNOWN', '', 'payment', '', '', 'x')",
		"key of no transaction": "INSERT INTO idempotency_keys (client_id, idempotency_key, fingerprint, business_date, " +
			"transaction_id, created_at, expires_at) SELECT client_id, 'other', fingerprint, business_date, 'GWMNU20260725000000099', created_at, expires_at " +
			"FROM idempotency_keys",
		"key bound twice": "INSERT INTO idempotency_keys (client_id, idempotency_key, fingerprint, business_date, " +
			"transaction_id, created_at, expires_at) SELECT client_id, idempotency_key, fingerprint, business_date, transaction_id, created_at, expires_at " +
			"FROM idempotency_keys",
		"block below zero":   "INSERT INTO tranid_blocks (business_date, next_number) VALUES ('2026-07-25', -1)",
		"block past the end": "INSERT INTO tranid_blocks (business_date, next_number) VALUES ('2026-07-25', 1000000001)",
		"second hash key":    "INSERT INTO hash_key_check (id, check_value) SELECT 2, check_value FROM hash_key_check",
		"transaction gone":   "DELETE FROM transactions",
	}
	eachDatabase(t, func(t *testing.T, dsn string) {
		s, db := openBook(t, dsn), raw(t, dsn)
		inStatus(t, s, 1, ledger.StatusUnknown)
		if s.Name() == "sqlite" { // on PostgreSQL looking for the row costs too much
			statements["event of no transaction"] = strings.ReplaceAll(event, "000000001", "000000099") + "'', 'UNKNOWN', '', 'payment', '', '', '')"
		} else {
			delete(statements, "event of no transaction")
		}
		for what, statement := range statements {
			if _, err := db.ExecContext(context.Background(), statement); err == nil {
				t.Errorf("%s is stored", what)
			}
		}
	})
}

func TestTriggers_KeepHistoryFinalStatusAndDecision(t *testing.T) {
	statements := map[string]string{
		"event changed":       "UPDATE transaction_events SET detail = 'nothing happened'",
		"event deleted":       "DELETE FROM transaction_events",
		"success reopened":    "UPDATE transactions SET status = 'UNKNOWN', evidence = '', response_code = '', next_resolve_at = requested_at WHERE status = 'SUCCESS'",
		"success failed":      "UPDATE transactions SET status = 'FAILED', response_code = '0051' WHERE status = 'SUCCESS'",
		"failure made good":   "UPDATE transactions SET status = 'SUCCESS', response_code = '0000' WHERE status = 'FAILED'",
		"decision taken back": "UPDATE transactions SET decision = '' WHERE decision = 'CANCEL'",
	}
	eachDatabase(t, func(t *testing.T, dsn string) {
		s, db := openBook(t, dsn), raw(t, dsn)
		inStatus(t, s, 1, ledger.StatusSuccess)
		inStatus(t, s, 2, ledger.StatusFailed)
		unknown := inStatus(t, s, 3, ledger.StatusUnknown)
		if _, err := s.Decide(context.Background(), unknown.ID, payer, ""); err != nil {
			t.Fatal(err)
		}
		if s.Name() == "postgresql" {
			statements["history truncated"] = "TRUNCATE transaction_events"
		}
		for what, statement := range statements {
			_, err := db.ExecContext(context.Background(), statement)
			if err == nil || !strings.Contains(err.Error(), "only ever appended") &&
				!strings.Contains(err.Error(), "never changes") && !strings.Contains(err.Error(), "irrevocable") {
				t.Errorf("%s: error %v", what, err)
			}
		}
	})
}

// A function that has lost sight of the plain case judges as before, at thrice the
// price. So here what is not plain is an error.
func TestConstraints_WhatIsWrittenMostIsPlain(t *testing.T) {
	dsn := postgrestest.DSN(t)
	s, db := openBook(t, dsn), raw(t, dsn)
	const rules, refused = "broken := CASE", "RAISE EXCEPTION 'not plain'; broken := CASE"
	var function string
	err := db.QueryRowContext(t.Context(), "SELECT pg_get_functiondef('gwanmun_row_is_sound'::regproc)").Scan(&function)
	if err != nil || strings.Count(function, rules) != 1 {
		t.Fatalf("error %v, function %s", err, function)
	}
	mustExec(t, db, strings.Replace(function, rules, refused, 1))

	for i, digits := range []string{"12345678901234", "00123456789012", "1234567890", "123456", "0001", "00000000000000"} {
		number, err := account.Parse(digits)
		if err != nil {
			t.Fatal(err)
		}
		in := intent(int64(i))
		in.AccountMasked, in.CorrelationID, in.Policy = number.Masked(), "call-1", pick(i, ledger.PolicyConfirm, ledger.PolicyNetCancel)
		in.Order, in.By.TraceID = ledger.OrderID(pick(i, "", "order-"+digits)), pick(i, "", strings.Repeat("0a", 16))
		if _, err := s.CreateIntent(t.Context(), in); err != nil {
			t.Fatalf("intent of %s: %v", in.AccountMasked, err)
		}
		done := ledger.Change{
			ID: in.ID, From: ledger.StatusRequested, To: ledger.StatusSuccess, Evidence: ledger.EvidenceAnswered, By: payer,
			Answer: ledger.Answer{Code: "0000", Message: strings.Repeat("가", 100), Approval: "12345678901"},
			SentAt: in.RequestedAt, RespondedAt: in.RequestedAt, Elapsed: time.Second,
		}
		if _, err := s.Transition(t.Context(), done); err != nil {
			t.Fatalf("success of %s: %v", in.AccountMasked, err)
		}
		asked := ledger.Transaction{
			ID: tranid.New(today, int64(100+i)), Kind: pick(i, ledger.KindBalanceInquiry, ledger.KindHistoryInquiry),
			Status: ledger.StatusSuccess, Evidence: ledger.EvidenceAnswered, Answer: ledger.Answer{Code: "0000", Message: "정상"},
			Client: "shop", AccountMasked: number.Masked(), RequestedAt: in.RequestedAt, SentAt: in.RequestedAt,
		}
		if err := s.Record(t.Context(), []ledger.Transaction{asked}, payer); err != nil {
			t.Fatalf("inquiry about %s: %v", in.AccountMasked, err)
		}
	}
	failed := intent(50)
	if _, err := s.CreateIntent(t.Context(), failed); err != nil {
		t.Fatal(err)
	}
	_, err = s.Transition(t.Context(), ledger.Change{
		ID: failed.ID, From: ledger.StatusRequested, To: ledger.StatusFailed, Evidence: ledger.EvidenceAnswered, By: payer,
		Answer: ledger.Answer{Code: "0051"},
	})
	if err == nil {
		t.Error("a failure is plain, or nothing is refused here")
	}
}

// pick is one of two values, in turns.
func pick[T any](i int, even, odd T) T {
	if i%2 == 0 {
		return even
	}
	return odd
}
