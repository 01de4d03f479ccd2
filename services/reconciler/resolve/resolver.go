// Package resolve finds out what is not known: it makes UNKNOWN transactions
// final, on evidence alone (DESIGN §5, §8). A sweep does so on its own; an
// operator may ask for one transaction at once, and the same code answers.
//
// It stands between the ledger and the core and knows neither SQL nor sockets
// nor RPC. Several resolvers on one ledger share the work: leases save them
// from meeting, and where they meet, the ledger's compare-and-sets let one win.
//
// plan.go and backoff.go decide and touch nothing; attempt.go and owed.go carry out
// what they decide for one row; lane.go shares out rows, workers and connections,
// and pass.go and sweep.go find the rows. operator.go settles what an operator
// knows, and hint.go hurries what the core has hinted at.
package resolve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// Core is what the resolver needs of the way to the core: one exchange, and an
// exact account of what left and what came back. It ends by the call's
// deadline, and soon after ctx does.
type Core interface {
	Exchange(ctx context.Context, call corelink.Call) corelink.Result
}

// Flags are the settings of a resolver.
type Flags struct {
	SweepInterval time.Duration `default:"5s" help:"How often to look for transactions that are due; 60s is a sane production value."`
	MaxAttempts   int           `default:"10" help:"Attempts that the core answers without evidence, after which a transaction needs review; it is still asked."`
	CoreFences    bool          `default:"true" negatable:"" help:"The core refuses for ever a payment that it was told to net-cancel before it saw it."`
	LateWindow    time.Duration `default:"10m" help:"How long a request may be on its way to a core that does not fence."`
	Lease         time.Duration `default:"8s" help:"How long a claimed transaction is this process's to resolve; should the process die, it waits for no longer."`
}

// The bounds of what can be set.
const (
	minSweepInterval = 10 * time.Millisecond
	// With a shorter lease most rows' would be over before they are asked about.
	minLease       = 100 * time.Millisecond
	maxMaxAttempts = 1000
)

// Validate reports what is wrong with the settings, in one line.
func (f *Flags) Validate() error {
	switch {
	case f.SweepInterval < minSweepInterval:
		return fmt.Errorf("--sweep-interval must be at least %s", minSweepInterval)
	case f.MaxAttempts < 1 || f.MaxAttempts > maxMaxAttempts:
		return fmt.Errorf("--max-attempts must be 1 to %d", maxMaxAttempts)
	case f.LateWindow <= 0:
		return errors.New("--late-window must be positive")
	case f.Lease < minLease:
		return fmt.Errorf("--lease must be at least %s", minLease)
	default:
		return nil
	}
}

const (
	// ledgerTime is how much of a row's time is the ledger's.
	ledgerTime = 5 * time.Second
	// exchangesPerRow: a status inquiry and a net cancel.
	exchangesPerRow = 2
)

// rowTime is the longest that the resolution of one row may take, when one
// exchange with the core takes at most this long. It may be longer than a lease,
// which is there to save work: a row at which two are at once is made final once.
func rowTime(exchange time.Duration) time.Duration { return exchangesPerRow*exchange + ledgerTime }

// Options are what a resolver is made of. Every field but Tracer is required.
type Options struct {
	Flags Flags
	// ExchangeTime is the longest that one exchange may take, connecting
	// included.
	ExchangeTime time.Duration
	// ReadTimeout is how long the core is given to answer, before its circuit
	// counts that as a failure.
	ReadTimeout time.Duration
	// Connections is how many connections to the core this process may have, for
	// inquiries and again for net cancels.
	Connections int
	// StopGrace is how long rows that are being resolved may go on once the
	// resolver is told to stop.
	StopGrace time.Duration
	// Instance names the process in the history.
	Instance string
	Logger   *slog.Logger
	Registry prometheus.Registerer
	// Now is the clock of deadlines and ages; what is due is the database's
	// matter.
	Now func() time.Time
	// Random is uniform in [0, 1) and safe for concurrent use.
	Random func() float64
	// Tracer begins the spans of what the sweep does; nil means that it is not
	// traced.
	Tracer trace.Tracer
}

// Resolver makes UNKNOWN transactions final. It is safe for concurrent use.
type Resolver struct {
	store   ledger.Store
	core    Core
	opts    Options
	rules   rules
	plan    plan
	log     *slog.Logger
	metrics *metrics
	poison  *poisonRows
	// lanes are what Run goes along, operator is that of ResolveOne.
	lanes    []*lane
	operator *lane
	hints    *hints
	setbacks setbacks
	// pace is of inquiries, cancelPace of net cancels.
	pace, cancelPace pace
	// heard is when the core last said anything.
	heard atomic.Pointer[time.Time]
}

// New returns a Resolver and registers its metrics. It starts nothing: Run does.
func New(store ledger.Store, core Core, o Options) *Resolver {
	r := &Resolver{
		store: store,
		core:  core,
		opts:  o,
		rules: rules{fences: o.Flags.CoreFences, lateWindow: o.Flags.LateWindow},
		plan:  plan{sweep: o.Flags.SweepInterval, maxAttempts: o.Flags.MaxAttempts, random: o.Random},
		log:   o.Logger,

		metrics: newMetrics(o.Registry),
		poison:  newPoisonRows(o.Now),

		lanes:    lanes(o.Connections, o.Flags.Lease),
		operator: &lane{name: "operator"},
	}
	r.hints = newHints(r)
	r.setbacks.after = uselessSweeps * o.Flags.SweepInterval
	return r
}

func (r *Resolver) rowTime() time.Duration { return rowTime(r.opts.ExchangeTime) }

// sweeper is who the sweep is in the history.
func (r *Resolver) sweeper() ledger.Actor {
	return ledger.Actor{Name: ledger.ActorReconciler, Instance: r.opts.Instance}
}

// outlive returns a context that goes on for grace after ctx has ended: what is
// under way is finished rather than torn, and cannot hold up a stop for longer.
func outlive(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-longer.Done():
		}
	})
	return longer, func() { stop(); cancel() }
}
