package resilience

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
)

// script is a core that ends its exchanges in turn as told, the last for ever.
func script(sent *atomic.Int64, ends ...func() corelink.Result) core {
	return func(context.Context, corelink.Call) corelink.Result {
		n := int(sent.Add(1))
		return ends[min(n, len(ends))-1]()
	}
}

func ends(make func(error) corelink.Result, kind error) func() corelink.Result {
	return func() corelink.Result { return make(kind) }
}

func TestExchange_MutationIsSentOnceWhateverTheFlagsSay(t *testing.T) {
	for _, kind := range []error{corelink.ErrConnect, corelink.ErrTimeout, corelink.ErrClosed, corelink.ErrGarbage, corelink.ErrWrite} {
		for _, retries := range []int{0, 2, maxRetries} {
			for _, mode := range []Mode{ModeRate, ModeConsecutive} {
				synctest.Test(t, func(t *testing.T) {
					f := standard()
					f.Retries, f.RetryBackoff, f.CircuitMode = retries, time.Nanosecond, mode
					var sent atomic.Int64
					h := build(t, f, script(&sent, ends(lost, kind)))
					for _, mutation := range []corelink.Kind{corelink.Mutation, 77} {
						sent.Store(0)
						call := payment(time.Hour)
						call.Kind = mutation
						res := h.Exchange(context.Background(), call)
						if sent.Load() != 1 || !errors.Is(res.Err, kind) || res.Sent != corelink.SentAll {
							t.Errorf("sent %d times: %+v", sent.Load(), res)
						}
					}
				})
			}
		}
	}
}

func TestExchange_InquiryIsTriedAgainAfterDoublingBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := standard()
		f.Retries = 4
		start := time.Now()
		var at []time.Duration
		h := build(t, f, func(context.Context, corelink.Call) corelink.Result {
			at = append(at, time.Since(start))
			return lost(corelink.ErrClosed)
		})
		res := h.Exchange(context.Background(), inquiry(time.Hour))
		ms := time.Millisecond
		want := []time.Duration{0, 200 * ms, 600 * ms, 1400 * ms, 3000 * ms}
		if fmt.Sprint(at) != fmt.Sprint(want) {
			t.Errorf("attempts at %v, want %v", at, want)
		}
		if !errors.Is(res.Err, corelink.ErrClosed) || res.Sent != corelink.SentAll || !res.SentAt.Equal(start) {
			t.Errorf("%+v", res)
		}
		if got := h.metric(t, "gwanmun_core_retries_total"); got != 4 {
			t.Errorf("%v retries counted", got)
		}
	})
}

func TestExchange_InquiryEndsWithItsFirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var sent atomic.Int64
		h := build(t, standard(), script(&sent, ends(lost, corelink.ErrClosed), ends(unsent, corelink.ErrConnect), answered))
		res := h.Exchange(context.Background(), inquiry(time.Hour))
		if !res.Answered() || sent.Load() != 3 || len(res.Answer) == 0 {
			t.Errorf("%d attempts: %+v", sent.Load(), res)
		}
		if !res.SentAt.Equal(start) || !res.AnsweredAt.Equal(start.Add(600*time.Millisecond)) {
			t.Errorf("sent at %s, answered at %s", res.SentAt, res.AnsweredAt)
		}
		if s := h.Circuits()[1]; s.Buffered != 3 || s.Failed != 2 {
			t.Errorf("each attempt counts: %+v", s)
		}
	})
}

// What ends without a failure of the core is not tried again.
func TestExchange_NeutralEndsAreNotTriedAgain(t *testing.T) {
	for _, kind := range []error{corelink.ErrNoTime, corelink.ErrNotReady, corelink.ErrAbandoned, corelink.ErrSaturated, errOther} {
		synctest.Test(t, func(t *testing.T) {
			var sent atomic.Int64
			h := build(t, standard(), script(&sent, ends(unsent, kind)))
			res := h.Exchange(context.Background(), inquiry(time.Hour))
			if sent.Load() != 1 || !errors.Is(res.Err, kind) || res.Sent != corelink.SentNone {
				t.Errorf("%v: %d attempts: %+v", kind, sent.Load(), res)
			}
		})
	}
}

