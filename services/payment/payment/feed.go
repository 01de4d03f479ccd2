package payment

import (
	"context"
	"sync"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

const (
	// A row is looked at after firstPoll, then less and less often: every
	// briskPoll while it is young, every calmPoll after youth. What has not become
	// final by then waits for the core or for a human.
	firstPoll = 5 * time.Millisecond
	briskPoll = 50 * time.Millisecond
	calmPoll  = 500 * time.Millisecond
	youth     = 30 * time.Second
)

// feed is one payment that others wait for or watch. However many do, its row is
// looked at for one of them.
type feed struct {
	followers int // guarded by Service.mu
	stop      context.CancelFunc

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

// tell keeps what was read and wakes whoever follows, if it is news. It reports
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

// follow joins the feed of a payment, and starts it if nobody follows yet: from
// t, which was just read. unfollow must be called after it.
func (s *Service) follow(ctx context.Context, t *ledger.Transaction) *feed {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.feeds[t.ID]
	if f == nil {
		// It serves whoever joins, so it must outlive the one who started it.
		feedCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
		f = &feed{stop: stop, changed: make(chan struct{}), latest: *t}
		s.feeds[t.ID] = f
		s.work.Add(1)
		go func() {
			defer s.work.Done()
			s.feed(feedCtx, f, *t)
		}()
	}
	f.followers++
	return f
}

func (s *Service) unfollow(id tranid.ID, f *feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.followers--; f.followers == 0 {
		f.stop()
		s.forget(id, f)
	}
}

// forget makes the next to follow start anew. It is called with mu.
func (s *Service) forget(id tranid.ID, f *feed) {
	if s.feeds[id] == f {
		delete(s.feeds, id)
	}
}

// feed tells of a row until nobody follows it, it is final or the ledger fails.
func (s *Service) feed(ctx context.Context, f *feed, t ledger.Transaction) {
	begun := s.Now()
	longest := briskPoll
	for wait := firstPoll; !t.Status.Final(); wait = min(2*wait, longest) {
		row, err := s.next(ctx, t.ID, wait)
		if !f.tell(row, err) {
			break
		}
		if s.Now().Sub(begun) > youth {
			longest = calmPoll
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(t.ID, f)
}

// next is the row of a payment after a while; or, where its call is under way in
// this process, when that ends: without a look at the ledger if the call knows
// what the row has become.
func (s *Service) next(ctx context.Context, id tranid.ID, wait time.Duration) (ledger.Transaction, error) {
	if first := s.flights.find(id); first != nil {
		select {
		case <-first.landed:
		case <-ctx.Done():
			return ledger.Transaction{}, ctx.Err()
		}
		if first.row.ID != "" {
			return first.row, nil
		}
	} else if !sleep(ctx, wait) {
		return ledger.Transaction{}, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, s.Flags.SendWindow)
	defer cancel()
	return s.Store.Get(ctx, id)
}
