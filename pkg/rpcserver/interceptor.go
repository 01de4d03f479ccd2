package rpcserver

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gwanmun/gwanmun/pkg/rpcerr"
	"github.com/gwanmun/gwanmun/pkg/telemetry"
)

// correlationHeader carries the correlation ID, in and out.
const correlationHeader = "x-correlation-id"

// begin puts call and correlation ID on the context and the ID into the header
// of the answer.
func (s *Server) begin(ctx context.Context, m *method, setHeader func(metadata.MD) error) (context.Context, *call) {
	id := incomingCorrelationID(ctx)
	if id == "" {
		id = telemetry.NewCorrelationID()
	}
	// It fails only once the header is sent, and no handler has run yet.
	_ = setHeader(metadata.MD{correlationHeader: {id}})
	c := &call{method: m, stopping: s.stopping}
	ctx = telemetry.WithCorrelationID(ctx, id)
	nameCall(ctx)
	// The span, or that there is none, is asked for at each step of a payment: it
	// stands in front of what gRPC has put on the context.
	return trace.ContextWithSpan(context.WithValue(ctx, callKey{}, c), trace.SpanFromContext(ctx)), c
}

// incomingCorrelationID is the caller's own; empty if it is not valid, or not
// one.
func incomingCorrelationID(ctx context.Context) string {
	ids := metadata.ValueFromIncomingContext(ctx, correlationHeader)
	if len(ids) != 1 || !telemetry.ValidCorrelationID(ids[0]) {
		return ""
	}
	return ids[0]
}

// streamBegin knows the call, counts it as running and gives it its names.
func (s *Server) streamBegin(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	m := s.method(info.FullMethod)
	m.running.Add(1)
	defer m.running.Add(-1)
	ctx, _ := s.begin(stream.Context(), m, stream.SetHeader)
	return next(srv, &callStream{ServerStream: stream, ctx: ctx})
}

// callStream is a stream under another context.
type callStream struct {
	grpc.ServerStream

	ctx context.Context // it is how gRPC hands a stream's context on
}

// Context is that of the call.
func (s *callStream) Context() context.Context { return s.ctx }

// streamLog writes the one line of an rpc.
func (s *Server) streamLog(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	began := time.Now()
	err := next(srv, stream)
	s.logCall(stream.Context(), callOf(stream.Context()), status.Code(err), time.Since(began))
	return err
}

// streamErrors makes the status of what a use case returns, and keeps the error
// itself for the log.
func streamErrors(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	err := next(srv, stream)
	if err == nil {
		return nil
	}
	return failed(stream.Context(), callOf(stream.Context()), err)
}

func failed(ctx context.Context, c *call, err error) error {
	c.err = err
	return rpcerr.ToStatus(ctx, err).Err()
}

// errUnknownMethod is the answer to what is not served. gRPC's own would repeat
// the path, which is input.
var errUnknownMethod = status.Error(codes.Unimplemented, "unknown method")

func unknownMethod(any, grpc.ServerStream) error { return errUnknownMethod }

// countKnown keeps what is not served out of the metrics: anyone could make new
// series otherwise.
func countKnown(s *Server, count grpc.StreamServerInterceptor) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if s.method(info.FullMethod) == s.unknown {
			return next(srv, stream)
		}
		return count(srv, stream, info, next)
	}
}
