package resolve

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

func TestSweep_OutlivesALedgerThatFails(t *testing.T) {
	for name, fail := range map[string]func() ([]ledger.Claim, error){
		"error": func() ([]ledger.Claim, error) { return nil, ledger.ErrUnavailable },
		"panic": func() ([]ledger.Claim, error) { panic("canary") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &faultyStore{Store: memstore.New(time.Now)}
				h := newHouse(store, testFlags(), time.Now)
				id := put(t, store, time.Now, unknown{number: 1})
				var down atomic.Bool
				down.Store(true)
				store.claim = func(ctx context.Context, o ledger.ClaimOptions) ([]ledger.Claim, error) {
					if down.Load() {
						return fail()
					}
					return store.Store.Claim(ctx, o)
				}
				defer h.running(t)()
				time.Sleep(time.Minute)
				down.Store(false)
				settledWithin(t, store, promise, id)
			})
		})
	}
}

// A ledger that goes away under the rows: they are given back, not left to their
// leases.
func TestSweep_ALedgerThatGoesAwayMidPassEndsThePass(t *testing.T) {
	for _, rows := range []int{1, ledger.MaxClaim} {
		ledgerGoesAway(t, rows)
	}
}

func ledgerGoesAway(t *testing.T, rows int) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: memstore.New(time.Now)}
		h := newHouse(store, testFlags(), time.Now)
		for i := range rows {
			put(t, store, time.Now, unknown{number: int64(i)})
		}
		store.decide = func(context.Context, tranid.ID, ledger.Actor, string) (ledger.Transaction, error) {
			return ledger.Transaction{}, fmt.Errorf("write: %w", ledger.ErrUnavailable)
		}
		h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
			time.Sleep(10 * time.Millisecond)
			return says("01", "01")(ctx, call, mti, id)
		})
		h.sweep(t.Context())
		if n := h.core.count("0400", ""); n > workers {
			t.Errorf("%d rows begun after the ledger was gone", n)
		}
		claims, err := store.Claim(t.Context(), ledger.ClaimOptions{Limit: ledger.MaxClaim, Lease: time.Second})
		must(t, err)
		if len(claims) != rows {
			t.Errorf("%d of %d rows given back", len(claims), rows)
		}
	})
}

// Stopping lets what has begun come to an end and gives back the rest.
func TestStop_FinishesTheRowsAtHandAndReleasesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		for i := range 50 {
			put(t, h.store, time.Now, unknown{number: int64(i)})
		}
		h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
			time.Sleep(2 * time.Second)
			return says("01", "01")(ctx, call, mti, id)
		})
		stop := h.running(t)
		time.Sleep(time.Second) // the first inquiries are on their way
		start := time.Now()
		stop()
		// Nine rows, and seven places for their net cancels.
		if took := time.Since(start); took > 6*time.Second {
			t.Errorf("stopped after %s", took)
		}
		sum, err := h.store.Summarize(t.Context(), "", time.Time{}, time.Time{})
		must(t, err)
		if sum.UnknownCount != 50-atTheCore {
			t.Errorf("%d rows are UNKNOWN, want those that were not begun", sum.UnknownCount)
		}
		var free int
		for {
			claims, err := h.store.Claim(t.Context(), ledger.ClaimOptions{Limit: ledger.MaxClaim, Lease: time.Minute})
			must(t, err)
			if len(claims) == 0 {
				break
			}
			free += len(claims)
		}
		if free != 50-atTheCore {
			t.Errorf("%d rows can be claimed at once, want %d", free, 50-atTheCore)
		}
	})
}

// Rows that are being claimed at the moment of the stop are given back too.
func TestStop_DuringAClaimLeavesNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: memstore.New(time.Now)}
		h := newHouse(store, testFlags(), time.Now)
		for i := range ledger.MaxClaim {
			put(t, store, time.Now, unknown{number: int64(i)})
		}
		store.claim = func(ctx context.Context, o ledger.ClaimOptions) ([]ledger.Claim, error) {
			claims, err := store.Store.Claim(ctx, o) // committed
			time.Sleep(time.Second)
			if ctx.Err() != nil {
				return nil, ledger.ErrUnavailable // and the caller never learns
			}
			return claims, err
		}
		stop := h.running(t)
		time.Sleep(500 * time.Millisecond)
		stop()
		claims, err := store.Store.Claim(t.Context(), ledger.ClaimOptions{Limit: ledger.MaxClaim, Lease: time.Second})
		must(t, err)
		if len(claims) != ledger.MaxClaim || len(h.core.all()) != 0 {
			t.Errorf("%d rows given back, %d frames left", len(claims), len(h.core.all()))
		}
	})
}

func TestStop_IsNotHeldUpByACoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		id := put(t, h.store, time.Now, unknown{number: 1, attempts: 1})
		h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
			if mti == telegram.StatusRequestMTI {
				return says("01", "")(ctx, call, mti, id)
			}
			<-ctx.Done() // beyond any deadline of the call
			return corelink.Result{Sent: corelink.SentAll, Err: corelink.ErrAbandoned}
		})
		stop := h.running(t)
		time.Sleep(time.Second)
		start := time.Now()
		stop()
		if took := time.Since(start); took < 7*time.Second || took > 8*time.Second {
			t.Errorf("stopped after %s, want the grace of 7s", took)
		}
		if row := get(t, h.store, id); row.Status != ledger.StatusUnknown || row.ResolveAttempts != 1 {
			t.Errorf("%s with %d attempts", row.Status, row.ResolveAttempts)
		}
		claims, err := h.store.Claim(t.Context(), ledger.ClaimOptions{Limit: 1, Lease: time.Second})
		must(t, err)
		if len(claims) != 1 {
			t.Error("the abandoned row is still leased")
		}
	})
}

