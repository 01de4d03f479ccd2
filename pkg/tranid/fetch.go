package tranid

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// fetchTimeout is how long one take may last. Callers wait as long as their
	// own contexts let them.
	fetchTimeout = 3 * time.Second
	// A block that lasted for less than quick is followed by one twice as large,
	// and one that lasted for more than slow by one half as large.
	quick = 500 * time.Millisecond
	slow  = 4 * quick
	// After a take that failed, those that nobody waits for rest; each time twice
	// as long.
	firstRest = 250 * time.Millisecond
	lastRest  = 8 * time.Second
	// longestPace bounds how long the reserve waits for the floor, which may be
	// far behind where demand is high.
	longestPace = time.Second
)

// order is one take from Blocks.
type order struct {
	day     Date
	count   int64
	reserve bool
	// above is what the stock knows to be given out.
	above int64
}

// due is the take that is most urgent: what callers wait for, the next block, the
// reserve; today's before tomorrow's.
func (a *Allocator) due(at time.Time) (order, bool) {
	for _, s := range a.stocks {
		if s.round != nil {
			return order{day: s.day, count: a.size, above: s.end}, true
		}
	}
	if a.rest.on {
		return order{}, false
	}
	days := [...]Date{DateOf(at), DateOf(at.Add(ahead))}
	for _, day := range days {
		if s := a.stockOf(day); s.low() {
			return order{day: day, count: a.size, above: s.end}, true
		}
	}
	if a.pace.on {
		return order{}, false
	}
	for _, day := range days {
		if s := a.stockOf(day); s.wantsReserve() {
			return order{day: day, count: reserveSlice, reserve: true, above: s.end}, true
		}
	}
	return order{}, false
}

// start begins to take what is due, unless that is being done.
func (a *Allocator) start(at time.Time) {
	if a.fetching || a.closed {
		return
	}
	first, ok := a.due(at)
	if !ok {
		return
	}
	// It is for all callers, and ends with none of theirs.
	ctx, stop := context.WithCancel(context.Background())
	a.fetching, a.ended, a.stop = true, make(chan struct{}), stop
	go a.fetch(ctx, first)
}

// fetch takes one block after the other, as long as one is due: the demand and
// the pace bound it.
func (a *Allocator) fetch(ctx context.Context, o order) {
	for more := true; more; {
		at := a.now()
		block, err := a.take(ctx, o, at)
		o, more = a.settle(o, block, at, err)
	}
}

func (a *Allocator) take(ctx context.Context, o order, at time.Time) (Block, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	lowest := max(floor(at, o.day), o.above)
	block, err := a.ask(ctx, o, lowest)
	if err != nil {
		return Block{}, fmt.Errorf("take transaction numbers of %s: %w", o.day, err)
	}
	if block.Day != o.day || block.First < lowest || block.Count < 1 || block.end() > MaxNumber+1 {
		return Block{}, fmt.Errorf("take transaction numbers of %s from %d: the block is of %s, %d from %d",
			o.day, lowest, block.Day, block.Count, block.First)
	}
	return block, nil
}

// ask asks Blocks. A bug of theirs ends a take and not the process, as it would
// in a call.
func (a *Allocator) ask(ctx context.Context, o order, lowest int64) (block Block, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return a.blocks.NextBlock(ctx, o.day, o.count, lowest)
}

// settle puts away what was taken, and returns what is to be taken next.
func (a *Allocator) settle(o order, block Block, at time.Time, err error) (order, bool) {
	now := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.stockOf(o.day)
	switch {
	case err == nil:
		a.put(s, o, block, at)
	case errors.Is(err, ErrDayExhausted):
		s.exhausted = true
	default:
		a.failing = true
		a.resting = min(max(2*a.resting, firstRest), lastRest)
		a.hold(&a.rest, a.resting, a.wake)
	}
	if !o.reserve {
		s.endRound(err)
	}
	if !a.closed {
		if next, ok := a.due(now); ok {
			return next, true
		}
	}
	for _, s := range a.stocks {
		s.endRound(ErrClosed) // what is due is taken, but for a closed Allocator
	}
	a.hold(&a.daily, untilLastMinute(now), a.wake)
	a.fetching = false
	a.stop()
	close(a.ended)
	return order{}, false
}

func (a *Allocator) put(s *stock, o order, block Block, at time.Time) {
	a.failing, a.resting = false, 0
	a.rest.end()
	s.end, s.exhausted = block.end(), false
	if o.reserve {
		s.reserve.add(block)
		lead := time.Duration(max(block.end()-floor(at, o.day), 0)/perMillisecond) * time.Millisecond
		a.hold(&a.pace, min(lead, longestPace), a.start)
		return
	}
	switch lasted := at.Sub(s.taken); {
	case s.last == 0: // the day's first
	case lasted > slow:
		a.size = max(a.size/2, a.smallest)
	case lasted >= 0 && lasted < quick:
		a.size = max(min(2*a.size, maxBlock), a.smallest)
	}
	s.held.add(block)
	s.last, s.taken = block.Count, at
}

// wake goes on if anybody asked meanwhile. A process that nobody uses takes no
// more numbers, day after day.
func (a *Allocator) wake(at time.Time) {
	if !a.asked {
		return
	}
	a.asked = false
	a.start(at)
	if !a.fetching {
		a.hold(&a.daily, untilLastMinute(at), a.wake)
	}
}

// untilLastMinute is how long it takes to the next moment at which tomorrow's
// numbers are taken.
func untilLastMinute(at time.Time) time.Duration {
	next := DateOf(at.Add(ahead)).Start().Add(dayLength - ahead)
	return max(next.Sub(at), time.Second)
}

// pause is a while in which something is not done. It is a timer and no
// goroutine.
type pause struct {
	on    bool
	timer *time.Timer
}

// hold begins a pause, if it is not one already, and calls then after it, under
// the lock.
func (a *Allocator) hold(p *pause, d time.Duration, then func(at time.Time)) {
	if p.on || a.closed {
		return
	}
	p.on = true
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		at := a.now()
		a.mu.Lock()
		defer a.mu.Unlock()
		if p.timer != timer || !p.on { // it was ended, and perhaps begun anew
			return
		}
		p.on = false
		then(at)
	})
	p.timer = timer
}

// end ends a pause early.
func (p *pause) end() {
	if p.on {
		p.on = false
		p.timer.Stop()
	}
}
