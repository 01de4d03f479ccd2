package tranid

import (
	"slices"
	"time"
)

const (
	dayLength = 24 * time.Hour
	// ahead is how long before midnight tomorrow's numbers are taken.
	ahead = time.Minute
	// maxDays is of how many days numbers are held: yesterday's for a clock that
	// steps back, today's and tomorrow's.
	maxDays = 3
)

// stock is what is held of one day's numbers. The Allocator's lock guards it.
type stock struct {
	day        Date
	lastMinute time.Time
	held       pile // for whoever asks
	reserve    pile // for inquiries without a database
	// last is how large the last block was that went to held, and taken when that
	// was: it tells the demand.
	last  int64
	taken time.Time
	// end is one more than the highest number that was ever taken.
	end int64
	// exhausted is whether the day has given its last number.
	exhausted bool
	// round is what callers wait for; nil when none does.
	round *round
}

// stockOf is the stock of a day, a new one if there is none; what is held of the
// day that is farthest from it is given up for it.
func (a *Allocator) stockOf(day Date) *stock {
	for _, s := range a.stocks {
		if s.day == day {
			return s
		}
	}
	if len(a.stocks) >= maxDays {
		unwanted := a.farthest(day)
		a.stocks = slices.DeleteFunc(a.stocks, func(s *stock) bool { return s == unwanted })
	}
	s := &stock{day: day, lastMinute: day.Start().Add(dayLength - ahead)}
	a.stocks = append(a.stocks, s)
	return s
}

// farthest is the stock whose day is farthest from the given one, of those for
// which no caller waits; nil if there is none.
func (a *Allocator) farthest(day Date) *stock {
	var found *stock
	var most time.Duration
	for _, s := range a.stocks {
		if distance := s.day.Start().Sub(day.Start()).Abs(); s.round == nil && distance > most {
			found, most = s, distance
		}
	}
	return found
}

// low reports whether it is time for the next block.
func (s *stock) low() bool { return s.held.left*2 <= s.last && !s.exhausted }

// wantsReserve reports whether a slice of the reserve is missing.
func (s *stock) wantsReserve() bool {
	return s.reserve.left <= reserveSize-reserveSlice && !s.exhausted
}

// endRound tells those who wait how it ended.
func (s *stock) endRound(err error) {
	if s.round != nil {
		s.round.end(err)
		s.round = nil
	}
}

// pile is blocks of a day, the first to be used first.
type pile struct {
	blocks []Block
	left   int64
}

func (p *pile) add(b Block) {
	p.blocks = append(p.blocks, b)
	p.left += b.Count
}

func (p *pile) take() (int64, bool) {
	if p.left == 0 {
		return 0, false
	}
	number := p.blocks[0].First
	p.blocks[0].First++
	p.blocks[0].Count--
	p.left--
	if p.blocks[0].Count == 0 {
		p.blocks = slices.Delete(p.blocks, 0, 1)
	}
	return number, true
}

// round is a take that callers wait for.
type round struct {
	done chan struct{} // closed at its end; err is set then
	err  error
	late chan struct{} // closed when patience is over
	wait *time.Timer
}

func newRound() *round {
	r := &round{done: make(chan struct{}), late: make(chan struct{})}
	r.wait = time.AfterFunc(patience, func() { close(r.late) })
	return r
}

func (r *round) end(err error) {
	r.wait.Stop()
	r.err = err
	close(r.done)
}

func (r *round) isLate() bool {
	select {
	case <-r.late:
		return true
	default:
		return false
	}
}
