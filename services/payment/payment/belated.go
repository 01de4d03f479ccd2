package payment

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// firstRetry and longestRetry bound how often a belated write is tried.
const (
	firstRetry   = 100 * time.Millisecond
	longestRetry = time.Second
)

// errEnding ends the writes that are tried again.
var errEnding = errors.New("the process ends")

// belatedWrite is a write that the ledger did not take in time, and of which the
// caller was not told.
type belatedWrite struct {
	id tranid.ID
	// try makes it; ErrLost means that the row is past it.
	try func(ctx context.Context) error
	// dropped is called when it was given up; nil where nothing is lost with it.
	dropped func()
}

// later keeps trying to make a write, until the row is taken for abandoned and
// the reconciler finds out by itself.
func (s *Service) later(ctx context.Context, w belatedWrite) {
	writes := &s.writes
	if w.dropped == nil {
		writes = &s.withdrawals
	}
	if err := s.takePlace(writes); err != nil {
		s.leave(ctx, w, err)
		return
	}
	go func() {
		defer func() { <-s.belated; writes.Done() }()
		s.keepTrying(context.WithoutCancel(ctx), w)
	}()
}

// takePlace admits a belated write to those of its kind.
func (s *Service) takePlace(writes *sync.WaitGroup) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quitting {
		return errEnding
	}
	select {
	case s.belated <- struct{}{}:
		writes.Add(1)
		return nil
	default:
		return errors.New("too many writes are waiting")
	}
}

func (s *Service) keepTrying(ctx context.Context, w belatedWrite) {
	ctx, cancel := context.WithTimeout(ctx, s.Flags.SendWindow+s.Flags.Deadline+s.Flags.AdoptMargin)
	defer cancel()
	defer context.AfterFunc(s.quit, cancel)() //nolint:contextcheck // the end of all writes, beside that of this one
	var last error
	for wait := firstRetry; ; wait = min(2*wait, longestRetry) {
		if !sleep(ctx, wait) {
			if s.quit.Err() != nil {
				last = errEnding
			}
			s.leave(ctx, w, last)
			return
		}
		tryCtx, cancel := context.WithTimeout(ctx, s.Flags.SendWindow)
		last = w.try(tryCtx)
		cancel()
		if last == nil || errors.Is(last, ledger.ErrLost) {
			s.Logger.InfoContext(ctx, "belated write ended", "transaction_id", w.id, "stored", last == nil)
			return
		}
	}
}

// leave ends a belated write that was not made.
func (s *Service) leave(ctx context.Context, w belatedWrite, cause error) {
	if errors.Is(cause, ledger.ErrNotFound) { // the usual end of an intent that was not stored
		s.Logger.InfoContext(ctx, "belated write ended", "transaction_id", w.id, "stored", false)
		return
	}
	s.Logger.WarnContext(ctx, "belated write given up", "transaction_id", w.id, "error", cause)
	if w.dropped != nil {
		w.dropped()
	}
}

// belatedOutcome is the outcome of a payment that was told OUTCOME_UNKNOWN, or
// what was refused without being sent.
func (s *Service) belatedOutcome(c ledger.Change, o outcome) belatedWrite {
	return belatedWrite{
		id: c.ID,
		try: func(ctx context.Context) error {
			_, err := s.apply(ctx, c)
			var lost *ledger.LostError
			if errors.As(err, &lost) {
				s.contradicts(ctx, lost.Current, o)
			}
			return err
		},
		dropped: s.drops.outcome.Inc,
	}
}

// withdrawal is the end of an intent that may be stored all the same, now or in
// a moment, and of which nothing was and will be sent. It looks first whether
// the row is this intent's: with its error the ledger may have hidden that the
// ID is another payment's. A row that is not there is no end: a commit under way
// may still make it.
func (s *Service) withdrawal(in ledger.Intent) belatedWrite {
	return belatedWrite{id: in.ID, try: func(ctx context.Context) error {
		row, err := s.Store.GetByKey(ctx, in.Client, in.Key)
		if err != nil {
			return fmt.Errorf("look for the intent: %w", err)
		}
		if row.ID != in.ID {
			return ledger.ErrNotFound
		}
		_, err = s.Store.Transition(ctx, ledger.Change{
			ID: in.ID, From: ledger.StatusRequested, To: ledger.StatusFailed,
			Evidence: ledger.EvidenceNotSent, Reason: reasonWithdrawn, By: s.actor(ctx),
		})
		return err
	}}
}
