package resolve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// useless is a core that answers everything, and says nothing.
func useless(_ context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
	if mti == telegram.StatusRequestMTI {
		return delivered(call, answer0410(id, "01", "0099"))
	}
	return delivered(call, answer0430(id, "01", "0099"))
}

func TestSetbacks_ACoreThatTalksSenseAgainIsAskedAboutAllAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		trouble time.Duration
		review  bool
	}{
		"rows that back off": {2 * time.Minute, false},
		"rows in review":     {time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(nil, testFlags(), time.Now)
				h.core.answers(useless)
				ids := make([]tranid.ID, 100)
				for i := range ids {
					ids[i] = put(t, h.store, time.Now, unknown{number: int64(i)})
				}
				defer h.running(t)()
				time.Sleep(tc.trouble)
				for _, id := range ids {
					if row := get(t, h.store, id); row.Status != ledger.StatusUnknown || row.NeedsReview != tc.review {
						t.Fatalf("%s is %s, in review: %t", id, row.Status, row.NeedsReview)
					}
				}
				h.core.answers(says("01", "01"))
				ids = append(ids, put(t, h.store, time.Now, unknown{number: 1000}))
				t.Logf("final after %s", settledWithin(t, h.store, promise, ids...))
			})
		})
	}
}

// Rows that the core has nothing to say about, while it does well about others, are
// not asked about at each of them.
func TestSetbacks_ARowThatIsUselessByItselfBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		bad := put(t, h.store, time.Now, unknown{number: 1})
		h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
			if id == bad {
				return useless(ctx, call, mti, id)
			}
			return says("01", "01")(ctx, call, mti, id)
		})
		defer h.running(t)()
		for i := range int64(600) {
			put(t, h.store, time.Now, unknown{number: 2 + i})
			time.Sleep(time.Second)
		}
		if n := h.core.count(telegram.StatusRequestMTI, bad); n < 7 || n > 14 {
			t.Errorf("asked about %d times in ten minutes, its back-off wants about ten", n)
		}
	})
}

func TestSetbacks_RememberNoMoreThanTheHintsMayHaveWaiting(t *testing.T) {
	s := setbacks{after: time.Second}
	now := time.Now()
	for i := range int64(maxSetbacks + 10) {
		s.add(numbered(i), now)
	}
	if n := len(s.end(now)); n != maxSetbacks {
		t.Errorf("%d rows", n)
	}
	s.add(numbered(1), now.Add(time.Second-1))
	if n := len(s.end(now.Add(time.Second))); n != 0 {
		t.Errorf("%d rows that failed while the core talked sense", n)
	}
}

// A row that needs a second 02 after the late window is as it should be.
func TestEvidence_TheSecondAskingAfterTheWindowIsNoReasonForReview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flags := testFlags()
		flags.CoreFences, flags.LateWindow, flags.MaxAttempts = false, time.Second, 1
		h := newHouse(nil, flags, time.Now)
		h.core.answers(says("02", "02"))
		id := put(t, h.store, time.Now, unknown{number: 1})
		time.Sleep(2 * time.Second) // and so is first asked about when it is over
		defer h.running(t)()
		settledWithin(t, h.store, promise, id)
		if row := get(t, h.store, id); row.Status != ledger.StatusFailed || row.Evidence != ledger.EvidenceWindowElapsed {
			t.Errorf("it is %s by %s", row.Status, row.Evidence)
		}
		if n := h.logs.count(slog.LevelWarn, "transaction needs review"); n != 0 {
			t.Errorf("review was asked for %d times", n)
		}
	})
}

// What the ledger did not let be claimed, or kept from its end, is not left to the
// next sweep.
func TestSweep_ALedgerThatIsBackIsAskedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: memstore.New(time.Now)}
		var down atomic.Bool
		gone := fmt.Errorf("%w: %w", ledger.ErrUnavailable, errors.New("connection refused"))
		store.adopt = func(ctx context.Context, limit int, by ledger.Actor) (int, error) {
			if down.Load() {
				return 0, gone
			}
			return store.Store.Adopt(ctx, limit, by)
		}
		store.claim = func(ctx context.Context, o ledger.ClaimOptions) ([]ledger.Claim, error) {
			if down.Load() {
				return nil, gone
			}
			return store.Store.Claim(ctx, o)
		}
		store.transition = func(ctx context.Context, c ledger.Change) (ledger.Transaction, error) {
			if down.Load() && c.From == ledger.StatusUnknown {
				return ledger.Transaction{}, gone
			}
			return store.Store.Transition(ctx, c)
		}
		h := newHouse(store, rarely(), time.Now)
		h.core.answers(within(100*time.Millisecond, says("01", "01")))
		ids := make([]tranid.ID, 60)
		for i := range ids {
			ids[i] = put(t, store, time.Now, unknown{number: int64(i)})
		}
		defer h.running(t)()
		time.Sleep(150 * time.Millisecond) // the first rows are at the core
		down.Store(true)
		time.Sleep(20 * time.Second)
		down.Store(false)
		t.Logf("final after %s", settledWithin(t, store, 3*time.Second, ids...))
		// It is tried every second, and told of in each sweep interval.
		if n := h.logs.count(slog.LevelWarn, "abandoned transactions not adopted"); n != 1 {
			t.Errorf("it is told %d times that nothing was adopted, want once", n)
		}
	})
}

// However many rows the core ignores, those that it answers and that come after them
// are final as promised.
func TestFairness_ThousandsThatAreIgnoredDelayNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		const ignored = 3000
		h.core.answers(ignoring(ignored))
		for i := range int64(ignored) {
			put(t, h.store, time.Now, unknown{number: i})
		}
		ids := make([]tranid.ID, 600)
		defer h.running(t)()
		time.Sleep(time.Second)
		for i := range ids {
			ids[i] = put(t, h.store, time.Now, unknown{number: int64(ignored + i)})
		}
		t.Logf("final after %s", settledWithin(t, h.store, promise, ids...))
	})
}
