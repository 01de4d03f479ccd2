package resilience

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/corelink"
)

// linked is a Gate over real links whose sockets are pipes, so that their
// deadlines obey the bubble's time. connecting takes so long; then the core
// takes the request and answers after answering, or never if that is zero.
func linked(t *testing.T, f Flags, connecting, answering time.Duration, dials *[]time.Duration) house {
	t.Helper()
	start := time.Now()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		*dials = append(*dials, time.Since(start))
		select {
		case <-time.After(connecting):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		near, far := net.Pipe()
		go func() {
			defer func() { _ = far.Close() }()
			if _, err := io.ReadFull(far, make([]byte, 4)); err != nil {
				return
			}
			if answering > 0 {
				time.Sleep(answering)
				_, _ = far.Write([]byte("0210"))
			}
			_, _ = io.Copy(io.Discard, far)
		}()
		return near, nil
	}
	link := corelink.New(corelink.Options{
		Flags: corelink.Flags{
			CoreAddr: []string{"core:9099"}, ReadTimeout: 3 * time.Second, ConnectTimeout: 2 * time.Second, PoolSize: 16,
		},
		Name: "test", Dial: dial, Now: time.Now, Metrics: corelink.NewMetrics(prometheus.NewRegistry()),
	})
	return build(t, f, link.Exchange)
}

// over makes a call whole enough for a link.
func over(call corelink.Call) corelink.Call {
	call.Frame, call.AnswerLength = []byte("0200"), 4
	call.Check = func([]byte) error { return nil }
	return call
}

func TestDeadline_SlowCoreCostsAnInquiryExactlyItsFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var dials []time.Duration
		h := linked(t, standard(), 0, 0, &dials)
		res := h.Exchange(context.Background(), over(inquiry(5*time.Second)))
		if spent := time.Since(start); spent != 5*time.Second {
			t.Errorf("it took %s: 3 s + 0.2 s + 1.8 s = 5 s", spent)
		}
		if got := fmt.Sprint(dials); got != "[0s 3.2s]" {
			t.Errorf("attempts at %s", got)
		}
		if !errors.Is(res.Err, corelink.ErrTimeout) || res.Sent != corelink.SentAll || !res.SentAt.Equal(start) {
			t.Errorf("%+v", res)
		}
		if s := h.Circuits()[1]; s.Failed != 2 {
			t.Errorf("%+v", s)
		}
	})
}

func TestDeadline_MutationEndsByItsReadTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var dials []time.Duration
		h := linked(t, standard(), 0, 0, &dials)
		res := h.Exchange(context.Background(), over(payment(5*time.Second)))
		if spent := time.Since(start); spent != 3*time.Second || len(dials) != 1 || res.Sent != corelink.SentAll {
			t.Errorf("%d attempts, %s: %+v", len(dials), spent, res)
		}
	})
}

func TestDeadline_ConnectTimeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var dials []time.Duration
		h := linked(t, standard(), 1500*time.Millisecond, 0, &dials)
		h.Exchange(context.Background(), over(inquiry(5*time.Second)))
		// 1.5 s + 3 s, 0.2 s, and 0.3 s of connecting are left.
		if spent := time.Since(start); spent != 5*time.Second || fmt.Sprint(dials) != "[0s 4.7s]" {
			t.Errorf("attempts at %v, it took %s", dials, spent)
		}
	})
}

func TestDeadline_NoAttemptWithoutTimeForIt(t *testing.T) {
	for name, v := range map[string]struct {
		deadline, took time.Duration
		attempts       int64
	}{
		"the back-off ends at the deadline":        {3200 * time.Millisecond, 3 * time.Second, 1},
		"the back-off ends past the deadline":      {3100 * time.Millisecond, 3 * time.Second, 1},
		"the back-off ends just before":            {3200*time.Millisecond + 1, 3200*time.Millisecond + 1, 2},
		"the second back-off ends at the deadline": {6600 * time.Millisecond, 6200 * time.Millisecond, 2},
		"time for all":            {time.Hour, 9600 * time.Millisecond, 3},
		"no time at all":          {0, 0, 0},
		"the deadline has passed": {-time.Second, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var attempts atomic.Int64
				h := build(t, standard(), func(_ context.Context, call corelink.Call) corelink.Result {
					attempts.Add(1)
					if !time.Now().Before(call.Deadline) {
						t.Error("an attempt with no time left")
					}
					time.Sleep(min(3*time.Second, time.Until(call.Deadline)))
					return lost(corelink.ErrTimeout)
				})
				res := h.Exchange(context.Background(), inquiry(v.deadline))
				if spent := time.Since(start); spent != v.took || attempts.Load() != v.attempts {
					t.Errorf("%d attempts in %s, want %d in %s", attempts.Load(), spent, v.attempts, v.took)
				}
				if v.attempts == 0 && (!errors.Is(res.Err, corelink.ErrNoTime) || res.Sent != corelink.SentNone) {
					t.Errorf("%+v", res)
				}
			})
		})
	}
}

