package payment_test

import (
	"context"
	"log/slog"
	"sync"
)

// logged is a slog.Handler that keeps the events, so that a test sees what an
// operator would.
type logged struct {
	mu     sync.Mutex
	events []string
}

// Enabled implements slog.Handler.
func (l *logged) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (l *logged) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, r.Level.String()+" "+r.Message)
	return nil
}

// WithAttrs implements slog.Handler.
func (l *logged) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler.
func (l *logged) WithGroup(string) slog.Handler { return l }

// times is how often an event was logged, as "LEVEL event".
func (l *logged) times(event string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, e := range l.events {
		if e == event {
			n++
		}
	}
	return n
}