func TestExchange_LostAnswerStaysLostWhateverComesAfterIt(t *testing.T) {
	timedOut, full := ends(lost, corelink.ErrTimeout), ends(unsent, corelink.ErrSaturated)
	for name, v := range map[string]struct {
		ends []func() corelink.Result
		want error
	}{
		"pool exhausted": {[]func() corelink.Result{timedOut, full}, corelink.ErrTimeout},
		"no time":        {[]func() corelink.Result{timedOut, ends(unsent, corelink.ErrNoTime)}, corelink.ErrTimeout},
		"core gone":      {[]func() corelink.Result{timedOut, ends(unsent, corelink.ErrConnect)}, corelink.ErrConnect},
		"abandoned":      {[]func() corelink.Result{ends(unsent, corelink.ErrConnect), ends(lost, corelink.ErrAbandoned)}, corelink.ErrAbandoned},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent atomic.Int64
				h := build(t, standard(), script(&sent, v.ends...))
				res := h.Exchange(context.Background(), inquiry(time.Hour))
				if res.Sent != corelink.SentAll || res.SentAt.IsZero() || !errors.Is(res.Err, v.want) {
					t.Errorf("%+v, want all sent and %v", res, v.want)
				}
			})
		})
	}
}

func TestExchange_CircuitThatOpensBetweenAttemptsLeavesTheLastRealFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var sent atomic.Int64
		h := build(t, consecutive(1), script(&sent,
			ends(unsent, corelink.ErrConnect), ends(unsent, corelink.ErrConnect), ends(lost, corelink.ErrTimeout)))
		h.Exchange(context.Background(), payment(time.Hour))            // the other circuit
		h.Exchange(context.Background(), inquiry(100*time.Millisecond)) // no time for a second attempt
		res := h.Exchange(context.Background(), inquiry(time.Hour))
		if !errors.Is(res.Err, corelink.ErrTimeout) || errors.Is(res.Err, ErrOpen) || res.Sent != corelink.SentAll {
			t.Errorf("%+v", res)
		}
		is(t, h.query.circuit, Open)
		if spent := time.Since(start); spent != 200*time.Millisecond {
			t.Errorf("%s passed: a circuit that stays open ends the call at once", spent)
		}
		if got := h.Circuits()[1].Rejected; got != 0 {
			t.Errorf("%d calls rejected, though none was even tried", got)
		}
	})
}

// The circuit was to stay open for less than the back-off, so the call waits;
// then another one has the only place.
func TestExchange_RefusalOfASecondAttemptLeavesTheLastRealFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := consecutive(1)
		f.CircuitFailures, f.CircuitOpenWait = 1, 150*time.Millisecond
		h := build(t, f, func(context.Context, corelink.Call) corelink.Result { return lost(corelink.ErrClosed) })
		done := make(chan corelink.Result, 1)
		go func() { done <- h.Exchange(context.Background(), inquiry(time.Hour)) }()
		time.Sleep(160 * time.Millisecond)
		begin(t, h.query.circuit)
		res := <-done
		if !errors.Is(res.Err, corelink.ErrClosed) || errors.Is(res.Err, ErrOpen) || res.Sent != corelink.SentAll {
			t.Errorf("%+v", res)
		}
		if got := h.Circuits()[1].Rejected; got != 1 {
			t.Errorf("%d rejected", got)
		}
	})
}

