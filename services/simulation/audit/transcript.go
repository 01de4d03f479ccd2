package audit

import (
	"slices"
	"sync"
	"time"
)

// Transcript is a day as it is put together when it is over: from the books, and from
// what many people wrote down, each by the clock of one machine. It is safe for
// concurrent use.
//
// Each thing has the moment at which it was true at the latest for others to know of
// it, and at the earliest for itself: a row that of the statement which wrote it,
// before its commit; a frame that of its first byte at whoever stands in the wire; an
// entry that of the core's decision; a reply that of its arrival. What follows from
// something then stands behind it, whoever was slow.
type Transcript struct {
	mu      sync.Mutex
	moments []moment
}

// moment is one thing of a day.
type moment struct {
	at   time.Time
	tell func(a *Auditor)
}

// At adds a thing, and how the Auditor is told of it. Things of one moment stay in
// the order in which they were added.
func (t *Transcript) At(at time.Time, tell func(a *Auditor)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moments = append(t.moments, moment{at, tell})
}

// Add adds all that another has so far.
func (t *Transcript) Add(other *Transcript) {
	other.mu.Lock()
	moments := slices.Clone(other.moments)
	other.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moments = append(t.moments, moments...)
}

// Judge tells the day from its beginning to an Auditor whose clock goes with it,
// finishes it, and returns him. It may be called again: each Auditor hears all.
func (t *Transcript) Judge(o Options) *Auditor {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortStableFunc(t.moments, func(a, b moment) int { return a.at.Compare(b.at) })
	var now time.Time
	o.Now = func() time.Time { return now }
	a := New(o)
	for _, m := range t.moments {
		now = m.at
		m.tell(a)
	}
	a.Finish()
	return a
}

// Wire writes down what goes over one connection to the core. It is used by whoever
// carries it, one call after the other.
type Wire struct {
	t *Transcript
	s *Socket
}

// Wire is a connection that begins.
func (t *Transcript) Wire() *Wire { return &Wire{t: t} }

// Sends writes down a request whose first byte left then.
func (w *Wire) Sends(at time.Time, b []byte) { w.at(at, b, (*Socket).Sends) }

// Torn writes down a part of a request, whose rest never came.
func (w *Wire) Torn(at time.Time, b []byte) { w.at(at, b, (*Socket).Torn) }

// Hears writes down what came from the core, before it is handed on.
func (w *Wire) Hears(at time.Time, b []byte) { w.at(at, b, (*Socket).Hears) }

func (w *Wire) at(at time.Time, b []byte, tell func(s *Socket, b []byte)) {
	b = slices.Clone(b)
	w.t.At(at, func(a *Auditor) {
		if w.s == nil || w.s.a != a {
			w.s = a.Socket()
		}
		tell(w.s, b)
	})
}
