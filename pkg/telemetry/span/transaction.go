package span

import (
	"context"
	"crypto/sha256"

	"go.opentelemetry.io/otel/trace"

	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Frames have no room for trace headers, and a row keeps a trace's ID and no
// span's. What would be carried there is derived from the transaction ID: both
// ends of a link know it, and nothing has to travel.

// names are the IDs that follow from a transaction ID.
type names struct {
	coreTrace trace.TraceID
	// coreRoot is the core's span of the payment telegram, exchange the span of
	// the exchange in which the transaction was made.
	coreRoot, exchange trace.SpanID
}

func namesOf(id tranid.ID) names {
	sum := sha256.Sum256([]byte(id))
	return names{
		coreTrace: trace.TraceID(sum[:16]),
		coreRoot:  trace.SpanID(sum[16:24]),
		exchange:  trace.SpanID(sum[24:]),
	}
}

// remote is a span of another process, to be linked to.
func remote(t trace.TraceID, s trace.SpanID) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: t, SpanID: s, TraceFlags: trace.FlagsSampled, Remote: true})
}

// CoreRoot is the core's span of the telegram that asked for a transaction. The
// core's other spans about it are in the same trace.
func CoreRoot(id tranid.ID) trace.SpanContext {
	n := namesOf(id)
	return remote(n.coreTrace, n.coreRoot)
}

// Origin is the span of the exchange in which a transaction was made, in the
// trace that its row names; invalid if the row names none.
func Origin(traceID string, id tranid.ID) trace.SpanContext {
	t, err := trace.TraceIDFromHex(traceID)
	if err != nil { // it was not traced
		return trace.SpanContext{}
	}
	return remote(t, namesOf(id).exchange)
}

// idsKey carries IDs that the next span is to have.
type idsKey struct{}

// Forced are the IDs that the span which is begun with ctx must have; the zero
// ones are free.
func Forced(ctx context.Context) (trace.TraceID, trace.SpanID) {
	ids, _ := ctx.Value(idsKey{}).(trace.SpanContext)
	return ids.TraceID(), ids.SpanID()
}

// forced asks for IDs. The context must not go on to other spans.
func forced(ctx context.Context, t trace.TraceID, s trace.SpanID) context.Context {
	return context.WithValue(ctx, idsKey{}, trace.NewSpanContext(trace.SpanContextConfig{TraceID: t, SpanID: s}))
}

// Exchange begins the span of the exchange in which a transaction is made,
// linked to the core's: there is one for each.
func Exchange(ctx context.Context, tx string, id tranid.ID) (context.Context, trace.Span) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, none
	}
	n := namesOf(id)
	return exchange(ctx, forced(ctx, trace.TraceID{}, n.exchange), tx, id)
}

// FurtherExchange begins the span of an exchange about a transaction that was
// made before, linked to the core's.
func FurtherExchange(ctx context.Context, tx string, id tranid.ID) (context.Context, trace.Span) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, none
	}
	return exchange(ctx, ctx, tx, id)
}

// exchange begins the span with begin, which is ctx with the wish for an ID: that
// must not go on to other spans.
func exchange(ctx, begin context.Context, tx string, id tranid.ID) (context.Context, trace.Span) {
	_, s := tracerOf(trace.SpanFromContext(ctx)).Start(begin, "exchange",
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithLinks(trace.Link{SpanContext: CoreRoot(id)}),
		trace.WithAttributes(KeyTx.String(tx), KeyTransactionID.String(string(id))))
	return trace.ContextWithSpan(ctx, s), s
}

// Resolution begins the span of an attempt to make a transaction final: under
// that of ctx, or else as a root by the tracer, which may be nil. It is linked
// to where the transaction was made, and recorded if that was.
func Resolution(ctx context.Context, tracer trace.Tracer, id tranid.ID, traceID string) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	switch {
	case parent.IsRecording():
		tracer = tracerOf(parent)
	case tracer == nil, parent.SpanContext().IsValid(): // a trace that is not recorded
		return ctx, none
	}
	options := []trace.SpanStartOption{trace.WithAttributes(KeyTransactionID.String(string(id)))}
	if origin := Origin(traceID, id); origin.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: origin}))
	}
	return tracer.Start(ctx, "resolution", options...)
}

// Frame begins the core's own span of a telegram, in the trace that its
// transaction ID names, by the tracer, which may be nil. first is true for the
// telegram that asks for the transaction, and once at most.
func Frame(ctx context.Context, tracer trace.Tracer, mti string, id tranid.ID, first bool) (context.Context, trace.Span) {
	if tracer == nil {
		return ctx, none
	}
	n := namesOf(id)
	if !first {
		n.coreRoot = trace.SpanID{}
	}
	_, s := tracer.Start(forced(ctx, n.coreTrace, n.coreRoot), "core "+mti, trace.WithNewRoot(),
		trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(KeyMTI.String(mti), KeyTransactionID.String(string(id))))
	return trace.ContextWithSpan(ctx, s), s
}

// Batch begins the span of work that is done for several at once: under the
// first of theirs that is recorded, and linked to the others'.
func Batch(ctx context.Context, name string, askers []trace.Span) (context.Context, trace.Span) {
	if len(askers) == 0 {
		return ctx, none
	}
	first := askers[0]
	links := make([]trace.Link, 0, len(askers)-1)
	for _, other := range askers[1:] {
		links = append(links, trace.Link{SpanContext: other.SpanContext()})
	}
	return tracerOf(first).Start(trace.ContextWithSpan(ctx, first), name, trace.WithLinks(links...))
}