func TestExchange_OpenBeforeTheFirstAttemptIsAnOpenError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, call := range []corelink.Call{payment(time.Hour), inquiry(time.Hour)} {
			var sent atomic.Int64
			h := build(t, consecutive(1), script(&sent, ends(lost, corelink.ErrClosed)))
			for range 3 {
				h.Exchange(context.Background(), call)
			}
			before := sent.Load()
			time.Sleep(time.Second)
			res := h.Exchange(context.Background(), call)
			var open *OpenError
			if !errors.As(res.Err, &open) || !errors.Is(res.Err, ErrOpen) || res.Sent != corelink.SentNone || !res.SentAt.IsZero() {
				t.Fatalf("%+v", res)
			}
			if open.State != Open || open.RetryAfter <= 8*time.Second || open.RetryAfter > 9*time.Second {
				t.Errorf("%+v", open)
			}
			if sent.Load() != before {
				t.Error("an open circuit let a call out")
			}
		}
	})
}

func TestAdmits_LooksWithoutTakingAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, consecutive(1), dead)
		for range 3 {
			h.Exchange(context.Background(), payment(time.Hour))
		}
		if err := h.Admits(corelink.Inquiry); err != nil {
			t.Errorf("the other circuit is closed: %v", err)
		}
		var open *OpenError
		if err := h.Admits(corelink.Mutation); !errors.As(err, &open) || open.Name != CoreRequest || open.RetryAfter != 10*time.Second {
			t.Errorf("%v", err)
		}
		if s := h.Circuits()[0]; s.Rejected != 1 {
			t.Errorf("%+v", s)
		}
		time.Sleep(10 * time.Second)
		for range 100 {
			if err := h.Admits(corelink.Mutation); err != nil {
				t.Fatalf("a place is free: %v", err)
			}
		}
		is(t, h.request.circuit, Open)
		begin(t, h.request.circuit)
		if err := h.Admits(corelink.Mutation); !errors.As(err, &open) || open.State != HalfOpen {
			t.Errorf("%v", err)
		}
	})
}

func TestExchange_QueriesPassWhileRequestsAreRefused(t *testing.T) {
	for name, v := range map[string]struct {
		dead, alive corelink.Call
	}{
		"request dead": {payment(time.Hour), inquiry(time.Hour)},
		"query dead":   {inquiry(time.Hour), payment(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := build(t, standard(), func(_ context.Context, call corelink.Call) corelink.Result {
					if call.Kind == v.dead.Kind {
						return unsent(corelink.ErrConnect)
					}
					return answered()
				})
				v.dead.Deadline, v.alive.Deadline = time.Now().Add(time.Hour), time.Now().Add(time.Hour)
				for range 10 {
					h.Exchange(context.Background(), v.dead)
				}
				if res := h.Exchange(context.Background(), v.dead); !errors.Is(res.Err, ErrOpen) {
					t.Errorf("%+v", res)
				}
				if res := h.Exchange(context.Background(), v.alive); !res.Answered() {
					t.Errorf("%+v", res)
				}
			})
		})
	}
}

// Two kinds of call in a row are two exchanges, each of its own (B107).
func TestExchange_EachCallMakesItsOwnExchange(t *testing.T) {
	var frames []string
	h := build(t, standard(), func(_ context.Context, call corelink.Call) corelink.Result {
		frames = append(frames, string(call.Frame))
		return answered()
	})
	for _, v := range []struct {
		call  corelink.Call
		frame string
	}{{inquiry(time.Hour), "balance A"}, {payment(time.Hour), "payment B"}, {payment(time.Hour), "cancel C"}} {
		v.call.Frame = []byte(v.frame)
		h.Exchange(context.Background(), v.call)
	}
	if got := fmt.Sprint(frames); got != "[balance A payment B cancel C]" {
		t.Error(got)
	}
}

func TestExchange_DeclinesNeverOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A decline is an answer: the Result of it has no error.
		h := build(t, consecutive(1), healthy)
		for range 1000 {
			h.Exchange(context.Background(), payment(time.Hour))
			h.Exchange(context.Background(), inquiry(time.Hour))
		}
		for _, s := range h.Circuits() {
			if s.State != Closed || s.Failed != 0 || s.Opened != 0 {
				t.Errorf("%+v", s)
			}
		}
	})
}

func TestNew_PanicsOnFlagsThatAreNotValid(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	build(t, Flags{}, healthy)
}
