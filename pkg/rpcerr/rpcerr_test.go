package rpcerr_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/rpcerr"
	"github.com/gwanmun/gwanmun/pkg/telemetry"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	"github.com/gwanmun/gwanmun/proto/reason"
)

// table is DESIGN §6, copied by hand.
var table = map[string]codes.Code{
	"INVALID_REQUEST":        codes.InvalidArgument,
	"ACCOUNT_NOT_FOUND":      codes.NotFound,
	"TRANSACTION_NOT_FOUND":  codes.NotFound,
	"DECLINED":               codes.FailedPrecondition,
	"OUTCOME_UNKNOWN":        codes.DeadlineExceeded,
	"PAYMENT_CANCELED":       codes.FailedPrecondition,
	"NOT_EXECUTED":           codes.FailedPrecondition,
	"DEADLINE_TOO_SHORT":     codes.DeadlineExceeded,
	"SEND_WINDOW_MISSED":     codes.Unavailable,
	"CIRCUIT_OPEN":           codes.Unavailable,
	"CORE_UNREACHABLE":       codes.Unavailable,
	"LEDGER_UNAVAILABLE":     codes.Unavailable,
	"LINK_SATURATED":         codes.ResourceExhausted,
	"RATE_LIMITED":           codes.ResourceExhausted,
	"IDEMPOTENCY_KEY_REUSED": codes.AlreadyExists,
	"IN_PROGRESS":            codes.Aborted,
	"ORDER_ALREADY_PAID":     codes.FailedPrecondition,
	"ORDER_IN_DOUBT":         codes.FailedPrecondition,
	"ILLEGAL_STATE":          codes.FailedPrecondition,
	"RUN_NOT_FOUND":          codes.NotFound,
	"INTERNAL":               codes.Internal,
	"UNAUTHENTICATED":        codes.Unauthenticated,
	"PERMISSION_DENIED":      codes.PermissionDenied,
}

// domainReasons are all that the ledger has a name for.
func domainReasons() map[string]ledger.Reason {
	all := map[string]ledger.Reason{}
	for v := 1; v < 256; v++ {
		if name := ledger.Reason(v).String(); !strings.HasPrefix(name, "INVALID(") {
			all[name] = ledger.Reason(v)
		}
	}
	return all
}

func TestReasons_AreOneSetInContractLedgerAndTable(t *testing.T) {
	contract := map[string]bool{}
	for name := range ledgerv1.ErrorReason_value {
		if name := strings.TrimPrefix(name, "ERROR_REASON_"); name != "UNSPECIFIED" {
			contract[name] = true
		}
	}
	domain := map[string]bool{}
	for name := range domainReasons() {
		domain[name] = true
	}
	designed := map[string]bool{}
	for name := range table {
		designed[name] = true
	}
	if diff := cmp.Diff(contract, domain); diff != "" {
		t.Errorf("contract and ledger differ (-contract +ledger):\n%s", diff)
	}
	if diff := cmp.Diff(contract, designed); diff != "" {
		t.Errorf("contract and design differ (-contract +design):\n%s", diff)
	}
}

func TestToStatus_EveryReasonHasItsCodeAndASafeMessage(t *testing.T) {
	seen := map[string]string{}
	for name, why := range domainReasons() {
		cause := errors.New("dial tcp 10.0.0.1:9099: SELECT * FROM secret")
		st := rpcerr.ToStatus(context.Background(), fmt.Errorf("pay: %w", &ledger.Refusal{Reason: why, Err: cause}))
		if st.Code() != table[name] {
			t.Errorf("%s is %s, want %s", name, st.Code(), table[name])
		}
		message := st.Message()
		if message == "" || len(message) > 256 || !utf8.ValidString(message) || strings.Contains(message, "10.0.0.1") {
			t.Errorf("%s says %q", name, message)
		}
		if other, ok := seen[message]; ok {
			t.Errorf("%s and %s say the same", name, other)
		}
		seen[message] = name
		if got := reason.Of(st.Err()); got.String() != "ERROR_REASON_"+name {
			t.Errorf("a caller reads %s as %s", name, got)
		}
		if says := strings.Contains(message, "Nothing was"); says != reason.NothingLeft(st.Err()) {
			t.Errorf("%s says %q, and a caller reads that nothing left: %t", name, message, !says)
		}
		if info := detail[*errdetails.ErrorInfo](t, st); info.GetReason() != name || info.GetDomain() != "gwanmun" {
			t.Errorf("%s has ErrorInfo %v", name, info)
		}
		if strings.Contains(st.String()+fmt.Sprint(st.Details()), "secret") {
			t.Errorf("%s shows its cause: %v", name, st)
		}
		if got, ok := rpcerr.Reason(context.Background(), &ledger.Refusal{Reason: why}); !ok || got != why {
			t.Errorf("Reason of %s is %s, %t", name, got, ok)
		}
	}
}

