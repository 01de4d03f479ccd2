// Package settlement compares the ledger with the core's book, one business day
// at a time (대사, DESIGN §8), and stores in what they differ. It repairs nothing:
// an operator does, who sees each difference once, notes it, and finds it closed
// when a later run finds both books equal.
//
// It stands in the reconciler, between the ledger and the core's listings. Both
// are read in the order of transaction IDs, page by page, side by side; a day of
// any size takes the same memory. What seems to differ is read again, the ledger
// first, before it is believed, so that payments may go on meanwhile. A core whose
// book cannot be what it says it is makes a run FAILED, and no difference.
//
// compare.go goes along both books, secondlook.go reads again, stream.go and
// book.go read; run.go is the life of a run, schedule.go begins the daily one.
package settlement

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/reconciler/resolve"
)

var (
	// ErrBusy says that this process has as many runs as it does at a time.
	ErrBusy = errors.New("too many settlement runs at a time")
	// ErrNotBegun says that a business day is yet to come.
	ErrNotBegun = errors.New("the business day has not begun")
	// ErrStopped says that this process begins no runs any more.
	ErrStopped = errors.New("the reconciler stops")
)

// MaxRuns is how many days one process settles at a time.
const MaxRuns = 4

// Store is what settlement needs of the ledger.
type Store interface {
	ledger.Settlements
	Get(ctx context.Context, id tranid.ID) (ledger.Transaction, error)
	AppendEvent(ctx context.Context, id tranid.ID, evidence ledger.Evidence, by ledger.Actor, detail string) error
}

// Resolver makes one attempt at one UNKNOWN transaction, and ends it soon after ctx
// has ended.
type Resolver interface {
	ResolveWhile(ctx context.Context, id tranid.ID, by ledger.Actor) (resolve.Report, error)
}

// Flags are the settings of settlement.
type Flags struct {
	SettlementAt string `default:"" help:"When to compare both books of the day before, HH:MM in Seoul; once a day, over all instances. Unset: only when asked to." name:"settlement-at" placeholder:"HH:MM"`
}

// Validate reports what is wrong with the settings, in one line.
func (f *Flags) Validate() error {
	_, err := parseSchedule(f.SettlementAt)
	return err
}

// Options are what a Service is made of. Every field is required, unless it says
// otherwise.
type Options struct {
	Flags    Flags
	Store    Store
	Resolver Resolver
	Book     Book
	// Key is that of the ledger's digests.
	Key ledger.HashKey
	// Ghosts counts the payments that the core did and the ledger says it did
	// not.
	Ghosts prometheus.Counter
	// ResolveTime bounds how long a run waits for what is UNKNOWN; 0 means a
	// minute.
	ResolveTime time.Duration
	// Instance names the process in the runs and in the history.
	Instance string
	Logger   *slog.Logger
	Registry prometheus.Registerer
	// Now is the clock of the schedule, and of which day it is.
	Now func() time.Time
}

const defaultResolveTime = time.Minute

// Service settles business days. It is safe for concurrent use.
type Service struct {
	opts    Options
	store   Store
	log     *slog.Logger
	at      schedule
	metrics *metrics

	// places is one for each run at a time, begun hands runs to Run, and stopped
	// is closed when it takes no more.
	places  chan struct{}
	begun   chan ledger.SettlementRun
	stopped chan struct{}
}

// New returns a Service and registers its metrics. It starts nothing: Run does.
// Its flags must be valid.
func New(o Options) *Service {
	at, err := parseSchedule(o.Flags.SettlementAt)
	if err != nil {
		panic("settlement of flags that are not valid: " + err.Error())
	}
	if o.ResolveTime == 0 {
		o.ResolveTime = defaultResolveTime
	}
	return &Service{
		opts: o, store: o.Store, log: o.Logger, at: at, metrics: newMetrics(o.Registry),
		places: make(chan struct{}, MaxRuns), begun: make(chan ledger.SettlementRun), stopped: make(chan struct{}),
	}
}

// Run carries out the runs that Start begins, and the daily one, until ctx ends;
// then it ends what is under way as FAILED, and returns. It may be called once.
func (s *Service) Run(ctx context.Context) {
	var work sync.WaitGroup
	work.Go(func() { s.upkeep(ctx) })
	for ctx.Err() == nil {
		select {
		case run := <-s.begun:
			work.Go(func() {
				defer func() { <-s.places }()
				s.carryOut(ctx, run)
			})
		case <-ctx.Done():
		}
	}
	close(s.stopped)
	work.Wait()
}

// Start begins a run of a day and answers at once with it, or with the live one of
// that day.
//
// Errors: ErrNotBegun, ErrBusy, ErrStopped, ledger.ErrDayRetired,
// ledger.ErrUnavailable, and faults of ours.
func (s *Service) Start(ctx context.Context, day tranid.Date) (ledger.SettlementRun, error) {
	if day.Start().After(s.opts.Now()) {
		return ledger.SettlementRun{}, ErrNotBegun
	}
	run, _, err := s.start(ctx, ledger.SettlementStart{Day: day})
	if errors.Is(err, ErrBusy) {
		return s.live(ctx, day)
	}
	return run, err
}

// start begins a run and hands it to Run.
func (s *Service) start(ctx context.Context, start ledger.SettlementStart) (ledger.SettlementRun, bool, error) {
	select {
	case s.places <- struct{}{}:
	default:
		return ledger.SettlementRun{}, false, ErrBusy
	}
	start.Lease, start.Instance = lease, s.opts.Instance
	run, begun, err := s.store.BeginSettlement(ctx, start)
	if err != nil || !begun {
		<-s.places
		return run, false, err
	}
	select {
	case s.begun <- run:
		return run, true, nil
	case <-s.stopped:
		err = ErrStopped
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", ledger.ErrUnavailable, ctx.Err())
	}
	<-s.places
	ended := s.end(ctx, &ledger.SettlementEnd{Run: run.ID, State: ledger.RunFailed, Error: reasonStopped})
	return ledger.SettlementRun{}, false, errors.Join(err, ended)
}

// live is the live run of a day, or ErrBusy.
func (s *Service) live(ctx context.Context, day tranid.Date) (ledger.SettlementRun, error) {
	page, err := s.store.ListSettlements(ctx, ledger.SettlementFilter{Day: day, Limit: 1})
	switch {
	case err != nil:
		return ledger.SettlementRun{}, err
	case len(page.Runs) == 0 || page.Runs[0].State != ledger.RunRunning:
		return ledger.SettlementRun{}, ErrBusy
	default:
		return page.Runs[0], nil
	}
}
