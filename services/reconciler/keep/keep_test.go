package keep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var payer = ledger.Actor{Name: ledger.ActorPayment}

// ward is a keeper with its store, in a bubble.
type ward struct {
	*testing.T
	*memstore.Store
	keeper *Keeper
	logs   *lines
	number int64
	// ahead is by how much the clock on the wall was set.
	ahead time.Duration
}

// lines are what was logged.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) with(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(strings.Split(l.text.String(), "\n"), func(line string) bool { return !strings.Contains(line, text) })
}

// inBubble runs a test with a keeper that retains days, under virtual time.
func inBubble(t *testing.T, retain int, wrap func(ledger.Keeper) ledger.Keeper, test func(w *ward)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &ward{T: t, logs: &lines{}}
		now := func() time.Time { return time.Now().Add(w.ahead) }
		w.Store = memstore.New(now)
		start := time.Now()
		w.keeper = New(wrap(w.Store), Options{
			Flags: Flags{RetainDays: retain}, Logger: slog.New(slog.NewTextHandler(w.logs, nil)),
			Registry: prometheus.NewRegistry(), Now: now, Uptime: func() time.Duration { return time.Since(start) },
		})
		test(w)
	})
}

func asItIs(s ledger.Keeper) ledger.Keeper { return s }

// run lets the keeper run for so long.
func (w *ward) run(d time.Duration) {
	w.Helper()
	ctx, stop := context.WithCancel(w.Context())
	var running sync.WaitGroup
	running.Go(func() { w.keeper.Run(ctx) })
	time.Sleep(d)
	stop()
	running.Wait()
}

// pay stores a payment of today, whose key lives for a day.
func (w *ward) pay() tranid.ID {
	w.Helper()
	w.number++
	id := tranid.New(tranid.DateOf(time.Now()), w.number)
	_, err := w.CreateIntent(w.Context(), ledger.Intent{
		ID: id, Client: "shop", Key: ledger.IdempotencyKey(fmt.Sprint("key-", w.number)), AccountMasked: "****", Amount: 1,
		Policy: ledger.PolicyConfirm, RequestedAt: time.Now(), AdoptAfter: time.Hour, KeyLife: 24 * time.Hour, By: payer,
	})
	if err != nil {
		w.Fatal(err)
	}
	return id
}

func (w *ward) end(id tranid.ID) {
	w.Helper()
	_, err := w.Transition(w.Context(), ledger.Change{
		ID: id, From: ledger.StatusRequested, To: ledger.StatusSuccess, Evidence: ledger.EvidenceAnswered,
		Answer: ledger.Answer{Code: "0000"}, By: payer,
	})
	if err != nil {
		w.Fatal(err)
	}
}

func (w *ward) paid() tranid.ID {
	w.Helper()
	id := w.pay()
	w.end(id)
	return id
}

func (w *ward) has(id tranid.ID) bool {
	w.Helper()
	_, err := w.Get(w.Context(), id)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		w.Fatal(err)
	}
	return err == nil
}

func (w *ward) bound(number int) bool {
	w.Helper()
	_, err := w.GetByKey(w.Context(), "shop", ledger.IdempotencyKey(fmt.Sprint("key-", number)))
	return err == nil
}

const day = 24 * time.Hour

func TestKeeper_UnbindsKeysWithinAMinuteOfTheirEnd(t *testing.T) {
	inBubble(t, 0, asItIs, func(w *ward) {
		w.paid()
		w.pay() // is never heard of again
		w.run(day - time.Second)
		if !w.bound(1) {
			t.Error("the key was unbound before its time")
		}
		w.run(time.Second + interval)
		if w.bound(1) || !w.bound(2) {
			t.Errorf("the key of a final payment is bound: %t, that of an open one: %t", w.bound(1), w.bound(2))
		}
		if n := testutil.ToFloat64(w.keeper.keys); n != 1 {
			t.Errorf("%v keys are counted, want 1", n)
		}
	})
}

func TestKeeper_UnbindsAnyNumberOfKeysInSmallSteps(t *testing.T) {
	var steps []int
	inBubble(t, 0, func(s ledger.Keeper) ledger.Keeper {
		return faulty{Keeper: s, purge: func(limit int) error { steps = append(steps, limit); return nil }}
	}, func(w *ward) {
		const keys = 5*keysPerStep + 1
		for range keys {
			w.paid()
		}
		time.Sleep(day)
		w.run(interval - time.Second)
		if n := testutil.ToFloat64(w.keeper.keys); n != keys {
			t.Errorf("%v keys are unbound, want %d", n, keys)
		}
		if len(steps) != 6 || slices.Max(steps) > keysPerStep {
			t.Errorf("steps of %v", steps)
		}
	})
}

func TestKeeper_DeletesNothingUnlessAsked(t *testing.T) {
	inBubble(t, 0, asItIs, func(w *ward) {
		id := w.paid()
		time.Sleep(400 * day)
		w.run(3 * interval)
		if !w.has(id) {
			t.Error("a payment is gone")
		}
	})
}

