package simulator

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	spans "github.com/gwanmun/gwanmun/pkg/telemetry/span"
)

// begin begins the span of a telegram, in the trace that its transaction ID
// names. A telegram has no room for the caller's, which links to this one.
func (s *Server) begin(ctx context.Context, q request, p plan) (context.Context, trace.Span) {
	first := s.opts.Tracer != nil && q.mti == telegram.PaymentRequestMTI && s.bank.accountOf(q.tranID).IsZero()
	ctx, telling := spans.Frame(ctx, s.opts.Tracer, q.mti, q.tranID, first)
	if p.fault != "" && telling.IsRecording() {
		telling.SetAttributes(spans.KeyFault.String(p.fault))
	}
	return ctx, telling
}

// tell says in the span of a telegram what was decided. What is sent in place of
// the answer is the fault's matter.
func tell(telling trace.Span, d decision) {
	if telling.IsRecording() {
		telling.SetAttributes(spans.KeyEffect.String(d.effect.String()), spans.KeyResponseCode.String(d.code))
	}
}