// A permit is not taken for an attempt that is not made.
func TestDeadline_CallWithoutTimeTakesNoProbesPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, consecutive(1), dead)
		for range 3 {
			h.Exchange(context.Background(), payment(time.Hour))
		}
		time.Sleep(10 * time.Second)
		left, cancel := context.WithCancel(context.Background())
		cancel()
		if res := h.Exchange(left, payment(time.Hour)); !errors.Is(res.Err, corelink.ErrAbandoned) || res.Sent != corelink.SentNone {
			t.Errorf("%+v", res)
		}
		if res := h.Exchange(context.Background(), payment(0)); !errors.Is(res.Err, corelink.ErrNoTime) {
			t.Errorf("%+v", res)
		}
		if s := h.Circuits()[0]; s.State != Open || s.Neutral != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestDeadline_InquiryAlsoEndsByItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var dials []time.Duration
		h := linked(t, standard(), 0, 0, &dials)
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
		defer cancel()
		h.Exchange(ctx, over(inquiry(5*time.Second)))
		if spent := time.Since(start); spent != 4*time.Second || len(dials) != 2 {
			t.Errorf("attempts at %v, it took %s", dials, spent)
		}
		if s := h.Circuits()[1]; s.Failed != 1 || s.Neutral != 1 {
			t.Errorf("the core owes the first attempt, the caller ended the second: %+v", s)
		}
	})
}

// The budget of each attempt is on its call, where the socket's deadline comes
// from; a mutation's is not clipped by its caller's.
func TestDeadline_EachAttemptCarriesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var got []time.Duration
		h := build(t, standard(), func(_ context.Context, call corelink.Call) corelink.Result {
			got = append(got, call.Deadline.Sub(start))
			return lost(corelink.ErrClosed)
		})
		ctx, cancel := context.WithTimeout(context.Background(), 400*time.Millisecond)
		defer cancel()
		h.Exchange(ctx, payment(5*time.Second))
		h.Exchange(ctx, inquiry(5*time.Second))
		if fmt.Sprint(got) != "[5s 400ms 400ms]" {
			t.Errorf("deadlines %v", got)
		}
	})
}

func TestImpatience_HundredCallersDoNotOpenTheCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials []time.Duration
		h := linked(t, consecutive(1), 0, 50*time.Millisecond, &dials)
		for i := range 100 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
			call := over(inquiry(5 * time.Second))
			if i%2 == 0 {
				call = over(payment(5 * time.Second))
			}
			if res := h.Exchange(ctx, call); res.Answered() {
				t.Fatal("answered in time")
			}
			cancel()
		}
		for _, s := range h.Circuits() {
			if s.State != Closed || s.Failed != 0 || s.Neutral != 50 {
				t.Errorf("%+v", s)
			}
		}
		if res := h.Exchange(context.Background(), over(inquiry(5*time.Second))); !res.Answered() {
			t.Errorf("a patient caller: %+v", res)
		}
	})
}

// A caller who leaves during the back-off ends the call, and loses nothing.
func TestImpatience_LeavingDuringTheBackoffEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithCancel(context.Background())
		var attempts atomic.Int64
		h := build(t, standard(), script(&attempts, ends(lost, corelink.ErrClosed)))
		time.AfterFunc(50*time.Millisecond, cancel)
		res := h.Exchange(ctx, inquiry(time.Hour))
		if spent := time.Since(start); spent != 50*time.Millisecond || attempts.Load() != 1 {
			t.Errorf("%d attempts in %s", attempts.Load(), spent)
		}
		if !errors.Is(res.Err, corelink.ErrClosed) || res.Sent != corelink.SentAll {
			t.Errorf("%+v", res)
		}
	})
}

// An answer that arrives as the caller leaves is an answer.
func TestImpatience_AnswerOfACallerWhoLeftIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, call := range []corelink.Call{payment(time.Hour), inquiry(time.Hour)} {
			ctx, cancel := context.WithCancel(context.Background())
			h := build(t, standard(), func(context.Context, corelink.Call) corelink.Result {
				cancel()
				return answered()
			})
			if res := h.Exchange(ctx, call); !res.Answered() || len(res.Answer) == 0 {
				t.Errorf("%+v", res)
			}
			for _, s := range h.Circuits() {
				if s.Neutral != 0 {
					t.Errorf("%+v", s)
				}
			}
		}
	})
}
