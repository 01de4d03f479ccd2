package resolve

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// within is a core that takes so long for each answer.
func within(took time.Duration, then answering) answering {
	return func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
		time.Sleep(took)
		return then(ctx, call, mti, id)
	}
}

// ignoring is a core that answers soon, but for the first rows of today.
func ignoring(rows int64) answering {
	return func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
		if id < numbered(rows) {
			return silent(ctx, call, mti, id)
		}
		return within(5*time.Millisecond, says("01", "01"))(ctx, call, mti, id)
	}
}

// aside stores a row that was asked about, and is due in a minute.
func aside(t *testing.T, h *house, number int64) tranid.ID {
	t.Helper()
	id := put(t, h.store, time.Now, unknown{number: number})
	claim, err := h.store.ClaimOne(t.Context(), id, time.Minute, payment)
	must(t, err)
	must(t, h.store.Postpone(t.Context(), ledger.Postponement{ID: id, Token: claim.Token, Delay: time.Minute, By: payment}))
	return id
}

// numbered is the ID of a row of today.
func numbered(number int64) tranid.ID { return tranid.New(tranid.DateOf(time.Now()), number) }

// fresh stores a row that is due, and that nobody has asked about.
func fresh(t *testing.T, h *house, number int64) tranid.ID {
	t.Helper()
	return put(t, h.store, time.Now, unknown{number: number})
}

func inReviewAgain(t *testing.T, h *house, number int64) tranid.ID {
	t.Helper()
	return inReview(t, h, unknown{number: number})
}

// After an outage the core calls back about all at once.
func TestHint_ABurstIsFinalWithoutASweep(t *testing.T) {
	for name, tc := range map[string]struct {
		rows  int
		state func(*testing.T, *house, int64) tranid.ID
		limit time.Duration
	}{
		"fresh":     {300, fresh, 500 * time.Millisecond},
		"asked":     {300, aside, time.Second},
		"in review": {60, inReviewAgain, time.Second},
		"thousands": {2000, fresh, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(nil, rarely(), time.Now)
				h.core.answers(within(5*time.Millisecond, says("01", "01")))
				defer h.running(t)()
				synctest.Wait()
				ids := make([]tranid.ID, tc.rows)
				for i := range ids {
					ids[i] = tc.state(t, h, int64(i+1))
				}
				for _, id := range ids {
					h.Hint(string(id))
				}
				t.Logf("final after %s", settledWithin(t, h.store, tc.limit, ids...))
				h.hinted(t, hintDropped, 0)
			})
		})
	}
}

// A flood of IDs that nobody knows keeps neither a hint about a row waiting that comes
// after it, nor what is due by itself.
func TestHint_AFloodOfForgedIDsDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &readCounter{faultyStore: faultyStore{Store: memstore.New(time.Now)}}
		h := newHouse(store, testFlags(), time.Now)
		h.core.answers(within(5*time.Millisecond, says("01", "01")))
		defer h.running(t)()
		synctest.Wait()
		store.readTime = time.Millisecond
		due, hinted, later := fresh(t, h, 1), aside(t, h, 2), aside(t, h, 3)
		for i := range hintBacklog - 1 {
			h.Hint(fmt.Sprintf("GWMNU20260105%09d", i))
		}
		h.Hint(string(hinted))
		settledWithin(t, h.store, 700*time.Millisecond, hinted)
		for i := range 100_000 {
			h.Hint(fmt.Sprintf("GWMNU20260106%09d", i))
		}
		settledWithin(t, h.store, testFlags().SweepInterval, due)
		h.Hint(string(later))
		settledWithin(t, h.store, 100*time.Millisecond, later)
	})
}

// A hundred thousand hints about one row are one, and hints that are worth something
// do not use up what may be looked into.
func TestHint_RepetitionsUseUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &readCounter{faultyStore: faultyStore{Store: memstore.New(time.Now)}}
		h := newHouse(store, rarely(), time.Now)
		one := aside(t, h, 1)
		writes := store.writes.Load()
		for range 100_000 {
			h.Hint(string(one))
		}
		other := aside(t, h, 2)
		h.Hint(string(other))
		defer h.running(t)()
		settledWithin(t, h.store, 100*time.Millisecond, one, other)
		if n := h.core.count("0400", one); n != 1 {
			t.Errorf("asked %d times", n)
		}
		if made := store.writes.Load() - writes; made > 4 {
			t.Errorf("%d writes", made)
		}
		h.hinted(t, hintDropped, 0)
		if h.hints.tokens < hintBacklog {
			t.Errorf("%v tokens are left", h.hints.tokens)
		}
	})
}

