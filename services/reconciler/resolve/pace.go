package resolve

import (
	"sync/atomic"
	"time"
)

const (
	// shortMoment is the least time that a row which was never asked about is
	// given: hundreds that the core ignores are past in seconds.
	shortMoment = 200 * time.Millisecond
	// momentPaces is how many times as long as the core takes to answer is a
	// moment.
	momentPaces = 4
	// paceShare is how much of a slower answer the pace takes over.
	paceShare = 8
)

// pace is how long the core takes to answer: an answer that is faster sets it,
// one that is slower moves it a little. So a core that has become slow is waited
// for, after a few answers, and one slow answer among others changes nothing.
type pace struct {
	nanos atomic.Int64
}

// answered takes note of an answer.
func (p *pace) answered(after time.Duration) {
	was := p.nanos.Load()
	now := min(int64(after), was+(int64(after)-was)/paceShare)
	// Should another have been at it, its note is as good.
	p.nanos.CompareAndSwap(was, now)
}

// moment is how long a first inquiry is waited for, at most longest.
func (p *pace) moment(longest time.Duration) time.Duration {
	return min(max(shortMoment, momentPaces*time.Duration(p.nanos.Load())), longest)
}
