package resolve

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/corebank/simulator"
)

// rarely sweeps so seldom that what is soon is a hint's doing.
func rarely() Flags {
	flags := testFlags()
	flags.SweepInterval = time.Hour
	return flags
}

func (h *house) hinted(t *testing.T, result string, want int) {
	t.Helper()
	if got := testutil.ToFloat64(h.metrics.hints.WithLabelValues(result)); int(got) != want {
		t.Errorf("%v hints %s, want %d", got, result, want)
	}
}

// The core ends what is late 5 s after it was asked, and says so.
func TestHint_ALateAnswerIsFinalWellUnderASecondAfterIt(t *testing.T) {
	for _, tc := range []struct {
		policy ledger.Policy
		status ledger.Status
	}{{ledger.PolicyConfirm, ledger.StatusSuccess}, {ledger.PolicyNetCancel, ledger.StatusCanceled}} {
		synctest.Test(t, func(t *testing.T) {
			tn := newTown(t, rarely(), simulator.Options{LateAnswer: 5 * time.Second})
			defer tn.running(t)()
			synctest.Wait()
			id := tn.pay(t, 1, "55555555555555", tc.policy)
			time.Sleep(3 * time.Second)
			if row := get(t, tn.store, id); row.Status != ledger.StatusUnknown {
				t.Fatalf("%s before the hint", row.Status)
			}
			tn.Hint(string(id))
			settledWithin(t, tn.store, 100*time.Millisecond, id)
			if row := get(t, tn.store, id); row.Status != tc.status || lastEvent(t, tn.store, id).By.Name != ledger.ActorCallback {
				t.Errorf("%s by %s", row.Status, lastEvent(t, tn.store, id).By.Name)
			}
			tn.hinted(t, hintTaken, 1)
		})
	}
}

func TestHint_SpendsNoAttemptAndLeavesTheRowAsDueAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flags := rarely()
		flags.MaxAttempts = 1
		h := newHouse(nil, flags, time.Now)
		h.core.answers(says("04", "01"))
		defer h.running(t)()
		synctest.Wait()
		id := put(t, h.store, time.Now, unknown{number: 1})
		claim, err := h.store.ClaimOne(t.Context(), id, time.Minute, payment)
		must(t, err)
		must(t, h.store.Postpone(t.Context(), ledger.Postponement{ID: id, Token: claim.Token, Delay: 10 * time.Minute, By: payment}))
		before := get(t, h.store, id)
		for range 5 {
			h.Hint(string(id))
			time.Sleep(hintRest)
		}
		if after := get(t, h.store, id); after != before {
			t.Errorf("%+v, want %+v", after, before)
		}
		if n := h.core.count("0400", id); n != 5 {
			t.Errorf("asked %d times", n)
		}
	})
}

func TestHint_CountsOnceInFiveSecondsForARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, rarely(), time.Now)
		h.core.answers(says("04", "01"))
		defer h.running(t)()
		synctest.Wait()
		one, other := put(t, h.store, time.Now, unknown{number: 1}), put(t, h.store, time.Now, unknown{number: 2})
		for range 100 {
			h.Hint(string(one))
			h.Hint(string(other))
		}
		time.Sleep(time.Second)
		h.Hint(string(one))
		time.Sleep(time.Second)
		if a, b := h.core.count("0400", one), h.core.count("0400", other); a != 1 || b != 1 {
			t.Errorf("asked %d and %d times", a, b)
		}
		time.Sleep(hintRest)
		h.Hint(string(one))
		time.Sleep(time.Second)
		if n := h.core.count("0400", one); n != 2 {
			t.Errorf("asked %d times in the end", n)
		}
	})
}

