package rpcserver

import (
	"context"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/attribute"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/telemetry"
	"github.com/gwanmun/gwanmun/pkg/telemetry/span"
)

// traced gives each call of ours a span, under that of its caller if one is
// named. Of the caller's headers it reads traceparent and tracestate alone: what
// a stranger puts into baggage has no business in here. Calls of what gRPC brings
// along have none, nor those of what is not served, whose names are input.
func (s *Server) traced(provider trace.TracerProvider) grpc.ServerOption {
	return grpc.StatsHandler(otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(provider),
		otelgrpc.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelgrpc.WithPropagators(propagation.TraceContext{}),
		otelgrpc.WithFilter(func(info *stats.RPCTagInfo) bool {
			m := s.method(info.FullMethodName)
			return m != s.unknown && !m.foreign
		}),
	))
}

// nameCall puts the correlation ID on a call's span.
func nameCall(ctx context.Context) {
	if rpc := trace.SpanFromContext(ctx); rpc.IsRecording() {
		rpc.SetAttributes(span.KeyCorrelationID.String(telemetry.CorrelationID(ctx)))
	}
}

// describeCall puts on a call's span what it was about and why it was refused.
func describeCall(ctx context.Context, c *call, reason ledger.Reason, refused bool) {
	rpc := trace.SpanFromContext(ctx)
	if !rpc.IsRecording() {
		return
	}
	var about []attribute.KeyValue
	if id := transactionID(c); id != "" {
		about = append(about, span.KeyTransactionID.String(id))
	}
	if refused {
		about = append(about, span.KeyReason.String(reason.String()))
	}
	rpc.SetAttributes(about...)
}
