package resilience

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"github.com/gwanmun/gwanmun/pkg/corelink"
)

// The tests of this file and of the other plain_ files stand in pairs: what
// failsafe-go by itself does, and what we do instead. The first halves fail
// when an upgrade changes what our design answers to; then see whether the
// answer is still needed.

type plainBreaker = circuitbreaker.CircuitBreaker[any]

// plainly is a breaker of three failures in a row and one success.
func plainly() plainBreaker {
	return circuitbreaker.NewBuilder[any]().
		WithFailureThreshold(3).WithSuccessThreshold(1).WithDelay(10 * time.Second).Build()
}

// trip opens it.
func trip(b plainBreaker) plainBreaker {
	for range 3 {
		b.RecordFailure()
	}
	return b
}

// probing opens it, waits, and takes the permit of its first probe.
func probing(t *testing.T, b plainBreaker) {
	t.Helper()
	trip(b)
	time.Sleep(10 * time.Second)
	if !b.TryAcquirePermit() || !b.IsHalfOpen() {
		t.Fatal("not half-open")
	}
}

func TestPlain_CountWindowHasNoMinimum(t *testing.T) {
	t.Run("failsafe-go", func(t *testing.T) {
		b := circuitbreaker.NewBuilder[any]().WithFailureThresholdRatio(3, 20).Build()
		b.RecordFailure()
		b.RecordFailure()
		if b.IsOpen() {
			t.Error("open before the third failure")
		}
		b.RecordFailure()
		if !b.IsOpen() {
			t.Error("three failures of three calls do not open it any more")
		}
	})
	t.Run("ours", func(t *testing.T) {
		c := circuitOf(standard(), 15)
		feed(t, c, times(9, bad)...)
		is(t, c, Closed)
	})
}

// Its rate is rounded to two decimals before it is compared.
func TestPlain_RateIsRounded(t *testing.T) {
	t.Run("failsafe-go", func(t *testing.T) {
		b := circuitbreaker.NewBuilder[any]().WithFailureRateThreshold(.15, 62, time.Hour).Build()
		for range 53 {
			b.RecordSuccess()
		}
		for range 9 {
			b.RecordFailure()
		}
		if !b.IsOpen() {
			t.Error("9 of 62 = 14.5 % does not open a breaker of 15 % any more")
		}
	})
	t.Run("ours", func(t *testing.T) {
		f := standard()
		f.CircuitWindow, f.CircuitMinCalls = 62, 62
		c := circuitOf(f, 15)
		feed(t, c, times(53, good)...)
		feed(t, c, times(9, bad)...)
		is(t, c, Closed)
		feed(t, c, bad) // the window forgets a success: 10 of 62 = 16.1 %
		is(t, c, Open)
	})
}

// Its half-open permits come back: they limit how many run at once.
func TestPlain_HalfOpenPermitsComeBackAfterEachResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := circuitbreaker.NewBuilder[any]().
			WithFailureThreshold(3).WithSuccessThresholdRatio(6, 10).WithDelay(10 * time.Second).Build()
		probing(t, b)
		let := 1
		for range 4 {
			b.RecordSuccess()
			b.TryAcquirePermit()
			b.RecordFailure()
			if b.TryAcquirePermit() {
				let += 2
			}
		}
		if !b.IsHalfOpen() || let != 9 {
			t.Errorf("%s after %d", b.State(), let)
		}
		for range 9 {
			if !b.TryAcquirePermit() {
				t.Error("the permits of ended probes do not come back any more")
			}
		}
	})
	// Ours: TestHalfOpen_PlacesAreATotalAndNotAConcurrency.
}

func TestPlain_StaleSuccessClosesAndGivesBackAPermitItNeverTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := plainly()
		b.TryAcquirePermit() // a slow call begins while it is closed
		probing(t, b)
		b.RecordSuccess() // the slow call ends
		if !b.IsClosed() {
			t.Error("a stale success does not close it any more")
		}

		b = circuitbreaker.NewBuilder[any]().
			WithFailureThreshold(3).WithSuccessThreshold(3).WithDelay(10 * time.Second).Build()
		probing(t, b)
		b.TryAcquirePermit()
		b.TryAcquirePermit()
		if b.TryAcquirePermit() {
			t.Error("a fourth probe of three")
		}
		b.RecordSuccess() // stale
		if !b.TryAcquirePermit() {
			t.Error("a stale result does not give a permit back any more")
		}
	})
	// Ours: TestStale_SuccessOfAnEarlierStateDoesNotClose.
}

func TestPlain_StaleFailureReopens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := plainly()
		probing(t, b)
		b.RecordFailure() // of a call that began while it was closed
		if !b.IsOpen() {
			t.Error("a stale failure does not open it any more")
		}
	})
	// Ours: TestStale_FailureOfAnEarlierStateDoesNotOpen.
}

