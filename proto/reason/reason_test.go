package reason_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	"github.com/gwanmun/gwanmun/proto/reason"
)

// refused is an error as gwanmun sends it.
func refused(code codes.Code, name string, more ...protoadapt.MessageV1) error {
	info := &errdetails.ErrorInfo{Reason: name, Domain: "gwanmun"}
	st, err := status.New(code, "a constant text").WithDetails(append([]protoadapt.MessageV1{info}, more...)...)
	if err != nil {
		panic(err)
	}
	return st.Err()
}

// alien is an error of something that stands in between.
func alien(domain, name string) error {
	st, err := status.New(codes.Unavailable, "no route").WithDetails(&errdetails.ErrorInfo{Reason: name, Domain: domain})
	if err != nil {
		panic(err)
	}
	return st.Err()
}

func TestOf_IsTheReasonOfEveryErrorThatGwanmunMakes(t *testing.T) {
	for value, name := range ledgerv1.ErrorReason_name {
		err := refused(codes.Unavailable, strings.TrimPrefix(name, "ERROR_REASON_"))
		for _, e := range []error{err, fmt.Errorf("pay order 7: %w", err), errors.Join(errors.New("other"), err)} {
			if got := reason.Of(e); got != ledgerv1.ErrorReason(value) {
				t.Errorf("Of(%v) = %s, want %s", e, got, name)
			}
		}
	}
}

func TestOf_IsUnspecifiedForEverythingElse(t *testing.T) {
	for name, err := range map[string]error{
		"nil":                     nil,
		"a plain error":           errors.New("boom"),
		"the end of a context":    context.DeadlineExceeded,
		"the transport's own":     status.Error(codes.Unavailable, "connection refused"),
		"another domain":          alien("envoy", "CIRCUIT_OPEN"),
		"no domain":               alien("", "CIRCUIT_OPEN"),
		"a reason of the future":  refused(codes.Unavailable, "MOON_PHASE"),
		"a reason with its whole": refused(codes.Unavailable, "ERROR_REASON_CIRCUIT_OPEN"),
	} {
		if got := reason.Of(err); got != ledgerv1.ErrorReason_ERROR_REASON_UNSPECIFIED {
			t.Errorf("%s is %s", name, got)
		}
		if reason.NothingLeft(err) || reason.Transaction(err) != nil {
			t.Errorf("%s proves something", name)
		}
		if wait, ok := reason.RetryAfter(err); ok {
			t.Errorf("%s says to wait %s", name, wait)
		}
	}
}

func TestTransactionAndRetryAfter_AreFoundInWrappedErrors(t *testing.T) {
	row := &ledgerv1.Transaction{TransactionId: "GWMNU20260102000000123"}
	err := fmt.Errorf("pay: %w", refused(codes.Unavailable, "CIRCUIT_OPEN", row,
		&errdetails.RetryInfo{RetryDelay: durationpb.New(7200 * time.Millisecond)}))
	if got := reason.Transaction(err); got.GetTransactionId() != row.GetTransactionId() {
		t.Errorf("transaction is %v", got)
	}
	if wait, ok := reason.RetryAfter(err); !ok || wait != 7200*time.Millisecond {
		t.Errorf("wait is %s, %t", wait, ok)
	}
}

// The table of the design: what left in the call, by reason.
func TestNothingLeft_IsSaidOnlyWhereItIsProven(t *testing.T) {
	proven := map[string]codes.Code{
		"INVALID_REQUEST": codes.InvalidArgument, "DEADLINE_TOO_SHORT": codes.DeadlineExceeded,
		"SEND_WINDOW_MISSED": codes.Unavailable, "CIRCUIT_OPEN": codes.Unavailable,
		"CORE_UNREACHABLE": codes.Unavailable, "LEDGER_UNAVAILABLE": codes.Unavailable,
		"LINK_SATURATED": codes.ResourceExhausted, "RATE_LIMITED": codes.ResourceExhausted,
		"IDEMPOTENCY_KEY_REUSED": codes.AlreadyExists, "ILLEGAL_STATE": codes.FailedPrecondition,
		"ORDER_ALREADY_PAID": codes.FailedPrecondition, "ORDER_IN_DOUBT": codes.FailedPrecondition,
		"UNAUTHENTICATED": codes.Unauthenticated, "PERMISSION_DENIED": codes.PermissionDenied,
	}
	for _, name := range ledgerv1.ErrorReason_name {
		name = strings.TrimPrefix(name, "ERROR_REASON_")
		code, ok := proven[name]
		if !ok {
			code = codes.DeadlineExceeded
		}
		if got := reason.NothingLeft(fmt.Errorf("pay: %w", refused(code, name))); got != ok {
			t.Errorf("%s: %t, want %t", name, got, ok)
		}
		if reason.NothingLeft(refused(codes.Unknown, name)) {
			t.Errorf("%s proves something under a code that is not its own", name)
		}
	}
}
