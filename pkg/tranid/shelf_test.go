package tranid_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// The sizes that the allocator promises.
const (
	reserve      = 60_000
	reserveSlice = 10_000
	patience     = 50 * time.Millisecond
)

var errDown = errors.New("no database")

// taken is a block that was given, and how far its end was above the floor.
type taken struct {
	tranid.Block
	lead int64
}

// shelf gives out blocks as a database would, and may be made to fail.
type shelf struct {
	now func() time.Time

	mu     sync.Mutex
	next   map[tranid.Date]int64
	given  []taken
	asked  int
	fail   error
	trip   time.Duration // how long a round trip takes
	stall  chan struct{} // while it is open, nothing is answered
	panics bool
}

func newShelf(now func() time.Time) *shelf {
	return &shelf{now: now, next: make(map[tranid.Date]int64)}
}

func (s *shelf) NextBlock(ctx context.Context, day tranid.Date, count, floor int64) (tranid.Block, error) {
	s.mu.Lock()
	s.asked++
	trip, stall := s.trip, s.stall
	s.mu.Unlock()
	time.Sleep(trip) // of the bubble
	if stall != nil {
		select {
		case <-stall:
		case <-ctx.Done():
			return tranid.Block{}, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.panics {
		panic("a bug")
	}
	if s.fail != nil {
		return tranid.Block{}, s.fail
	}
	block, err := tranid.TakeBlock(day, s.next[day], count, floor)
	if err == nil {
		s.next[day] = block.First + block.Count
		s.given = append(s.given, taken{block, s.next[day] - s.now().Sub(day.Start()).Milliseconds()*10})
	}
	return block, err
}

// set changes what the shelf does.
func (s *shelf) set(change func(*shelf)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *shelf) down() { s.set(func(s *shelf) { s.fail = errDown }) }
func (s *shelf) up()   { s.set(func(s *shelf) { s.fail = nil }) }

// lose loses the table of the blocks.
func (s *shelf) lose() { s.set(func(s *shelf) { clear(s.next) }) }

// blocks are those given that are no slice of a reserve, or those that are.
func (s *shelf) blocks(ofReserve bool) []taken {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []taken
	for _, b := range s.given {
		if (b.Count == reserveSlice) == ofReserve {
			found = append(found, b)
		}
	}
	return found
}

// clock goes with the bubble's, and may be set.
type clock struct {
	offset atomic.Int64
	reads  atomic.Int64
}

func (c *clock) now() time.Time {
	c.reads.Add(1)
	return time.Now().Add(time.Duration(c.offset.Load()))
}

func (c *clock) step(d time.Duration) { c.offset.Add(int64(d)) }
func (c *clock) set(at time.Time)     { c.step(at.Sub(c.now())) }

// noon is far from both ends of the day in Seoul.
var noon = time.Date(2026, 7, 25, 3, 0, 0, 0, time.UTC)

// desk is an allocator at noon, in a bubble, with its surroundings. What it gives
// out it must not have given before.
type desk struct {
	*testing.T
	*tranid.Allocator
	*clock
	shelf *shelf
	seen  map[tranid.ID]bool
}

func atDesk(t *testing.T, blockSize int64, test func(d *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &clock{}
		c.set(noon)
		s := newShelf(c.now)
		d := &desk{T: t, Allocator: tranid.NewAllocator(s, c.now, blockSize), clock: c, shelf: s, seen: map[tranid.ID]bool{}}
		t.Cleanup(func() {
			if err := d.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		test(d)
	})
}

// another is a further instance on the same shelf, or on another one.
func (d *desk) another(s *shelf, blockSize int64) *desk {
	other := *d
	other.shelf = s
	other.Allocator = tranid.NewAllocator(s, d.now, blockSize)
	d.Cleanup(func() { _ = other.Close(context.Background()) })
	return &other
}

// id notes an ID that was given out.
func (d *desk) id(id tranid.ID, at time.Time, err error) tranid.ID {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
	if d.seen[id] {
		d.Fatalf("%s twice", id)
	}
	if id.Date() != tranid.DateOf(at) {
		d.Fatalf("%s at %s", id, at)
	}
	d.seen[id] = true
	return id
}

func (d *desk) pay() tranid.ID     { d.Helper(); return d.id(d.Next(d.Context())) }
func (d *desk) inquire() tranid.ID { d.Helper(); return d.id(d.NextReserved(d.Context())) }

// drain takes what is held for inquiries, and says how much that was.
func (d *desk) drain() int {
	d.Helper()
	for n := 0; ; n++ {
		id, at, err := d.NextReserved(d.Context())
		if err != nil {
			return n
		}
		d.id(id, at, nil)
	}
}

// pass lets time go by, and what is under way go on.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
