package tracing

import (
	"context"
	"encoding/binary"
	"math/rand/v2"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/gwanmun/gwanmun/pkg/telemetry/span"
)

// newSampler goes by the parent. A root is recorded if what it is linked to was,
// so that a traced payment has a traced resolution; else by the ratio.
func newSampler(ratio float64) sdktrace.Sampler {
	return sdktrace.ParentBased(linked{sdktrace.TraceIDRatioBased(ratio)})
}

// linked is the sampler of roots.
type linked struct{ sdktrace.Sampler }

// ShouldSample implements sdktrace.Sampler.
func (l linked) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	for _, link := range p.Links {
		if link.SpanContext.IsSampled() {
			return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
		}
	}
	return l.Sampler.ShouldSample(p)
}

// Description implements sdktrace.Sampler.
func (l linked) Description() string { return "linked or " + l.Sampler.Description() }

// generator makes random IDs, and those that package span wants.
type generator struct{}

// NewIDs implements sdktrace.IDGenerator.
func (generator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	t, s := span.Forced(ctx)
	for !t.IsValid() {
		binary.NativeEndian.PutUint64(t[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(t[8:], rand.Uint64())
	}
	return t, valid(s)
}

// NewSpanID implements sdktrace.IDGenerator.
func (generator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	_, s := span.Forced(ctx)
	return valid(s)
}

// valid is s, or a random ID if s is none.
func valid(s trace.SpanID) trace.SpanID {
	for !s.IsValid() {
		binary.NativeEndian.PutUint64(s[:], rand.Uint64())
	}
	return s
}
