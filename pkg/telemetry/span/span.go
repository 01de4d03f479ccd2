// Package span marks the steps of a transaction for a trace. It begins a span
// only under one that is recorded: where nothing is traced, or this transaction
// is not, a step costs one look at its context and allocates nothing.
//
// It stands beside telemetry and knows the tracing API alone; what makes and
// sends spans is package tracing, which only the binaries know.
package span

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// scope names the instrumentation, as OpenTelemetry asks for.
const scope = "github.com/gwanmun/gwanmun/pkg/telemetry/span"

// What a span says. No key holds an account, an amount, or anything else of
// which a row would keep only a digest.
const (
	KeyTransactionID = attribute.Key("gwanmun.transaction_id")
	KeyCorrelationID = attribute.Key("gwanmun.correlation_id")
	KeyReason        = attribute.Key("gwanmun.reason")
	KeyTx            = attribute.Key("gwanmun.tx")
	KeyMTI           = attribute.Key("gwanmun.mti")
	KeyCircuit       = attribute.Key("gwanmun.circuit")
	KeySent          = attribute.Key("gwanmun.sent")
	KeyStatus        = attribute.Key("gwanmun.status")
	KeyEvidence      = attribute.Key("gwanmun.evidence")
	KeyResponseCode  = attribute.Key("gwanmun.response_code")
	KeyEffect        = attribute.Key("gwanmun.effect")
	KeyFault         = attribute.Key("gwanmun.fault_id")
	KeyLane          = attribute.Key("gwanmun.lane")
	KeyMethod        = attribute.Key("gwanmun.resolution_method")
	KeyRows          = attribute.Key("gwanmun.rows")
)

// none is the span of what is not traced.
var none trace.Span = noop.Span{}

// Start begins a span under the one that ctx carries. If that is not recorded,
// ctx comes back as it is, with a span that does nothing. Attributes are worth
// making only for a span that IsRecording.
func Start(ctx context.Context, name string) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, none
	}
	return tracerOf(parent).Start(ctx, name)
}

// Fail marks a span as failed. The text must be one of ours: an error may quote
// what a peer sent.
func Fail(s trace.Span, text string) { s.SetStatus(codes.Error, text) }

// TraceID is the trace of ctx in hex, as ledger rows and exemplars name it;
// empty unless the trace is recorded, so that what is named can be looked at.
func TraceID(ctx context.Context) string {
	c := trace.SpanContextFromContext(ctx)
	if !c.IsValid() || !c.IsSampled() {
		return ""
	}
	return c.TraceID().String()
}

func tracerOf(s trace.Span) trace.Tracer { return Tracer(s.TracerProvider()) }

// Tracer is the one that this package's spans are begun with; nil for no
// provider.
func Tracer(p trace.TracerProvider) trace.Tracer {
	if p == nil {
		return nil
	}
	return p.Tracer(scope)
}
