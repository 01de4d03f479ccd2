package payment

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

const (
	// quotaAge is how old a count may be before it is taken again.
	quotaAge = time.Second
	// quotaTrust is how old a count may be to be believed: with a ledger that is
	// slow or away, nobody is refused for what it said long ago.
	quotaTrust = 5 * time.Second
	// quotaTime bounds the count, which is taken behind the callers' backs.
	quotaTime = time.Second
	// quotaRetry is when calling again may help one who has too much unknown: by
	// then the reconciler may have looked at some of it.
	quotaRetry = 5 * time.Second
)

// quota bounds how many payments of one client may be UNKNOWN at a time, so that
// nobody farms time-outs. The ledger counts, for all instances, once in a while;
// what this instance has learned since is added. It is a brake, not a promise.
type quota struct {
	max      int64 // 0 is no bound
	count    func(ctx context.Context) (map[ledger.ClientID]int64, error)
	now      func() time.Time
	rejected prometheus.Counter

	mu sync.Mutex
	// counted are those of the ledger, as of at.
	counted map[ledger.ClientID]int64
	at      time.Time
	// since are those that came to be since then. Of those that did while the ledger
	// counted some may be missed, until it counts again: nobody is refused for what
	// was counted twice.
	since    map[ledger.ClientID]int64
	counting bool
}

func newQuota(o *Options) *quota {
	q := &quota{
		max: int64(o.Flags.MaxUnknown), count: o.Store.UnknownOfClients, now: o.Now,
		since: make(map[ledger.ClientID]int64),
		rejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gwanmun_unknown_quota_rejected_total",
			Help: "Payments refused because too many of their client are UNKNOWN.",
		}),
	}
	o.Registry.MustRegister(q.rejected)
	return q
}

// became notes a payment that is UNKNOWN in the ledger.
func (q *quota) became(client ledger.ClientID) {
	if q.max == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.since[client]++
}

// full is why a client may begin no payment now, or nil; stale says that the
// ledger is to be asked again, by whoever is told so, with refresh.
func (q *quota) full(client ledger.ClientID) (stale bool, full error) {
	if q.max == 0 {
		return false, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	age := q.now().Sub(q.at)
	if age >= quotaAge && !q.counting {
		q.counting, stale = true, true
	}
	if unknown := q.counted[client] + q.since[client]; age < quotaTrust && unknown >= q.max {
		return stale, fmt.Errorf("%d payments of the client are UNKNOWN", unknown)
	}
	return stale, nil
}

// refresh asks the ledger. Should it fail, the count grows older.
func (q *quota) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, quotaTime)
	defer cancel()
	at := q.now()
	counted, err := q.count(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.counting = false
	if err != nil {
		return
	}
	q.counted, q.at = counted, at
	clear(q.since)
}
