package resolve

import (
	"sync/atomic"
	"time"
)

const (
	// shortMoment is the least time that an exchange is given which is waited for
	// a moment, crowdMoment while the core ignores many: thousands of them are past
	// in seconds, and those that it answers among them.
	shortMoment = 200 * time.Millisecond
	crowdMoment = 50 * time.Millisecond
	// momentPaces is how many times as long as the core takes to answer is a
	// moment.
	momentPaces = 4
	// paceShare is how much of a slower answer the pace takes over.
	paceShare = 8
	// all is the share of exchanges that were not answered when none was, shareStep
	// how much of the next one the share takes over, and manyIgnored a share that is
	// a crowd.
	all         = 1 << 10
	shareStep   = 16
	manyIgnored = all / 4
)

// pace is how long the core takes to answer: an answer that is faster sets it,
// one that is slower moves it a little. So a core that has become slow is waited
// for, after a few answers, and one slow answer among others changes nothing. The
// first answer sets it, however slow.
type pace struct {
	nanos atomic.Int64
	// ignored is the share of the last exchanges that were not answered in time.
	ignored atomic.Int64
}

// answered takes note of an answer.
func (p *pace) answered(after time.Duration) {
	was, now := p.nanos.Load(), max(1, int64(after))
	if was != 0 {
		now = min(now, was+(now-was)/paceShare)
	}
	// Should another have been at it, its note is as good.
	p.nanos.CompareAndSwap(was, now)
	p.share(0)
}

// unanswered takes note of an exchange that was not answered in its time.
func (p *pace) unanswered() { p.share(all) }

// share moves the share of what was not answered towards the last exchange's.
func (p *pace) share(last int64) {
	was := p.ignored.Load()
	p.ignored.CompareAndSwap(was, was+(last-was)/shareStep)
}

// known reports whether the core has answered at all.
func (p *pace) known() bool { return p.nanos.Load() != 0 }

// moment is how long what is not waited for to the end is given, at most longest.
func (p *pace) moment(longest time.Duration) time.Duration {
	least := shortMoment
	if p.known() && p.ignored.Load() > manyIgnored {
		least = crowdMoment
	}
	return min(max(least, momentPaces*time.Duration(p.nanos.Load())), longest)
}
