package resolve

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// One row that is never answered, among two hundred that are.
func TestSweep_AnUnansweredRowDelaysNobody(t *testing.T) {
	settle := func(poison bool) (took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			h := newHouse(nil, testFlags(), time.Now)
			first := put(t, h.store, time.Now, unknown{number: 0})
			time.Sleep(time.Millisecond) // the oldest due
			ids := make([]tranid.ID, 0, 200)
			for i := range 200 {
				ids = append(ids, put(t, h.store, time.Now, unknown{number: int64(i + 1)}))
			}
			h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
				if id == first && poison {
					return silent(ctx, call, mti, id)
				}
				time.Sleep(10 * time.Millisecond)
				return says("02", "02")(ctx, call, mti, id)
			})
			defer h.running(t)()
			took = settledWithin(t, h.store, time.Minute, ids...)
		})
		return took
	}
	without, with := settle(false), settle(true)
	if with > 2*without {
		t.Errorf("200 rows take %s beside a row that is never answered, %s without", with, without)
	}
}

// Rows that the core leaves unanswered here and there are no outage.
func TestSweep_ACoreThatAnswersOthersIsNotDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		dropped := map[tranid.ID]bool{}
		ids := make([]tranid.ID, 0, 200)
		for i := range 200 {
			id := put(t, h.store, time.Now, unknown{number: int64(i)})
			if i%20 == 0 {
				dropped[id] = true
				continue
			}
			ids = append(ids, id)
		}
		h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
			time.Sleep(time.Millisecond)
			if dropped[id] {
				return closed(ctx, call, mti, id)
			}
			return says("01", "01")(ctx, call, mti, id)
		})
		defer h.running(t)()
		settledWithin(t, h.store, time.Second, ids...)
	})
}

// putInReview stores rows that need review and are due.
func putInReview(t *testing.T, store ledger.Store, count int) map[tranid.ID]bool {
	t.Helper()
	rows := map[tranid.ID]bool{}
	for i := range count {
		id := put(t, store, time.Now, unknown{number: int64(i)})
		claim, err := store.ClaimOne(t.Context(), id, time.Minute, payment)
		must(t, err)
		must(t, store.Postpone(t.Context(), ledger.Postponement{ID: id, Token: claim.Token, NeedsReview: true, By: payment}))
		rows[id] = true
	}
	return rows
}

func TestSweep_OneBatchInReviewIsAskedInAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		putInReview(t, h.store, 3*ledger.MaxClaim)
		h.core.answers(says("99", ""))
		h.sweep(t.Context())
		if n := h.core.count("0400", ""); n != ledger.MaxClaim {
			t.Errorf("%d rows in review asked, want %d", n, ledger.MaxClaim)
		}
	})
}

// Rows that are never answered, when nothing else is due, look like an outage;
// those in review are asked all the same.
func TestSweep_UnansweredRowsDoNotSilenceThoseInReview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		review := putInReview(t, h.store, 1)
		for i := range 4 * workers {
			put(t, h.store, time.Now, unknown{number: int64(i + 1)})
		}
		h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
			if review[id] {
				return says("01", "01")(ctx, call, mti, id)
			}
			return silent(ctx, call, mti, id)
		})
		h.sweep(t.Context())
		for id := range review {
			if row := get(t, h.store, id); row.Status != ledger.StatusCanceled {
				t.Errorf("%s", row.Status)
			}
		}
	})
}

func TestSweep_RowsInReviewNeverHoldUpTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		stuck := putInReview(t, h.store, 100)
		healthy := put(t, h.store, time.Now, unknown{number: 1000})
		h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
			if stuck[id] {
				return silent(ctx, call, mti, id)
			}
			return says("01", "01")(ctx, call, mti, id)
		})
		defer h.running(t)()
		if took := settledWithin(t, h.store, time.Minute, healthy); took > time.Second {
			t.Errorf("a row waited %s behind those in review", took)
		}
		time.Sleep(4 * time.Second)
		if n := len(h.core.all()) - 2; n > ledger.MaxClaim {
			t.Errorf("%d rows in review asked in one pass", n)
		}
		time.Sleep(time.Hour)
		for id := range stuck {
			if h.core.count("0400", id) == 0 {
				t.Errorf("%s is in review and never asked again", id)
			}
		}
	})
}

