package resolve

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// running starts the resolver and returns what stops it and waits for its end.
func (h *house) running(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); h.Run(ctx) }()
	return func() { cancel(); <-done }
}

// settledWithin waits until every row is final and returns how long that took.
func settledWithin(t *testing.T, store ledger.Store, limit time.Duration, ids ...tranid.ID) time.Duration {
	t.Helper()
	start := time.Now()
	for _, id := range ids {
		for !get(t, store, id).Status.Final() {
			if time.Since(start) > limit {
				t.Fatalf("%s is still %s after %s", id, get(t, store, id).Status, limit)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	return time.Since(start)
}

// promise is P4: final within 2 x sweep_interval + 10 s.
const promise = 2*5*time.Second + 10*time.Second

func TestSweep_AdoptsWhatWasAbandonedAndResolvesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		ids := make([]tranid.ID, 0, 2*ledger.MaxClaim+5)
		for i := range 2*ledger.MaxClaim + 5 {
			ids = append(ids, request(t, h.store, time.Now, unknown{number: int64(i)}))
		}
		defer h.running(t)()
		time.Sleep(11 * time.Second)
		if n := len(h.core.all()); n != 0 {
			t.Fatalf("%d frames left while the payments may still be in flight", n)
		}
		// All of them in the first pass that finds them abandoned.
		settledWithin(t, h.store, 5*time.Second, ids...)
		for _, id := range ids {
			if row := get(t, h.store, id); row.Status != ledger.StatusCanceled {
				t.Errorf("%s is %s", id, row.Status)
			}
		}
	})
}

func TestSweep_TwoResolversShareTheRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		other := newResolver(h.store, h.core, testFlags(), time.Now, h.logs, prometheus.NewRegistry())
		h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
			time.Sleep(50 * time.Millisecond)
			return says("01", "01")(ctx, call, mti, id)
		})
		ids := make([]tranid.ID, 0, 300)
		for i := range 300 {
			ids = append(ids, put(t, h.store, time.Now, unknown{number: int64(i)}))
		}
		var both sync.WaitGroup
		both.Go(func() { h.sweep(t.Context()) })
		both.Go(func() { sweepOnce(t.Context(), other) })
		both.Wait()
		for _, id := range ids {
			if row := get(t, h.store, id); row.Status != ledger.StatusCanceled {
				t.Errorf("%s is %s", id, row.Status)
			}
			if a, b := h.core.count("0400", id), h.core.count("0420", id); a != 1 || b != 1 {
				t.Errorf("%s: %d inquiries and %d net cancels, want one each", id, a, b)
			}
		}
	})
}

// An outage costs no attempts, and is over when it is over.
func TestSweep_ACoreThatIsDownCostsNoAttemptsAndP4HoldsAfterIt(t *testing.T) {
	for name, outage := range map[string]answering{"refused": refused, "silent": silent, "closed": closed} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(nil, testFlags(), time.Now)
				h.core.answers(outage)
				ids := make([]tranid.ID, 0, 60)
				for i := range 60 {
					ids = append(ids, put(t, h.store, time.Now, unknown{number: int64(i)}))
				}
				defer h.running(t)()
				time.Sleep(10 * time.Minute)
				for _, id := range ids {
					if row := get(t, h.store, id); row.Status != ledger.StatusUnknown || row.ResolveAttempts != 0 || row.NeedsReview {
						t.Fatalf("after the outage %s is %s with %d attempts", id, row.Status, row.ResolveAttempts)
					}
				}
				// Each pass gives up after a few, whatever is due.
				if perPass := len(h.core.all()) / 120; perPass > 2*workers {
					t.Errorf("%d frames in a pass at a dead core", perPass)
				}
				if h.logs.count(slog.LevelWarn, "sweep cut short") < 60 {
					t.Error("the outage is not logged")
				}
				h.core.answers(says("01", "01"))
				settledWithin(t, h.store, promise, ids...)
			})
		})
	}
}

func TestSweep_ABusyCoreIsAskedAgain(t *testing.T) {
	for _, busy := range []string{"0400", "0420"} {
		synctest.Test(t, func(t *testing.T) {
			h := newHouse(nil, testFlags(), time.Now)
			id := put(t, h.store, time.Now, unknown{number: 1})
			h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
				if mti == busy && h.core.count(busy, id) < 3 {
					if mti == telegram.StatusRequestMTI {
						return delivered(call, answer0410(id, "01", "0096"))
					}
					return delivered(call, answer0430(id, "01", "0096"))
				}
				return says("01", "01")(ctx, call, mti, id)
			})
			defer h.running(t)()
			settledWithin(t, h.store, time.Minute, id)
			row := get(t, h.store, id)
			if row.Status != ledger.StatusCanceled || row.ResolveAttempts != 3 || h.core.count(busy, id) != 4 {
				t.Errorf("busy at %s: %s after %d attempts and %d frames", busy, row.Status, row.ResolveAttempts, h.core.count(busy, id))
			}
		})
	}
}

