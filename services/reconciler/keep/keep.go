// Package keep keeps the ledger from growing for ever: it unbinds idempotency
// keys that have ended, and deletes business days that are older than what is to
// be retained, where that is asked for (DESIGN §7, §10).
//
// It stands between the clock and ledger.Keeper, which says what may go; all that
// is decided here is when to ask. Each step is one small database transaction with
// a pause after it, so that payments are not kept waiting. Any number of
// reconcilers may keep one ledger.
package keep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Flags are the settings of a keeper.
type Flags struct {
	RetainDays int `default:"0" help:"Delete business days older than so many whole days from the ledger, once all of a day is final and its keys have ended; 0 keeps everything." name:"retain-days"`
}

// maxRetainDays is a hundred years.
const maxRetainDays = 36_525

// Validate reports what is wrong with the settings, in one line.
func (f *Flags) Validate() error {
	if f.RetainDays < 0 || f.RetainDays > maxRetainDays {
		return fmt.Errorf("--retain-days must be 0 to %d", maxRetainDays)
	}
	return nil
}

const (
	// interval is how often it is looked whether something may go.
	interval = time.Minute
	// stepTime bounds one step.
	stepTime = 5 * time.Second
	// minPause is the least time between two steps. The pause is never shorter
	// than the step before it was, so that half of the time is others'.
	minPause = 20 * time.Millisecond
	// keysPerStep and rowsPerStep are what one database transaction changes: of
	// SQLite, it is the only one that writes for so long.
	keysPerStep = 100
	rowsPerStep = 50
	// clockStep is the difference between what passed by the clock on the wall and
	// what passed by the one that is never set, beyond which no day is retired.
	clockStep = time.Hour
)

// Options are what a keeper is made of. Every field is required.
type Options struct {
	Flags    Flags
	Logger   *slog.Logger
	Registry prometheus.Registerer
	// Now is the clock on the wall.
	Now func() time.Time
	// Uptime is a clock that is never set: what passed since some moment.
	Uptime func() time.Duration
}

// Keeper keeps a ledger. Run is called once.
type Keeper struct {
	store  ledger.Keeper
	opts   Options
	log    *slog.Logger
	keys   prometheus.Counter
	rows   prometheus.Counter
	booted time.Time // by the clock on the wall, when Uptime was 0

	// What is being retired, for the line that tells of it, and why days are held;
	// the retiring loop's alone.
	sums map[tranid.Date]ledger.Retirement
	held map[tranid.Date]ledger.Hold
}

// New returns a Keeper and registers its metrics. It starts nothing: Run does.
func New(store ledger.Keeper, o Options) *Keeper {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	k := &Keeper{
		store:  store,
		opts:   o,
		log:    o.Logger,
		keys:   counter("gwanmun_ledger_purged_keys_total", "Idempotency keys that were unbound because their life was over."),
		rows:   counter("gwanmun_ledger_retired_rows_total", "Transactions that were deleted with their business day."),
		booted: o.Now().Round(0).Add(-o.Uptime()),
		sums:   make(map[tranid.Date]ledger.Retirement),
		held:   make(map[tranid.Date]ledger.Hold),
	}
	o.Registry.MustRegister(k.keys, k.rows)
	return k
}

// Run looks at once and then every minute what may go, until ctx is done.
func (k *Keeper) Run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { k.every(ctx, "keys not purged", k.purge) })
	if k.opts.Flags.RetainDays > 0 {
		loops.Go(func() { k.every(ctx, "days not retired", k.retire) })
	}
	loops.Wait()
}

// every calls work at once and then every interval, never twice at a time. What
// fails is told, and tried again the next time.
func (k *Keeper) every(ctx context.Context, failed string, work func(context.Context) error) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		k.tell(ctx, failed, guarded(func() error { return work(ctx) }))
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// panicError is a panic in a pass, which ends that pass alone.
type panicError struct {
	value any
	stack []byte
}

// Error says that it was a panic, without what it was about.
func (e *panicError) Error() string { return "panic while keeping the ledger" }

func guarded(work func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{value: v, stack: debug.Stack()}
		}
	}()
	return work()
}

func (k *Keeper) tell(ctx context.Context, failed string, err error) {
	var panicked *panicError
	switch {
	case err == nil:
	case errors.As(err, &panicked):
		k.log.ErrorContext(ctx, failed, "error", err, "panic", panicked.value, "stack", string(panicked.stack))
	case ctx.Err() == nil:
		k.log.WarnContext(ctx, failed, "error", err)
	}
}

// pass takes steps, with a pause after each, until one says that it was the last.
func (k *Keeper) pass(ctx context.Context, step func(context.Context) (more bool, err error)) error {
	for ctx.Err() == nil {
		begun := k.opts.Uptime()
		limited, cancel := context.WithTimeout(ctx, stepTime)
		more, err := step(limited)
		cancel()
		if err != nil || !more {
			return err
		}
		pause := time.NewTimer(max(minPause, k.opts.Uptime()-begun))
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
	}
	return nil
}

// purge unbinds all keys whose life is over.
func (k *Keeper) purge(ctx context.Context) error {
	return k.pass(ctx, func(ctx context.Context) (bool, error) {
		purge, err := k.store.PurgeKeys(ctx, keysPerStep)
		if err != nil {
			return false, fmt.Errorf("purge keys: %w", err)
		}
		k.keys.Add(float64(purge.Unbound))
		return purge.Unbound+purge.Kept >= keysPerStep, nil
	})
}
