package gormstore

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"gorm.io/gorm/logger"
)

// slowStatement is when a statement is worth a line.
const slowStatement = time.Second

// sqlLog is GORM's logger on slog. It tells statements without their values, and
// no errors: whoever called hears of those.
type sqlLog struct {
	log *slog.Logger
	// slow is from when on a statement is told of.
	slow time.Duration
}

// While it scans the result of a raw statement, GORM puts a recorder of its own
// in our logger's place, and asks this variable of its package about values. What
// it has against a type it tells a logger of its own, on the standard output, and
// the caller too.
func init() {
	logger.RecorderParamsFilter = withoutValues
	logger.Default = logger.Discard
}

func withoutValues(_ context.Context, text string, _ ...any) (string, []any) { return text, nil }

// LogMode changes nothing: the slog handler decides.
func (l sqlLog) LogMode(logger.LogLevel) logger.Interface { return l }

// Info passes on what GORM has to say; Warn and Error likewise.
func (l sqlLog) Info(ctx context.Context, text string, args ...any) {
	l.log.DebugContext(ctx, "gorm", "message", fmt.Sprintf(text, args...))
}

// Warn is Info of something that is degraded.
func (l sqlLog) Warn(ctx context.Context, text string, args ...any) {
	l.log.WarnContext(ctx, "gorm", "message", fmt.Sprintf(text, args...))
}

// Error is Info of something that failed.
func (l sqlLog) Error(ctx context.Context, text string, args ...any) {
	l.log.ErrorContext(ctx, "gorm", "message", fmt.Sprintf(text, args...))
}

// Trace tells of a slow statement.
func (l sqlLog) Trace(ctx context.Context, begin time.Time, statement func() (string, int64), _ error) {
	elapsed := time.Since(begin)
	if elapsed < l.slow || !l.log.Enabled(ctx, slog.LevelWarn) {
		return
	}
	text, rows := statement()
	l.log.WarnContext(ctx, "slow sql statement", "sql", text, "rows", rows, "elapsed", elapsed)
}

// ParamsFilter keeps the values of a statement out of every line.
func (l sqlLog) ParamsFilter(ctx context.Context, text string, values ...any) (string, []any) {
	return withoutValues(ctx, text, values...)
}