// detail is the one detail of its type; zero if there is none.
func detail[T any](t *testing.T, st *status.Status) T {
	t.Helper()
	var found T
	count := 0
	for _, d := range st.Details() {
		if typed, ok := d.(T); ok {
			found = typed
			count++
		}
	}
	if count > 1 {
		t.Fatalf("%d details of type %T", count, found)
	}
	return found
}

func TestToStatus_TellsOfTheTransactionAndTheWait(t *testing.T) {
	ctx := telemetry.WithCorrelationID(context.Background(), "corr-1")
	st := rpcerr.ToStatus(ctx, &ledger.Refusal{
		Reason: ledger.ReasonDeclined,
		Transaction: &ledger.Transaction{
			ID: "GWMNU20260102000000123", Status: ledger.StatusFailed, Answer: ledger.Answer{Code: "0051", Message: "잔액부족"},
		},
		Replayed:   true,
		RetryAfter: 7200 * time.Millisecond,
	})
	info := detail[*errdetails.ErrorInfo](t, st)
	want := map[string]string{
		"transaction_id": "GWMNU20260102000000123", "ledger_status": "FAILED", "correlation_id": "corr-1",
		"response_code": "0051", "replayed": "true",
	}
	if diff := cmp.Diff(want, info.GetMetadata()); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if row := detail[*ledgerv1.Transaction](t, st); row.GetResponseMessage() != "잔액부족" {
		t.Errorf("transaction is %v", row)
	}
	if wait := detail[*errdetails.RetryInfo](t, st); wait.GetRetryDelay().AsDuration() != 7200*time.Millisecond {
		t.Errorf("retry info is %v", wait)
	}
}

func TestToStatus_SaysNothingThatDoesNotApply(t *testing.T) {
	st := rpcerr.ToStatus(context.Background(), &ledger.Refusal{Reason: ledger.ReasonCircuitOpen, RetryAfter: -1})
	if len(st.Details()) != 1 {
		t.Errorf("details are %v, want ErrorInfo alone", st.Details())
	}
	if info := detail[*errdetails.ErrorInfo](t, st); len(info.GetMetadata()) != 0 {
		t.Errorf("metadata is %v", info.GetMetadata())
	}
}

func TestToStatus_NamesTheFieldsWithinBounds(t *testing.T) {
	fields := make([]ledger.FieldViolation, 1000)
	for i := range fields {
		fields[i] = ledger.FieldViolation{Field: "amount", Description: strings.Repeat("가", 200) + "\xff"}
	}
	st := rpcerr.ToStatus(context.Background(), &ledger.Refusal{Reason: ledger.ReasonInvalidRequest, Fields: fields})
	bad := detail[*errdetails.BadRequest](t, st)
	if n := len(bad.GetFieldViolations()); n != 16 {
		t.Errorf("%d violations, want the first 16", n)
	}
	first := bad.GetFieldViolations()[0]
	if first.GetField() != "amount" || len(first.GetDescription()) > 256 || !utf8.ValidString(first.GetDescription()) {
		t.Errorf("first is %v", first)
	}
}