func TestKeeper_RetiresADayOnceItIsOlderThanWhatIsRetained(t *testing.T) {
	inBubble(t, 2, asItIs, func(w *ward) {
		var old []tranid.ID
		for range 2*rowsPerStep + 1 {
			old = append(old, w.paid())
		}
		end := tranid.DateOf(time.Now()).Start().AddDate(0, 0, 3) // of the second day after
		w.run(time.Until(end) - time.Second)
		young := w.paid()
		if !w.has(old[0]) {
			t.Error("retired too early")
		}
		w.run(time.Second + interval)
		for _, id := range old {
			if w.has(id) {
				t.Fatalf("%s is still there", id)
			}
		}
		if !w.has(young) {
			t.Error("a younger day is gone")
		}
		want := fmt.Sprintf("business_date=%s rows=%d events=%d orders=0", old[0].Date(), len(old), 2*len(old))
		if told := w.logs.with("business day retired"); len(told) != 1 || !strings.Contains(told[0], want) {
			t.Errorf("told %q, want one line with %q", told, want)
		}
		if n := testutil.ToFloat64(w.keeper.rows); n != float64(len(old)) {
			t.Errorf("%v rows are counted, want %d", n, len(old))
		}
	})
}

func TestKeeper_PassesOverADayThatIsHeldAndTellsOfItOnce(t *testing.T) {
	inBubble(t, 1, asItIs, func(w *ward) {
		open, beside := w.pay(), w.paid()
		time.Sleep(day)
		next := w.paid()
		time.Sleep(4 * day)
		w.run(10 * interval)
		if !w.has(open) || !w.has(beside) || w.has(next) {
			t.Errorf("of the day that is held: %t, %t, of the next: %t", w.has(open), w.has(beside), w.has(next))
		}
		if told := w.logs.with("business day kept"); len(told) != 1 || !strings.Contains(told[0], "held_by=OPEN") {
			t.Errorf("told %q", told)
		}
		w.end(open)
		w.run(ledger.KeyRecheck + 2*interval)
		if w.has(open) || w.has(beside) {
			t.Error("the day stays when nothing holds it")
		}
	})
}

func TestKeeper_RetiresNothingAfterItsClockWasSet(t *testing.T) {
	inBubble(t, 30, asItIs, func(w *ward) {
		id := w.paid()
		time.Sleep(2 * day)
		w.ahead = 365 * day
		w.run(3 * interval)
		if !w.has(id) {
			t.Error("a clock that jumped a year ahead has deleted the book")
		}
		if len(w.logs.with("level=WARN")) == 0 {
			t.Error("it is not told")
		}
	})
}

// faulty is a Keeper whose steps may fail first.
type faulty struct {
	ledger.Keeper
	purge  func(limit int) error
	retire func() error
}

// PurgeKeys implements ledger.Keeper.
func (f faulty) PurgeKeys(ctx context.Context, limit int) (ledger.Purge, error) {
	if err := f.purge(limit); err != nil {
		return ledger.Purge{}, err
	}
	return f.Keeper.PurgeKeys(ctx, limit)
}

// RetireDay implements ledger.Keeper.
func (f faulty) RetireDay(ctx context.Context, o ledger.RetireOptions) (ledger.Retirement, error) {
	if err := f.retire(); err != nil {
		return ledger.Retirement{}, err
	}
	return f.Keeper.RetireDay(ctx, o)
}

func TestKeeper_GoesOnAfterFaultsAndPanics(t *testing.T) {
	var faults, panics atomic.Int64
	inBubble(t, 1, func(s ledger.Keeper) ledger.Keeper {
		return faulty{
			Keeper: s,
			purge: func(int) error {
				if faults.Add(1) <= 2 {
					return ledger.ErrUnavailable
				}
				return nil
			},
			retire: func() error {
				if panics.Add(1) <= 2 {
					panic("broken")
				}
				return nil
			},
		}
	}, func(w *ward) {
		id := w.paid()
		time.Sleep(4 * day)
		w.run(4 * interval)
		if w.bound(1) || w.has(id) {
			t.Errorf("after the faults the key is bound: %t, the payment there: %t", w.bound(1), w.has(id))
		}
		if warned, errs := w.logs.with("level=WARN"), w.logs.with("level=ERROR"); len(warned) != 2 || len(errs) != 2 {
			t.Errorf("told %q, %q", warned, errs)
		}
	})
}

func TestKeeper_StopsInTheMiddleOfAPass(t *testing.T) {
	inBubble(t, 1, asItIs, func(w *ward) {
		for range 50 * keysPerStep {
			w.paid()
		}
		time.Sleep(4 * day)
		begun := time.Now()
		w.run(3 * minPause)
		if took := time.Since(begun); took > 4*minPause {
			t.Errorf("stopped after %s", took)
		}
		if len(w.logs.with("level=")) != 0 {
			t.Errorf("told %q", w.logs.with("level="))
		}
	})
}

func TestFlags_RefuseDaysThatMakeNoSense(t *testing.T) {
	for days, ok := range map[int]bool{-1: false, 0: true, 1: true, maxRetainDays: true, maxRetainDays + 1: false} {
		f := Flags{RetainDays: days}
		if err := f.Validate(); (err == nil) != ok {
			t.Errorf("%d days: error %v", days, err)
		}
	}
}
