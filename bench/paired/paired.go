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
	"math"
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
	// Meters count what else the side uses, such as commits. There may be none.
	Meters []Meter
}

// Meter is a count that only grows: how far it has come.
type Meter func() (float64, error)

// Plan is how two sides are compared.
type Plan struct {
	// Callers is how many make operations at once, at least 1.
	Callers int
	// Rounds is how often the sides take turns, at least MinRounds.
	Rounds int
	// Burst is how much of each turn is measured: half a second or more. A fifth
	// of it goes before, until what was cold is warm.
	Burst time.Duration
	// Latencies asks for the latencies too. That reads the clock twice more for
	// each operation, which must not matter to it.
	Latencies bool
}

// Figures are what one side did.
type Figures struct {
	// PerSecond is the median of its bursts' operations per second.
	PerSecond float64
	// CPU is the CPU time of one operation, on average of all of them.
	CPU time.Duration
	// Meters is what one operation counted of each, on average of all of them.
	Meters []float64
	// P50 and P99 are the medians of its bursts' percentiles: of the operations
	// that began in what is measured, whenever they ended. Zero unless the plan
	// asks for latencies.
	P50, P99 time.Duration
}

// Result is a comparison.
type Result struct {
	Base, Subject Figures
	// Ratio is the median, over the rounds, of the subject's speed divided by
	// the base's: above 1 the subject is faster.
	Ratio float64
	// AA is the same of the base's second burst divided by its first.
	AA float64
	// P99Ratio is the same as Ratio of the 99th percentile: below 1 the subject
	// answers sooner. Zero unless the plan asks for latencies.
	P99Ratio float64
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
	var ratios, aas, p99s []float64
	for range plan.Rounds {
		var speeds, p99 [3]float64
		for turn, side := range []Side{base, subject, base} {
			b, err := play(ctx, plan, side)
			if err != nil {
				return Result{}, fmt.Errorf("%s: %w", side.Name, err)
			}
			speeds[turn], p99[turn] = b.perSecond(), float64(b.percentile(0.99))
			if turn == 1 {
				subjects.add(b)
			} else {
				bases.add(b)
			}
		}
		ratios = append(ratios, speeds[1]/((speeds[0]+speeds[2])/2))
		aas = append(aas, speeds[2]/speeds[0])
		p99s = append(p99s, p99[1]/((p99[0]+p99[2])/2))
	}
	r := Result{Base: bases.figures(), Subject: subjects.figures(), Ratio: median(ratios), AA: median(aas)}
	if plan.Latencies {
		r.P99Ratio = median(p99s)
	}
	return r, nil
}

// burst is what was done in one turn.
type burst struct {
	ops       int64
	took, cpu time.Duration
	meters    []float64
	latencies []time.Duration // in order of length
}

func (b burst) perSecond() float64 { return float64(b.ops) / b.took.Seconds() }

// percentile is the latency that so large a part of the operations kept within;
// zero where none was taken.
func (b burst) percentile(part float64) time.Duration {
	if len(b.latencies) == 0 {
		return 0
	}
	return b.latencies[int(math.Ceil(part*float64(len(b.latencies))))-1]
}

// worker counts one caller's operations, on a cache line of its own.
type worker struct {
	ops       atomic.Int64
	latencies []time.Duration
	_         [32]byte
}

// turn is one turn of a side.
type turn struct {
	plan    Plan
	side    Side
	workers []worker
	// measuring is set while what begins is measured, stop once nothing is to
	// begin any more.
	measuring, stop atomic.Bool
}

// play is one turn of a side. What is measured lies between two instants at
// which all callers are at work.
func play(ctx context.Context, plan Plan, side Side) (burst, error) {
	runtime.GC() // what others left is not collected at this side's expense
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	t := &turn{plan: plan, side: side, workers: make([]worker, plan.Callers)}
	var work sync.WaitGroup
	for n := range t.workers {
		work.Go(func() {
			if err := t.work(ctx, n); err != nil {
				fail(err)
			}
		})
	}
	b, err := t.measure(ctx)
	t.stop.Store(true)
	work.Wait()
	if err == nil {
		err = context.Cause(ctx) // of an operation that was under way at the end
	}
	if err != nil {
		return burst{}, err
	}
	for n := range t.workers {
		b.latencies = append(b.latencies, t.workers[n].latencies...)
	}
	slices.Sort(b.latencies)
	return b, nil
}

// work makes one caller's operations.
func (t *turn) work(ctx context.Context, n int) error {
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	w := &t.workers[n]
	for op := t.side.Caller(ctx, n); !t.stop.Load(); w.ops.Add(1) {
		if !t.plan.Latencies || !t.measuring.Load() {
			if err := op(); err != nil {
				return err
			}
			continue
		}
		began := time.Now()
		if err := op(); err != nil {
			return err
		}
		w.latencies = append(w.latencies, time.Since(began))
	}
	return nil
}

// measure is what the callers do while it waits.
func (t *turn) measure(ctx context.Context) (burst, error) {
	if err := wait(ctx, t.plan.Burst/5); err != nil {
		return burst{}, err
	}
	before, err := t.mark()
	if err != nil {
		return burst{}, err
	}
	t.measuring.Store(true)
	if err := wait(ctx, t.plan.Burst); err != nil {
		return burst{}, err
	}
	t.measuring.Store(false)
	after, err := t.mark()
	if err != nil {
		return burst{}, err
	}
	b := burst{ops: after.ops - before.ops, took: after.at.Sub(before.at), cpu: after.cpu - before.cpu}
	for n := range after.meters {
		b.meters = append(b.meters, after.meters[n]-before.meters[n])
	}
	return b, nil
}

// mark is how far a turn has come.
type mark struct {
	at     time.Time
	cpu    time.Duration
	ops    int64
	meters []float64
}

func (t *turn) mark() (mark, error) {
	var m mark
	for _, read := range t.side.Meters {
		count, err := read()
		if err != nil {
			return mark{}, fmt.Errorf("read a meter: %w", err)
		}
		m.meters = append(m.meters, count)
	}
	var err error
	if m.cpu, err = t.side.CPU(); err != nil {
		return mark{}, fmt.Errorf("read the CPU time: %w", err)
	}
	m.at = time.Now()
	for n := range t.workers {
		m.ops += t.workers[n].ops.Load()
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
	ops              int64
	cpu              time.Duration
	meters           []float64
	speeds, p50, p99 []float64
}

func (t *tally) add(b burst) {
	t.ops += b.ops
	t.cpu += b.cpu
	if t.meters == nil {
		t.meters = make([]float64, len(b.meters))
	}
	for n, count := range b.meters {
		t.meters[n] += count
	}
	t.speeds = append(t.speeds, b.perSecond())
	t.p50 = append(t.p50, float64(b.percentile(0.5)))
	t.p99 = append(t.p99, float64(b.percentile(0.99)))
}

func (t *tally) figures() Figures {
	ops := max(t.ops, 1)
	f := Figures{
		PerSecond: median(t.speeds), CPU: t.cpu / time.Duration(ops),
		P50: time.Duration(median(t.p50)), P99: time.Duration(median(t.p99)),
	}
	for _, count := range t.meters {
		f.Meters = append(f.Meters, count/float64(ops))
	}
	return f
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