// A row is begun only while half of its lease is left, so that two resolvers
// rarely meet at a slow core.
func TestSweep_NoRowIsBegunOnAnOldLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flags := testFlags()
		flags.Lease = 2 * time.Second
		h := newHouse(nil, flags, time.Now)
		for i := range ledger.MaxClaim {
			put(t, h.store, time.Now, unknown{number: int64(i)})
		}
		claimed := time.Now()
		h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
			if age := time.Since(claimed); mti == telegram.StatusRequestMTI && age > time.Second {
				t.Errorf("a row is begun %s after its claim", age)
			}
			time.Sleep(2900 * time.Millisecond)
			return says("01", "01")(ctx, call, mti, id)
		})
		h.sweep(t.Context())
		if n := h.core.count("0400", ""); n != atTheCore {
			t.Errorf("%d rows begun, want %d", n, atTheCore)
		}
	})
}

// A claim may take so long that its leases are old when it comes: then none of its
// rows is begun, however many workers are free.
func TestSweep_NoRowIsBegunOnAClaimThatTookHalfItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: memstore.New(time.Now)}
		h := newHouse(store, testFlags(), time.Now)
		h.opts.Flags.Lease = 8 * time.Second
		for i := range atTheCore {
			put(t, store, time.Now, unknown{number: int64(i)})
		}
		store.claim = func(ctx context.Context, o ledger.ClaimOptions) ([]ledger.Claim, error) {
			claims, err := store.Store.Claim(ctx, o)
			time.Sleep(4500 * time.Millisecond)
			return claims, err
		}
		h.sweep(t.Context())
		if n := len(h.core.all()); n > 0 {
			t.Errorf("%d frames left for rows whose leases were old when they came", n)
		}
	})
}

func TestReady_TellsOfTheLedgerAndOfASweepThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: memstore.New(time.Now)}
		h := newHouse(store, testFlags(), time.Now)
		if h.Ready(t.Context()) == nil {
			t.Error("ready before the sweep began")
		}
		stuck := make(chan struct{})
		var hang atomic.Bool
		store.claim = func(ctx context.Context, o ledger.ClaimOptions) ([]ledger.Claim, error) {
			if hang.Load() {
				<-stuck
			}
			return store.Store.Claim(ctx, o)
		}
		stop := h.running(t)
		time.Sleep(time.Hour)
		if err := h.Ready(t.Context()); err != nil {
			t.Errorf("not ready while it sweeps: %v", err)
		}
		store.ping = func(context.Context) error { return errTest }
		if err := h.Ready(t.Context()); !errors.Is(err, errTest) {
			t.Errorf("the ledger is gone: %v", err)
		}
		store.ping = nil
		hang.Store(true)
		time.Sleep(5 * time.Minute)
		if h.Ready(t.Context()) == nil {
			t.Error("ready although the sweep stands still")
		}
		close(stuck)
		stop()
	})
}

// Each lane has a heartbeat of its own: the others do not cover for one that is
// stuck.
func TestReady_OneLaneThatStandsStillIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{Store: memstore.New(time.Now)}
		h := newHouse(store, testFlags(), time.Now)
		stuck := make(chan struct{})
		store.claim = func(ctx context.Context, o ledger.ClaimOptions) ([]ledger.Claim, error) {
			if o.Only == ledger.PartAsked {
				<-stuck
			}
			return store.Store.Claim(ctx, o)
		}
		stop := h.running(t)
		time.Sleep(5 * time.Minute)
		if err := h.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "asked rows") {
			t.Errorf("one lane stands still: %v", err)
		}
		close(stuck)
		stop()
	})
}

func TestGauges_ShowTheBook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		h.core.answers(refused)
		id := put(t, h.store, time.Now, unknown{number: 1})
		time.Sleep(time.Minute)
		put(t, h.store, time.Now, unknown{number: 2})
		defer h.running(t)()
		time.Sleep(time.Minute)
		if n, age := h.metric(t, "gwanmun_unknown_transactions"), h.metric(t, "gwanmun_unknown_oldest_seconds"); n != 2 || age < 110 || age > 120 {
			t.Errorf("%v UNKNOWN, the oldest %v s", n, age)
		}
		h.core.answers(says("02", "02"))
		settledWithin(t, h.store, promise, id)
		time.Sleep(10 * time.Second)
		if n, age := h.metric(t, "gwanmun_unknown_transactions"), h.metric(t, "gwanmun_unknown_oldest_seconds"); n != 0 || age != 0 {
			t.Errorf("%v UNKNOWN, the oldest %v s", n, age)
		}
		if n := h.metric(t, "gwanmun_resolutions_total"); n != 2 {
			t.Errorf("%v resolutions", n)
		}
	})
}