func TestSweep_APanicInOneRowHarmsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		bad := put(t, h.store, time.Now, unknown{number: 0})
		ids := make([]tranid.ID, 0, 50)
		for i := range 50 {
			ids = append(ids, put(t, h.store, time.Now, unknown{number: int64(i + 1)}))
		}
		var healed atomic.Bool
		h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
			if id == bad && !healed.Load() {
				panic("canary")
			}
			return says("01", "01")(ctx, call, mti, id)
		})
		defer h.running(t)()
		if took := settledWithin(t, h.store, time.Minute, ids...); took > time.Second {
			t.Errorf("the others took %s", took)
		}
		synctest.Wait()
		if n := h.metric(t, "gwanmun_poison_rows"); n != 1 {
			t.Errorf("%v poison rows", n)
		}
		time.Sleep(time.Minute)
		if n := h.logs.count(slog.LevelError, "transaction not resolved"); n < 6 || n > 24 {
			t.Errorf("logged %d times in a minute: it must be asked again, and not at once", n)
		}
		healed.Store(true)
		settledWithin(t, h.store, promise, bad)
		time.Sleep(5 * time.Second)
		if n := h.metric(t, "gwanmun_poison_rows"); n != 0 {
			t.Errorf("%v poison rows after it healed", n)
		}
	})
}

// Nor does a panic of the ledger when the row is put aside.
func TestSweep_ARowThatCannotEvenBePutAsideHarmsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: memstore.New(time.Now)}
		h := newHouse(store, testFlags(), time.Now)
		bad := put(t, store, time.Now, unknown{number: 0})
		ids := make([]tranid.ID, 0, 2*workers)
		for i := range 2 * workers {
			ids = append(ids, put(t, store, time.Now, unknown{number: int64(i + 1)}))
		}
		store.postpone = func(ctx context.Context, p ledger.Postponement) error {
			if p.ID == bad {
				panic("canary")
			}
			return store.Store.Postpone(ctx, p)
		}
		h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
			if id == bad {
				return says("99", "")(ctx, call, mti, id)
			}
			return says("01", "01")(ctx, call, mti, id)
		})
		h.sweep(t.Context())
		for _, id := range ids {
			if row := get(t, store, id); row.Status != ledger.StatusCanceled {
				t.Errorf("%s is %s", id, row.Status)
			}
		}
		if h.metric(t, "gwanmun_poison_rows") != 1 || h.logs.count(slog.LevelError, "transaction not put aside") != 1 {
			t.Error("it is not told")
		}
	})
}

func TestSweep_ARowThatCannotBeReadIsPutAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: memstore.New(time.Now)}
		h := newHouse(store, testFlags(), time.Now)
		bad := put(t, store, time.Now, unknown{number: 0})
		good := put(t, store, time.Now, unknown{number: 1})
		store.claim = func(ctx context.Context, o ledger.ClaimOptions) ([]ledger.Claim, error) {
			claims, err := store.Store.Claim(ctx, o)
			for i := range claims {
				if claims[i].Transaction.ID == bad {
					claims[i].Transaction, claims[i].Err = ledger.Transaction{ID: bad}, errTest
				}
			}
			return claims, err
		}
		h.sweep(t.Context())
		if row := get(t, store, good); row.Status != ledger.StatusCanceled {
			t.Errorf("the other is %s", row.Status)
		}
		row := get(t, store, bad)
		if row.Status != ledger.StatusUnknown || !row.NeedsReview || time.Until(row.NextResolveAt) < backoffCap/2 {
			t.Errorf("%s, review %v, due in %s", row.Status, row.NeedsReview, time.Until(row.NextResolveAt))
		}
		if h.core.count("", bad) != 0 || h.metric(t, "gwanmun_poison_rows") != 1 {
			t.Errorf("%d frames, %v poison rows", h.core.count("", bad), h.metric(t, "gwanmun_poison_rows"))
		}
	})
}