// The core hints at rows that it has not come to the end of, again and again: each is
// asked about once in five seconds, spends nothing, and is due when it was before.
func TestHint_RowsThatStayUnknownAreAskedOnceInARestAndSpendNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flags := rarely()
		flags.MaxAttempts = 1
		h := newHouse(nil, flags, time.Now)
		h.core.answers(within(5*time.Millisecond, says("04", "01")))
		defer h.running(t)()
		synctest.Wait()
		before := make([]ledger.Transaction, 50)
		for i := range before {
			before[i] = get(t, h.store, aside(t, h, int64(i+1)))
		}
		const rests = 4
		for range 10 * rests {
			for i := range before {
				h.Hint(string(before[i].ID))
			}
			time.Sleep(hintRest / 10)
		}
		time.Sleep(time.Second)
		for i := range before {
			after := get(t, h.store, before[i].ID)
			if off := after.NextResolveAt.Sub(before[i].NextResolveAt).Abs(); off > time.Second {
				t.Errorf("due %s off", off)
			}
			after.NextResolveAt = before[i].NextResolveAt
			if after != before[i] {
				t.Errorf("%+v, want %+v", after, before[i])
			}
			if n := h.core.count("0400", after.ID); n < rests-1 || n > rests {
				t.Errorf("%s was asked about %d times", after.ID, n)
			}
		}
		if asked := h.core.count("0400", ""); asked <= h.hints.lane.hand.least*rests {
			t.Errorf("%d inquiries: nothing was hastened", asked)
		}
	})
}

// Rows that nobody hints at are taken beside more than there is room for that are
// hinted at without end.
func TestHint_AFloodOfHintsStarvesNoOtherRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		const mad = 300
		h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
			if id < numbered(mad) {
				return within(400*time.Millisecond, says("04", "01"))(ctx, call, mti, id)
			}
			return says("01", "01")(ctx, call, mti, id)
		})
		for i := range mad {
			aside(t, h, int64(i))
		}
		defer h.running(t)()
		ctx, stop := context.WithCancel(t.Context())
		var flood sync.WaitGroup
		flood.Go(func() {
			for ctx.Err() == nil {
				for i := range int64(mad) {
					h.Hint(string(numbered(i)))
				}
				time.Sleep(time.Second)
			}
		})
		defer func() { stop(); flood.Wait() }()
		time.Sleep(10 * time.Second)
		var others, soon []tranid.ID
		for i := range int64(20) {
			soon, others = append(soon, fresh(t, h, mad+i)), append(others, aside(t, h, mad+100+i))
		}
		settledWithin(t, h.store, testFlags().SweepInterval+time.Second, soon...)
		// Due in a minute, beside rows that keep half of the lane's four places busy
		// for a minute.
		settledWithin(t, h.store, 2*time.Minute+3*testFlags().SweepInterval, others...)
	})
}

// What the core says to an inquiry may be from before what it hints at meanwhile. Then
// it is asked once more, which spends nothing should it say the same.
func TestHint_DuringAnInquiryTheRowIsAskedAgain(t *testing.T) {
	for _, ends := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			h := newHouse(nil, rarely(), time.Now)
			ids := make([]tranid.ID, 8) // more than the hints have workers
			for i := range ids {
				ids[i] = fresh(t, h, int64(i+1))
			}
			var done atomic.Bool
			h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
				answer := says("04", "01")
				if done.Load() {
					answer = says("01", "01")
				}
				return within(100*time.Millisecond, answer)(ctx, call, mti, id)
			})
			defer h.running(t)()
			time.Sleep(50 * time.Millisecond)
			done.Store(ends)
			for _, id := range ids {
				h.Hint(string(id))
			}
			if ends {
				settledWithin(t, h.store, time.Second, ids...)
				h.hinted(t, hintHastened, len(ids)-h.hints.lane.hand.least)
				return
			}
			time.Sleep(2 * time.Second)
			for _, id := range ids {
				row, asked := get(t, h.store, id), h.core.count("0400", id)
				if row.ResolveAttempts > 1 || asked < 2 || asked > 3 {
					t.Errorf("%d attempts, asked %d times", row.ResolveAttempts, asked)
				}
			}
		})
	}
}

