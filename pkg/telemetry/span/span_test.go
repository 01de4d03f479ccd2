package span_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/gwanmun/gwanmun/pkg/telemetry/span"
)

// A service without tracing passes through every one of these with each call.
func TestSpans_CostNothingWhereNothingIsTraced(t *testing.T) {
	unsampled := trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, Remote: true,
	}))
	for name, ctx := range map[string]context.Context{"no trace": context.Background(), "a trace that is not recorded": unsampled} {
		allocated := testing.AllocsPerRun(100, func() {
			stepping, step := span.Start(ctx, "step")
			_, exchange := span.Exchange(stepping, "payment", "2026010100000000000001")
			_, further := span.FurtherExchange(ctx, "payment", "2026010100000000000001")
			_, resolution := span.Resolution(ctx, nil, "2026010100000000000001", "")
			_, frame := span.Frame(ctx, nil, "0100", "2026010100000000000001", true)
			_, batch := span.Batch(ctx, "batch", nil)
			for _, s := range []trace.Span{step, exchange, further, resolution, frame, batch} {
				if s.IsRecording() {
					t.Error("a span is recorded")
				}
				s.End()
			}
			if stepping != ctx || span.TraceID(ctx) != "" {
				t.Error("the context is another, or names a trace")
			}
		})
		if allocated != 0 {
			t.Errorf("%s: %g allocations", name, allocated)
		}
	}
}
