package rpcserver_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/rpcserver"
	"github.com/gwanmun/gwanmun/pkg/telemetry"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

// echo answers with the correlation ID and the client that the handler sees.
func echo() *payments {
	seen := func(ctx context.Context) *ledgerv1.Transaction {
		return &ledgerv1.Transaction{
			TransactionId: "GWMNU20260102000000123",
			CorrelationId: telemetry.CorrelationID(ctx),
			ClientId:      string(rpcserver.ClientID(ctx)),
		}
	}
	return &payments{
		create: func(ctx context.Context, _ *paymentv1.CreatePaymentRequest) (*paymentv1.CreatePaymentResponse, error) {
			return &paymentv1.CreatePaymentResponse{Transaction: seen(ctx)}, nil
		},
		watch: func(_ *paymentv1.WatchPaymentRequest, stream grpc.ServerStreamingServer[paymentv1.WatchPaymentResponse]) error {
			return stream.Send(&paymentv1.WatchPaymentResponse{Transaction: seen(stream.Context())})
		},
	}
}

// failing fails every call with err.
func failing(err error) *payments {
	return &payments{
		create: func(context.Context, *paymentv1.CreatePaymentRequest) (*paymentv1.CreatePaymentResponse, error) {
			return nil, err
		},
		watch: func(*paymentv1.WatchPaymentRequest, grpc.ServerStreamingServer[paymentv1.WatchPaymentResponse]) error {
			return err
		},
	}
}

func TestCorrelationID_IsTakenOverOrMade(t *testing.T) {
	e := newEdge(t, echo(), nil)
	for _, c := range []struct {
		name string
		sent []string
		kept bool
	}{
		{"valid", []string{"Shop-1.a_b"}, true},
		{"longest", []string{strings.Repeat("x", 64)}, true},
		{"absent", nil, false},
		{"empty", []string{""}, false},
		{"too long", []string{strings.Repeat("x", 65)}, false},
		{"with a space", []string{"a b"}, false},
		{"twice", []string{"a", "b"}, false},
		{"twice the same", []string{"a", "a"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := metadata.NewOutgoingContext(t.Context(), metadata.MD{"x-correlation-id": c.sent})
			var header metadata.MD
			resp, err := e.payments().CreatePayment(ctx, good(), grpc.Header(&header))
			if err != nil {
				t.Fatal(err)
			}
			returned := header.Get("x-correlation-id")
			if len(returned) != 1 || !telemetry.ValidCorrelationID(returned[0]) || returned[0] != resp.GetTransaction().GetCorrelationId() {
				t.Errorf("returned %q, the handler saw %q", returned, resp.GetTransaction().GetCorrelationId())
			}
			if kept := len(c.sent) > 0 && returned[0] == c.sent[0]; kept != c.kept {
				t.Errorf("sent %q, returned %q", c.sent, returned)
			}
			lines := e.log.of(t, "rpc")
			if last := lines[len(lines)-1]; last["correlation_id"] != returned[0] {
				t.Errorf("the log says %v", last)
			}
		})
	}
}

func TestCorrelationID_IsReturnedWithStreamsAndErrors(t *testing.T) {
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-correlation-id", "corr-1")

	stream, err := newEdge(t, echo(), nil).payments().WatchPayment(ctx, goodWatch())
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	header, _ := stream.Header()
	if err != nil || first.GetTransaction().GetCorrelationId() != "corr-1" || header.Get("x-correlation-id")[0] != "corr-1" {
		t.Errorf("stream: %v, %v, %v", first, header, err)
	}

	var failed metadata.MD
	_, err = newEdge(t, failing(errors.New("boom")), nil).payments().CreatePayment(ctx, good(), grpc.Header(&failed))
	if len(failed.Get("x-correlation-id")) != 1 || info(err).GetMetadata()["correlation_id"] != "corr-1" {
		t.Errorf("error: %v, %v", failed, info(err))
	}
}

func TestClientID_IsLocal(t *testing.T) {
	resp, err := newEdge(t, echo(), nil).payments().CreatePayment(t.Context(), good())
	if err != nil || resp.GetTransaction().GetClientId() != "local" {
		t.Errorf("client is %q, %v", resp.GetTransaction().GetClientId(), err)
	}
	if id := rpcserver.ClientID(context.Background()); id != "local" {
		t.Errorf("outside of a call it is %q", id)
	}
	if rpcserver.Stopping(context.Background()) != nil {
		t.Error("outside of a call something may stop")
	}
}

// each calls the one unary and the one streaming rpc and returns their errors.
func each(t *testing.T, e *edge) map[string]error {
	t.Helper()
	_, unary := e.payments().CreatePayment(t.Context(), good())
	stream, err := e.payments().WatchPayment(t.Context(), goodWatch())
	if err != nil {
		t.Fatal(err)
	}
	_, streaming := stream.Recv()
	return map[string]error{"unary": unary, "streaming": streaming}
}

func TestErrors_BecomeStatusesWithReasonAndWithoutCause(t *testing.T) {
	cause := errors.New("dial tcp 10.0.0.1:9099: connect: connection refused")
	refusal := &ledger.Refusal{
		Reason: ledger.ReasonCoreUnreachable, Err: cause,
		Transaction: &ledger.Transaction{ID: "GWMNU20260102000000123", Status: ledger.StatusFailed},
	}
	for name, err := range each(t, newEdge(t, failing(refusal), nil)) {
		if status.Code(err) != codes.Unavailable || info(err).GetReason() != "CORE_UNREACHABLE" {
			t.Errorf("%s: %v with %v", name, err, info(err))
		}
		if detail[*ledgerv1.Transaction](err).GetTransactionId() != "GWMNU20260102000000123" {
			t.Errorf("%s: no transaction in %v", name, status.Convert(err).Details())
		}
		if strings.Contains(err.Error(), "10.0.0.1") {
			t.Errorf("%s shows the cause: %v", name, err)
		}
	}
	for name, err := range each(t, newEdge(t, failing(cause), nil)) {
		if status.Code(err) != codes.Internal || info(err).GetReason() != "INTERNAL" || strings.Contains(err.Error(), "10.0.0.1") {
			t.Errorf("%s: %v with %v", name, err, info(err))
		}
	}
}