// A row with text that is not UTF-8 must not cost the caller the reason.
func TestToStatus_ABadRowDoesNotHideTheReason(t *testing.T) {
	st := rpcerr.ToStatus(context.Background(), &ledger.Refusal{
		Reason:      ledger.ReasonOutcomeUnknown,
		Transaction: &ledger.Transaction{ID: "GWMNU20260102000000123", Reason: "bad \xff text"},
	})
	info := detail[*errdetails.ErrorInfo](t, st)
	if st.Code() != codes.DeadlineExceeded || info.GetReason() != "OUTCOME_UNKNOWN" || info.GetMetadata()["transaction_id"] == "" {
		t.Errorf("status is %v with %v", st, st.Details())
	}
	st = rpcerr.ToStatus(context.Background(), &ledger.Refusal{
		Reason: ledger.ReasonOutcomeUnknown, Transaction: &ledger.Transaction{ID: "\xff"},
	})
	if info := detail[*errdetails.ErrorInfo](t, st); info.GetReason() != "OUTCOME_UNKNOWN" {
		t.Errorf("status is %v with %v", st, st.Details())
	}
}

func TestToStatus_WhatIsNotKnownIsInternalAndSaysNothing(t *testing.T) {
	secret := "pgx: host=10.0.0.1 password=hunter2"
	alien := status.Error(codes.NotFound, secret) // of another call, wrapped
	for name, err := range map[string]error{
		"a plain error":            errors.New(secret),
		"a sentinel of the ledger": fmt.Errorf("%s: %w", secret, ledger.ErrUnavailable),
		"a wrapped status":         fmt.Errorf("ask the core: %w", alien),
		"a reason of no table":     &ledger.Refusal{Reason: 200, Err: errors.New(secret)},
		"the zero reason":          &ledger.Refusal{Err: errors.New(secret)},
		"a deadline of our own":    fmt.Errorf("%s: %w", secret, context.DeadlineExceeded),
		"a cancel of our own":      context.Canceled,
		"an error of io":           io.ErrUnexpectedEOF,
		"a status that says OK":    okError{},
		"a refusal that is nil":    (*ledger.Refusal)(nil),
	} {
		st := rpcerr.ToStatus(context.Background(), err)
		info := detail[*errdetails.ErrorInfo](t, st)
		if st.Code() != codes.Internal || info.GetReason() != "INTERNAL" || len(st.Details()) != 1 {
			t.Errorf("%s is %v with %v", name, st, st.Details())
		}
		if strings.Contains(st.Message(), "10.0.0.1") {
			t.Errorf("%s shows its cause: %q", name, st.Message())
		}
		if got, ok := rpcerr.Reason(context.Background(), err); !ok || got != ledger.ReasonInternal {
			t.Errorf("Reason of %s is %s, %t", name, got, ok)
		}
	}
}

type okError struct{}

func (okError) Error() string              { return "ok" }
func (okError) GRPCStatus() *status.Status { return status.New(codes.OK, "") }

func TestToStatus_TheCallersOwnEndIsNoFaultOfOurs(t *testing.T) {
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancel := context.WithTimeout(context.Background(), -1)
	defer cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
		want codes.Code
	}{
		{"canceled", canceled, codes.Canceled},
		{"late", late, codes.DeadlineExceeded},
	} {
		err := fmt.Errorf("list: %w", c.ctx.Err())
		st := rpcerr.ToStatus(c.ctx, err)
		if st.Code() != c.want || len(st.Details()) != 0 {
			t.Errorf("%s is %v with %v, want %s without details", c.name, st, st.Details(), c.want)
		}
		if got, ok := rpcerr.Reason(c.ctx, err); ok {
			t.Errorf("Reason of %s is %s", c.name, got)
		}
		// A refusal says more than that the caller has left.
		if st := rpcerr.ToStatus(c.ctx, &ledger.Refusal{Reason: ledger.ReasonOutcomeUnknown, Err: err}); len(st.Details()) != 1 {
			t.Errorf("%s hides a refusal: %v", c.name, st)
		}
	}
}

func TestToStatus_PassesOnWhatIsAStatusItself(t *testing.T) {
	err := status.Error(codes.ResourceExhausted, "grpc: received message larger than max")
	if st := rpcerr.ToStatus(context.Background(), err); st.Code() != codes.ResourceExhausted || st.Message() != "grpc: received message larger than max" {
		t.Errorf("status is %v", st)
	}
	if st := rpcerr.ToStatus(context.Background(), nil); st.Code() != codes.OK || st.Err() != nil {
		t.Errorf("nil is %v", st)
	}
	if got, ok := rpcerr.Reason(context.Background(), nil); ok {
		t.Errorf("nil has reason %s", got)
	}
}
