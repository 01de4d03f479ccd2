// Package otlptest is a collector of traces for tests: it takes spans over OTLP,
// as Jaeger would, keeps them and shows them.
package otlptest

import (
	"context"
	"encoding/hex"
	"encoding/pem"
	"net"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"
)

// Span is a span as it came. IDs are in hex; Parent is empty for a root.
type Span struct {
	Service, Name           string
	TraceID, SpanID, Parent string
	Start, End              time.Time
	Failed                  bool
	// Attributes are those of the span, as text.
	Attributes map[string]string
	Links      []Link
}

// Link is where a span points to.
type Link struct{ TraceID, SpanID string }

// Collector takes spans. It is safe for concurrent use.
type Collector struct {
	collectorv1.UnimplementedTraceServiceServer

	address string

	mu      sync.Mutex
	spans   []Span
	raw     []byte
	changed chan struct{}
}

// Start starts a collector on loopback that ends with the test.
func Start(t testing.TB) *Collector {
	t.Helper()
	return start(t)
}

// StartTLS is Start for a collector that speaks TLS, and returns whom to trust, in
// PEM.
func StartTLS(t testing.TB) (c *Collector, authority []byte) {
	t.Helper()
	certified := httptest.NewTLSServer(nil) // its certificate is all that is used of it
	certified.Close()
	c = start(t, grpc.Creds(credentials.NewServerTLSFromCert(&certified.TLS.Certificates[0])))
	return c, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certified.Certificate().Raw})
}

func start(t testing.TB, options ...grpc.ServerOption) *Collector {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Collector{address: listener.Addr().String(), changed: make(chan struct{})}
	server := grpc.NewServer(options...)
	collectorv1.RegisterTraceServiceServer(server, c)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Errorf("the collector ended: %v", err)
		}
	})
	return c
}

// Addr is where it listens, as --otlp-endpoint names it.
func (c *Collector) Addr() string { return c.address }

// Export implements collectorv1.TraceServiceServer.
func (c *Collector) Export(_ context.Context, req *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	raw, err := proto.Marshal(req)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = append(c.raw, raw...)
	for _, resource := range req.GetResourceSpans() {
		service := texts(resource.GetResource().GetAttributes())["service.name"]
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, spanOf(service, s))
			}
		}
	}
	close(c.changed)
	c.changed = make(chan struct{})
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// Spans are all that came so far, by their start.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	spans := slices.Clone(c.spans)
	slices.SortStableFunc(spans, func(a, b Span) int { return a.Start.Compare(b.Start) })
	return spans
}

// Raw is every byte that came: what is in no message of it was not told.
func (c *Collector) Raw() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.raw)
}

// Wait waits until a span that fits has come, and returns the first such.
func (c *Collector) Wait(t testing.TB, patience time.Duration, what string, fits func(*Span) bool) Span {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		spans := c.Spans()
		if i := slices.IndexFunc(spans, func(s Span) bool { return fits(&s) }); i >= 0 {
			return spans[i]
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("no span: %s; there are %d: %+v", what, len(spans), spans)
		}
	}
}

func spanOf(service string, s *tracev1.Span) Span {
	span := Span{
		Service: service, Name: s.GetName(),
		TraceID: hex.EncodeToString(s.GetTraceId()), SpanID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
		Start: nanos(s.GetStartTimeUnixNano()), End: nanos(s.GetEndTimeUnixNano()),
		Failed:     s.GetStatus().GetCode() == tracev1.Status_STATUS_CODE_ERROR,
		Attributes: texts(s.GetAttributes()),
	}
	for _, link := range s.GetLinks() {
		span.Links = append(span.Links, Link{hex.EncodeToString(link.GetTraceId()), hex.EncodeToString(link.GetSpanId())})
	}
	return span
}

func nanos(n uint64) time.Time { return time.Unix(0, int64(n)) } //nolint:gosec // of our time

func texts(attributes []*commonv1.KeyValue) map[string]string {
	m := make(map[string]string, len(attributes))
	for _, a := range attributes {
		if text, ok := a.GetValue().GetValue().(*commonv1.AnyValue_StringValue); ok {
			m[a.GetKey()] = text.StringValue
		} else {
			m[a.GetKey()] = a.GetValue().String()
		}
	}
	return m
}
