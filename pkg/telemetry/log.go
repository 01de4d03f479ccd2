// Package telemetry is what every binary tells about itself: its log, its
// metrics registry, and the correlation ID that ties a caller's request to log
// lines and ledger rows.
//
// It stands at the bottom of the house, beside account and tranid, and knows
// neither RPC nor ledger.
package telemetry

import (
	"context"
	"io"
	"log/slog"
	"slices"

	"go.opentelemetry.io/otel/trace"
)

// NewLogger returns a logger that writes one JSON object a line to w: time in
// UTC, level, msg, service, and when the context carries them correlation_id,
// trace_id and span_id, always at the top level. Whatever is logged, a line is one line of valid
// UTF-8: control and invisible characters are escaped and bad bytes replaced.
//
// Writes are serialised; w needs no lock of its own.
func NewLogger(w io.Writer, level slog.Level, service string) *slog.Logger {
	base := slog.NewJSONHandler(plainWriter{w: w}, &slog.HandlerOptions{Level: level})
	return slog.New(&handler{next: base}).With("service", service)
}

// handler adds the IDs of the context. slog puts what is added to a record into the
// innermost open group, so a handler with groups keeps the handler from before
// the first of them, and how it came from there.
type handler struct {
	next slog.Handler
	// outer is next before the first group was opened; nil if none is.
	outer slog.Handler
	// steps lead from outer to next, the first of them opening a group.
	steps []func(slog.Handler) slog.Handler
}

// Enabled asks the level.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle writes the line.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	r.Time = r.Time.UTC()
	var room [3]slog.Attr
	ids := idsOf(ctx, room[:0])
	if len(ids) == 0 {
		return h.next.Handle(ctx, r)
	}
	if h.outer == nil {
		r = r.Clone()
		r.AddAttrs(ids...)
		return h.next.Handle(ctx, r)
	}
	next := h.outer.WithAttrs(ids)
	for _, step := range h.steps {
		next = step(next)
	}
	return next.Handle(ctx, r)
}

// idsOf adds what ctx carries to ids. A trace that is not recorded has an ID, too:
// that of the caller, whose own lines may show it.
func idsOf(ctx context.Context, ids []slog.Attr) []slog.Attr {
	if id := CorrelationID(ctx); id != "" {
		ids = append(ids, slog.String("correlation_id", id))
	}
	if c := trace.SpanContextFromContext(ctx); c.IsValid() {
		ids = append(ids, slog.String("trace_id", c.TraceID().String()), slog.String("span_id", c.SpanID().String()))
	}
	return ids
}

// WithAttrs adds attributes to every line.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if h.outer == nil {
		return &handler{next: h.next.WithAttrs(attrs)}
	}
	return h.then(func(next slog.Handler) slog.Handler { return next.WithAttrs(attrs) })
}

// WithGroup opens a group; the IDs stay outside of it.
func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.then(func(next slog.Handler) slog.Handler { return next.WithGroup(name) })
}

func (h *handler) then(step func(slog.Handler) slog.Handler) slog.Handler {
	outer := h.outer
	if outer == nil {
		outer = h.next
	}
	steps := append(slices.Clone(h.steps), step) // h may have other children
	return &handler{next: step(h.next), outer: outer, steps: steps}
}
