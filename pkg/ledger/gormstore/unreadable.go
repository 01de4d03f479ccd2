package gormstore

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

const (
	// A row that cannot be read is told once in tellEvery, however often it is met,
	// and no more than maxTold are.
	tellEvery = time.Minute
	maxTold   = 100
)

// unreadable tells of rows that hold what no row may, and counts them.
type unreadable struct {
	log  *slog.Logger
	now  func() time.Time
	rows prometheus.Counter

	mu sync.Mutex
	// told are the rows that were told since then.
	told  map[string]struct{}
	since time.Time
}

func newUnreadable(o *Options) *unreadable {
	return &unreadable{log: o.Logger, now: o.Now, rows: promauto.With(o.Registry).NewCounter(prometheus.CounterOpts{
		Name: "gwanmun_ledger_unreadable_rows_total",
		Help: "Rows of the ledger that were read and hold what no row may, each time.",
	})}
}

// count counts rows that were met.
func (u *unreadable) count(rows int64) { u.rows.Add(float64(rows)) }

// tell says what is wrong with a row, unless that was said lately.
func (u *unreadable) tell(ctx context.Context, id string, err error) {
	switch said := u.note(id); {
	case said < maxTold:
		u.log.ErrorContext(ctx, "row cannot be read", "transaction_id", clip(id), "error", err)
	case said == maxTold:
		u.log.ErrorContext(ctx, "more rows cannot be read, and are not told for now", "told", maxTold)
	}
}

// clip is as much of a text as an ID has: what stands in its place may be anything.
func clip(id string) string { return id[:min(len(id), 22)] }

// note is how many others were told lately; more than maxTold for a row that was,
// too.
func (u *unreadable) note(id string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now := u.now(); u.told == nil || now.Sub(u.since) >= tellEvery {
		u.told, u.since = make(map[string]struct{}), now
	}
	others := len(u.told)
	if _, again := u.told[id]; again || others > maxTold {
		return maxTold + 1
	}
	u.told[id] = struct{}{}
	return others
}
