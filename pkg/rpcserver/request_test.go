package rpcserver_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

// wantInvalid checks that err names exactly these fields, and repeats nothing
// of what they hold.
func wantInvalid(t *testing.T, err error, values []string, fields ...string) {
	t.Helper()
	if status.Code(err) != codes.InvalidArgument || info(err).GetReason() != "INVALID_REQUEST" {
		t.Fatalf("error is %v with %v", err, info(err))
	}
	violations := detail[*errdetails.BadRequest](err).GetFieldViolations()
	named := make([]string, 0, len(violations))
	for _, v := range violations {
		named = append(named, v.GetField())
		if v.GetDescription() == "" {
			t.Errorf("%s has no description", v.GetField())
		}
	}
	if !slices.Equal(named, fields) {
		t.Errorf("fields are %q, want %q", named, fields)
	}
	all := fmt.Sprint(status.Convert(err).Proto())
	for _, value := range values {
		if strings.Contains(all, value) {
			t.Errorf("%q is repeated in %s", value, all)
		}
	}
}

func TestValidation_NamesTheFieldsAndRepeatsNoValue(t *testing.T) {
	e := newEdge(t, failing(errors.New("the handler must not run")), nil)
	ctx := t.Context()

	_, err := e.payments().CreatePayment(ctx, &paymentv1.CreatePaymentRequest{
		IdempotencyKey: "key with spaces", AccountNumber: "123456789012345", Amount: -987654321,
		OrderId: strings.Repeat("order", 20), ResolutionPolicy: 77,
	})
	wantInvalid(t, err, []string{"key with spaces", "123456789012345", "987654321", "orderorder", "77"},
		"idempotency_key", "account_number", "amount", "order_id", "resolution_policy")

	_, err = e.payments().CreatePayment(ctx, &paymentv1.CreatePaymentRequest{})
	wantInvalid(t, err, nil, "idempotency_key", "account_number", "amount")

	_, err = e.payments().GetPayment(ctx, &paymentv1.GetPaymentRequest{})
	wantInvalid(t, err, nil, "key")

	_, err = ledgerv1.NewLedgerServiceClient(e.conn).ListTransactions(ctx, &ledgerv1.ListTransactionsRequest{
		Statuses: []ledgerv1.TransactionStatus{2, 0, 99}, PageSize: 501,
	})
	wantInvalid(t, err, []string{"99"}, "statuses[1]", "statuses[2]", "page_size")

	stream, err := e.payments().WatchPayment(ctx, &paymentv1.WatchPaymentRequest{TransactionId: "GWMN-1"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	wantInvalid(t, err, []string{"GWMN-1"}, "transaction_id")

	for _, line := range e.log.of(t, "rpc") {
		if line["level"] != "INFO" || line["reason"] != "INVALID_REQUEST" || line["fields"] == "" {
			t.Errorf("the log says %v", line)
		}
	}
}

// A request may be full of faults. To list them all is work for nothing.
func TestValidation_OfALargeRequestStopsAtTheFirstFault(t *testing.T) {
	e := newEdge(t, echo(), nil)
	_, err := ledgerv1.NewLedgerServiceClient(e.conn).ListTransactions(t.Context(), &ledgerv1.ListTransactionsRequest{
		Statuses: make([]ledgerv1.TransactionStatus, 60_000),
	})
	bad := detail[*errdetails.BadRequest](err).GetFieldViolations()
	if status.Code(err) != codes.InvalidArgument || len(bad) != 1 {
		t.Errorf("error is %v and names %d fields, want 1", err, len(bad))
	}
}

func TestValidation_LetsGoodRequestsPass(t *testing.T) {
	e := newEdge(t, echo(), nil)
	for _, account := range []string{"0", "00000000000000", "99999999999999"} {
		req := good()
		req.AccountNumber, req.Amount, req.IdempotencyKey = account, 999_999_999_999, strings.Repeat("A-z.0:_", 9)
		if _, err := e.payments().CreatePayment(t.Context(), req); err != nil {
			t.Errorf("account %s: %v", account, err)
		}
	}
}

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

func TestDecoding_WhatIsNoMessageIsAnInvalidRequestOfTheCaller(t *testing.T) {
	p := echo()
	p.create = func(context.Context, *paymentv1.CreatePaymentRequest) (*paymentv1.CreatePaymentResponse, error) {
		t.Error("the handler ran")
		return nil, errors.New("the handler ran")
	}
	e := newEdge(t, p, nil)
	badText := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "key-\xff\xfe")
	valid, err := proto.Marshal(good())
	if err != nil {
		t.Fatal(err)
	}
	for name, request := range map[string][]byte{
		"garbage":             {0xff, 0xff, 0xff},
		"cut short":           valid[:len(valid)-1],
		"text not UTF-8":      append(slices.Clone(valid), badText...),
		"a wrong wire type":   {0x0b},
		"the mark of our own": protowire.AppendString(protowire.AppendTag(nil, protowire.MaxValidNumber, protowire.BytesType), "gwanmun: undecodable"),
	} {
		t.Run(name, func(t *testing.T) {
			var answer []byte
			var header metadata.MD
			err := e.conn.Invoke(t.Context(), paymentv1.PaymentService_CreatePayment_FullMethodName, request, &answer,
				grpc.ForceCodecV2(rawCodec{}), grpc.Header(&header))
			wantInvalid(t, err, nil, "")
			if len(header.Get("x-correlation-id")) != 1 {
				t.Errorf("no correlation ID in %v", header)
			}
			wantInvalid(t, e.watchRaw(t, request), nil, "")
		})
	}
	if lines := e.log.of(t, "rpc"); len(lines) != 10 || lines[0]["level"] != "INFO" {
		t.Errorf("%d lines for 10 calls; the first is %v", len(lines), lines[0])
	}
}

// watchRaw sends bytes to the streaming rpc.
func (e *edge) watchRaw(t *testing.T, request []byte) error {
	t.Helper()
	stream, err := e.conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true},
		paymentv1.PaymentService_WatchPayment_FullMethodName, grpc.ForceCodecV2(rawCodec{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.SendMsg(request); err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	var answer []byte
	return stream.RecvMsg(&answer)
}

// Fields that this version does not know come from a newer client. They pass.
func TestDecoding_UnknownFieldsPass(t *testing.T) {
	e := newEdge(t, echo(), nil)
	req := good()
	req.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 1000, protowire.BytesType), "new"))
	if _, err := e.payments().CreatePayment(t.Context(), req); err != nil {
		t.Error(err)
	}
}

