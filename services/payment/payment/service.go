// Package payment is the use cases of the payment service: take a payment,
// report one, watch one, ask for a balance. It decides what may be said of a
// transaction from what left and what came back, and never says more.
//
// It knows the ledger and the core by interfaces and no RPC: grpcapi stands in
// front of it.
package payment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Core is the way to the core.
type Core interface {
	// Exchange makes a call. It sends a Mutation once at most.
	Exchange(ctx context.Context, call corelink.Call) corelink.Result
	// Admits reports whether a call of the kind would be let through now: nil,
	// or a *resilience.OpenError. It is asked once for a call.
	Admits(kind corelink.Kind) error
}

// Flags are the time limits of a transaction.
type Flags struct {
	Deadline    time.Duration `default:"5s" help:"How long one transaction may take, from its arrival to the end of its exchange with the core."`
	SendWindow  time.Duration `default:"2s" help:"How long after its arrival at the ledger a payment may still be sent; later it is FAILED, and nothing left."`
	MinDeadline time.Duration `default:"100ms" help:"A call whose caller waits for less than this is refused."`
	AdoptMargin time.Duration `default:"5s" help:"How long after it must have ended a payment without outcome is taken for abandoned."`
	KeyLife     time.Duration `default:"24h" help:"How long an idempotency key stays bound at least; never less than until its payment is final."`
	MaxUnknown  int           `default:"0" help:"How many payments of one client may be UNKNOWN before it is refused further ones; 0 is no bound. Counted about once a second."`
}

// Validate reports what is wrong with the settings, in one line.
func (f *Flags) Validate() error {
	switch {
	case f.Deadline <= 0:
		return errors.New("--deadline must be positive")
	case f.SendWindow <= 0:
		return errors.New("--send-window must be positive")
	case f.MinDeadline < 0:
		return errors.New("--min-deadline must not be negative")
	case f.KeyLife <= 0:
		return errors.New("--key-life must be positive")
	case f.AdoptMargin <= 0:
		return errors.New("--adopt-margin must be positive")
	case f.MaxUnknown < 0:
		return errors.New("--max-unknown must not be negative")
	}
	return nil
}

// Options are what a Service works with. All are required.
type Options struct {
	Flags    Flags
	Store    ledger.Store
	HashKey  ledger.HashKey
	Core     Core
	Listings Listings
	Now      func() time.Time
	Logger   *slog.Logger
	Registry prometheus.Registerer
	// Instance is the process, as its events name it.
	Instance string
}

const (
	// blockSize is how many transaction numbers are taken from the ledger at a
	// time; a restart leaves at most so many unused.
	blockSize = 1000
	// maxBelated is how many writes may be tried again behind the callers'
	// backs at once. What finds no place is settled by the reconciler.
	maxBelated = 1024
	// lastWords is how long a drain that gave up waits for what it gave up to be
	// counted and said.
	lastWords = 500 * time.Millisecond
)

// Service is the use cases. It is safe for concurrent use.
type Service struct {
	Options
	ids *tranid.Allocator
	by  ledger.Actor

	// settled counts transactions by status.
	settled []prometheus.Counter
	drops   drops
	ghosts  prometheus.Counter
	quota   *quota

	// work is every call, exchange and feed that is under way: callers may have
	// gone, and the process may not end before them. writes is every outcome that is
	// written behind the callers' backs; those of rows are behind's own, and those
	// of withdrawals, with which nothing is lost, are apart.
	work        sync.WaitGroup
	writes      sync.WaitGroup
	withdrawals sync.WaitGroup
	belated     chan struct{}
	behind      *recorder
	flights     flights
	// spells bound each step with the ledger that a caller waits for.
	spells spells
	// watchers is how many streams watch.
	watchers atomic.Int64

	// mu guards what follows. stopping, once set, lets no work begin, and quitting
	// no write.
	mu                 sync.Mutex
	stopping, quitting bool
	// feeds are the payments that someone follows.
	feeds map[tranid.ID]*feed

	// quit ends the writes.
	quit   context.Context //nolint:containedctx // the life of what goes on behind the callers' backs
	giveUp context.CancelFunc
}

