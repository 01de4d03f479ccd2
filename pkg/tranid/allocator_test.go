package tranid_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// shelf gives out blocks as a database would, and may be made to fail.
type shelf struct {
	mu    sync.Mutex
	next  map[tranid.Date]int64
	calls int
	fail  error
	wait  func() // called before a block is given, without the lock
}

func (s *shelf) NextBlock(_ context.Context, day tranid.Date, count, floor int64) (tranid.Block, error) {
	if s.wait != nil {
		s.wait()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.fail != nil {
		return tranid.Block{}, s.fail
	}
	block, err := tranid.TakeBlock(day, s.next[day], count, floor)
	if err == nil {
		s.next[day] = block.First + block.Count
	}
	return block, err
}

func newShelf() *shelf { return &shelf{next: make(map[tranid.Date]int64)} }

// clock is set by hand.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

// noon is far from both ends of the day in Seoul.
var noon = time.Date(2026, 7, 25, 3, 0, 0, 0, time.UTC)

func next(t *testing.T, a *tranid.Allocator) tranid.ID {
	t.Helper()
	id, _, err := a.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestAllocator_StartsAtTenForEachMillisecondOfTheDay(t *testing.T) {
	c := &clock{at: noon.Add(123 * time.Millisecond)}
	a := tranid.NewAllocator(newShelf(), c.now, 3)
	id, at, err := a.Next(t.Context())
	if err != nil || !at.Equal(c.at) {
		t.Fatalf("at %s, error %v", at, err)
	}
	if want := tranid.New(tranid.DateOf(noon), 12*3600*1000*10+1230); id != want {
		t.Errorf("%s, want %s", id, want)
	}
}

func TestAllocator_TakesABlockForManyIDs(t *testing.T) {
	c, s := &clock{at: noon}, newShelf()
	a := tranid.NewAllocator(s, c.now, 3)
	seen := map[tranid.ID]bool{}
	for range 7 {
		seen[next(t, a)] = true
	}
	if len(seen) != 7 || s.calls != 3 {
		t.Errorf("%d IDs from %d blocks, want 7 from 3", len(seen), s.calls)
	}
}

func TestAllocator_NoIDTwiceForManyGoroutinesAndInstances(t *testing.T) {
	c, s := &clock{at: noon}, newShelf()
	instances := []*tranid.Allocator{tranid.NewAllocator(s, c.now, 7), tranid.NewAllocator(s, c.now, 11)}
	var mu sync.Mutex
	seen := map[tranid.ID]int{}
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			for range 100 {
				id, _, err := instances[i%2].Next(context.Background())
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				seen[id]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(seen) != 3200 {
		t.Errorf("%d different IDs of 3200", len(seen))
	}
}

func TestAllocator_ManyWhoNeedABlockTakeOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := &clock{at: noon}, newShelf()
		s.wait = func() { time.Sleep(time.Second) } // virtual: a slow database
		a := tranid.NewAllocator(s, c.now, 100)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if _, _, err := a.Next(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if s.calls != 1 {
			t.Errorf("%d blocks were taken, want 1", s.calls)
		}
	})
}

func TestAllocator_WaitEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := &clock{at: noon}, newShelf()
		release := make(chan struct{})
		s.wait = func() { <-release }
		a := tranid.NewAllocator(s, c.now, 100)
		var first sync.WaitGroup
		first.Go(func() {
			if _, _, err := a.Next(t.Context()); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := a.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		close(release)
		first.Wait()
		next(t, a)
	})
}

func TestAllocator_MidnightInSeoulTurnsTheDay(t *testing.T) {
	c, s := &clock{at: time.Date(2026, 7, 25, 14, 59, 59, 999_000_000, time.UTC)}, newShelf()
	a := tranid.NewAllocator(s, c.now, 100)
	before := next(t, a)
	c.set(c.now().Add(time.Millisecond))
	after, later := next(t, a), next(t, a)
	if before != "GWMNU20260725863999990" || after != "GWMNU20260726000000000" || later != "GWMNU20260726000000001" {
		t.Errorf("%s, then %s and %s", before, after, later)
	}
}