func TestLog_OneLineAnRPCAtTheLevelThatItDeserves(t *testing.T) {
	cause := errors.New("the cause")
	row := &ledger.Transaction{ID: "GWMNU20260102000000123", Status: ledger.StatusFailed}
	for _, c := range []struct {
		name   string
		err    error
		level  string
		code   string
		reason any
		cause  any
	}{
		{"a decline", &ledger.Refusal{Reason: ledger.ReasonDeclined, Transaction: row, Err: cause}, "INFO", "FailedPrecondition", "DECLINED", nil},
		{"a short deadline", &ledger.Refusal{Reason: ledger.ReasonDeadlineTooShort, Err: cause}, "INFO", "DeadlineExceeded", "DEADLINE_TOO_SHORT", nil},
		{"a time-out", &ledger.Refusal{Reason: ledger.ReasonOutcomeUnknown, Transaction: row, Err: cause}, "WARN", "DeadlineExceeded", "OUTCOME_UNKNOWN", "OUTCOME_UNKNOWN: the cause"},
		{"no ledger", &ledger.Refusal{Reason: ledger.ReasonLedgerUnavailable, Err: cause}, "WARN", "Unavailable", "LEDGER_UNAVAILABLE", "LEDGER_UNAVAILABLE: the cause"},
		{"a fault", cause, "ERROR", "Internal", "INTERNAL", "the cause"},
		{"a status of its own", status.Error(codes.Unknown, "what"), "ERROR", "Unknown", nil, "rpc error: code = Unknown desc = what"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEdge(t, failing(c.err), nil)
			each(t, e)
			lines := e.log.of(t, "rpc")
			if len(lines) != 2 {
				t.Fatalf("%d lines for 2 calls", len(lines))
			}
			for _, line := range lines {
				if line["level"] != c.level || line["code"] != c.code || line["reason"] != c.reason || line["error"] != c.cause {
					t.Errorf("line is %v", line)
				}
				if hasRow := strings.Contains(c.name, "decline") || strings.Contains(c.name, "time-out"); hasRow != (line["transaction_id"] == string(row.ID)) {
					t.Errorf("transaction_id is %v", line["transaction_id"])
				}
			}
		})
	}
}

func TestLog_OfASuccessSaysWhoWhatAndHowLong(t *testing.T) {
	e := newEdge(t, echo(), nil)
	if _, err := e.payments().CreatePayment(t.Context(), good()); err != nil {
		t.Fatal(err)
	}
	line := e.log.one(t, "rpc")
	for name, want := range map[string]any{
		"level": "INFO", "method": "gwanmun.payment.v1.PaymentService/CreatePayment", "code": "OK", "client_id": "local",
		"peer": "bufconn", "transaction_id": "GWMNU20260102000000123", "service": "payment",
	} {
		if line[name] != want {
			t.Errorf("%s is %v, want %v", name, line[name], want)
		}
	}
	if ms, ok := line["elapsed_ms"].(float64); !ok || ms < 0 || ms > 10_000 {
		t.Errorf("elapsed_ms is %v", line["elapsed_ms"])
	}
}

func TestPanic_IsAConstantToTheCallerAndAStackInTheLog(t *testing.T) {
	panicking := &payments{
		create: func(context.Context, *paymentv1.CreatePaymentRequest) (*paymentv1.CreatePaymentResponse, error) {
			panic("secret state")
		},
		watch: func(*paymentv1.WatchPaymentRequest, grpc.ServerStreamingServer[paymentv1.WatchPaymentResponse]) error {
			panic("secret state")
		},
	}
	e := newEdge(t, panicking, nil)
	for name, err := range each(t, e) {
		if status.Code(err) != codes.Internal || info(err).GetReason() != "INTERNAL" || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v with %v", name, err, info(err))
		}
	}
	panics := e.log.of(t, "rpc panicked")
	if len(panics) != 2 || panics[0]["level"] != "ERROR" || panics[0]["panic"] != "secret state" || panics[0]["correlation_id"] == nil ||
		!strings.Contains(panics[0]["stack"].(string), "TestPanic_") {
		t.Errorf("the log says %v", panics)
	}
	for _, line := range e.log.of(t, "rpc") {
		if line["level"] != "ERROR" || line["reason"] != "INTERNAL" {
			t.Errorf("the log says %v", line)
		}
	}
	if _, body := e.fetch(t, "GET", "/metrics"); !strings.Contains(body, "\ngwanmun_panics_total 2\n") {
		t.Error("the panics are not counted")
	}
}

// An error that is a nil *Refusal is a classic of Go. It must not end the
// process from within the edge.
func TestPanic_InTheEdgeItselfEndsOneCall(t *testing.T) {
	e := newEdge(t, failing((*ledger.Refusal)(nil)), nil)
	for name, err := range each(t, e) {
		if status.Code(err) != codes.Internal {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(e.log.of(t, "rpc panicked")) != 2 {
		t.Errorf("the log says:\n%s", e.log.text())
	}
}
