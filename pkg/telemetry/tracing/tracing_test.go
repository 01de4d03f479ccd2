package tracing

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/gwanmun/gwanmun/pkg/telemetry/otlptest"
	"github.com/gwanmun/gwanmun/pkg/telemetry/span"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

const someID = tranid.ID("2026010100000000000001")

// start is a Tracing that sends to the endpoint, and its log.
func start(t *testing.T, endpoint string, ratio float64) (*Tracing, *log) {
	t.Helper()
	return startWith(t, Flags{Endpoint: endpoint, Ratio: ratio})
}

func startWith(t *testing.T, flags Flags) (*Tracing, *log) {
	t.Helper()
	out := &log{}
	traces, err := New(t.Context(), Options{
		Flags: flags, Service: "payment", Instance: "payment-1",
		Logger: slog.New(slog.NewJSONHandler(out, nil)), Registry: prometheus.NewRegistry(), Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	return traces, out
}

// log is what was logged.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

func TestNew_TracesNothingWithoutAnEndpoint(t *testing.T) {
	traces, out := start(t, "", 1)
	if traces.Provider() != nil || traces.Tracer() != nil || out.count("\n") != 0 {
		t.Errorf("provider %v, tracer %v, %d lines", traces.Provider(), traces.Tracer(), out.count("\n"))
	}
	traces.Shutdown(t.Context())
}

func TestShutdown_SendsWhatWaits(t *testing.T) {
	collector := otlptest.Start(t)
	traces, out := start(t, collector.Addr(), 1)
	_, root := traces.Tracer().Start(t.Context(), "last words")
	root.End()
	traces.Shutdown(t.Context())
	if spans := collector.Spans(); len(spans) != 1 || spans[0].Name != "last words" || spans[0].Service != "payment" {
		t.Errorf("spans are %+v", spans)
	}
	for _, about := range []string{"service.instance.id", "payment-1", "service.version", "gwanmun"} {
		if !bytes.Contains(collector.Raw(), []byte(about)) {
			t.Errorf("the resource does not tell %s", about)
		}
	}
	if out.count("lost") != 0 {
		t.Error("something is said to be lost")
	}
}

func TestTLS_IsSpokenWhereTheFlagSaysSo(t *testing.T) {
	collector, authority := otlptest.StartTLS(t)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", file)
	t.Setenv("OTEL_EXPORTER_OTLP_INSECURE", "true") // the flag says otherwise
	traces, _ := startWith(t, Flags{Endpoint: collector.Addr(), Ratio: 1, TLS: true})
	_, root := traces.Tracer().Start(t.Context(), "in private")
	root.End()
	traces.Shutdown(t.Context())
	if spans := collector.Spans(); len(spans) != 1 {
		t.Errorf("spans are %+v", spans)
	}
}

func TestTLS_NothingLeavesInTheClearForACollectorThatSpeaksNone(t *testing.T) {
	collector := otlptest.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_INSECURE", "true")
	traces, out := startWith(t, Flags{Endpoint: collector.Addr(), Ratio: 1, TLS: true})
	_, root := traces.Tracer().Start(t.Context(), "in private")
	root.End()
	budget, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	traces.Shutdown(budget)
	if spans := collector.Spans(); len(spans) != 0 || out.count("spans lost") != 1 {
		t.Errorf("spans are %+v, the log is %s", spans, out.text.String())
	}
}

// The two ends of a link are in different processes and share nothing but the
// transaction ID, and the row.
func TestSpans_FindEachOtherByTheTransactionID(t *testing.T) {
	collector := otlptest.Start(t)
	traces, _ := start(t, collector.Addr(), 0.5)
	root := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, Remote: true,
	}))
	rpc, rpcSpan := traces.Tracer().Start(root, "rpc")
	row := span.TraceID(rpc)
	exchanging, exchange := span.Exchange(rpc, "payment", someID)
	_, attempt := span.Start(exchanging, "attempt")
	attempt.End()
	exchange.End()
	rpcSpan.End()
	_, resolution := span.Resolution(t.Context(), traces.Tracer(), someID, row)
	resolution.End()
	always, _ := start(t, collector.Addr(), 1) // the core's own
	_, paid := span.Frame(t.Context(), always.Tracer(), "0100", someID, true)
	paid.End()
	_, asked := span.Frame(t.Context(), always.Tracer(), "0400", someID, false)
	asked.End()
	traces.Shutdown(t.Context())
	always.Shutdown(t.Context())

	got := map[string]otlptest.Span{}
	for _, s := range collector.Spans() {
		got[s.Name] = s
	}
	core, own := got["core 0100"], got["exchange"]
	switch {
	case len(got) != 6:
		t.Errorf("spans are %+v", got)
	case len(own.Links) != 1 || own.Links[0] != (otlptest.Link{TraceID: core.TraceID, SpanID: core.SpanID}):
		t.Errorf("the exchange links to %v, the core's span is %s %s", own.Links, core.TraceID, core.SpanID)
	case core.Parent != "" || got["core 0400"].TraceID != core.TraceID || got["core 0400"].SpanID == core.SpanID:
		t.Errorf("the core's spans are %+v and %+v", core, got["core 0400"])
	case got["attempt"].Parent != own.SpanID || got["attempt"].SpanID == own.SpanID || own.Parent != got["rpc"].SpanID:
		t.Errorf("parents are wrong: %+v", got)
	}
	if r := got["resolution"]; len(r.Links) != 1 || r.Links[0] != (otlptest.Link{TraceID: own.TraceID, SpanID: own.SpanID}) || r.TraceID == own.TraceID {
		t.Errorf("the resolution %+v does not link to the exchange %+v", r, own)
	}
}

