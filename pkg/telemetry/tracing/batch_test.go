package tracing

import (
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/gwanmun/gwanmun/pkg/telemetry/otlptest"
	"github.com/gwanmun/gwanmun/pkg/telemetry/span"
)

// One commit stores the rows of several payments: it is shown to each of them.
func TestBatch_IsUnderItsFirstAskerAndLinkedToTheOthers(t *testing.T) {
	collector := otlptest.Start(t)
	traces, _ := start(t, collector.Addr(), 1)
	askers := make([]trace.Span, 3)
	for i := range askers {
		_, askers[i] = traces.Tracer().Start(t.Context(), "intent")
	}
	within, batch := span.Batch(t.Context(), "ledger batch", askers)
	if trace.SpanFromContext(within) != batch {
		t.Error("its statements are not under it")
	}
	batch.End()
	traces.Shutdown(t.Context())
	spans := collector.Spans()
	if len(spans) != 1 || spans[0].Parent != askers[0].SpanContext().SpanID().String() || len(spans[0].Links) != 2 {
		t.Fatalf("spans are %+v", spans)
	}
	for i, link := range spans[0].Links {
		if asker := askers[i+1].SpanContext(); link.TraceID != asker.TraceID().String() || link.SpanID != asker.SpanID().String() {
			t.Errorf("link %d is %v, the asker is %v", i, link, asker)
		}
	}
}