// New returns a Service and registers its metrics.
func New(o Options) *Service {
	s := &Service{
		Options: o,
		ids:     tranid.NewAllocator(o.Store, o.Now, blockSize),
		by:      ledger.Actor{Name: ledger.ActorPayment, Instance: o.Instance},
		drops:   newDrops(o.Registry),
		ghosts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gwanmun_ghost_total",
			Help: "Evidence that contradicts a final row.",
		}),
		settled: make([]prometheus.Counter, len(ledger.Statuses)+1),
		belated: make(chan struct{}, maxBelated),
		flights: flights{up: map[tranid.ID]*flight{}},
		spells:  spells{limit: o.Flags.SendWindow},
		feeds:   map[tranid.ID]*feed{},
	}
	s.quota = newQuota(&s.Options)
	s.quit, s.giveUp = context.WithCancel(context.Background())
	s.behind = &recorder{book: o.Store, by: s.by, logger: o.Logger, drops: s.drops, quit: s.quit}
	settled := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gwanmun_ledger_transactions_total",
		Help: "Transactions by the status in which their exchange ended.",
	}, []string{"status"})
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "gwanmun_ledger_queue_depth",
		Help: "Rows that are to be written behind their answers.",
	}, s.behind.unstored)
	o.Registry.MustRegister(settled, s.ghosts, waiting)
	for _, status := range ledger.Statuses {
		if status != ledger.StatusRequested {
			s.settled[status] = settled.WithLabelValues(status.String())
		}
	}
	return s
}

// begin opens a piece of work, which s.work.Done ends. It refuses when the
// process is about to end.
func (s *Service) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return refuse(ledger.ReasonLedgerUnavailable, errors.New("the service is stopping"))
	}
	s.work.Add(1)
	return nil
}

// Drain lets nothing new begin, and waits for the exchanges that are under way,
// whose callers may have gone, for the rows that wait to be written and for the
// writes that are being tried again. When ctx ends first it gives those writes
// up, counted, and says so. Withdrawals are waited for as well, but to give one up
// is no error: its intent was not sent, and the reconciler finds that out.
func (s *Service) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.work.Wait()
		s.writes.Wait()
		s.behind.writes.Wait()
		close(done)
	}()
	select {
	case <-done:
		err := s.ids.Close(ctx)
		s.endWithdrawals(ctx)
		return err
	case <-ctx.Done():
		s.abandon() //nolint:contextcheck // ctx has ended
		return fmt.Errorf("drain: %w", ctx.Err())
	}
}

// endWithdrawals waits for them, and gives them up when ctx ends.
func (s *Service) endWithdrawals(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		s.withdrawals.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.abandon() //nolint:contextcheck // ctx has ended
	}
}

// abandon ends the writes, and waits for a moment until they have said what is
// lost: the process ends next.
func (s *Service) abandon() {
	s.mu.Lock()
	s.quitting = true
	s.mu.Unlock()
	s.behind.close()
	s.giveUp()
	told := make(chan struct{})
	go func() {
		s.writes.Wait()
		s.withdrawals.Wait()
		s.behind.writes.Wait()
		close(told)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	_ = s.ids.Close(ctx) // nobody is given a number any more
	select {
	case <-told:
	case <-ctx.Done():
	}
}

// Warm has transaction numbers taken ahead, so that the first caller need not
// wait for them.
func (s *Service) Warm() { s.ids.Warm() }

// refuse is a refusal without a transaction.
func refuse(reason ledger.Reason, cause error) error {
	return &ledger.Refusal{Reason: reason, Err: cause}
}

// timeLeft reports whether the caller waits long enough for the call to make
// sense. A caller without deadline does, and one who has gone does not.
func (s *Service) timeLeft(ctx context.Context, now time.Time) error {
	if err := ctx.Err(); err != nil {
		return refuse(ledger.ReasonDeadlineTooShort, err)
	}
	deadline, ok := ctx.Deadline()
	if ok && deadline.Sub(now) < s.Flags.MinDeadline {
		return refuse(ledger.ReasonDeadlineTooShort, fmt.Errorf("%s left", deadline.Sub(now)))
	}
	return nil
}

// readError turns an error of a read from the ledger into a refusal.
func readError(err error) error {
	if errors.Is(err, ledger.ErrNotFound) {
		return refuse(ledger.ReasonTransactionNotFound, err)
	}
	return ledgerError(err)
}

// ledgerError turns an error of the ledger that is no answer into a refusal. One
// that has a row which cannot be is not unavailable.
func ledgerError(err error) error {
	if errors.Is(err, ledger.ErrUnreadable) {
		return refuse(ledger.ReasonInternal, err)
	}
	return refuse(ledger.ReasonLedgerUnavailable, err)
}
