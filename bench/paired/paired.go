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
	// Op makes one operation for a caller, who makes one at a time. Callers are
	// numbered from 0; each has a ctx of its own, which ends when the comparison
	// does. An error ends the comparison.
	Op func(ctx context.Context, caller int) error
	// CPU is how much CPU time whatever serves the side has used so far.
	CPU func() (time.Duration, error)
}

// Plan is how two sides are compared.
type Plan struct {
	// Callers is how many make operations at once, at least 1.
	Callers int
	// Rounds is how often the sides take turns, at least MinRounds.
	Rounds int
	// Burst is how long each turn takes: half a second or more.
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

// Sound reports whether the base was as fast as itself. If not, the rest of the
// result is to be thrown away.
func (r Result) Sound() bool { return r.AA >= minAA && r.AA <= maxAA }

// Run compares two sides. It ends early with an error when ctx ends or an
// operation fails: speed at which things fail says nothing.
func Run(ctx context.Context, plan Plan, base, subject Side) (Result, error) {
	if plan.Callers < 1 || plan.Rounds < MinRounds || plan.Burst <= 0 {
		return Result{}, fmt.Errorf("no comparison: %d callers, %d rounds of %v", plan.Callers, plan.Rounds, plan.Burst)
	}
	var bases, subjects tally
	var ratios, aas []float64
	// The first round warms up and does not count.
	for round := range plan.Rounds + 1 {
		var speeds [3]float64
		for turn, side := range []Side{base, subject, base} {
			b, err := play(ctx, plan, side)
			if err != nil {
				return Result{}, fmt.Errorf("%s: %w", side.Name, err)
			}
			speeds[turn] = b.perSecond()
			switch {
			case round == 0:
			case turn == 1:
				subjects.add(b)
			default:
				bases.add(b)
			}
		}
		if round > 0 {
			ratios = append(ratios, speeds[1]/((speeds[0]+speeds[2])/2))
			aas = append(aas, speeds[2]/speeds[0])
		}
	}
	return Result{Base: bases.figures(), Subject: subjects.figures(), Ratio: median(ratios), AA: median(aas)}, nil
}

// burst is what was done in one turn.
type burst struct {
	ops       int64
	took, cpu time.Duration
}

func (b burst) perSecond() float64 { return float64(b.ops) / b.took.Seconds() }

// caller counts on a cache line of its own.
type caller struct {
	ops int64
	_   [56]byte
}

// play is one turn of a side. Each caller makes at least one operation.
func play(ctx context.Context, plan Plan, side Side) (burst, error) {
	runtime.GC() // what others left is not collected at this side's expense
	before, err := side.CPU()
	if err != nil {
		return burst{}, fmt.Errorf("read the CPU time: %w", err)
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var stop atomic.Bool
	var work sync.WaitGroup
	callers := make([]caller, plan.Callers)
	begin := make(chan struct{})
	for n := range callers {
		work.Go(func() {
			ctx, end := context.WithCancel(ctx)
			defer end()
			<-begin
			for more := true; more; more = !stop.Load() {
				if err := side.Op(ctx, n); err != nil {
					fail(err)
					return
				}
				callers[n].ops++
			}
		})
	}
	start := time.Now()
	close(begin)
	select {
	case <-time.After(plan.Burst):
	case <-ctx.Done():
	}
	stop.Store(true)
	work.Wait()
	b := burst{took: time.Since(start)}
	if err := context.Cause(ctx); err != nil {
		return burst{}, err
	}
	after, err := side.CPU()
	if err != nil {
		return burst{}, fmt.Errorf("read the CPU time: %w", err)
	}
	b.cpu = after - before
	for n := range callers {
		b.ops += callers[n].ops
	}
	return b, nil
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
	return Figures{PerSecond: median(t.speeds), CPU: t.cpu / time.Duration(t.ops)}
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
