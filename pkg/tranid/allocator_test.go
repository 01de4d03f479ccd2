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

func TestAllocator_StartsAtTenForEachMillisecondOfTheDay(t *testing.T) {
	atDesk(t, 3, func(d *desk) {
		d.step(123 * time.Millisecond)
		id, at, err := d.Next(d.Context())
		if err != nil || !at.Equal(noon.Add(123*time.Millisecond)) {
			t.Fatalf("at %s, error %v", at, err)
		}
		if want := tranid.New(tranid.DateOf(noon), 12*3600*1000*10+1230); id != want {
			t.Errorf("%s, want %s", id, want)
		}
	})
}

func TestAllocator_NextBlockIsTakenWhenHalfIsUsed(t *testing.T) {
	atDesk(t, 10, func(d *desk) {
		for used, want := range []int{1, 1, 1, 1, 2} {
			d.pay()
			synctest.Wait()
			if got := len(d.shelf.blocks(false)); got != want {
				t.Errorf("%d blocks for %d IDs, want %d", got, used+1, want)
			}
		}
	})
}

func TestAllocator_NobodyWaitsForARoundTripWhileBlocksAreFetchedAhead(t *testing.T) {
	atDesk(t, 1000, func(d *desk) {
		d.shelf.trip = 5 * time.Millisecond
		d.pay()
		for range 3000 { // milliseconds, at 50,000 IDs a second
			begin := time.Now()
			for range 50 {
				d.pay()
			}
			if waited := time.Since(begin); waited != 0 {
				t.Fatalf("waited for %s after %d IDs", waited, len(d.seen))
			}
			time.Sleep(time.Millisecond)
		}
	})
}

func TestAllocator_BlocksGrowWithTheDemandAndShrinkAgain(t *testing.T) {
	atDesk(t, 1000, func(d *desk) {
		serve := func(seconds, inMillisecond int) (trips int, last int64) {
			before := len(d.shelf.blocks(false))
			for range seconds * 1000 {
				for range inMillisecond {
					d.pay()
				}
				pass(time.Millisecond)
			}
			all := d.shelf.blocks(false)
			return len(all) - before, all[len(all)-1].Count
		}
		serve(2, 50)
		if trips, last := serve(2, 50); trips > 6 || last != 20_000 {
			t.Errorf("at 50,000 a second: %d round trips in 2 s, blocks of %d", trips, last)
		}
		serve(60, 1)
		if trips, last := serve(4, 1); trips > 4 || last > 2500 {
			t.Errorf("at 1,000 a second: %d round trips in 4 s, blocks of %d", trips, last)
		}
	})
}

func TestAllocator_NoIDTwiceForManyGoroutinesAndInstances(t *testing.T) {
	atDesk(t, 7, func(d *desk) {
		instances := []*desk{d, d.another(d.shelf, 11), d.another(d.shelf, 1000)}
		var mu sync.Mutex
		seen := map[tranid.ID]bool{}
		var all sync.WaitGroup
		const callers, each = 64, 200
		for i := range callers {
			all.Go(func() {
				next := instances[i%3].Next
				if i%2 == 0 {
					next = instances[i%3].NextReserved
				}
				for range each {
					id, _, err := next(context.Background())
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					seen[id] = true
					mu.Unlock()
				}
			})
		}
		all.Wait()
		if len(seen) != callers*each {
			t.Errorf("%d different IDs of %d", len(seen), callers*each)
		}
	})
}

