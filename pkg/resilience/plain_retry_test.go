package resilience

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"
)

var errLost = errors.New("no answer in time")

func TestPlain_RetryPutsErrOpenInPlaceOfTheRealFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := circuitbreaker.NewBuilder[any]().WithFailureThreshold(1).Build()
		retry := retrypolicy.NewBuilder[any]().WithMaxRetries(2).ReturnLastFailure().Build()
		sent := 0
		err := failsafe.With[any](retry, b).Run(func() error { sent++; return errLost })
		if sent != 1 || !errors.Is(err, circuitbreaker.ErrOpen) || errors.Is(err, errLost) {
			t.Errorf("sent %d times: %v", sent, err)
		}
	})
	// Ours: TestExchange_CircuitThatOpensBetweenAttemptsLeavesTheLastRealFailure
	// and TestExchange_RefusalOfASecondAttemptLeavesTheLastRealFailure.
}

// A refusal is an error like any other to it: it is tried again.
func TestPlain_RetryRetriesErrOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := trip(plainly())
		asked := 0
		retry := retrypolicy.NewBuilder[any]().WithMaxRetries(2).WithDelay(time.Second).
			OnRetry(func(failsafe.ExecutionEvent[any]) { asked++ }).Build()
		_ = failsafe.With[any](retry, b).Run(func() error { return nil })
		if asked != 2 {
			t.Errorf("%d retries of a refusal", asked)
		}
	})
	t.Run("ours", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			h := build(t, consecutive(1), dead)
			for range 3 {
				h.Exchange(context.Background(), inquiry(time.Millisecond))
			}
			h.Exchange(context.Background(), inquiry(time.Hour))
			if s := h.Circuits()[1]; s.Rejected != 1 || time.Since(start) != 0 {
				t.Errorf("%s: %+v", time.Since(start), s)
			}
		})
	})
}

func TestPlain_MaxDurationBeginsAnAttemptWithNothingLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		retry := retrypolicy.NewBuilder[any]().WithMaxRetries(2).WithDelay(3 * time.Second).
			WithMaxDuration(5 * time.Second).ReturnLastFailure().Build()
		_ = failsafe.With[any](retry).Run(func() error {
			at = append(at, time.Since(start))
			time.Sleep(3 * time.Second)
			return errLost
		})
		if got := fmt.Sprint(at); got != "[0s 5s]" {
			t.Errorf("attempts at %s: it begins none at its end any more", got)
		}
	})
	// Ours: TestDeadline_NoAttemptWithoutTimeForIt.
}

func TestPlain_RetryThrowsAwayASuccessWhoseContextEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	retry := retrypolicy.NewBuilder[string]().Build()
	got, err := failsafe.With[string](retry).WithContext(ctx).Get(func() (string, error) {
		cancel()
		return "APPROVED", nil
	})
	if got != "" || !errors.Is(err, context.Canceled) {
		t.Errorf("%q, %v: it keeps the success now", got, err)
	}
	// Ours: TestImpatience_AnswerOfACallerWhoLeftIsKept.
}

func TestPlain_BackoffHasNoJitterUnlessAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		retry := retrypolicy.NewBuilder[any]().WithMaxRetries(3).WithBackoff(200*time.Millisecond, time.Minute).Build()
		_ = failsafe.With[any](retry).Run(func() error { at = append(at, time.Since(start)); return errLost })
		if got := fmt.Sprint(at); got != "[0s 200ms 600ms 1.4s]" {
			t.Errorf("attempts at %s", got)
		}
	})
	// Ours: TestExchange_InquiryIsTriedAgainAfterDoublingBackoff.
}

func TestPlain_DefaultRetrySendsAgainWhateverTheError(t *testing.T) {
	sent := 0
	_ = failsafe.With[any](retrypolicy.NewWithDefaults[any]()).Run(func() error { sent++; return errLost })
	if sent != 3 {
		t.Errorf("sent %d times", sent)
	}
	// Ours: TestExchange_MutationIsSentOnceWhateverTheFlagsSay and
	// TestExchange_NeutralEndsAreNotTriedAgain.
}

// Its time-out is cooperative: a read that blocks outlives it, the context has
// no deadline that could be put on the socket, and what the read brings home
// is replaced by an error.
func TestPlain_TimeoutOutlivedByAReadLosesAnApproval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		near, far := net.Pipe()
		go func() {
			time.Sleep(3 * time.Second)
			_, _ = far.Write([]byte("APPROVED"))
			_ = far.Close()
		}()
		got, err := failsafe.With[string](timeout.New[string](200 * time.Millisecond)).
			GetWithExecution(func(exec failsafe.Execution[string]) (string, error) {
				if _, ok := exec.Context().Deadline(); ok {
					t.Error("the context has a deadline now")
				}
				buf := make([]byte, 8)
				n, err := near.Read(buf)
				return string(buf[:n]), err
			})
		if spent := time.Since(start); spent != 3*time.Second {
			t.Errorf("it took %s", spent)
		}
		if got != "" || !errors.Is(err, timeout.ErrExceeded) {
			t.Errorf("%q, %v: a late approval is kept now", got, err)
		}
		_ = near.Close()
	})
	t.Run("ours", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			// An Exchanger that overruns its deadline all the same.
			h := build(t, standard(), slowly(6*time.Second))
			if res := h.Exchange(context.Background(), payment(5*time.Second)); !res.Answered() {
				t.Errorf("%+v", res)
			}
			if res := h.Exchange(context.Background(), inquiry(5*time.Second)); !res.Answered() {
				t.Errorf("%+v", res)
			}
		})
	})
}

func TestPlain_BulkheadLeaksOnPanic(t *testing.T) {
	b := bulkhead.New[any](1)
	func() {
		defer func() { _ = recover() }()
		_ = failsafe.With[any](b).Run(func() error { panic("parser") })
	}()
	if b.TryAcquirePermit() {
		t.Error("a panic does not leak the permit any more")
	}
	// Ours: no bulkhead; the pool of the link is the limit.
}

func TestPlain_BudgetPutsItsErrorInPlaceOfTheRealFailure(t *testing.T) {
	none := budget.NewBuilder().WithMaxRate(0).WithMinConcurrency(0).Build()
	sent := 0
	try := func() error {
		return failsafe.With[any](retrypolicy.NewBuilder[any]().WithBudget(none).ReturnLastFailure().Build()).
			Run(func() error { sent++; return errLost })
	}
	// The budget is empty as soon as one retry is under way.
	retrying := failsafe.With[any](retrypolicy.NewBuilder[any]().WithBudget(none).Build())
	var inner error
	outer := 0
	_ = retrying.Run(func() error {
		outer++
		if outer == 2 {
			inner = try()
		}
		return errLost
	})
	if sent != 1 || !errors.Is(inner, budget.ErrExceeded) || errors.Is(inner, errLost) {
		t.Errorf("sent %d times: %v", sent, inner)
	}
	// Ours: no budget; TestExchange_LostAnswerStaysLostWhateverComesAfterIt.
}
