package tranid

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// maxBlock bounds how far a block grows with the demand. At 50,000 IDs a
	// second it is two or three round trips a second. What a restart leaves unused
	// is one and a half blocks and the reserve, of 1,000,000,000 numbers a day.
	maxBlock = 20_000
	// reserveSize is how many numbers of a day are kept for inquiries: a minute
	// without a database at 1,000 of them a second.
	reserveSize = 60_000
	// reserveSlice is how many of them are taken at a time; see the Allocator.
	reserveSlice = 10_000
	// patience is how long an inquiry waits for a database that has not answered,
	// before it takes of the reserve. Once it has waited, those after it do not.
	patience = 50 * time.Millisecond
	// maxRounds bounds how often a caller waits for a block of which others leave
	// it nothing. Blocks grow meanwhile.
	maxRounds = 100
)

// ErrDayExhausted says that all numbers of a day were given out.
var ErrDayExhausted = errors.New("the day's transaction numbers are used up")

// ErrClosed says that an Allocator takes no more numbers, and has none left.
var ErrClosed = errors.New("no more transaction numbers are taken")

// Blocks gives out blocks of a day's numbers, each number at most once for
// ever, over all instances.
type Blocks interface {
	// NextBlock takes up to count numbers of the day, the first of them at
	// least floor. It returns ErrDayExhausted when the day has none left.
	NextBlock(ctx context.Context, day Date, count, floor int64) (Block, error)
}

// Allocator gives out IDs from blocks that it takes from Blocks. It is safe for
// concurrent use.
//
// The next block is taken when the one in use is half used, in the background,
// so that nobody waits for the database while it answers; in the last minute of a
// day in Seoul, so are the next day's. One take is under way at a time, however
// many callers wait for it, and there is a goroutine only as long as it is.
//
// Beside the blocks it holds a reserve of each day, for NextReserved.
//
// # Why no number is given out twice
//
// By the table of the blocks, while there is one: it never gives a number again,
// however long a block is held. It matters to no block when its numbers are used.
//
// Should the table be lost, a block that is taken afterwards starts at ten for
// each millisecond of the day so far. A number that is held is in danger only
// while that floor is not above it; from then on no loss can bring it back. So it
// is young blocks that matter, and a reserve is the safer the longer it is held: of
// a block that starts at the floor, the floor has passed the last number after
// count/10 milliseconds. Numbers taken at less than 10,000 a second stay that
// close to it, and to keep the reserve from running ahead it is taken in slices,
// the next one when the floor has passed the one before, or a second later where
// demand is above that anyway. Blocks of the day to come lie above its floor, which
// is 0 until midnight, for at most a minute and some seconds, and that is the
// whole of the exception. In it too an Allocator names as the floor what it was
// given itself, which brings a table that was lost up to date: it never repeats a
// number of its own. What remains is two instances of which one took its numbers
// before the loss and the other after it, within those seconds; and there the
// unique key of the transactions stands in front of everything that is sent.
//
// The argument is of clocks that agree; one that is behind makes the time in
// which a loss does harm longer by as much.
type Allocator struct {
	blocks   Blocks
	now      func() time.Time
	smallest int64

	mu     sync.Mutex
	stocks []*stock // the day's and its neighbours', at most maxDays
	size   int64    // of the next block
	// fetching is whether a take is under way; ended is closed when it is no more,
	// and stop ends it.
	fetching bool
	ended    chan struct{}
	stop     context.CancelFunc
	// failing is whether the last take failed.
	failing bool
	closed  bool
	// asked is whether anybody asked for an ID since it was last looked at: nothing
	// is done for ever for a process that is not used.
	asked bool
	// rest keeps takes that nobody waits for from a database that failed, for
	// resting; pace keeps the reserve from running ahead of the floor; daily ends
	// when tomorrow's numbers are to be taken.
	rest, pace, daily pause
	resting           time.Duration
}

// NewAllocator returns an Allocator that takes blockSize numbers at a time, and
// more when they are used up fast. It starts nothing; Close ends what it starts
// later.
func NewAllocator(blocks Blocks, now func() time.Time, blockSize int64) *Allocator {
	return &Allocator{blocks: blocks, now: now, smallest: blockSize, size: blockSize}
}

// Warm takes the first numbers, and the reserve, in the background, so that the
// first caller finds them. It does not wait.
func (a *Allocator) Warm() {
	at := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = true
	a.start(at)
}

// Next returns an ID of the business day of now, and the moment that decided
// the day. It never touches the reserve: where there is no database, a payment
// could not be recorded either.
func (a *Allocator) Next(ctx context.Context) (ID, time.Time, error) { return a.next(ctx, false) }

// NextReserved is Next for what may go on without a database: an inquiry. Where
// the ordinary numbers are used up and the database does not give new ones
// quickly, it takes one of the reserve. With the reserve used up as well it is
// Next.
func (a *Allocator) NextReserved(ctx context.Context) (ID, time.Time, error) {
	return a.next(ctx, true)
}

func (a *Allocator) next(ctx context.Context, reserved bool) (ID, time.Time, error) {
	at := a.now()
	day := DateOf(at)
	for range maxRounds {
		number, r, ok := a.pick(at, day, reserved) //nolint:contextcheck // what it starts is for all callers, and outlives this one
		if ok {
			return New(day, number), at, nil
		}
		late := r.late
		if !reserved || r.isLate() { // the reserve is empty, then
			late = nil
		}
		select {
		case <-late:
		case <-ctx.Done():
			return "", at, fmt.Errorf("wait for transaction numbers: %w", ctx.Err())
		case <-r.done:
			if r.err == nil {
				continue
			}
			if !reserved {
				return "", at, r.err
			}
			if number, ok := a.rescue(day); ok {
				return New(day, number), at, nil
			}
			return "", at, r.err
		}
	}
	return "", at, fmt.Errorf("wait for transaction numbers: others took %d blocks", maxRounds)
}

// pick takes a number of what is held; where there is none, it returns the take
// to wait for.
func (a *Allocator) pick(at time.Time, day Date, reserved bool) (int64, *round, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = true
	s := a.stockOf(day)
	if number, ok := s.held.take(); ok {
		if s.low() || !at.Before(s.lastMinute) {
			a.start(at)
		}
		return number, nil, true
	}
	if reserved && (a.failing || s.exhausted || s.round != nil && s.round.isLate()) {
		if number, ok := s.reserve.take(); ok {
			a.start(at)
			return number, nil, true
		}
	}
	if s.round == nil {
		s.round = newRound()
	}
	r := s.round
	if a.closed {
		s.endRound(ErrClosed)
	}
	a.start(at)
	return 0, r, false
}

// rescue takes a number of the reserve, after the database has failed.
func (a *Allocator) rescue(day Date) (int64, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stockOf(day).reserve.take()
}

// Close lets no further take begin, ends the one that is under way and waits for
// its end. What is held may still be used.
func (a *Allocator) Close(ctx context.Context) error {
	a.mu.Lock()
	a.closed = true
	for _, p := range []*pause{&a.rest, &a.pace, &a.daily} {
		p.end()
	}
	fetching, ended := a.fetching, a.ended
	if fetching {
		a.stop()
	}
	a.mu.Unlock()
	if !fetching {
		return nil
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("end the take of transaction numbers: %w", ctx.Err())
	}
}
