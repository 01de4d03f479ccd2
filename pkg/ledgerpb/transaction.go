package ledgerpb

import (
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
)

// currency is the only one there is.
const currency = "KRW"

// Transaction is the row as callers and operators see it; nil for nil. What did
// not happen is unset.
func Transaction(t *ledger.Transaction) *ledgerv1.Transaction {
	if t == nil {
		return nil
	}
	return &ledgerv1.Transaction{
		TransactionId:    string(t.ID),
		Kind:             Kind(t.Kind),
		Status:           Status(t.Status),
		Evidence:         Evidence(t.Evidence),
		ResolutionMethod: Method(t.Method),
		ResolutionPolicy: Policy(t.Policy),
		Decision:         Decision(t.Decision),
		NeedsReview:      t.NeedsReview,
		OrderId:          string(t.Order),
		IdempotencyKey:   string(t.Key),
		ClientId:         string(t.Client),
		AccountMasked:    t.AccountMasked,
		Amount:           int64(t.Amount),
		Currency:         currency,
		ResponseCode:     t.Answer.Code,
		ResponseMessage:  t.Answer.Message,
		ApprovalNumber:   t.Answer.Approval,
		Reason:           t.Reason,
		Elapsed:          duration(t.Elapsed),
		RequestedAt:      timestamp(t.RequestedAt),
		SentAt:           timestamp(t.SentAt),
		RespondedAt:      timestamp(t.RespondedAt),
		ResolvedAt:       timestamp(t.ResolvedAt),
		ResolveAttempts:  int32(min(t.ResolveAttempts, math.MaxInt32)),
		NextResolveAt:    timestamp(t.NextResolveAt),
		CorrelationId:    t.CorrelationID,
		TraceId:          t.TraceID,
	}
}

// Event is one entry of a transaction's history.
func Event(e ledger.Event) *ledgerv1.TransactionEvent {
	return &ledgerv1.TransactionEvent{
		Sequence:   e.Sequence,
		At:         timestamp(e.At),
		FromStatus: Status(e.From),
		ToStatus:   Status(e.To),
		Evidence:   Evidence(e.Evidence),
		Actor:      e.By.Name,
		Instance:   e.By.Instance,
		Detail:     e.Detail,
		TraceId:    e.By.TraceID,
	}
}

// timestamp is unset for the zero time.
func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// duration is unset for none.
func duration(d time.Duration) *durationpb.Duration {
	if d <= 0 {
		return nil
	}
	return durationpb.New(d)
}
