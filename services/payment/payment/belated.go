package payment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// firstRetry and longestRetry bound how often a belated write is tried.
const (
	firstRetry   = 100 * time.Millisecond
	longestRetry = time.Second
)

// belatedWrite is a write that the ledger did not take in time, and of which the
// caller was not told.
type belatedWrite struct {
	id tranid.ID
	// try makes it; ErrLost means that the row is past it.
	try func(ctx context.Context) error
	// dropped is called when it was given up.
	dropped func()
}

// later keeps trying to make a write, until the row is taken for abandoned and
// the reconciler finds out by itself.
func (s *Service) later(ctx context.Context, w belatedWrite) {
	select {
	case s.belated <- struct{}{}:
	default:
		s.giveUp(ctx, w, errors.New("too many writes are waiting"))
		return
	}
	s.work.Add(1)
	go func() {
		defer func() { <-s.belated; s.work.Done() }()
		s.keepTrying(context.WithoutCancel(ctx), w)
	}()
}

func (s *Service) keepTrying(ctx context.Context, w belatedWrite) {
	ctx, cancel := context.WithTimeout(ctx, s.Flags.SendWindow+s.Flags.Deadline+s.Flags.AdoptMargin)
	defer cancel()
	var last error
	for wait := firstRetry; ; wait = min(2*wait, longestRetry) {
		select {
		case <-time.After(wait):
		case <-s.quit:
			s.giveUp(ctx, w, errors.New("the process ends"))
			return
		case <-ctx.Done():
			s.giveUp(ctx, w, last)
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

func (s *Service) giveUp(ctx context.Context, w belatedWrite, cause error) {
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
		dropped: s.dropped.WithLabelValues(droppedOutcome).Inc,
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
			Evidence: ledger.EvidenceNotSent, Reason: reasonWithdrawn, By: s.by,
		})
		return err
	}}
}
