package tracing

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// dropped counts spans that no collector has.
type dropped struct{ full, unsent prometheus.Counter }

func newDropped(registry prometheus.Registerer) dropped {
	count := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gwanmun_spans_dropped_total",
		Help: "Spans that were not delivered: for want of a place in the queue (full), or because the collector did not take them (unsent).",
	}, []string{"reason"})
	registry.MustRegister(count)
	return dropped{full: count.WithLabelValues("full"), unsent: count.WithLabelValues("unsent")}
}

// sender is the SDK's batch processor with an account of every span: one that
// ends here is delivered or counted. The SDK's own drops in silence.
type sender struct {
	sdktrace.SpanProcessor // the batch processor

	dropped dropped
	// unsent is how many wait or are on their way. Its bound is that of the batch
	// processor's queue, which therefore never drops.
	unsent atomic.Int64
	closed atomic.Bool
	// atEnd is how many were lost by the stop.
	atEnd atomic.Int64
	// giveUp ends every try to send.
	giveUp context.CancelFunc
	// ended is closed when every span is delivered or counted.
	ended chan struct{}
}

func newSender(e sdktrace.SpanExporter, d dropped) *sender {
	quit, giveUp := context.WithCancel(context.Background())
	s := &sender{dropped: d, giveUp: giveUp, ended: make(chan struct{})}
	s.SpanProcessor = sdktrace.NewBatchSpanProcessor(&exporter{next: e, s: s, quit: quit},
		sdktrace.WithMaxQueueSize(maxUnsent), sdktrace.WithMaxExportBatchSize(maxBatch),
		sdktrace.WithBatchTimeout(sendEvery), sdktrace.WithExportTimeout(sendTimeout))
	return s
}

// OnEnd implements sdktrace.SpanProcessor. It never waits.
func (s *sender) OnEnd(span sdktrace.ReadOnlySpan) {
	switch {
	case !span.SpanContext().IsSampled():
	case s.closed.Load():
		s.dropped.unsent.Inc()
	case s.unsent.Add(1) > maxUnsent:
		s.unsent.Add(-1)
		s.dropped.full.Inc()
	default:
		s.SpanProcessor.OnEnd(span)
	}
}

// Shutdown implements sdktrace.SpanProcessor. When ctx ends what is left is given
// up: what is being sent is told so, and all of it is counted.
func (s *sender) Shutdown(ctx context.Context) error {
	s.closed.Store(true)
	err := s.SpanProcessor.Shutdown(ctx)
	s.giveUp()
	telling := time.NewTimer(lastWords)
	defer telling.Stop()
	select {
	case <-s.ended:
	case <-telling.C:
	}
	return err
}

// settled takes spans off the account, and counts those that were not sent.
func (s *sender) settled(n int, err error) {
	s.unsent.Add(-int64(n))
	if err == nil {
		return
	}
	s.dropped.unsent.Add(float64(n))
	if s.closed.Load() {
		s.atEnd.Add(int64(n))
	}
}

// lost is how many spans the stop has lost.
func (s *sender) lost() int64 { return s.atEnd.Load() + s.unsent.Load() }

// exporter sends, and settles the account.
type exporter struct {
	next sdktrace.SpanExporter
	s    *sender
	// quit ends every try.
	quit context.Context //nolint:containedctx // the life of the sender
	once sync.Once
	err  error
}

// ExportSpans implements sdktrace.SpanExporter.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.quit, cancel)() //nolint:contextcheck // the end of all tries, beside that of this one
	err := e.next.ExportSpans(ctx, spans)
	e.s.settled(len(spans), err)
	return err
}

// Shutdown implements sdktrace.SpanExporter.
func (e *exporter) Shutdown(ctx context.Context) error {
	e.once.Do(func() {
		e.err = e.next.Shutdown(ctx)
		close(e.s.ended)
	})
	return e.err
}
