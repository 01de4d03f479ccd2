package resolve

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
	"github.com/gwanmun/gwanmun/pkg/resilience"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// promised is P4 for a resolver that sweeps this often.
func promised(interval time.Duration) time.Duration { return 2*interval + 10*time.Second }

// sweeping are the default flags with this interval.
func sweeping(interval time.Duration) Flags {
	flags := testFlags()
	flags.SweepInterval = interval
	return flags
}

// putMany stores rows that became UNKNOWN now, with numbers from first on.
func putMany(t *testing.T, store ledger.Store, first, count int) []tranid.ID {
	t.Helper()
	ids := make([]tranid.ID, count)
	for i := range ids {
		ids[i] = put(t, store, time.Now, unknown{number: int64(first + i)})
	}
	return ids
}

func setOf(ids []tranid.ID) map[tranid.ID]bool {
	set := make(map[tranid.ID]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}

// Rows that the core ignores arrive all at once, before, around and after a
// fresh one that it answers.
func TestSweep_P4HoldsAmongHundredsOfRowsThatTheCoreIgnores(t *testing.T) {
	const ignored = 500
	for _, interval := range []time.Duration{time.Second, 5 * time.Second, time.Minute} {
		for _, before := range []int{0, ignored / 2, ignored} {
			t.Run(fmt.Sprintf("sweep %s, %d before it", interval, before), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := newHouse(nil, sweeping(interval), time.Now)
					defer h.running(t)()
					time.Sleep(time.Millisecond) // just missed by the first pass
					bad := putMany(t, h.store, 0, before)
					fresh := put(t, h.store, time.Now, unknown{number: ignored})
					bad = append(bad, putMany(t, h.store, ignored+1, ignored-before)...)
					silent := setOf(bad)
					h.core.answers(ignores(func(id tranid.ID) bool { return silent[id] }))
					settledWithin(t, h.store, promised(interval), fresh)
					// And once more, when they have all been found out.
					time.Sleep(time.Minute)
					settledWithin(t, h.store, promised(interval), putMany(t, h.store, 3*ignored, 20)...)
					time.Sleep(20 * time.Minute)
					settledWithin(t, h.store, promised(interval), putMany(t, h.store, 4*ignored, 20)...)
				})
			})
		}
	}
}

// They keep coming, as when the core has lost a part of its book.
func TestSweep_P4HoldsWhileRowsThatTheCoreIgnoresKeepComing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		h.core.answers(ignores(func(id tranid.ID) bool { return id[len(id)-1] != '0' }))
		defer h.running(t)()
		for i := range 60 {
			first := i * 200
			putMany(t, h.store, first+1, 99) // by fives in a second and more
			fresh := put(t, h.store, time.Now, unknown{number: int64(first + 100)})
			putMany(t, h.store, first+101, 9)
			settledWithin(t, h.store, promise, fresh)
		}
	})
}

// After an outage thousands are due: those drain, and what comes meanwhile does
// not wait for them.
func TestSweep_P4HoldsForAFreshRowWhileThousandsDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		due := putMany(t, h.store, 0, 10_000)
		// Some 60 a second: nearly three minutes.
		h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
			time.Sleep(150 * time.Millisecond)
			return says("01", "01")(ctx, call, mti, id)
		})
		defer h.running(t)()
		for i := range 5 {
			time.Sleep(10 * time.Second)
			settledWithin(t, h.store, promise, putMany(t, h.store, 20_000+i, 1)...)
		}
		left, err := h.store.Backlog(t.Context())
		must(t, err)
		if left.Unknown < 1000 {
			t.Fatalf("only %d left: it proved nothing", left.Unknown)
		}
		settledWithin(t, h.store, 5*time.Minute, due...)
		if n := h.core.count("0400", ""); n > 10_010 {
			t.Errorf("%d inquiries about %d rows", n, 10_005)
		}
	})
}

// What was abandoned is adopted on the way.
func TestSweep_P4HoldsForAFreshRowWhileThousandsAreAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowAdoption{Store: memstore.New(time.Now)}
		h := newHouse(store, testFlags(), time.Now)
		for i := range 2000 {
			request(t, store, time.Now, unknown{number: int64(i)})
		}
		time.Sleep(13 * time.Second)
		defer h.running(t)()
		time.Sleep(time.Second)
		fresh := put(t, store, time.Now, unknown{number: 5000})
		settledWithin(t, store, promise, fresh)
		if n := store.batches.Load(); n > 60 {
			t.Errorf("%d batches adopted before it", n)
		}
	})
}

// slowAdoption is a ledger that takes half a second to adopt a batch.
type slowAdoption struct {
	*memstore.Store
	batches atomic.Int64
}

func (s *slowAdoption) Adopt(ctx context.Context, limit int, by ledger.Actor) (int, error) {
	s.batches.Add(1)
	time.Sleep(500 * time.Millisecond)
	return s.Store.Adopt(ctx, limit, by)
}

