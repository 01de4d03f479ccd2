package resolve

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// A resolver has four lanes, each with a rhythm, workers and places at the core
// of its own, so that no kind of row keeps another waiting:
//
//   - fresh: rows that were never asked about. Each of its exchanges gets a moment,
//     and whatever is not answered in it is a matter for the next lane. However many
//     rows the core ignores, one that came after or among them is asked soon.
//   - asked: rows that were asked before. Whatever the core ignores or is slow about
//     holds no more than this share. While there are more than have room, half of it
//     at most is taken by rows that are given the whole time, and the others are given
//     a moment: for those that are ignored for ever, one that was unlucky once does
//     not wait.
//   - review: rows that a human should look at, one batch in a pass.
//   - owed: final rows, which an operator has settled and the core is to be told of.
//     They are not asked about, and need no place for an inquiry.
type lane struct {
	name   string
	review bool
	owed   bool
	part   ledger.Part
	// hand is how many rows are in hand at once, at the core or at the ledger.
	hand *hand
	// inquiries and cancels are the places at the core: of what is under way
	// there. A row has a place for its inquiry when it is begun, so that none
	// waits for one while its lease runs.
	inquiries, cancels places
	// first is the lane of the rows that were never asked about.
	first bool
	// again is the lane of the rows that were, and are not in review.
	again bool
	// hinted is the lane of rows that the core has hinted at.
	hinted bool

	// wanted: a row was hastened, and nothing claimed since. nudged has a token when
	// there is to be a pass, or the one under way is to claim again.
	wanted atomic.Bool
	nudged chan struct{}
	// hurried is until when passes follow soon while there is no way to the core. Only
	// the pass under way touches it.
	hurried time.Time
	// newest is which end of what is due the next claim is of. Only the dispatch of
	// the pass under way touches it.
	newest bool
	// single: the last claim was of a row that is waited for.
	single bool
	// singles is how many such rows are in hand.
	singles atomic.Int32
	// told is when it was last logged that a pass ended early, toldOfAdoption that
	// what is abandoned was not adopted.
	told, toldOfAdoption time.Time
	// beat is when the last pass ended, or Run began.
	beat atomic.Pointer[time.Time]
}

// lanes share out the connections to the core that this process has, but for those
// of hints and operators.
func lanes(connections int, lease time.Duration) []*lane {
	share := func(l *lane, inquiries, cancels int) *lane {
		i, c := max(1, connections*inquiries/16), max(1, connections*cancels/16)
		l.hand, l.inquiries, l.cancels = newHand(i, c, lease), make(places, i), make(places, c)
		l.nudged = make(chan struct{}, 1)
		return l
	}
	return []*lane{
		share(&lane{name: "fresh", part: ledger.PartFresh, first: true}, 9, 7),
		share(&lane{name: "asked", part: ledger.PartAsked, again: true}, 4, 6),
		share(&lane{name: "review", review: true}, 1, 1),
		{name: "owed", owed: true, hand: newHand(1, 1, lease), cancels: make(places, 1)},
	}
}

// hintLane is that of rows that the core has hinted at.
func hintLane(lease time.Duration) *lane {
	return &lane{name: "hints", hinted: true, hand: newHand(1, 1, lease), inquiries: make(places, 1), cancels: make(places, 1)}
}

// places are taken by sending and given back by receiving; nil has no bound.
type places chan struct{}

// enter waits for a place.
func (p places) enter(ctx context.Context) error {
	if p == nil {
		return nil
	}
	select {
	case p <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", corelink.ErrAbandoned, ctx.Err())
	}
}

func (p places) leave() {
	if p != nil {
		<-p
	}
}

// turn is the way of one row along a lane.
type turn struct {
	lane *lane
	// leave gives back the row's place for an inquiry; twice is once.
	leave func()
	// brief is a way on which nothing is waited for longer than a moment.
	brief bool
	// hinted: the core has hinted at the row, and nobody else would have asked now. The
	// attempt leaves it as due as it was.
	hinted bool
}

// turn is that of a row which has its place for an inquiry.
func (l *lane) turn() turn {
	return turn{lane: l, leave: sync.OnceFunc(l.inquiries.leave), brief: l.first, hinted: l.hinted}
}

// next are the options of the lane's next claim. What is due is taken from both
// ends in turns: behind a backlog, what fell due last is not asked last. Of rows that
// were asked before, one that has been due longest and is waited for comes between.
func (l *lane) next(lease time.Duration) ledger.ClaimOptions {
	o := l.oldest(lease)
	if l.single = l.again && !l.single && int(l.singles.Load()) < max(1, cap(l.inquiries)/2); l.single {
		o.Limit = 1
		return o
	}
	o.Newest = l.newest && (l.first || l.again)
	l.newest = !l.newest
	return o
}

// crowded reports whether a claim of so many rows is of more than can be waited for.
func (l *lane) crowded(rows int) bool { return l.again && rows > cap(l.inquiries) }

// oldest are the options of a claim of what has been due longest.
func (l *lane) oldest(lease time.Duration) ledger.ClaimOptions {
	return ledger.ClaimOptions{Limit: ledger.MaxClaim, Lease: lease, Review: l.review, Only: l.part, Owed: l.owed}
}

// hastened reports whether rows were, of which a claim that is made now has the first.
func (l *lane) hastened(now time.Time) bool {
	if !l.wanted.Swap(false) {
		return false
	}
	l.hurried = now.Add(hintHurry)
	return true
}

// wake has the lane claim soon, in the pass under way or in one that begins.
func (l *lane) wake() {
	select {
	case l.nudged <- struct{}{}:
	default:
	}
}

// laneOf is the lane of a row that is UNKNOWN.
func (r *Resolver) laneOf(t *ledger.Transaction) *lane {
	at := slices.IndexFunc(r.lanes, func(l *lane) bool {
		switch {
		case t.NeedsReview:
			return l.review
		case t.Asked:
			return l.again
		default:
			return l.first
		}
	})
	return r.lanes[at]
}

// beats notes that a pass has ended.
func (l *lane) beats(now time.Time) { l.beat.Store(&now) }

// oldestBeat is the lane whose last pass ended first, and when; nil before Run.
func (r *Resolver) oldestBeat() (*lane, time.Time) {
	var oldest *lane
	var at time.Time
	for _, l := range r.lanes {
		switch beat := l.beat.Load(); {
		case beat == nil:
			return nil, time.Time{}
		case oldest == nil || beat.Before(at):
			oldest, at = l, *beat
		}
	}
	return oldest, at
}
