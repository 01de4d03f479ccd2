package resolve

import (
	"sync"
	"time"

	"github.com/gwanmun/gwanmun/pkg/tranid"
)

const (
	// uselessSweeps is for how many intervals nothing may have followed from what the
	// core said for that to be the core's trouble, and not a row's.
	uselessSweeps = 2
	// maxSetbacks is how many rows are remembered: what the hints may have waiting.
	maxSetbacks = hintBacklog
)

// setbacks are rows that back off because nothing followed from what the core said,
// to anybody: it was in trouble and still talked. When it talks sense again they are
// hurried, since a back-off that grew meanwhile says nothing of them. A row that it
// has nothing to say about while it does well about others backs off as ever.
type setbacks struct {
	// after is for how long nothing may have followed, for it to be the core's trouble.
	after time.Duration

	mu sync.Mutex
	// sense is when something last followed from what it said.
	sense time.Time
	rows  map[tranid.ID]struct{}
}

// add notes that a row has backed off.
func (s *setbacks) add(id tranid.ID, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.sense) < s.after || len(s.rows) >= maxSetbacks {
		return
	}
	if s.rows == nil {
		s.rows = map[tranid.ID]struct{}{}
	}
	s.rows[id] = struct{}{}
}

// end notes that the core has talked sense, and returns the rows to be hurried.
func (s *setbacks) end(now time.Time) map[tranid.ID]struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := s.rows
	s.sense, s.rows = now, nil
	return rows
}

// sense takes note of an answer of the core that made a row final. What backed off
// while it made none so is due again, as if the core had called.
func (r *Resolver) sense() {
	for id := range r.setbacks.end(r.opts.Now()) {
		r.hints.take(id)
	}
}
