package paired_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/gwanmun/gwanmun/bench/paired"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ms = time.Millisecond

func plan(callers int) paired.Plan {
	return paired.Plan{Callers: callers, Rounds: paired.MinRounds, Burst: 100 * ms}
}

// taking is a side whose operations take so long, in virtual time.
func taking(d func() time.Duration) paired.Side {
	return paired.Side{
		Name:   "side",
		Caller: every(func(int) error { time.Sleep(d()); return nil }),
		CPU:    func() (time.Duration, error) { return time.Duration(time.Now().UnixNano()) / 10, nil },
	}
}

// every is one operation for all callers.
func every(op func(n int) error) func(context.Context, int) func() error {
	return func(_ context.Context, n int) func() error { return func() error { return op(n) } }
}

func always(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

func near(got, want float64) bool { return got > want*0.98 && got < want*1.02 }

func TestRun_Ratio(t *testing.T) {
	cases := map[string]struct {
		callers       int
		base, subject time.Duration
		ratio         float64
	}{
		"alike":            {1, ms, ms, 1},
		"half as fast":     {1, ms, 2 * ms, 0.5},
		"twice as fast":    {4, 2 * ms, ms, 2},
		"a little slower":  {16, 100 * time.Microsecond, 110 * time.Microsecond, 0.909},
		"a little quicker": {16, 110 * time.Microsecond, 100 * time.Microsecond, 1.1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, err := paired.Run(t.Context(), plan(c.callers), taking(always(c.base)), taking(always(c.subject)))
				if err != nil {
					t.Fatal(err)
				}
				if !near(r.Ratio, c.ratio) || !near(r.AA, 1) || !r.Sound() {
					t.Errorf("ratio %v, A/A %v, want ratio %v", r.Ratio, r.AA, c.ratio)
				}
				if want := float64(c.callers) / c.base.Seconds(); !near(r.Base.PerSecond, want) {
					t.Errorf("base %v/s, want %v", r.Base.PerSecond, want)
				}
				// Ten per cent of one CPU, shared by the callers.
				if want := c.subject / 10 / time.Duration(c.callers); !near(float64(r.Subject.CPU), float64(want)) {
					t.Errorf("%v CPU for an operation, want %v", r.Subject.CPU, want)
				}
			})
		})
	}
}

// A machine that becomes slower all the time moves the figures, but not the
// ratio.
func TestRun_DriftCancelsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		slowing := func(d time.Duration) func() time.Duration {
			return func() time.Duration { return d + time.Duration(float64(d)*time.Since(start).Seconds()/10) }
		}
		r, err := paired.Run(t.Context(), plan(4), taking(slowing(100*time.Microsecond)), taking(slowing(125*time.Microsecond)))
		if err != nil {
			t.Fatal(err)
		}
		if !near(r.Ratio, 0.8) || r.AA >= 1 {
			t.Errorf("ratio %v, A/A %v", r.Ratio, r.AA)
		}
	})
}

// A base that is slower after the subject than before it proves nothing.
func TestRun_UnsoundWhenTheBaseIsNotItself(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		sound bool
	}{
		"slower": {120, false}, "a little slower": {107, true}, "quicker": {85, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var turns atomic.Int64
				base := taking(always(0))
				base.Caller = every(func(int) error {
					d := 100 * time.Microsecond
					if turns.Load()%4 >= 2 {
						d = c.after * time.Microsecond
					}
					time.Sleep(d)
					return nil
				})
				// CPU is asked at the begin and at the end of what is measured.
				base.CPU = func() (time.Duration, error) { turns.Add(1); return 0, nil }
				r, err := paired.Run(t.Context(), plan(1), base, taking(always(ms)))
				if err != nil {
					t.Fatal(err)
				}
				if r.Sound() != c.sound {
					t.Errorf("A/A %v is sound: %t", r.AA, r.Sound())
				}
			})
		})
	}
}

// A burst in which nothing ended says nothing.
func TestRun_UnsoundWhenNothingEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := paired.Run(t.Context(), plan(1), taking(always(time.Hour)), taking(always(time.Hour)))
		if err != nil || r.Sound() {
			t.Errorf("%+v, error %v", r, err)
		}
	})
}