func TestHint_ChangesNothingInAnyOtherState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, rarely(), time.Now)
		defer h.running(t)()
		synctest.Wait()
		early := request(t, h.store, time.Now, unknown{number: 1})
		done := inReview(t, h, unknown{number: 2})
		h.settleAs(t, done, ledger.StatusSuccess)
		owed := inReview(t, h, unknown{number: 3})
		h.settleAs(t, owed, ledger.StatusFailed)
		rows := map[tranid.ID]ledger.Transaction{}
		for _, id := range []tranid.ID{early, done, owed} {
			rows[id] = get(t, h.store, id)
		}
		for _, text := range []string{string(early), string(done), string(owed), "GWMNU20260105000000999", "GWMNU20260230000000001", "x", ""} {
			h.Hint(text)
		}
		time.Sleep(time.Second)
		for id, before := range rows {
			if after := get(t, h.store, id); after != before {
				t.Errorf("%+v, want %+v", after, before)
			}
		}
		if n := h.core.count("", ""); n != 0 {
			t.Errorf("%d frames left", n)
		}
		h.hinted(t, hintIdle, 7)
		time.Sleep(10 * time.Second)
		if row := get(t, h.store, early); row.Status != ledger.StatusRequested {
			t.Errorf("adopted before its time: %s", row.Status)
		}
	})
}

// readCounter counts what hints cost the ledger.
type readCounter struct {
	faultyStore
	reads, writes atomic.Int64
	// readTime is how long a read takes.
	readTime time.Duration
	// refuses is whether it hastens nothing.
	refuses atomic.Bool
}

func (c *readCounter) Get(ctx context.Context, id tranid.ID) (ledger.Transaction, error) {
	c.reads.Add(1)
	time.Sleep(c.readTime)
	return c.faultyStore.Get(ctx, id)
}

func (c *readCounter) Hasten(ctx context.Context, id tranid.ID) (bool, error) {
	c.writes.Add(1)
	if c.refuses.Load() {
		return false, errTest
	}
	return c.faultyStore.Hasten(ctx, id)
}

func (c *readCounter) ClaimOne(ctx context.Context, id tranid.ID, lease time.Duration, by ledger.Actor) (ledger.Claim, error) {
	c.writes.Add(1)
	return c.faultyStore.ClaimOne(ctx, id, lease, by)
}

// A flood of IDs that nobody knows costs a read each at most, so many a second and
// no more, no write and no memory.
func TestHint_AFloodOfForgedIDsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &readCounter{faultyStore: faultyStore{Store: memstore.New(time.Now)}}
		h := newHouse(store, rarely(), time.Now)
		defer h.running(t)()
		synctest.Wait()
		const seconds = 10
		for second := range seconds {
			for i := range 5000 {
				h.Hint(fmt.Sprintf("GWMNU20260105%09d", second*5000+i))
			}
			time.Sleep(time.Second)
		}
		if reads := store.reads.Load(); reads > hintBacklog+seconds*hintRate || reads < hintBacklog+(seconds-2)*hintRate {
			t.Errorf("%d reads", reads)
		}
		if store.writes.Load() != 0 || len(h.hints.resting)+len(h.hints.rested)+len(h.hints.pending) != 0 {
			t.Errorf("%d writes, %d rows remembered", store.writes.Load(), len(h.hints.resting))
		}
	})
}

// What this process has no hands for is due, to whoever sweeps next.
func TestHint_WhatCannotBeTakenIsHastened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, rarely(), time.Now)
		h.core.answers(silent)
		defer h.running(t)()
		synctest.Wait()
		const rows = 20
		ids := make([]tranid.ID, rows)
		for i := range ids {
			ids[i] = inReview(t, h, unknown{number: int64(i + 1)})
			h.Hint(string(ids[i]))
		}
		synctest.Wait()
		due := 0
		for _, id := range ids {
			due += count(!get(t, h.store, id).NextResolveAt.After(time.Now()))
		}
		if due != rows-h.hints.lane.hand.least {
			t.Errorf("%d of %d are due", due, rows)
		}
		h.hinted(t, hintTaken, h.hints.lane.hand.least)
		h.hinted(t, hintHastened, due)
		h.core.answers(says("03", "01"))
		time.Sleep(time.Minute) // or the stop waits for those that are silent
	})
}

func TestHint_BeforeRunOrWhileTheLedgerIsAwayHarmsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(time.Now)
		h := newHouse(store, rarely(), time.Now)
		for i := range 2 * hintBacklog {
			h.Hint(fmt.Sprintf("GWMNU20260105%09d", i))
		}
		must(t, store.Close())
		stop := h.running(t)
		time.Sleep(time.Second)
		h.hinted(t, hintDropped, 2*hintBacklog)
		stop()
	})
}
