package resolve

import (
	"context"
	"sync"
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

func TestHand_GrowsWithQuickAnswersAndIsSmallAgainWithOneThatIsNot(t *testing.T) {
	const places = 2
	for what, slows := range map[string]func(h *hand){
		"slow answer": func(h *hand) { h.answered(quickAnswer + time.Millisecond) },
		"no answer":   func(h *hand) { h.unanswered(0) },
	} {
		t.Run(what, func(t *testing.T) {
			h := newHand(places, places, time.Minute)
			if len(h.free) != h.least || h.least != rowsPerPlace*places {
				t.Fatalf("%d rows at first, want %d", len(h.free), h.least)
			}
			for range 2 * h.most {
				h.answered(quickAnswer)
			}
			if len(h.free) != h.most || h.most != quickRowsPerPlace*places {
				t.Fatalf("%d rows, want %d", len(h.free), h.most)
			}
			begun := h.least + 3
			for range begun {
				<-h.free
			}
			slows(h)
			if len(h.free) != 0 || h.tokens != begun {
				t.Errorf("%d more rows beside %d of %d", len(h.free), begun, h.tokens)
			}
			for range 3 { // too many, which are not replaced
				h.leave()
			}
			if len(h.free) != 0 {
				t.Errorf("%d rows beside as many as there may be", len(h.free))
			}
			for range h.least {
				h.leave()
			}
			if len(h.free) != h.least || h.tokens != h.least {
				t.Errorf("%d rows of %d, want %d", len(h.free), h.tokens, h.least)
			}
			h.answered(time.Millisecond)
			if len(h.free) != h.least+1 {
				t.Errorf("%d rows after a quick answer, want %d", len(h.free), h.least+1)
			}
		})
	}
	(*hand)(nil).answered(time.Millisecond) // an operator's lane has no bound
}

// No more rows wait for net cancels than can begin them within half of a lease.
func TestHand_HoldsWhatCanBeginWithinHalfALease(t *testing.T) {
	const inquiries, cancels, lease = 10, 7, 8 * time.Second
	for after, want := range map[time.Duration]int{
		quickAnswer:             rowsPerPlace*inquiries + 1,
		200 * time.Millisecond:  rowsPerPlace * inquiries,
		time.Second:             5 * cancels,
		2500 * time.Millisecond: 2 * cancels,
		5 * time.Second:         cancels,
	} {
		h := newHand(inquiries, cancels, lease)
		if h.answered(after); h.limit != want {
			t.Errorf("%d rows before a core that takes %s, want %d", h.limit, after, want)
		}
	}
}

// countedStore notes how many rows are at the ledger at once, whose decisions take a
// while.
type countedStore struct {
	ledger.Store
	now, most atomic.Int64
}

func (s *countedStore) Decide(ctx context.Context, id tranid.ID, by ledger.Actor, detail string) (ledger.Transaction, error) {
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	select {
	case <-time.After(10 * time.Millisecond):
	case <-ctx.Done():
		return ledger.Transaction{}, ctx.Err()
	}
	return s.Store.Decide(ctx, id, by, detail)
}

// What the ledger stores together is bounded by how many rows are in hand: many
// while the core answers at once, few while it does not.
func TestSweep_HasMoreRowsInHandWhileTheCoreIsQuick(t *testing.T) {
	for what, c := range map[string]struct {
		takes       time.Duration
		least, most int64
	}{
		"quick core": {time.Millisecond, 2 * workers, quickRowsPerPlace * atTheCore},
		"slow core":  {2 * quickAnswer, 1, workers},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &countedStore{Store: memstore.New(time.Now)}
				h := newHouse(store, testFlags(), time.Now)
				putMany(t, h.store, 0, 1500)
				h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
					time.Sleep(c.takes)
					return says("01", "01")(ctx, call, mti, id)
				})
				h.sweep(t.Context())
				if most := store.most.Load(); most < c.least || most > c.most {
					t.Errorf("%d rows were at the ledger at once, want %d to %d", most, c.least, c.most)
				}
				if left, err := h.store.Backlog(t.Context()); err != nil || left.Unknown != 0 {
					t.Errorf("%d rows are left, error %v", left.Unknown, err)
				}
			})
		})
	}
}

// A core that answers inquiries at once and then no net cancel any more has few rows
// wait for it, and none is lost.
func TestSweep_IsBackToFewRowsWhenNetCancelsAreNotAnsweredAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		ids := putMany(t, h.store, 0, 1000)
		var canceled atomic.Int64
		well := time.Now().Add(20 * time.Second)
		h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
			if mti == telegram.CancelRequestMTI && canceled.Add(1) > 400 && time.Now().Before(well) {
				return silent(ctx, call, mti, id)
			}
			return says("01", "01")(ctx, call, mti, id)
		})
		defer h.running(t)()
		time.Sleep(5 * time.Second)
		hand := h.lanes[0].hand
		hand.mu.Lock()
		limit := hand.limit
		hand.mu.Unlock()
		if limit > hand.least {
			t.Errorf("%d rows may be in hand, want %d", limit, hand.least)
		}
		settledWithin(t, h.store, 5*time.Minute, ids...)
	})
}

// Where there are many rows, they are claimed while others are; where there are few,
// the ledger is asked once.
func TestSweep_ClaimsMoreWhileWorkersFindNone(t *testing.T) {
	for what, c := range map[string]struct {
		rows  int
		fresh int64 // claims of the first lane at once
		calls int64
	}{
		"nothing is due": {0, 1, 1},
		"a few are due":  {ledger.MaxClaim - 1, 1, 1},
		"many are due":   {1000, claimsAtOnce, 1000/ledger.MaxClaim + claimsAtOnce},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var now, most, calls int64
				store := &faultyStore{Store: memstore.New(time.Now)}
				store.claim = func(ctx context.Context, o ledger.ClaimOptions) ([]ledger.Claim, error) {
					if o.Only == ledger.PartFresh && !o.Review && !o.Owed {
						mu.Lock()
						now, calls = now+1, calls+1
						most = max(most, now)
						mu.Unlock()
						time.Sleep(50 * time.Millisecond)
						defer func() { mu.Lock(); now--; mu.Unlock() }()
					}
					return store.Store.Claim(ctx, o)
				}
				h := newHouse(store, testFlags(), time.Now)
				putMany(t, h.store, 0, c.rows)
				h.sweep(t.Context())
				if most != c.fresh || calls > c.calls {
					t.Errorf("%d claims at once, want %d; %d in all, want %d", most, c.fresh, calls, c.calls)
				}
				if left, err := h.store.Backlog(t.Context()); err != nil || left.Unknown != 0 {
					t.Errorf("%d rows are left, error %v", left.Unknown, err)
				}
			})
		})
	}
}
