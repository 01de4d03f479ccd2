package resilience

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
)

// tally is what a circuit let out, by the state that it was in.
type tally struct {
	mu sync.Mutex
	// running and results are by generation.
	running, peak, results map[uint64]int
}

func (y *tally) begin(p permit) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.running[p.generation]++
	y.peak[p.generation] = max(y.peak[p.generation], y.running[p.generation])
}

func (y *tally) end(p permit, v verdict) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.running[p.generation]--
	if v.outcome != neutral {
		y.results[p.generation]++
	}
}

// Under load, with every kind of end: the transitions are a chain, what the
// counters say is what happened, and no half-open state lets out more than it
// may. The circuit waits for microseconds, so that it changes thousands of
// times.
func TestStress_TransitionsAndCountersAddUp(t *testing.T) {
	rate := standard()
	rate.CircuitMinCalls, rate.HalfopenMinCalls, rate.CircuitRequestThreshold = 4, 4, 60
	t.Run("rate", func(t *testing.T) { stress(t, rate, 5) })
	t.Run("consecutive", func(t *testing.T) { stress(t, consecutive(3), 3) })
}

func stress(t *testing.T, f Flags, probes int) {
	const seed = 20260301
	f.CircuitOpenWait = time.Microsecond
	log := &lines{}
	c := build(t, f, healthy).request.circuit
	c.logger = newLogger(log)
	y := &tally{running: map[uint64]int{}, peak: map[uint64]int{}, results: map[uint64]int{}}
	var refusals, settled atomic.Uint64
	var work sync.WaitGroup
	for worker := range uint64(64) {
		work.Go(func() {
			dice := rand.New(rand.NewPCG(seed, worker))
			for range 300 {
				p, err := c.acquire()
				if err != nil {
					refusals.Add(1)
					c.stats()
					continue
				}
				y.begin(p)
				c.announce(context.Background())
				v := []verdict{good, bad, bad, bad, blank}[dice.IntN(5)]
				y.end(p, v)
				c.settle(p, v)
				c.announce(context.Background())
				settled.Add(1)
			}
		})
	}
	work.Wait()
	s := c.stats()
	if s.Rejected != refusals.Load() || s.Rejected+settled.Load() != 64*300 {
		t.Errorf("%d refused of 19200, %d settled: %+v", refusals.Load(), settled.Load(), s)
	}
	kept := log.all()
	if c.generation != uint64(len(kept)) || len(kept) < 10 {
		t.Fatalf("%d transitions, %d lines", c.generation, len(kept))
	}
	t.Logf("%d transitions", len(kept))
	checkChain(t, kept, s)
	for i, line := range kept {
		generation := uint64(i + 1)
		if line["to"] == "HALF_OPEN" && (y.peak[generation] > probes || y.results[generation] > probes) {
			t.Errorf("seed %d: half-open state %d let out %d at once, %d in all", seed, generation, y.peak[generation], y.results[generation])
		}
		if line["to"] == "OPEN" && y.peak[generation] > 0 {
			t.Errorf("seed %d: open state %d let out %d", seed, generation, y.peak[generation])
		}
	}
}

// checkChain checks that each transition begins where the one before ended, is
// legal, and is counted.
func checkChain(t *testing.T, kept []map[string]any, s Stats) {
	t.Helper()
	legal := map[string]bool{"CLOSED OPEN": true, "OPEN HALF_OPEN": true, "HALF_OPEN OPEN": true, "HALF_OPEN CLOSED": true}
	at, opened := "CLOSED", uint64(0)
	for i, line := range kept {
		if line["from"] != at || !legal[fmt.Sprint(line["from"], " ", line["to"])] {
			t.Fatalf("transition %d: %v, after %s", i, line, at)
		}
		at = line["to"].(string)
		if at == "OPEN" {
			opened++
		}
	}
	if s.Opened != opened || s.State.String() != at {
		t.Errorf("%d openings, last %s: %+v", opened, at, s)
	}
}

// The whole gate under load, with a scraper beside it.
func TestStress_GateUnderLoadIsRaceFree(t *testing.T) {
	f := standard()
	f.CircuitOpenWait, f.RetryBackoff = 20*time.Microsecond, time.Microsecond
	var n atomic.Uint64
	h := build(t, f, func(context.Context, corelink.Call) corelink.Result {
		switch n.Add(1) % 7 {
		case 0:
			return unsent(corelink.ErrSaturated)
		case 1, 2:
			return lost(corelink.ErrTimeout)
		default:
			return answered()
		}
	})
	var work sync.WaitGroup
	for range 64 {
		work.Go(func() {
			for range 100 {
				if h.Admits(corelink.Mutation) == nil {
					h.Exchange(context.Background(), payment(time.Hour))
				}
				h.Exchange(context.Background(), inquiry(time.Hour))
			}
		})
	}
	for range 20 {
		h.metrics(t)
		h.Circuits()
	}
	work.Wait()
	for _, s := range h.Circuits() {
		if s.ProbesInFlight != 0 {
			t.Errorf("a place is lost: %+v", s)
		}
	}
}