// Of the operations that begin in what is measured, every hundredth and more is
// slow: the median does not show it, the 99th percentile does. Meters count by
// the operation.
func TestRun_LatenciesAndMeters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done atomic.Int64
		uneven := func(slow time.Duration) paired.Side {
			n := 0
			side := taking(func() time.Duration {
				done.Add(1)
				if n++; n%50 == 0 {
					return slow
				}
				return 100 * time.Microsecond
			})
			side.Meters = []paired.Meter{
				func() (float64, error) { return float64(3 * done.Load()), nil },
				func() (float64, error) { return 7, nil },
			}
			return side
		}
		p := plan(1)
		p.Latencies = true
		r, err := paired.Run(t.Context(), p, uneven(4*ms), uneven(ms))
		if err != nil {
			t.Fatal(err)
		}
		if r.Base.P50 != 100*time.Microsecond || r.Subject.P50 != r.Base.P50 || r.Base.P99 != 4*ms || r.Subject.P99 != ms || r.P99Ratio != 0.25 {
			t.Errorf("base %v, %v; subject %v, %v; ratio %v", r.Base.P50, r.Base.P99, r.Subject.P50, r.Subject.P99, r.P99Ratio)
		}
		for _, f := range []paired.Figures{r.Base, r.Subject} {
			if len(f.Meters) != 2 || !near(f.Meters[0], 3) || f.Meters[1] != 0 {
				t.Errorf("meters %v", f.Meters)
			}
		}
	})
}

func TestRun_NoLatenciesUnlessAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := paired.Run(t.Context(), plan(2), taking(always(ms)), taking(always(ms)))
		if err != nil || r.Base.P50 != 0 || r.Subject.P99 != 0 || r.P99Ratio != 0 {
			t.Errorf("%+v, error %v", r, err)
		}
	})
}

func TestRun_FailureEndsIt(t *testing.T) {
	errOp := errors.New("operation failed")
	for name, side := range map[string]paired.Side{
		"of an operation": {Name: "subject", Caller: every(func(n int) error {
			if n == 2 {
				return errOp
			}
			time.Sleep(ms)
			return nil
		}), CPU: paired.OwnCPU},
		"of a meter": {Name: "subject", Caller: every(func(int) error { time.Sleep(ms); return nil }), CPU: paired.OwnCPU, Meters: []paired.Meter{
			func() (float64, error) { return 0, errOp },
		}},
		"of the CPU time": {Name: "subject", Caller: every(func(int) error { time.Sleep(ms); return nil }), CPU: func() (time.Duration, error) { return 0, errOp }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, err := paired.Run(t.Context(), plan(4), taking(always(ms)), side)
				if !errors.Is(err, errOp) || err.Error()[:7] != "subject" {
					t.Errorf("error %v", err)
				}
				if elapsed := time.Since(start); elapsed > 150*ms {
					t.Errorf("ended after %v", elapsed)
				}
			})
		})
	}
}

// An operation that fails when its turn is over is no success either.
func TestRun_FailureAtTheEndCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errOp := errors.New("operation failed")
		late := taking(always(0))
		late.Caller = every(func(int) error { time.Sleep(130 * ms); return errOp }) // a burst and its begin take 120 ms
		if r, err := paired.Run(t.Context(), plan(1), late, taking(always(ms))); !errors.Is(err, errOp) {
			t.Errorf("%+v, error %v", r, err)
		}
	})
}

func TestRun_ObeysItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 250*ms)
		defer cancel()
		_, err := paired.Run(ctx, plan(4), taking(always(ms)), taking(always(ms)))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
}

func TestRun_RefusesAPlanThatProvesNothing(t *testing.T) {
	for name, p := range map[string]paired.Plan{
		"no caller": {Rounds: 8, Burst: ms}, "few rounds": {Callers: 1, Rounds: 7, Burst: ms}, "no time": {Callers: 1, Rounds: 8},
	} {
		t.Run(name, func(t *testing.T) {
			side := taking(always(ms))
			if _, err := paired.Run(t.Context(), p, side, side); err == nil {
				t.Error("ran")
			}
		})
	}
}

func TestOwnCPU_Grows(t *testing.T) {
	before, err := paired.OwnCPU()
	if err != nil {
		t.Fatal(err)
	}
	for after := before; after <= before; {
		if after, err = paired.OwnCPU(); err != nil {
			t.Fatal(err)
		}
	}
}