func TestPlain_LateResultsInOpenChangeItsMetrics(t *testing.T) {
	b := trip(plainly())
	b.RecordSuccess()
	if got := b.Metrics().Failures(); got != 2 {
		t.Errorf("%d failures: late results do not change what is shown any more", got)
	}
	// Ours: TestOpen_LateResultsChangeNothingButTheirCounter.
}

var errFull = errors.New("pool exhausted")

// What it does not take for a failure is a success.
func TestPlain_ProbeThatProvesNothingCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := circuitbreaker.NewBuilder[any]().
			HandleIf(func(_ any, err error) bool {
				return err != nil && !errors.Is(err, errFull) && !errors.Is(err, context.Canceled)
			}).
			WithFailureThreshold(3).WithSuccessThreshold(1).WithDelay(10 * time.Second).Build()
		for _, nothing := range []error{errFull, context.Canceled} {
			trip(b)
			time.Sleep(10 * time.Second)
			_ = failsafe.With[any](b).Run(func() error { return nothing })
			if !b.IsClosed() {
				t.Errorf("a probe that ended in %q does not close it any more", nothing)
			}
		}
	})
	// Ours: TestExchange_ProbeThatProvesNothingGivesItsPlaceBack.
}

func TestPlain_ThreeCanceledCallersOpenIt(t *testing.T) {
	b := plainly()
	for range 3 {
		_ = failsafe.With[any](b).Run(func() error { return context.Canceled })
	}
	if !b.IsOpen() {
		t.Error("canceled callers do not open it any more")
	}
	// Ours: TestImpatience_HundredCallersDoNotOpenTheCircuit.
}

func TestPlain_PanicInAProbeLeaksItsPermitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := trip(plainly())
		time.Sleep(10 * time.Second)
		func() {
			defer func() { _ = recover() }()
			_ = failsafe.With[any](b).Run(func() error { panic("parser") })
		}()
		time.Sleep(24 * time.Hour)
		if b.TryAcquirePermit() || !b.IsHalfOpen() {
			t.Error("a panic does not leak the permit any more")
		}
	})
	// Ours: TestExchange_PanicSettlesItsPermitAndGoesOn.
}

// The unlock of an unlocked mutex cannot be recovered, so it is another process
// that dies.
func TestPlain_PanickingListenerKillsTheProcess(t *testing.T) {
	const child = "GWANMUN_TEST_PANICKING_LISTENER"
	if os.Getenv(child) != "" {
		b := circuitbreaker.NewBuilder[any]().OnOpen(func(circuitbreaker.StateChangedEvent) { panic("disk full") }).Build()
		defer func() { _ = recover() }()
		b.RecordFailure()
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestPlain_PanickingListenerKillsTheProcess$")
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "unlock of unlocked mutex") {
		t.Errorf("a panicking listener does not kill the process any more: %v\n%s", err, out)
	}
	// Ours: TestLog_PanickingHandlerCostsNoPlaceAndNoTransition.
}

func TestPlain_OpenMovesWithTheNextCallOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := trip(plainly())
		time.Sleep(time.Hour)
		if !b.IsOpen() || b.RemainingDelay() != 0 {
			t.Error("it moves by itself")
		}
		b.TryAcquirePermit()
		if !b.IsHalfOpen() {
			t.Error("not half-open")
		}
	})
	// Ours is the same, and says so: TestOpen_RefusesUntilTheWaitIsOver.
}

// A breaker whose thresholds are out of reach does what our circuit asks of it.
func TestPlain_ThresholdsOutOfReachAreNeverMet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := consecutive(3)
		c := circuitOf(f, 15)
		b := c.breaker
		for range 1000 {
			b.RecordFailure()
		}
		if !b.IsClosed() || b.Metrics().Failures() != uint(f.CircuitFailures) {
			t.Fatalf("%s with %d failures", b.State(), b.Metrics().Failures())
		}
		for _, record := range []func(){b.RecordFailure, b.RecordSuccess} {
			b.Open()
			b.HalfOpen()
			for range f.CircuitProbes {
				record()
			}
			if !b.IsHalfOpen() {
				t.Fatalf("%s by itself", b.State())
			}
		}
	})
}

func TestPlain_ComposeAndOnDoneChangeTheirReceiver(t *testing.T) {
	e := failsafe.With[any]()
	b := plainly()
	e.Compose(b)
	done := 0
	e.OnDone(func(failsafe.ExecutionDoneEvent[any]) { done++ })
	for range 3 {
		_ = e.Run(func() error { return corelink.ErrConnect })
	}
	if !b.IsOpen() || done != 3 {
		t.Errorf("%s, %d listened: they make copies now", b.State(), done)
	}
	if e.WithContext(t.Context()) == e {
		t.Error("WithContext makes no copy any more")
	}
	// Ours: an executor for each call, so nothing is shared to be changed.
}
