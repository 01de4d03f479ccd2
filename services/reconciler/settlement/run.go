package settlement

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Why a run FAILED, beside a ListingError.
const (
	reasonStopped = "stopped"
	reasonBook    = "the core's book could not be read"
	reasonLedger  = "the ledger could not be read or written"
	reasonRetired = "the business day has left the ledger"
	reasonFault   = "a fault of ours: the log has it"
)

// endTime bounds the end of a run, which is stored even when the process stops.
const endTime = 5 * time.Second

// panicError is a panic in a run, which ends that run alone.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return "panic while settling" }

// carryOut does a run to its end.
func (s *Service) carryOut(ctx context.Context, run ledger.SettlementRun) {
	s.log.InfoContext(ctx, "settlement begun", "run_id", run.ID, "business_date", run.Day.String(), "scheduled", run.Scheduled)
	tally := newTally(s.store, run.ID, ledgerPatience)
	err := s.settle(ctx, run, tally)
	end := ledger.SettlementEnd{Run: run.ID, State: ledger.RunSucceeded, Counts: tally.now()}
	if err != nil {
		end.State, end.Error = ledger.RunFailed, reasonOf(ctx, err)
	}
	if !errors.Is(err, ledger.ErrRunOver) {
		err = errors.Join(err, s.end(ctx, &end))
	}
	s.report(ctx, &run, &end, err)
	s.count(context.WithoutCancel(ctx))
}

// report logs the end of a run, once.
func (s *Service) report(ctx context.Context, run *ledger.SettlementRun, end *ledger.SettlementEnd, err error) {
	c := &end.Counts
	attrs := []any{
		"run_id", run.ID, "business_date", run.Day.String(), "match", c.Match, "mismatch", c.Mismatch,
		"ledger_only", c.LedgerOnly, "core_only", c.CoreOnly, "unresolved", c.Unresolved, "unreadable", c.Unreadable, "records", c.Records,
	}
	var panicked *panicError
	switch {
	case err == nil:
		s.log.InfoContext(ctx, "settlement ended", attrs...)
	case ctx.Err() != nil:
		s.log.WarnContext(ctx, "settlement stopped", append(attrs, "error", err)...)
	case errors.As(err, &panicked):
		s.log.ErrorContext(ctx, "settlement failed", append(attrs, "panic", panicked.value, "stack", string(panicked.stack))...)
	default:
		s.log.ErrorContext(ctx, "settlement failed", append(attrs, "error", err)...)
	}
	s.metrics.ended(end.State, err)
}

// end stores the end of a run. Should that fail, the run is lost when its lease is
// over.
func (s *Service) end(ctx context.Context, e *ledger.SettlementEnd) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer stop()
	err := s.store.EndSettlement(ctx, *e)
	if errors.Is(err, ledger.ErrDayRetired) {
		e.State, e.Error = ledger.RunFailed, reasonRetired
		return errors.Join(err, s.store.EndSettlement(ctx, *e))
	}
	if err != nil {
		return fmt.Errorf("end settlement run %s: %w", e.Run, err)
	}
	return nil
}

// reasonOf is what a run tells of why it FAILED.
func reasonOf(ctx context.Context, err error) string {
	var listing *ListingError
	switch {
	case ctx.Err() != nil:
		return reasonStopped
	case errors.As(err, &listing):
		return listing.Error()
	case errors.Is(err, errBook):
		return reasonBook
	case errors.Is(err, ledger.ErrDayRetired):
		return reasonRetired
	case errors.Is(err, ledger.ErrUnavailable):
		return reasonLedger
	default:
		return reasonFault
	}
}

// settle resolves what is UNKNOWN of the day and then compares both books, while
// it keeps the run alive.
func (s *Service) settle(ctx context.Context, run ledger.SettlementRun, t *tally) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var alive sync.WaitGroup
	alive.Go(func() {
		if err := t.keepAlive(ctx); err != nil {
			cancel(err)
		}
	})
	err := guarded(func() error {
		s.resolveDay(ctx, run.Day)
		return s.comparison(&run, t).compare(ctx)
	})
	if over := context.Cause(ctx); isVerdict(over) {
		err = over
	}
	cancel(nil)
	alive.Wait()
	return err
}

