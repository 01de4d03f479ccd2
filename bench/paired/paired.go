// Package paired compares the speed of two things on a machine that has other
// work too. Its absolute figures move with that work; the ratio of two bursts
// that stand side by side does not, nor does the CPU time of an operation.
//
// Both things are up at once and take turns in bursts. Each burst of the subject
// stands between two of the base and is compared with their mean, so that a
// drift cancels out. Those two are compared with each other as well: where the
// base is not as fast as itself, the machine was too restless, or the subject
// leaves something behind, and the run says nothing.
package paired

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// MinRounds is how many rounds a comparison has at least.
const MinRounds = 8

// The bounds of what the base may be, compared with itself.
const (
	minAA = 0.9
	maxAA = 1.1
)

// Side is one of the two things.
type Side struct {
	// Name is what a reader knows it by.
	Name string
	// Caller returns what a caller does over and over: one operation. Callers are
	// numbered from 0 and begin anew in each burst. Each has a ctx of its own,
	// which ends with the burst, after its last operation. An error ends the
	// comparison.
	Caller func(ctx context.Context, n int) (op func() error)
	// CPU is how much CPU time whatever serves the side has used so far.
	CPU func() (time.Duration, error)
}

// Plan is how two sides are compared.
type Plan struct {
	// Callers is how many make operations at once, at least 1.
	Callers int
	// Rounds is how often the sides take turns, at least MinRounds.
	Rounds int
	// Burst is how much of each turn is measured: half a second or more. A fifth
	// of it goes before, until what was cold is warm.
	Burst time.Duration
}

// Figures are what one side did.
type Figures struct {
	// PerSecond is the median of its bursts' operations per second.
	PerSecond float64
	// CPU is the CPU time of one operation, on average of all of them.
	CPU time.Duration
}

// Result is a comparison.
type Result struct {
	Base, Subject Figures
	// Ratio is the median, over the rounds, of the subject's speed divided by
	// the base's: above 1 the subject is faster.
	Ratio float64
	// AA is the same of the base's second burst divided by its first.
	AA float64
}

// Sound reports whether the base was as fast as itself. If not, or if the bursts
// were too short for an operation, the rest of the result is to be thrown away.
func (r Result) Sound() bool { return r.AA >= minAA && r.AA <= maxAA }

// Run compares two sides. It ends early with an error when ctx ends or an
// operation fails: speed at which things fail says nothing.
func Run(ctx context.Context, plan Plan, base, subject Side) (Result, error) {
	if plan.Callers < 1 || plan.Rounds < MinRounds || plan.Burst <= 0 {
		return Result{}, fmt.Errorf("no comparison: %d callers, %d rounds of %v", plan.Callers, plan.Rounds, plan.Burst)
	}
	var bases, subjects tally
	var ratios, aas []float64
	for range plan.Rounds {
		var speeds [3]float64
		for turn, side := range []Side{base, subject, base} {
			b, err := play(ctx, plan, side)
			if err != nil {
				return Result{}, fmt.Errorf("%s: %w", side.Name, err)
			}
			speeds[turn] = b.perSecond()
			if turn == 1 {
				subjects.add(b)
			} else {
				bases.add(b)
			}
		}
		ratios = append(ratios, speeds[1]/((speeds[0]+speeds[2])/2))
		aas = append(aas, speeds[2]/speeds[0])
	}
	return Result{Base: bases.figures(), Subject: subjects.figures(), Ratio: median(ratios), AA: median(aas)}, nil
}

// burst is what was done in one turn.
type burst struct {
	ops       int64
	took, cpu time.Duration
}

func (b burst) perSecond() float64 { return float64(b.ops) / b.took.Seconds() }

// counter counts one caller's operations, on a cache line of its own.
type counter struct {
	atomic.Int64
	_ [56]byte
}

// play is one turn of a side. What is measured lies between two instants at
// which all callers are at work.
func play(ctx context.Context, plan Plan, side Side) (burst, error) {
	runtime.GC() // what others left is not collected at this side's expense
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var stop atomic.Bool
	var work sync.WaitGroup
	counters := make([]counter, plan.Callers)
	for n := range counters {
		work.Go(func() {
			ctx, end := context.WithCancel(context.WithoutCancel(ctx))
			defer end()
			for op := side.Caller(ctx, n); !stop.Load(); counters[n].Add(1) {
				if err := op(); err != nil {
					fail(err)
					return
				}
			}
		})
	}
	before, after, err := mark{}, mark{}, wait(ctx, plan.Burst/5)
	if err == nil {
		before, err = take(side, counters)
	}
	if err == nil {
		err = wait(ctx, plan.Burst)
	}
	if err == nil {
		after, err = take(side, counters)
	}
	stop.Store(true)
	work.Wait()
	if err != nil {
		return burst{}, err
	}
	return burst{ops: after.ops - before.ops, took: after.at.Sub(before.at), cpu: after.cpu - before.cpu}, nil
}

// mark is how far a turn has come.
type mark struct {
	at  time.Time
	cpu time.Duration
	ops int64
}

func take(side Side, counters []counter) (mark, error) {
	cpu, err := side.CPU()
	if err != nil {
		return mark{}, fmt.Errorf("read the CPU time: %w", err)
	}
	m := mark{at: time.Now(), cpu: cpu}
	for n := range counters {
		m.ops += counters[n].Load()
	}
	return m, nil
}

// wait waits, or says why it is not to.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tally is what a side did in all its turns.
type tally struct {
	ops    int64
	cpu    time.Duration
	speeds []float64
}

func (t *tally) add(b burst) {
	t.ops += b.ops
	t.cpu += b.cpu
	t.speeds = append(t.speeds, b.perSecond())
}

func (t *tally) figures() Figures {
	return Figures{PerSecond: median(t.speeds), CPU: t.cpu / time.Duration(max(t.ops, 1))}
}

// median is the middle one, or the mean of the two that are.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}