func TestSampling_GoesByTheCallerThenByTheLinkThenByTheRatio(t *testing.T) {
	collector := otlptest.Start(t)
	none, _ := start(t, collector.Addr(), 0)
	defer none.Shutdown(t.Context())
	if _, s := none.Tracer().Start(t.Context(), "by ratio"); s.IsRecording() {
		t.Error("a root is recorded with a ratio of 0")
	}
	if _, s := span.Resolution(t.Context(), none.Tracer(), someID, ""); s.IsRecording() {
		t.Error("the resolution of what was not traced is recorded with a ratio of 0")
	}
	if _, s := span.Resolution(t.Context(), none.Tracer(), someID, strings.Repeat("ab", 16)); !s.IsRecording() {
		t.Error("the resolution of a traced payment is not recorded")
	}
	all, _ := start(t, collector.Addr(), 1)
	defer all.Shutdown(t.Context())
	caller := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, Remote: true})
	ctx, s := all.Tracer().Start(trace.ContextWithRemoteSpanContext(t.Context(), caller), "by caller")
	if s.IsRecording() || span.TraceID(ctx) != "" {
		t.Error("a call is recorded whose caller's is not")
	}
	if ctx, s := span.Start(ctx, "step"); s.IsRecording() || trace.SpanContextFromContext(ctx).SpanID() == (trace.SpanID{}) {
		t.Error("a step is recorded in a call that is not, or hides it")
	}
}

// flood ends spans, in the manner of calls, and returns how long the slowest took.
func flood(ctx context.Context, traces *Tracing, count int) time.Duration {
	var slowest time.Duration
	for range count {
		begun := time.Now()
		_, s := traces.Tracer().Start(ctx, "call")
		s.SetAttributes(span.KeyTransactionID.String(string(someID)))
		s.End()
		slowest = max(slowest, time.Since(begun))
	}
	return slowest
}

// closedPort is an address at which nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// blackHole accepts, reads, and never answers.
func blackHole(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() {
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() { _ = listener.Close(); open.Wait() })
	return listener.Addr().String()
}

func TestCollector_DeadOrBlackHoleTakesSpansAndNothingElse(t *testing.T) {
	const calls = 200_000
	for name, address := range map[string]func(*testing.T) string{"dead": closedPort, "black hole": blackHole} {
		t.Run(name, func(t *testing.T) {
			traces, out := start(t, address(t), 1)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			if slowest := flood(t.Context(), traces, calls); slowest > time.Second {
				t.Errorf("a call waited %s for its span", slowest)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			// At most maxUnsent spans of about a kilobyte, and the exporter's frames.
			if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
				t.Errorf("the heap grew by %d bytes", grown)
			}
			if waiting := traces.sender.unsent.Load(); waiting > maxUnsent {
				t.Errorf("%d spans wait", waiting)
			}
			budget, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			begun := time.Now()
			traces.Shutdown(budget)
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("the stop took %s of 500ms", took)
			}
			d := traces.sender.dropped
			if full, unsent := testutil.ToFloat64(d.full), testutil.ToFloat64(d.unsent); full+unsent != calls || full == 0 || unsent == 0 {
				t.Errorf("%g found no place and %g were not sent, of %d", full, unsent, calls)
			}
			if out.count("spans lost at the end") != 1 || out.count("tracing fails") > 1 {
				t.Errorf("the log is %s", out.text.String())
			}
		})
	}
}

func TestComplaints_AreFew(t *testing.T) {
	out, now := &log{}, time.Now()
	c := &complaints{logger: slog.New(slog.NewJSONHandler(out, nil)), now: func() time.Time { return now }}
	otel.SetErrorHandler(c)
	for range 10 {
		otel.Handle(io.ErrUnexpectedEOF)
	}
	now = now.Add(complainEvery)
	otel.Handle(io.ErrUnexpectedEOF)
	if out.count("tracing fails") != 2 || out.count(`"not_told":9`) != 1 {
		t.Errorf("the log is %s", out.text.String())
	}
	c.sdkLogger().Error(io.EOF, "parse headers", "input", "api-key: s3cr3t")
	if out.count("parse headers") != 1 || out.count("s3cr3t") != 0 {
		t.Errorf("the log is %s", out.text.String())
	}
}

func TestValidate_NamesTheFlag(t *testing.T) {
	for _, c := range []struct {
		flags Flags
		names string
	}{
		{Flags{}, ""},
		{Flags{Endpoint: "jaeger:4317", Ratio: 1}, ""},
		{Flags{Endpoint: "jaeger"}, "--otlp-endpoint"},
		{Flags{Endpoint: "http://jaeger:4317"}, "--otlp-endpoint"},
		{Flags{Endpoint: ":4317"}, "--otlp-endpoint"},
		{Flags{Endpoint: "jaeger:0"}, "--otlp-endpoint"},
		{Flags{Ratio: -0.1}, "--trace-ratio"},
		{Flags{Ratio: 1.1}, "--trace-ratio"},
		{Flags{Ratio: math.NaN()}, "--trace-ratio"},
	} {
		err := c.flags.Validate()
		if (err == nil) != (c.names == "") || err != nil && !strings.Contains(err.Error(), c.names) {
			t.Errorf("%+v: %v, want %q", c.flags, err, c.names)
		}
	}
}
