package resilience

import (
	"testing"
	"testing/synctest"
	"time"
)

// halfOpen is a circuit of mode rate at percent, as its first probe finds it.
// The permit is that probe's.
func halfOpen(t testing.TB, percent int) (*circuit, permit) {
	t.Helper()
	c := circuitOf(standard(), percent)
	feed(t, c, times(10, bad)...)
	is(t, c, Open)
	time.Sleep(standard().CircuitOpenWait)
	p := begin(t, c)
	is(t, c, HalfOpen)
	return c, p
}

func TestHalfOpen_OpensAtTheThirdProbeWhenNoWayLeadsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, first := halfOpen(t, 15)
		c.settle(first, good)
		feed(t, c, good)
		is(t, c, HalfOpen)
		feed(t, c, bad) // 1 of 3 = 33 %, and 1 of 5 = 20 % is the best it can become
		is(t, c, Open)
		if s := c.stats(); s.Opened != 2 || s.Buffered != 3 || s.Failed != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestHalfOpen_StaysWhileItCanRecoverAndClosesAtTheFifthProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, first := halfOpen(t, 50)
		c.settle(first, bad)
		for range 3 {
			feed(t, c, good) // 1 of 3 = 33 %, 1 of 4 = 25 %
			is(t, c, HalfOpen)
		}
		feed(t, c, good)
		is(t, c, Closed)
		if s := c.stats(); s.Buffered != 0 || s.RetryAfter != 0 {
			t.Errorf("a closed circuit starts anew: %+v", s)
		}
	})
}

func TestHalfOpen_StaysAboveTheThresholdWhileItCanRecover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, first := halfOpen(t, 50)
		c.settle(first, bad)
		feed(t, c, bad, good) // 2 of 3 = 67 %, but 2 of 5 = 40 % is possible
		is(t, c, HalfOpen)
		feed(t, c, good, good)
		is(t, c, Closed)
	})
}

func TestHalfOpen_DoesNotJudgeBeforeItsMinimum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, first := halfOpen(t, 15)
		c.settle(first, bad)
		feed(t, c, bad)
		is(t, c, HalfOpen) // nothing can save it, and two calls are no judgement
		feed(t, c, good)
		is(t, c, Open)
	})
}

func TestHalfOpen_ConsecutiveFailureOpensAndSuccessCloses(t *testing.T) {
	for name, v := range map[string]struct {
		verdict verdict
		want    State
	}{"success": {good, Closed}, "failure": {bad, Open}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := opened(t, consecutive(1))
				time.Sleep(10 * time.Second)
				feed(t, c, v.verdict)
				is(t, c, v.want)
			})
		})
	}
}

// With several probes the first result decides; the others come too late.
func TestHalfOpen_FirstOfSeveralConsecutiveProbesDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := opened(t, consecutive(3))
		time.Sleep(10 * time.Second)
		a, b, d := begin(t, c), begin(t, c), begin(t, c)
		_ = refused(t, c)
		c.settle(b, good)
		is(t, c, Closed)
		c.settle(a, bad)
		c.settle(d, bad)
		is(t, c, Closed)
		if s := c.stats(); s.Stale != 2 || s.Buffered != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestClosed_OpensAtTheMinimumAndAtTheThreshold(t *testing.T) {
	c := circuitOf(standard(), 20)
	feed(t, c, times(9, bad)...)
	is(t, c, Closed)
	feed(t, c, bad)
	is(t, c, Open)

	c = circuitOf(standard(), 20)
	feed(t, c, times(16, good)...)
	feed(t, c, times(3, bad)...) // 3 of 19 = 15.8 %
	is(t, c, Closed)
	feed(t, c, bad) // 4 of 20 = 20 %: at the threshold is enough
	is(t, c, Open)
}

// The window forgets: of the last 20 calls, not of all, 20 % must have failed.
func TestClosed_JudgesTheLastCallsOnly(t *testing.T) {
	c := circuitOf(standard(), 20)
	for range 100 {
		feed(t, c, times(17, good)...)
		feed(t, c, times(3, bad)...) // 3 of 20, always
	}
	is(t, c, Closed)
	if s := c.stats(); s.Buffered != 20 || s.Failed != 3 || s.FailureRate != 15 {
		t.Errorf("%+v", s)
	}
}

func TestClosed_SuccessBreaksARowOfFailures(t *testing.T) {
	c := circuitOf(consecutive(1), 15)
	for range 50 {
		feed(t, c, bad, bad, good)
	}
	is(t, c, Closed)
	feed(t, c, bad, bad, bad)
	is(t, c, Open)
}

func TestOpen_RefusesUntilTheWaitIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := opened(t, consecutive(1))
		time.Sleep(4 * time.Second)
		r := refused(t, c)
		if r.Name != "core-test" || r.State != Open || r.RetryAfter != 6*time.Second {
			t.Errorf("%+v", r)
		}
		if got := r.Error(); got != "circuit core-test is OPEN, retry after 6s" {
			t.Error(got)
		}
		time.Sleep(6*time.Second - time.Nanosecond)
		_ = refused(t, c)
		time.Sleep(time.Nanosecond)
		if s := c.stats(); s.State != Open || s.RetryAfter != 0 || s.Rejected != 2 {
			t.Errorf("it moves with the next call, not by itself: %+v", s)
		}
		begin(t, c)
		is(t, c, HalfOpen)
	})
}

func TestHalfOpen_RefusesBeyondItsPlacesWithAShortWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := opened(t, consecutive(1))
		time.Sleep(10 * time.Second)
		begin(t, c)
		if r := refused(t, c); r.State != HalfOpen || r.RetryAfter != busyWait {
			t.Errorf("%+v", r)
		}
	})
}

// A result uses its place up: five probes are five in all, not five at a time.
func TestHalfOpen_PlacesAreATotalAndNotAConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := standard()
		f.HalfopenMinCalls = 5
		c := circuitOf(f, 50)
		feed(t, c, times(10, bad)...)
		time.Sleep(10 * time.Second)
		last := begin(t, c)
		feed(t, c, good, bad, good, bad)
		_ = refused(t, c)
		c.settle(last, good)
		is(t, c, Closed)
	})
}

func TestHalfOpen_NeutralEndGivesItsPlaceBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := opened(t, consecutive(1))
		time.Sleep(10 * time.Second)
		for range 1000 {
			p := begin(t, c)
			_ = refused(t, c)
			c.settle(p, blank)
		}
		is(t, c, HalfOpen)
		if s := c.stats(); s.Neutral != 1000 || s.ProbesInFlight != 0 || s.Buffered != 0 {
			t.Errorf("%+v", s)
		}
		feed(t, c, good)
		is(t, c, Closed)
	})
}

func TestStale_SuccessOfAnEarlierStateDoesNotClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := circuitOf(consecutive(1), 15)
		slow := make([]permit, 20)
		for i := range slow {
			slow[i] = begin(t, c)
		}
		feed(t, c, times(3, bad)...)
		time.Sleep(10 * time.Second)
		probe := begin(t, c)
		for _, p := range slow {
			c.settle(p, good)
			is(t, c, HalfOpen)
			_ = refused(t, c) // and no place was given back that it never took
		}
		c.settle(probe, bad)
		is(t, c, Open)
		if s := c.stats(); s.Stale != 20 || s.Opened != 2 {
			t.Errorf("%+v", s)
		}
	})
}

func TestStale_FailureOfAnEarlierStateDoesNotOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := circuitOf(consecutive(1), 15)
		slow := make([]permit, 20)
		for i := range slow {
			slow[i] = begin(t, c)
		}
		feed(t, c, times(3, bad)...)
		time.Sleep(10 * time.Second)
		probe := begin(t, c)
		for _, p := range slow[:10] {
			c.settle(p, bad)
			is(t, c, HalfOpen)
		}
		c.settle(probe, good)
		for _, p := range slow[10:] {
			c.settle(p, bad)
			is(t, c, Closed)
		}
		if s := c.stats(); s.Stale != 20 || s.Failed != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A probe that outlives its half-open state must not speak in the next one.
func TestStale_ProbeOfAnEarlierHalfOpenStateDecidesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := opened(t, consecutive(2))
		time.Sleep(10 * time.Second)
		late, quick := begin(t, c), begin(t, c)
		c.settle(quick, bad)
		time.Sleep(10 * time.Second)
		probe := begin(t, c)
		c.settle(late, good)
		is(t, c, HalfOpen)
		if s := c.stats(); s.ProbesInFlight != 1 || s.Stale != 1 {
			t.Errorf("%+v", s)
		}
		c.settle(probe, good)
		is(t, c, Closed)
	})
}

func TestOpen_LateResultsChangeNothingButTheirCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := circuitOf(consecutive(1), 15)
		late := []permit{begin(t, c), begin(t, c), begin(t, c)}
		feed(t, c, times(3, bad)...)
		want := c.stats()
		for i, v := range []verdict{good, bad, blank} {
			c.settle(late[i], v)
			want.Stale++
			if got := c.stats(); got != want {
				t.Errorf("after a late %v: %+v, want %+v", v, got, want)
			}
		}
	})
}