// The core is back and calls, while the circuit to it is open yet.
func TestHint_BeforeThereIsAWayToTheCoreRowsAreTriedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flags := rarely()
		flags.MaxAttempts = 1
		h := newHouse(nil, flags, time.Now)
		h.core.answers(refused)
		defer h.running(t)()
		synctest.Wait()
		ids := make([]tranid.ID, 100)
		for i := range ids {
			ids[i] = aside(t, h, int64(i+1))
			h.Hint(string(ids[i]))
		}
		time.Sleep(10 * time.Second)
		h.core.answers(within(5*time.Millisecond, says("01", "01")))
		settledWithin(t, h.store, hintRetry+500*time.Millisecond, ids...)
	})
}

// What could not be sent at first spends as little as what could.
func TestHint_BeforeThereIsAWayToTheCoreNothingIsSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, rarely(), time.Now)
		h.core.answers(refused)
		defer h.running(t)()
		synctest.Wait()
		ids := make([]tranid.ID, 20)
		for i := range ids {
			ids[i] = aside(t, h, int64(i+1))
			h.Hint(string(ids[i]))
		}
		time.Sleep(2 * hintRetry)
		h.core.answers(says("04", "01"))
		time.Sleep(2 * hintRetry)
		for _, id := range ids {
			row := get(t, h.store, id)
			if row.ResolveAttempts != 0 || time.Until(row.NextResolveAt) < 50*time.Second || h.core.count("0400", id) != 1 {
				t.Errorf("%d attempts, asked %d times, due in %s", row.ResolveAttempts, h.core.count("0400", id), time.Until(row.NextResolveAt))
			}
		}
	})
}

// A core that calls although there is no way to it is not tried for long.
func TestHint_WithoutAWayToTheCoreItIsTriedForAWhileOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, rarely(), time.Now)
		var tries atomic.Int64
		h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
			tries.Add(1)
			return refused(ctx, call, mti, id)
		})
		defer h.running(t)()
		synctest.Wait()
		for i := range 100 {
			h.Hint(string(aside(t, h, int64(i+1))))
		}
		time.Sleep(hintHurry + 2*hintRetry)
		before := tries.Load()
		time.Sleep(5 * time.Minute)
		if more := tries.Load() - before; before > 2000 || more != 0 {
			t.Errorf("%d tries, and %d when it should have been left alone", before, more)
		}
	})
}

// What the ledger refuses to hasten may be hinted at again at once.
func TestHint_ThatTheLedgerRefusedDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &readCounter{faultyStore: faultyStore{Store: memstore.New(time.Now)}}
		h := newHouse(store, rarely(), time.Now)
		h.core.answers(silent)
		defer h.running(t)()
		synctest.Wait()
		for i := range h.hints.lane.hand.least {
			h.Hint(string(aside(t, h, int64(i+1))))
		}
		synctest.Wait()
		late := aside(t, h, 100)
		store.refuses.Store(true)
		h.Hint(string(late))
		synctest.Wait()
		h.hinted(t, hintDropped, 1)
		store.refuses.Store(false)
		h.core.answers(says("01", "01"))
		h.Hint(string(late))
		settledWithin(t, h.store, 500*time.Millisecond, late)
		time.Sleep(time.Minute) // or the stop waits for those that are silent
	})
}

// What is hastened when a pass has no time left is a matter of the next.
func TestHint_TooLateForAPassBeginsTheNext(t *testing.T) {
	h := newHouse(nil, rarely(), time.Now)
	for _, l := range h.lanes[:3] {
		l.wanted.Store(true)
		must(t, newPass(h.Resolver, l).run(t.Context(), time.Now()))
		if len(l.nudged) != 1 {
			t.Errorf("%s: no other pass", l.name)
		}
	}
}

// Rows that the core is slow about, in the hints' lane and in their own, keep no other
// waiting.
func TestHint_BehindRowsThatTheCoreIgnoresOthersAreSoonFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, rarely(), time.Now)
		const ignored = 4
		h.core.answers(ignoring(ignored))
		defer h.running(t)()
		synctest.Wait()
		hint := func(from, to int64) (ids []tranid.ID) {
			for i := from; i < to; i++ {
				id := aside(t, h, i)
				h.Hint(string(id))
				ids = append(ids, id)
			}
			time.Sleep(time.Millisecond)
			return ids
		}
		hint(0, 1) // the hints' place
		settledWithin(t, h.store, 500*time.Millisecond, hint(10, 20)...)
		hint(1, ignored) // and some of their lane's
		time.Sleep(2 * hintPatience)
		settledWithin(t, h.store, 500*time.Millisecond, hint(20, 40)...)
		time.Sleep(10 * time.Second) // or the stop waits for those that are ignored
	})
}
