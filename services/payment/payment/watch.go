package payment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

const (
	// maxWatchers is how many streams may watch at once; further ones are
	// refused, so that they cannot take the process from the payments.
	maxWatchers = 2048
	// watchersRetry is what a refused watcher is told to wait.
	watchersRetry = time.Second
)

// Watch calls send with the current state of a client's own payment, then with
// each change of it, and returns nil after the final one. It ends when ctx does
// or send fails. However many watch one payment, the ledger is read for one.
func (s *Service) Watch(ctx context.Context, client ledger.ClientID, id tranid.ID, send func(ledger.Transaction) error) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.work.Done()
	now, err := s.Get(ctx, client, id) // whose it is, too
	if err != nil {
		return err
	}
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	f := s.follow(ctx, &now)
	defer s.unfollow(id, f)
	var last ledger.Transaction
	for {
		t, changed, err := f.state()
		if err != nil {
			return readError(err)
		}
		if t != last {
			if err := send(t); err != nil {
				return fmt.Errorf("send a state of %s: %w", id, err)
			}
			last = t
		}
		if t.Status.Final() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("watch %s: %w", id, ctx.Err())
		}
	}
}

// enter takes a watcher's place, which leave gives back.
func (s *Service) enter() (leave func(), err error) {
	if s.watchers.Add(1) > maxWatchers {
		s.watchers.Add(-1)
		return nil, &ledger.Refusal{
			Reason: ledger.ReasonRateLimited, RetryAfter: watchersRetry, Err: errors.New("too many streams watch"),
		}
	}
	return func() { s.watchers.Add(-1) }, nil
}