func TestAllocator_ManyWhoNeedABlockTakeOne(t *testing.T) {
	atDesk(t, 1000, func(d *desk) {
		d.shelf.trip = time.Second
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if _, _, err := d.Next(d.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if got := len(d.shelf.blocks(false)); got != 1 {
			t.Errorf("%d blocks were taken, want 1", got)
		}
	})
}

func TestAllocator_WaitEndsWithTheContextAndTheTakeGoesOn(t *testing.T) {
	atDesk(t, 100, func(d *desk) {
		release := make(chan struct{})
		d.shelf.stall = release
		ctx, cancel := context.WithTimeout(d.Context(), time.Second)
		defer cancel()
		if _, _, err := d.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		close(release)
		d.pay()
		if len(d.shelf.blocks(false)) != 1 {
			t.Error("the take ended with its first caller")
		}
	})
}

func TestAllocator_ReadsTheClockOnceForAnID(t *testing.T) {
	atDesk(t, 1000, func(d *desk) {
		d.Warm()
		pass(10 * time.Second)
		before := d.reads.Load()
		for range 400 {
			if _, _, err := d.Next(d.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if reads := d.reads.Load() - before; reads != 400 {
			t.Errorf("%d reads for 400 IDs", reads)
		}
	})
}

func TestAllocator_RestartWithTheClockSteppedBackRepeatsNothing(t *testing.T) {
	atDesk(t, 10, func(d *desk) {
		for range 50 {
			next := d.another(d.shelf, 10)
			for range 4 {
				next.pay()
			}
			d.step(-time.Second)
		}
	})
}

func TestAllocator_LostTableRepeatsNothingBelow10000ASecond(t *testing.T) {
	atDesk(t, 100, func(d *desk) {
		for range 20 {
			next := d.another(newShelf(d.now), 100) // a table that was lost
			for range 100 {
				next.pay()
			}
			pass(10 * time.Millisecond)
		}
	})
}

// Of two instances, one holds what it took before the table was lost.
func TestAllocator_WhatIsHeldForLongIsNotGivenAgainByALostTable(t *testing.T) {
	atDesk(t, 1000, func(d *desk) {
		d.Warm()
		pass(10 * time.Second)
		other := d.another(newShelf(d.now), 1000)
		other.Warm()
		pass(10 * time.Second)
		d.shelf.down()
		other.shelf.down()
		if n, m := d.drain(), other.drain(); n < reserve || m < reserve {
			t.Errorf("%d and %d IDs", n, m)
		}
	})
}

func TestAllocator_RepeatsNoneOfItsOwnWhenTheTableIsLost(t *testing.T) {
	atDesk(t, 1000, func(d *desk) {
		for range 300 {
			for range 200 {
				d.pay()
			}
			d.shelf.lose()
			pass(7 * time.Millisecond)
		}
		d.shelf.down()
		d.drain()
	})
}

func TestAllocator_DayThatIsUsedUpIsAnError(t *testing.T) {
	atDesk(t, 10, func(d *desk) {
		day := tranid.DateOf(noon)
		d.shelf.next[day] = tranid.MaxNumber - 1
		if first, last := d.pay(), d.pay(); first != tranid.New(day, tranid.MaxNumber-1) || last != tranid.New(day, tranid.MaxNumber) {
			t.Errorf("%s and %s", first, last)
		}
		for _, next := range []func(context.Context) (tranid.ID, time.Time, error){d.Next, d.NextReserved, d.Next} {
			if id, _, err := next(d.Context()); !errors.Is(err, tranid.ErrDayExhausted) {
				t.Errorf("%s, error %v", id, err)
			}
		}
		d.step(24 * time.Hour)
		d.pay()
	})
}

func TestAllocator_InquiriesGoOnWhenTheDayIsUsedUp(t *testing.T) {
	atDesk(t, 10, func(d *desk) {
		d.Warm()
		pass(10 * time.Second)
		d.shelf.set(func(s *shelf) { s.next[tranid.DateOf(noon)] = tranid.MaxNumber + 1 })
		if n := d.drain(); n != 10+reserve {
			t.Errorf("%d IDs", n)
		}
	})
}

func TestAllocator_GoesOnAfterAFault(t *testing.T) {
	atDesk(t, 2, func(d *desk) {
		d.shelf.down()
		for range 3 {
			if _, _, err := d.Next(d.Context()); !errors.Is(err, errDown) {
				t.Errorf("error %v", err)
			}
		}
		d.shelf.up()
		d.pay()
	})
}

func TestAllocator_FaultOfTheBlocksEndsACallAndNoMore(t *testing.T) {
	atDesk(t, 2, func(d *desk) {
		d.shelf.panics = true
		if _, _, err := d.Next(d.Context()); err == nil {
			t.Error("no error")
		}
		d.shelf.set(func(s *shelf) { s.panics = false })
		d.pay()
	})
}

// lyingBlocks gives a block that nobody asked for.
type lyingBlocks tranid.Block

func (l lyingBlocks) NextBlock(context.Context, tranid.Date, int64, int64) (tranid.Block, error) {
	return tranid.Block(l), nil
}

func TestAllocator_RefusesABlockThatIsNot(t *testing.T) {
	day, lowest := tranid.DateOf(noon), int64(432_000_000)
	for what, block := range map[string]tranid.Block{
		"empty":           {Day: day, First: lowest},
		"of another day":  {Day: tranid.DateOf(noon.Add(24 * time.Hour)), First: lowest, Count: 1},
		"below the floor": {Day: day, First: lowest - 1, Count: 1},
		"beyond the last": {Day: day, First: tranid.MaxNumber, Count: 2},
	} {
		a := tranid.NewAllocator(lyingBlocks(block), func() time.Time { return noon }, 1)
		if id, _, err := a.Next(t.Context()); err == nil {
			t.Errorf("%s: %s", what, id)
		}
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func BenchmarkAllocator_Next64Callers(b *testing.B) {
	a := tranid.NewAllocator(newShelf(time.Now), time.Now, 1000)
	b.ReportAllocs()
	b.SetParallelism(32) // of 2 processors
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, _, err := a.Next(context.Background()); err != nil {
				b.Error(err)
				return
			}
		}
	})
	if err := a.Close(context.Background()); err != nil {
		b.Error(err)
	}
}