func (s *Service) comparison(run *ledger.SettlementRun, t *tally) *comparison {
	return &comparison{
		run: *run, store: s.store, key: s.opts.Key, log: s.log, patience: ledgerPatience, tally: t,
		book:  &pages{book: s.opts.Book, day: run.Day, patience: bookPatience},
		alarm: func(ctx context.Context, d *ledger.Difference) { s.alarm(ctx, run, d) },
	}
}

// guarded does work and turns a panic in it into a *panicError.
func guarded(work func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{value: v, stack: debug.Stack()}
		}
	}()
	return work()
}

const (
	// resolvePage is how many IDs of what is UNKNOWN are read at a time.
	resolvePage = 100
	// resolvers is how many rows are resolved at a time.
	resolvers = 4
)

// resolveDay makes an attempt at each row of the day that is UNKNOWN, and gives up
// when the time for that is over. What stays UNKNOWN the comparison finds.
func (s *Service) resolveDay(ctx context.Context, day tranid.Date) {
	ctx, stop := context.WithTimeout(ctx, s.opts.ResolveTime)
	defer stop()
	ids := make(chan tranid.ID)
	var workers sync.WaitGroup
	for range resolvers {
		workers.Go(func() {
			for id := range ids {
				s.resolve(ctx, id)
			}
		})
	}
	err := s.feed(ctx, day, ids)
	close(ids)
	workers.Wait()
	if err != nil {
		s.log.WarnContext(ctx, "not all that is UNKNOWN of the day was tried", "business_date", day.String(), "error", err)
	}
}

// feed hands out what is UNKNOWN of a day.
func (s *Service) feed(ctx context.Context, day tranid.Date, ids chan<- tranid.ID) error {
	for after := tranid.ID(""); ; {
		page, err := s.store.DayUnknown(ctx, day, after, resolvePage)
		if err != nil {
			return err
		}
		for _, id := range page {
			select {
			case ids <- id:
				after = id
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if len(page) < resolvePage {
			return nil
		}
	}
}

func (s *Service) resolve(ctx context.Context, id tranid.ID) {
	by := ledger.Actor{Name: ledger.ActorReconciler, Instance: s.opts.Instance}
	err := guarded(func() error {
		_, err := s.opts.Resolver.ResolveWhile(ctx, id, by)
		return err
	})
	if err != nil {
		s.log.WarnContext(ctx, "transaction not resolved before settlement", "transaction_id", id, "error", err)
	}
}

// alarm tells of a difference that is new. A payment that the core did and the
// ledger says it did not is a ghost: money moved that nobody here knows of.
func (s *Service) alarm(ctx context.Context, run *ledger.SettlementRun, d *ledger.Difference) {
	attrs := []any{
		"run_id", run.ID, "transaction_id", d.ID, "class", d.Class.String(),
		"ledger_status", d.LedgerStatus.String(), "ledger_amount", int64(d.LedgerAmount),
		"core_state", string(d.CoreState), "core_amount", int64(d.CoreAmount),
	}
	if d.Class != ledger.ClassCoreOnly {
		s.log.WarnContext(ctx, "books differ", attrs...)
		return
	}
	s.opts.Ghosts.Inc()
	s.log.ErrorContext(ctx, "ghost", attrs...)
	if d.LedgerStatus == 0 {
		return
	}
	by := ledger.Actor{Name: ledger.ActorReconciler, Instance: s.opts.Instance}
	detail := fmt.Sprintf("ghost: the core's book of the day has it done, a transaction that is %s", d.LedgerStatus)
	if err := s.store.AppendEvent(ctx, d.ID, ledger.EvidenceProcessed, by, detail); err != nil {
		s.log.WarnContext(ctx, "ghost not kept in the history", "transaction_id", d.ID, "error", err)
	}
}
