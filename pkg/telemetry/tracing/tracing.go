// Package tracing makes and sends the spans that package span begins: the
// OpenTelemetry SDK, and an exporter that speaks OTLP over gRPC. Only the
// binaries know it. Without an endpoint there is none of it, and nothing is
// traced.
//
// A collector that is slow, dead or a black hole takes spans and nothing else:
// what is ended waits in a bounded queue, what finds no place there or cannot
// be sent is counted.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/gwanmun/gwanmun/pkg/telemetry"
	"github.com/gwanmun/gwanmun/pkg/telemetry/span"
)

// The bounds of what is kept and waited for.
const (
	// maxUnsent is how many ended spans may wait or be on their way.
	maxUnsent = 2048
	// maxBatch is how many are sent at once.
	maxBatch = 512
	// sendEvery is how long a span waits for others.
	sendEvery = time.Second
	// sendTimeout bounds one try to send, its retries included.
	sendTimeout = 5 * time.Second
	// maxText bounds each attribute: a statement of SQL may be long.
	maxText = 2048
	// longestFlush is how much of a stop's time the last spans may take, and
	// lastWords how long those that are given up may take to be counted.
	longestFlush = 2 * time.Second
	lastWords    = 200 * time.Millisecond
)

// Flags are the settings of tracing. The binary's kong variable trace_ratio is
// the default of how much is traced.
type Flags struct {
	Endpoint string  `help:"Send traces to this OTLP collector, over gRPC; unset, nothing is traced." name:"otlp-endpoint" placeholder:"HOST:PORT"`
	TLS      bool    `help:"Speak TLS to the collector; OTEL_EXPORTER_OTLP_CERTIFICATE names who signs its certificate." name:"otlp-tls"`
	Ratio    float64 `default:"${trace_ratio}" help:"The share of calls that are traced, 0 to 1, of those whose caller has not decided it." name:"trace-ratio"`
}

// Validate reports what is wrong with the settings, in one line.
func (f *Flags) Validate() error {
	if f.Ratio < 0 || f.Ratio > 1 || math.IsNaN(f.Ratio) {
		return errors.New("--trace-ratio must be 0 to 1")
	}
	if f.Endpoint == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(f.Endpoint)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 || host == "" {
		return fmt.Errorf("--otlp-endpoint: %q is not host:port", f.Endpoint)
	}
	return nil
}

// Options are what a Tracing is made of. All are required.
type Options struct {
	// Flags must satisfy Validate.
	Flags Flags
	// Service is what the process is, Instance which one.
	Service, Instance string
	Logger            *slog.Logger
	Registry          prometheus.Registerer
	// Now is the clock by which complaints are kept few.
	Now func() time.Time
}

// Tracing is the way of a process's spans to the collector. The zero Tracing
// traces nothing.
type Tracing struct {
	provider *sdktrace.TracerProvider
	sender   *sender
	logger   *slog.Logger
}

// New starts what sends spans, or nothing if the flags name no collector. It
// connects to none: one that is not there yet may come.
//
// What a collector needs besides is read from the environment, as OpenTelemetry
// defines it: OTEL_EXPORTER_OTLP_HEADERS, _TIMEOUT, _COMPRESSION, _CERTIFICATE,
// _CLIENT_CERTIFICATE and _CLIENT_KEY, or the same after OTEL_EXPORTER_OTLP_TRACES,
// and OTEL_RESOURCE_ATTRIBUTES. Endpoint and sampling are the flags' alone.
func New(ctx context.Context, o Options) (*Tracing, error) {
	counts := newDropped(o.Registry)
	if o.Flags.Endpoint == "" {
		return &Tracing{}, nil
	}
	complain := &complaints{logger: o.Logger, now: o.Now}
	otel.SetErrorHandler(complain)
	otel.SetLogger(complain.sdkLogger())
	scheme := "http://" // as a URL, since that is stronger than OTEL_EXPORTER_OTLP_INSECURE
	if o.Flags.TLS {
		scheme = "https://"
	}
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(scheme+o.Flags.Endpoint))
	if err != nil {
		return nil, fmt.Errorf("make the exporter of spans: %w", err)
	}
	about, err := resource.New(ctx, resource.WithFromEnv(), resource.WithAttributes(
		semconv.ServiceNamespace("gwanmun"), semconv.ServiceName(o.Service),
		semconv.ServiceVersion(telemetry.Version()), semconv.ServiceInstanceID(o.Instance),
	))
	if err != nil {
		return nil, fmt.Errorf("name the source of spans: %w", err)
	}
	send := newSender(exporter, counts)
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = maxText
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(about),
		sdktrace.WithSampler(newSampler(o.Flags.Ratio)),
		sdktrace.WithIDGenerator(generator{}),
		sdktrace.WithRawSpanLimits(limits),
		sdktrace.WithSpanProcessor(send),
	)
	o.Logger.InfoContext(ctx, "tracing", "otlp_endpoint", o.Flags.Endpoint, "tls", o.Flags.TLS, "ratio", o.Flags.Ratio)
	return &Tracing{provider: provider, sender: send, logger: o.Logger}, nil
}

// Provider is nil when nothing is traced.
func (t *Tracing) Provider() trace.TracerProvider {
	if t.provider == nil {
		return nil // and not an interface that holds nil
	}
	return t.provider
}

// Tracer is what roots are begun with; nil when nothing is traced.
func (t *Tracing) Tracer() trace.Tracer { return span.Tracer(t.Provider()) }

// Shutdown sends what waits, for two seconds at most and not beyond the end of
// ctx, and says how many spans are lost. That is no failure of a stop: it is the
// last step of one, and nothing else depends on it.
func (t *Tracing) Shutdown(ctx context.Context) {
	if t.provider == nil {
		return
	}
	flushing, cancel := context.WithTimeout(ctx, longestFlush)
	defer cancel()
	err := t.provider.Shutdown(flushing)
	if lost := t.sender.lost(); lost > 0 || err != nil {
		t.logger.WarnContext(ctx, "spans lost at the end", "count", lost, "error", err)
	}
}