func TestAllocator_ClockThatStepsBackRepeatsNothing(t *testing.T) {
	c, s := &clock{at: noon}, newShelf()
	a := tranid.NewAllocator(s, c.now, 3)
	seen := map[tranid.ID]bool{}
	for _, step := range []time.Duration{0, -time.Hour, time.Hour, -24 * time.Hour, 24 * time.Hour, -time.Millisecond, -48 * time.Hour, 48 * time.Hour} {
		c.set(c.now().Add(step))
		for range 5 {
			id := next(t, a)
			if seen[id] {
				t.Fatalf("%s twice, after a step of %s", id, step)
			}
			seen[id] = true
			if id.Date() != tranid.DateOf(c.now()) {
				t.Errorf("%s at %s", id, c.now())
			}
		}
	}
}

func TestAllocator_RestartWithTheClockSteppedBackRepeatsNothing(t *testing.T) {
	c, s := &clock{at: noon}, newShelf()
	seen := map[tranid.ID]bool{}
	for range 50 {
		a := tranid.NewAllocator(s, c.now, 10)
		for range 4 {
			id := next(t, a)
			if seen[id] {
				t.Fatalf("%s twice", id)
			}
			seen[id] = true
		}
		c.set(c.now().Add(-time.Second))
	}
}

func TestAllocator_LostTableRepeatsNothingBelow10000ASecond(t *testing.T) {
	c := &clock{at: noon}
	seen := map[tranid.ID]bool{}
	for range 20 {
		a := tranid.NewAllocator(newShelf(), c.now, 100) // a table that was lost
		for range 100 {
			id := next(t, a)
			if seen[id] {
				t.Fatalf("%s twice", id)
			}
			seen[id] = true
		}
		c.set(c.now().Add(10 * time.Millisecond))
	}
}

func TestAllocator_DayThatIsUsedUpIsAnError(t *testing.T) {
	c, s := &clock{at: noon}, newShelf()
	day := tranid.DateOf(noon)
	s.next[day] = tranid.MaxNumber - 1
	a := tranid.NewAllocator(s, c.now, 10)
	if first, last := next(t, a), next(t, a); first != tranid.New(day, tranid.MaxNumber-1) || last != tranid.New(day, tranid.MaxNumber) {
		t.Errorf("%s and %s", first, last)
	}
	for range 2 {
		if id, _, err := a.Next(t.Context()); !errors.Is(err, tranid.ErrDayExhausted) {
			t.Errorf("%s, error %v", id, err)
		}
	}
	c.set(noon.Add(24 * time.Hour))
	if id := next(t, a); id.Date() == day {
		t.Errorf("%s on the next day", id)
	}
}

func TestAllocator_GoesOnAfterAFault(t *testing.T) {
	c, s := &clock{at: noon}, newShelf()
	a := tranid.NewAllocator(s, c.now, 2)
	fault := errors.New("no database")
	s.fail = fault
	for range 3 {
		if _, _, err := a.Next(t.Context()); !errors.Is(err, fault) {
			t.Errorf("error %v", err)
		}
	}
	s.fail = nil
	next(t, a)
}

func TestAllocator_UsesWhatIsLeftWhileThereIsNoDatabase(t *testing.T) {
	c, s := &clock{at: noon}, newShelf()
	a := tranid.NewAllocator(s, c.now, 3)
	next(t, a)
	s.fail = errors.New("no database")
	next(t, a)
	next(t, a)
	if _, _, err := a.Next(t.Context()); !errors.Is(err, s.fail) {
		t.Errorf("error %v", err)
	}
}

// lyingBlocks gives a block that nobody asked for.
type lyingBlocks tranid.Block

func (l lyingBlocks) NextBlock(context.Context, tranid.Date, int64, int64) (tranid.Block, error) {
	return tranid.Block(l), nil
}

func TestAllocator_RefusesABlockThatIsNot(t *testing.T) {
	day := tranid.DateOf(noon)
	for what, block := range map[string]tranid.Block{
		"empty":           {Day: day, First: 5},
		"of another day":  {Day: tranid.DateOf(noon.Add(24 * time.Hour)), First: 5, Count: 1},
		"negative":        {Day: day, First: -1, Count: 1},
		"beyond the last": {Day: day, First: tranid.MaxNumber, Count: 2},
	} {
		a := tranid.NewAllocator(lyingBlocks(block), func() time.Time { return noon }, 1)
		if id, _, err := a.Next(t.Context()); err == nil {
			t.Errorf("%s: %s", what, id)
		}
	}
}
