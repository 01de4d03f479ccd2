package payment

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/telemetry/span"
)

// actor is who changes the book in ctx, with the trace of it.
func (s *Service) actor(ctx context.Context) ledger.Actor {
	by := s.by
	by.TraceID = span.TraceID(ctx)
	return by
}

// endIntent ends the span in which an intent was to be stored.
func endIntent(intent trace.Span, in *ledger.Intent, err error) {
	if !intent.IsRecording() {
		return
	}
	intent.SetAttributes(span.KeyTransactionID.String(string(in.ID)))
	if err != nil {
		span.Fail(intent, "not stored")
	}
	intent.End()
}

// endExchange ends the span of an exchange, which says what followed from it.
func endExchange(exchange trace.Span, o *outcome, res *corelink.Result) {
	if !exchange.IsRecording() {
		return
	}
	exchange.SetAttributes(
		span.KeySent.String(res.Sent.String()), span.KeyStatus.String(o.status.String()),
		span.KeyEvidence.String(o.evidence.String()), span.KeyResponseCode.String(o.answer.Code))
	if !res.Answered() {
		span.Fail(exchange, o.reason)
	}
	exchange.End()
}

// endOutcome ends the span in which an outcome was to be stored.
func endOutcome(stored trace.Span, row *ledger.Transaction, err error) {
	if !stored.IsRecording() {
		return
	}
	if err != nil {
		span.Fail(stored, "not stored")
	} else {
		stored.SetAttributes(span.KeyTransactionID.String(string(row.ID)), span.KeyStatus.String(row.Status.String()))
	}
	stored.End()
}