func TestUnknownMethod_IsRefusedLoggedAndNotCounted(t *testing.T) {
	e := newEdge(t, echo(), nil)
	before := e.series(t)
	for _, path := range []string{
		"/gwanmun.payment.v1.PaymentService/Evil", "/gwanmun.payment.v1.PaymentService/", "/no.such.Service/CreatePayment", "//", "/a",
	} {
		var header metadata.MD
		err := e.conn.Invoke(t.Context(), path, good(), &paymentv1.CreatePaymentResponse{}, grpc.Header(&header))
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("%q: %v", path, err)
		}
		if path != "/a" && (status.Convert(err).Message() != "unknown method" || len(header.Get("x-correlation-id")) != 1) {
			t.Errorf("%q: %v with %v", path, err, header)
		}
	}
	if after := e.series(t); after != before {
		t.Errorf("%d series became %d", before, after)
	}
	for _, line := range e.log.of(t, "rpc") {
		if line["method"] != "unknown" || line["code"] != "Unimplemented" || line["level"] != "INFO" {
			t.Errorf("the log says %v", line)
		}
	}
}

// series is how many there are of rpc metrics.
func (e *edge) series(t *testing.T) int {
	t.Helper()
	families, err := e.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "grpc_") {
			count += len(f.GetMetric())
		}
	}
	return count
}

func TestMetrics_CountEachCallUnderSeriesThatAreThereFromTheStart(t *testing.T) {
	e := newEdge(t, echo(), nil)
	before := e.series(t)
	each(t, e)
	if _, err := e.payments().CreatePayment(t.Context(), &paymentv1.CreatePaymentRequest{}); err == nil {
		t.Error("an empty request passed")
	}
	if after := e.series(t); after != before {
		t.Errorf("%d series became %d", before, after)
	}
	_, body := e.fetch(t, "GET", "/metrics")
	const labels = `grpc_method="CreatePayment",grpc_service="gwanmun.payment.v1.PaymentService",grpc_type="unary"`
	for _, want := range []string{
		`grpc_server_handled_total{grpc_code="OK",` + labels + `} 1`,
		`grpc_server_handled_total{grpc_code="InvalidArgument",` + labels + `} 1`,
		`grpc_server_handling_seconds_count{` + labels + `} 2`,
		`grpc_server_started_total{` + labels + `} 2`,
		`grpc_server_msg_received_total{` + labels + `} 2`,
		`grpc_server_msg_sent_total{` + labels + `} 1`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s", want)
		}
	}
}

func TestLimits_TooLargeIsRefused(t *testing.T) {
	e := newEdge(t, echo(), nil)
	req := good()
	req.OrderId = strings.Repeat("x", 64<<10)
	if _, err := e.payments().CreatePayment(t.Context(), req); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a message above 64 KiB: %v", err)
	}
	heavy := metadata.AppendToOutgoingContext(t.Context(), "x-junk", base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1, 7}, 8<<10)))
	if _, err := e.payments().CreatePayment(heavy, good()); err == nil {
		t.Error("headers above 16 KiB passed")
	}
	if _, err := e.payments().CreatePayment(t.Context(), good()); err != nil {
		t.Errorf("the connection does not survive: %v", err)
	}
}

func TestHealthAndReflection_AreQuietInTheLog(t *testing.T) {
	e := newEdge(t, echo(), nil)
	if _, err := grpc_health_v1.NewHealthClient(e.conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	if line := e.log.one(t, "rpc"); line["level"] != "DEBUG" {
		t.Errorf("the log says %v", line)
	}
	for _, service := range []string{"grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"} {
		stream, err := e.conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/"+service+"/ServerReflectionInfo")
		if err != nil {
			t.Fatal(err)
		}
		_ = stream.CloseSend()
		if err := stream.RecvMsg(&grpc_health_v1.HealthCheckResponse{}); status.Code(err) == codes.Unimplemented {
			t.Errorf("%s is not served", service)
		}
	}
}
