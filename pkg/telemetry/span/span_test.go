package span_test

import (
	"context"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/gwanmun/gwanmun/pkg/telemetry/span"
)

// A service without tracing passes through every one of these with each call.
func TestSpans_CostNothingWhereNothingIsTraced(t *testing.T) {
	unsampled := trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, Remote: true,
	}))
	ended, end := context.WithCancel(unsampled)
	end()
	for name, ctx := range map[string]context.Context{
		"no trace": context.Background(), "a trace that is not recorded": unsampled, "detached": span.Detach(ended),
	} {
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

func TestDetach_KeepsTheValuesAndNotTheEnd(t *testing.T) {
	type key struct{}
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), key{}, "v"), time.Hour)
	cancel()
	got := span.Detach(ctx)
	_, hasDeadline := got.Deadline()
	if got.Err() != nil || got.Done() != nil || hasDeadline || got.Value(key{}) != "v" {
		t.Errorf("err %v, done %v, deadline %t, value %v", got.Err(), got.Done(), hasDeadline, got.Value(key{}))
	}
	child, stop := context.WithTimeout(got, time.Hour)
	defer stop()
	if child.Err() != nil || context.Cause(child) != nil {
		t.Errorf("a child has ended: %v, %v", child.Err(), context.Cause(child))
	}
}
