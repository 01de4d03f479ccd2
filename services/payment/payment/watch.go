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

const (
	// maxWatchers is how many streams may watch at once; further ones are
	// refused, so that they cannot take the process from the payments.
	maxWatchers = 2048
	// A watched row is looked at every briskPoll while it is young, and every
	// calmPoll after youth: what has not become final by then waits for the core
	// or for a human.
	briskPoll = 50 * time.Millisecond
	calmPoll  = 500 * time.Millisecond
	youth     = 30 * time.Second
	// watchersRetry is what a refused watcher is told to wait.
	watchersRetry = time.Second
)

// Watch calls send with the current state of a client's own payment, then with
// each change of it, and returns nil after the final one. It ends when ctx does
// or send fails. However many watch one payment, the ledger is read for one.
func (s *Service) Watch(ctx context.Context, client ledger.ClientID, id tranid.ID, send func(ledger.Transaction) error) error {
	done, err := s.begin()
	if err != nil {
		return err
	}
	defer done()
	if _, err := s.Get(ctx, client, id); err != nil { // whose it is
		return err
	}
	f, err := s.follow(ctx, id)
	if err != nil {
		return err
	}
	defer s.unfollow(id, f)
	var last ledger.Transaction
	for {
		t, changed, err := f.state()
		if err != nil {
			return readError(err)
		}
		if t != last && t.ID != "" {
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

// feed is one watched payment.
type feed struct {
	watchers int // guarded by Service.mu
	stop     context.CancelFunc

	mu     sync.Mutex
	latest ledger.Transaction
	err    error
	// changed is closed, and replaced, at each change.
	changed chan struct{}
}

// state returns what was read last, and what is closed when there is more.
func (f *feed) state() (ledger.Transaction, <-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.latest, f.changed, f.err
}

// tell keeps what was read and wakes whoever watches, if it is news. It reports
// whether there will be more.
func (f *feed) tell(t ledger.Transaction, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil && t == f.latest {
		return true
	}
	f.latest, f.err = t, err
	close(f.changed)
	f.changed = make(chan struct{})
	return err == nil && !t.Status.Final()
}

// follow joins the feed of a payment, and starts it if nobody watches yet.
func (s *Service) follow(ctx context.Context, id tranid.ID) (*feed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watchers >= maxWatchers {
		return nil, &ledger.Refusal{
			Reason: ledger.ReasonRateLimited, RetryAfter: watchersRetry, Err: errors.New("too many streams watch"),
		}
	}
	s.watchers++
	f := s.feeds[id]
	if f == nil {
		// It serves whoever joins, so it must outlive the one who started it.
		feedCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
		f = &feed{stop: stop, changed: make(chan struct{})}
		s.feeds[id] = f
		s.work.Add(1)
		go func() {
			defer s.work.Done()
			s.feed(feedCtx, id, f)
		}()
	}
	f.watchers++
	return f, nil
}

func (s *Service) unfollow(id tranid.ID, f *feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers--
	if f.watchers--; f.watchers == 0 {
		f.stop()
		if s.feeds[id] == f {
			delete(s.feeds, id)
		}
	}
}

// feed reads a row until nobody watches it, it is final or the ledger fails.
func (s *Service) feed(ctx context.Context, id tranid.ID, f *feed) {
	begun := s.Now()
	for {
		t, err := s.Store.Get(ctx, id)
		if !f.tell(t, err) {
			s.mu.Lock()
			if s.feeds[id] == f { // the next to watch starts anew
				delete(s.feeds, id)
			}
			s.mu.Unlock()
			return
		}
		wait := briskPoll
		if s.Now().Sub(begun) > youth {
			wait = calmPoll
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}
