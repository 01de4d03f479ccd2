package rpcserver_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/baggage"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/gwanmun/gwanmun/pkg/rpcserver"
	"github.com/gwanmun/gwanmun/pkg/telemetry"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

// traced serves p in memory, and returns a connection to it and its spans.
func traced(t *testing.T, p *payments) (*grpc.ClientConn, *tracetest.SpanRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	line := bufconn.Listen(1 << 20)
	server, err := rpcserver.New(rpcserver.Options{
		Flags: rpcserver.Flags{GRPCAddr: "grpc:1", AdminAddr: "admin:1"}, Logger: slog.New(slog.DiscardHandler),
		Registry: telemetry.NewRegistry(), Ready: func(context.Context) error { return nil },
		Register: func(r grpc.ServiceRegistrar) { paymentv1.RegisterPaymentServiceServer(r, p) },
		Services: roles, Tracer: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
		Listen: func(_ context.Context, _, address string) (net.Listener, error) {
			if address == "grpc:1" {
				return line, nil
			}
			return bufconn.Listen(1 << 10), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	conn, err := grpc.NewClient("passthrough:///edge", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return line.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		stop()
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return conn, spans
}

func TestTrace_ACallOfOursHasASpanUnderItsCallers(t *testing.T) {
	carried := make(chan int, 1)
	conn, spans := traced(t, &payments{create: func(ctx context.Context, _ *paymentv1.CreatePaymentRequest) (*paymentv1.CreatePaymentResponse, error) {
		carried <- baggage.FromContext(ctx).Len()
		return &paymentv1.CreatePaymentResponse{}, nil
	}})
	ctx := metadata.NewOutgoingContext(t.Context(), metadata.Pairs(
		"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "baggage", "food=biscuits",
		"x-correlation-id", "shop-1", "x-api-key", "k3y"))
	if _, err := paymentv1.NewPaymentServiceClient(conn).CreatePayment(ctx, good()); err != nil {
		t.Fatal(err)
	}
	if n := <-carried; n != 0 {
		t.Errorf("the handler has %d members of the caller's baggage", n)
	}
	ended := spans.Ended()
	if len(ended) != 1 {
		t.Fatalf("%d spans", len(ended))
	}
	s := ended[0]
	if s.SpanContext().TraceID().String() != "4bf92f3577b34da6a3ce929d0e0e4736" || s.Parent().SpanID().String() != "00f067aa0ba902b7" {
		t.Errorf("the span is in %s under %s", s.SpanContext().TraceID(), s.Parent().SpanID())
	}
	correlated := false
	for _, a := range s.Attributes() {
		correlated = correlated || a.Key == "gwanmun.correlation_id" && a.Value.AsString() == "shop-1"
		if text := a.Value.AsString(); strings.Contains(text, "k3y") || strings.Contains(text, "biscuits") {
			t.Errorf("the span tells %s", text)
		}
	}
	if !correlated {
		t.Errorf("the span's attributes are %v", s.Attributes())
	}
}

// Probes come all the time, and the path of what is not served is a stranger's.
func TestTrace_ProbesAndWhatIsNotServedHaveNoSpan(t *testing.T) {
	conn, spans := traced(t, &payments{})
	if _, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	err := conn.Invoke(t.Context(), "/no.such.Service/12345678901234", &grpc_health_v1.HealthCheckRequest{}, &grpc_health_v1.HealthCheckResponse{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("what is not served answers %v", err)
	}
	if started := spans.Started(); len(started) != 0 {
		t.Errorf("%d spans, the first is %s", len(started), started[0].Name())
	}
}