// An adoption that fails keeps nothing waiting that is due.
func TestSweep_AFailedAdoptionDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &noAdoption{Store: memstore.New(time.Now)}
		h := newHouse(store, testFlags(), time.Now)
		defer h.running(t)()
		time.Sleep(time.Millisecond)
		settledWithin(t, store, promise, putMany(t, store, 0, 50)...)
	})
}

type noAdoption struct{ *memstore.Store }

func (noAdoption) Adopt(context.Context, int, ledger.Actor) (int, error) { return 0, errTest }

// Rows whose answer makes the parser panic.
func TestSweep_P4HoldsBesideRowsThatPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		poison := setOf(putMany(t, h.store, 0, 100))
		h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
			if poison[id] {
				answer := answer0410(id, "01", "0000")
				_ = call.Check(answer[:3:3]) // what no link does
				panic("an answer that nobody thought of")
			}
			return says("01", "01")(ctx, call, mti, id)
		})
		defer h.running(t)()
		for i := range 20 {
			settledWithin(t, h.store, promise, putMany(t, h.store, 1000+10*i, 10)...)
			time.Sleep(1700 * time.Millisecond)
		}
		for id := range poison {
			if row := get(t, h.store, id); row.Status != ledger.StatusUnknown {
				t.Errorf("%s", row.Status)
			}
		}
	})
}

// Both circuits are open for ten seconds and pass what comes for two, over and
// over; hundreds of rows are waiting that nothing comes of.
func TestSweep_P4HoldsWhileBothCircuitsFlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		start := time.Now()
		bad := setOf(putMany(t, h.store, 0, 300))
		h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
			const open, cycle = 10 * time.Second, 12 * time.Second
			if at := time.Since(start) % cycle; at < open {
				name := resilience.CoreQuery
				if mti == telegram.CancelRequestMTI {
					name = resilience.CoreRequest
				}
				return corelink.Result{Sent: corelink.SentNone, Err: &resilience.OpenError{Name: name, State: resilience.Open, RetryAfter: open - at}}
			}
			if bad[id] {
				return silent(ctx, call, mti, id)
			}
			return says("02", "02")(ctx, call, mti, id)
		})
		defer h.running(t)()
		for i := range 50 {
			settledWithin(t, h.store, promise, put(t, h.store, time.Now, unknown{number: int64(1000 + i)}))
			time.Sleep(1700 * time.Millisecond)
		}
	})
}

// A core that has become slow is waited for, and its rows are not asked twice
// for ever.
func TestSweep_ASlowCoreIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		h.core.answers(slow(2 * time.Second))
		ids := putMany(t, h.store, 0, 200)
		defer h.running(t)()
		settledWithin(t, h.store, 5*time.Minute, ids...)
		asked := h.core.count("0400", "")
		if asked > 400 {
			t.Errorf("%d inquiries about 200 rows", asked)
		}
		// From now on it is known to be slow.
		settledWithin(t, h.store, 5*time.Minute, putMany(t, h.store, 1000, 200)...)
		if n := h.core.count("0400", "") - asked; n != 200 {
			t.Errorf("%d inquiries about the next 200 rows", n)
		}
	})
}

// slow answers after so long, to those who still wait.
func slow(after time.Duration) answering {
	return func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
		select {
		case <-time.After(after):
			return says("02", "02")(ctx, call, mti, id)
		case <-ctx.Done():
			return corelink.Result{Sent: corelink.SentAll, Err: fmt.Errorf("%w: %w", corelink.ErrAbandoned, ctx.Err())}
		}
	}
}

// A first inquiry that there was no time even to connect for was made: the next
// one has more.
func TestSweep_AConnectionThatTakesLongIsWaitedForTheSecondTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
			select {
			case <-time.After(500 * time.Millisecond):
				return says("02", "02")(ctx, call, mti, id)
			case <-ctx.Done():
				return corelink.Result{Sent: corelink.SentNone, Err: fmt.Errorf("%w: %w", corelink.ErrAbandoned, ctx.Err())}
			}
		})
		defer h.running(t)()
		time.Sleep(time.Millisecond)
		settledWithin(t, h.store, promise, putMany(t, h.store, 0, 30)...)
	})
}

// Whatever is ignored, inquiries never take all connections, nor do net cancels.
func TestSweep_ConnectionsAreLeftForOperators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		putInReview(t, h.store, 50)
		putMany(t, h.store, 100, 500)
		var now, most [2]atomic.Int64
		h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
			pool := count(mti == telegram.CancelRequestMTI)
			n := now[pool].Add(1)
			defer now[pool].Add(-1)
			for m := most[pool].Load(); n > m && !most[pool].CompareAndSwap(m, n); m = most[pool].Load() {
			}
			if pool == 0 && call.Kind == corelink.Inquiry && id[len(id)-1]%2 == 0 {
				return silent(ctx, call, mti, id)
			}
			if pool == 1 {
				return silent(ctx, call, mti, id)
			}
			return says("01", "")(ctx, call, mti, id)
		})
		defer h.running(t)()
		time.Sleep(2 * time.Minute)
		for pool := range most {
			if m := most[pool].Load(); m < 2 || m > 14 {
				t.Errorf("pool %d: %d connections at once", pool, m)
			}
		}
	})
}