// A net cancel whose answer is lost is never repeated within a pass, and the
// next pass starts at the inquiry.
func TestSweep_ALostAnswerToTheNetCancelIsFoundByTheNextInquiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		id := put(t, h.store, time.Now, unknown{number: 1})
		h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
			if mti == telegram.CancelRequestMTI {
				return silent(ctx, call, mti, id)
			}
			if h.core.count("0420", id) > 0 {
				return says("03", "")(ctx, call, mti, id)
			}
			return says("01", "")(ctx, call, mti, id)
		})
		defer h.running(t)()
		settledWithin(t, h.store, promise, id)
		row := get(t, h.store, id)
		if row.Status != ledger.StatusCanceled || row.Evidence != ledger.EvidenceCancelConfirmed || row.ResolveAttempts != 0 {
			t.Errorf("%s %s after %d attempts", row.Status, row.Evidence, row.ResolveAttempts)
		}
		want := fmt.Sprintf("[0400 %[1]s 0420 %[1]s 0400 %[1]s]", id)
		if got := fmt.Sprint(h.core.all()); got != want {
			t.Errorf("frames %s, want %s", got, want)
		}
	})
}

func TestSweep_UsedUpAttemptsNeedReviewAndLaterEvidenceStillSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		id := put(t, h.store, time.Now, unknown{number: 1})
		h.core.answers(says("99", ""))
		defer h.running(t)()
		time.Sleep(30 * time.Minute)
		row := get(t, h.store, id)
		if row.Status != ledger.StatusUnknown || !row.NeedsReview || row.ResolveAttempts < 10 {
			t.Fatalf("%s, review %v, %d attempts", row.Status, row.NeedsReview, row.ResolveAttempts)
		}
		if h.logs.count(slog.LevelWarn, "transaction needs review") != 1 || h.metric(t, "gwanmun_needs_review_transactions") != 1 {
			t.Error("review is not told, or more than once")
		}
		events, err := h.store.Events(t.Context(), id)
		must(t, err)
		if last := events[len(events)-1]; !strings.Contains(last.Detail, "needs review") {
			t.Errorf("the last event says %q", last.Detail)
		}
		// It is asked for ever, at the cap.
		asked := h.core.count("0400", id)
		time.Sleep(12 * time.Hour)
		if n := h.core.count("0400", id) - asked; n < 12*12-1 || n > 12*24+1 {
			t.Errorf("asked %d times in 12 hours", n)
		}
		if again, err := h.store.Events(t.Context(), id); err != nil || len(again) != len(events) {
			t.Errorf("%d events, then %d (%v): the history drowns", len(events), len(again), err)
		}
		h.core.answers(says("01", "01"))
		settledWithin(t, h.store, backoffCap+promise, id)
		if row := get(t, h.store, id); row.Status != ledger.StatusCanceled || row.NeedsReview {
			t.Errorf("%s, review %v", row.Status, row.NeedsReview)
		}
	})
}

// Age is no evidence.
func TestSweep_AWeekOfSilenceFailsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flags := testFlags()
		flags.CoreFences, flags.SweepInterval = false, 10*time.Minute
		h := newHouse(nil, flags, time.Now)
		h.core.answers(refused)
		id := put(t, h.store, time.Now, unknown{number: 1, notFound: 5, decided: true})
		defer h.running(t)()
		time.Sleep(7 * 24 * time.Hour)
		if row := get(t, h.store, id); row.Status != ledger.StatusUnknown {
			t.Errorf("%s", row.Status)
		}
	})
}

// Without a fence, 02 is worth something only after the late window; then it is
// worth it soon, and waiting was no reason for a review.
func TestSweep_WithoutAFenceTheLateWindowIsWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flags := testFlags()
		flags.CoreFences = false
		h := newHouse(nil, flags, time.Now)
		h.core.answers(says("02", "02"))
		id := put(t, h.store, time.Now, unknown{number: 1})
		defer h.running(t)()
		time.Sleep(flags.LateWindow)
		if row := get(t, h.store, id); row.Status != ledger.StatusUnknown || row.NeedsReview {
			t.Fatalf("%s, review %v within the window", row.Status, row.NeedsReview)
		}
		settledWithin(t, h.store, promise, id)
		if row := get(t, h.store, id); row.Evidence != ledger.EvidenceWindowElapsed || row.Status != ledger.StatusFailed {
			t.Errorf("%s %s", row.Status, row.Evidence)
		}
	})
}
