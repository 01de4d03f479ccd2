package access

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// Limits are what one client may ask for. Zero is no limit.
type Limits struct {
	// Rate is calls a second on average, Burst how many may come at once.
	Rate, Burst int
	// InFlight is how many may be under way at once.
	InFlight int
}

// busyRetry is what a client with too many calls under way is told to wait.
const busyRetry = 100 * time.Millisecond

// Meter holds each client to the limits. It is safe for concurrent use. It keeps
// something for each client of the directory, and those are few.
type Meter struct {
	limits Limits
	now    func() time.Time

	mu      sync.Mutex
	clients map[ledger.ClientID]*use
}

// use is what a client has used.
type use struct {
	bucket   *rate.Limiter
	inFlight int // guarded by Meter.mu
}

// NewMeter returns a Meter that goes by the clock now.
func NewMeter(limits Limits, now func() time.Time) *Meter {
	return &Meter{limits: limits, now: now, clients: map[ledger.ClientID]*use{}}
}

// Begin lets a call of the client begin, which done ends, or says when calling
// again may help.
func (m *Meter) Begin(id ledger.ClientID) (done func(), retryAfter time.Duration, ok bool) {
	if m.limits == (Limits{}) {
		return func() {}, 0, true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.clients[id]
	if u == nil {
		u = &use{bucket: rate.NewLimiter(rate.Limit(m.limits.Rate), m.limits.Burst)}
		if m.limits.Rate == 0 {
			u.bucket = rate.NewLimiter(rate.Inf, 0)
		}
		m.clients[id] = u
	}
	if m.limits.InFlight > 0 && u.inFlight >= m.limits.InFlight {
		return nil, busyRetry, false
	}
	now := m.now()
	taken := u.bucket.ReserveN(now, 1)
	if wait := taken.DelayFrom(now); wait > 0 {
		taken.CancelAt(now)
		return nil, wait, false
	}
	u.inFlight++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		u.inFlight--
	}, 0, true
}
