package tracing

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// complainEvery is how long a collector that fails is worth no second line.
const complainEvery = time.Minute

// complaints is what the SDK has to say, few enough to be read.
type complaints struct {
	logger *slog.Logger
	now    func() time.Time

	mu   sync.Mutex
	next time.Time
	kept int
}

// Handle implements otel.ErrorHandler.
func (c *complaints) Handle(err error) {
	if kept, due := c.due(); due {
		c.logger.Warn("tracing fails", "error", err, "not_told", kept)
	}
}

// due reports whether another line may be written, and how many were not since
// the last.
func (c *complaints) due() (kept int, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if now.Before(c.next) {
		c.kept++
		return 0, false
	}
	c.next, kept, c.kept = now.Add(complainEvery), c.kept, 0
	return kept, true
}

// sdkLogger is where the SDK writes what is no error of its own work. Its values
// may be those of environment variables, and so a secret: they are left out.
func (c *complaints) sdkLogger() logr.Logger { return logr.New(sink{c}) }

type sink struct{ *complaints }

// Init implements logr.LogSink.
func (sink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink: errors and warnings.
func (sink) Enabled(level int) bool { return level <= 1 }

// Info implements logr.LogSink.
func (s sink) Info(_ int, msg string, _ ...any) {
	s.logger.LogAttrs(context.Background(), slog.LevelWarn, "tracing warns", slog.String("about", msg))
}

// Error implements logr.LogSink.
func (s sink) Error(_ error, msg string, _ ...any) { s.Info(0, msg) }

// WithValues implements logr.LogSink.
func (s sink) WithValues(...any) logr.LogSink { return s }

// WithName implements logr.LogSink.
func (s sink) WithName(string) logr.LogSink { return s }
