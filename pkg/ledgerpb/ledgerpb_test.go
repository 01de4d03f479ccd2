package ledgerpb_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledgerpb"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
)

// protoEnum is what generated enums have.
type protoEnum interface {
	~int32
	protoreflect.Enum
}

// checkEnum holds an enum's two directions against each other over everything
// that either type can hold. Names decide: NOT_SENT is EVIDENCE_NOT_SENT and
// nothing else.
func checkEnum[D ~uint8, P protoEnum](t *testing.T, prefix string, zero bool, to func(D) P, parse func(P) (D, error)) {
	t.Helper()
	var unset P
	values := unset.Descriptor().Values()
	for i := range values.Len() {
		p := P(values.Get(i).Number())
		name := strings.TrimPrefix(string(values.Get(i).Name()), prefix)
		d, err := parse(p)
		switch {
		case p == unset && !zero:
			if err == nil {
				t.Errorf("unset is %v, want an error", d)
			}
		case p == unset:
			if err != nil || d != 0 || to(0) != unset {
				t.Errorf("unset is %v (%v), and zero is %v", d, err, to(0))
			}
		case err != nil || fmt.Sprint(d) != name || to(d) != p:
			t.Errorf("%s is %v (%v), and back %v", name, d, err, to(d))
		}
	}
	for v := range 256 { // every domain value, known or not
		d := D(v)
		p := to(d)
		if back, err := parse(p); p != unset && (err != nil || back != d) {
			t.Errorf("%v is %v, and back %v (%v)", d, p, back, err)
		}
		if known := !strings.HasPrefix(fmt.Sprint(d), "INVALID"); known && d != 0 && p == unset {
			t.Errorf("%v is unset in the contract", d)
		}
	}
	for _, p := range []P{-1, P(values.Len()), 1 << 20} {
		if d, err := parse(p); err == nil {
			t.Errorf("unknown %d is %v, want an error", p, d)
		}
	}
}

func TestEnums_AreTheSameSetInBothWorlds(t *testing.T) {
	t.Run("kind", func(t *testing.T) {
		checkEnum(t, "TRANSACTION_KIND_", false, ledgerpb.Kind, ledgerpb.ParseKind)
	})
	t.Run("status", func(t *testing.T) {
		checkEnum(t, "TRANSACTION_STATUS_", false, ledgerpb.Status, ledgerpb.ParseStatus)
	})
	t.Run("evidence", func(t *testing.T) {
		checkEnum(t, "EVIDENCE_", true, ledgerpb.Evidence, ledgerpb.ParseEvidence)
	})
	t.Run("method", func(t *testing.T) {
		checkEnum(t, "RESOLUTION_METHOD_", true, ledgerpb.Method, ledgerpb.ParseMethod)
	})
	t.Run("policy", func(t *testing.T) {
		checkEnum(t, "RESOLUTION_POLICY_", true, ledgerpb.Policy, ledgerpb.ParsePolicy)
	})
	t.Run("decision", func(t *testing.T) {
		checkEnum(t, "DECISION_", true, ledgerpb.Decision, ledgerpb.ParseDecision)
	})
}

func TestTransaction_ShowsEveryField(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	row := ledger.Transaction{
		ID: "GWMNU20260102000000123", Kind: ledger.KindPayment, Status: ledger.StatusFailed,
		Evidence: ledger.EvidenceFenced, Method: ledger.MethodStatusInquiry, Policy: ledger.PolicyNetCancel,
		Decision: ledger.DecisionCancel, NeedsReview: true,
		Client: "local", Key: "key-1", Order: "order-1", AccountMasked: "123456****1234", Amount: 12_345,
		Answer: ledger.Answer{Code: "0000", Message: "정상", Approval: "12345678901"}, Reason: "fenced",
		Elapsed: 3 * time.Second, RequestedAt: at, SentAt: at.Add(1), RespondedAt: at.Add(2), ResolvedAt: at.Add(3),
		AdoptAt: at.Add(4), ResolveAttempts: 7, NotFound: 8, NextResolveAt: at.Add(5),
		CorrelationID: "corr-1", TraceID: "0af7651916cd43dd8448eb211c80319c",
	}
	want := &ledgerv1.Transaction{
		TransactionId: "GWMNU20260102000000123", Kind: ledgerv1.TransactionKind_TRANSACTION_KIND_PAYMENT,
		Status:           ledgerv1.TransactionStatus_TRANSACTION_STATUS_FAILED,
		Evidence:         ledgerv1.Evidence_EVIDENCE_FENCED,
		ResolutionMethod: ledgerv1.ResolutionMethod_RESOLUTION_METHOD_STATUS_INQUIRY,
		ResolutionPolicy: ledgerv1.ResolutionPolicy_RESOLUTION_POLICY_NET_CANCEL,
		Decision:         ledgerv1.Decision_DECISION_CANCEL, NeedsReview: true,
		ClientId: "local", IdempotencyKey: "key-1", OrderId: "order-1", AccountMasked: "123456****1234",
		Amount: 12_345, Currency: "KRW",
		ResponseCode: "0000", ResponseMessage: "정상", ApprovalNumber: "12345678901", Reason: "fenced",
		Elapsed: durationpb.New(3 * time.Second), RequestedAt: timestamppb.New(at), SentAt: timestamppb.New(at.Add(1)),
		RespondedAt: timestamppb.New(at.Add(2)), ResolvedAt: timestamppb.New(at.Add(3)),
		ResolveAttempts: 7, NextResolveAt: timestamppb.New(at.Add(5)),
		CorrelationId: "corr-1", TraceId: "0af7651916cd43dd8448eb211c80319c",
	}
	got := ledgerpb.Transaction(&row)
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// A field that is added to the contract must be filled, and be here.
	fields := got.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if !got.ProtoReflect().Has(fields.Get(i)) {
			t.Errorf("%s is not filled", fields.Get(i).Name())
		}
	}
}

func TestTransaction_WhatDidNotHappenIsUnset(t *testing.T) {
	got := ledgerpb.Transaction(&ledger.Transaction{})
	if diff := cmp.Diff(&ledgerv1.Transaction{Currency: "KRW"}, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if ledgerpb.Transaction(nil) != nil {
		t.Error("no transaction is one")
	}
}

func TestEvent_ShowsEveryField(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	got := ledgerpb.Event(ledger.Event{
		Sequence: 3, At: at, From: ledger.StatusRequested, To: ledger.StatusUnknown,
		Evidence: ledger.EvidenceProcessed, Detail: "timed out",
		By: ledger.Actor{Name: ledger.ActorPayment, Instance: "payment-a-1-0f0f", TraceID: "0af7651916cd43dd8448eb211c80319c"},
	})
	want := &ledgerv1.TransactionEvent{
		Sequence: 3, At: timestamppb.New(at), Evidence: ledgerv1.Evidence_EVIDENCE_PROCESSED,
		FromStatus: ledgerv1.TransactionStatus_TRANSACTION_STATUS_REQUESTED,
		ToStatus:   ledgerv1.TransactionStatus_TRANSACTION_STATUS_UNKNOWN,
		Actor:      "payment", Instance: "payment-a-1-0f0f", Detail: "timed out", TraceId: "0af7651916cd43dd8448eb211c80319c",
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
