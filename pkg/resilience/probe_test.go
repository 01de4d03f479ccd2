package resilience

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
)

func TestExchange_PanicSettlesItsPermitAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		var h house
		h = build(t, consecutive(1), func(context.Context, corelink.Call) corelink.Result {
			if broken && h.Circuits()[0].State == HalfOpen {
				panic("parser")
			}
			if broken {
				return unsent(corelink.ErrConnect)
			}
			return answered()
		})
		for range 3 {
			h.Exchange(context.Background(), payment(time.Hour))
		}
		time.Sleep(10 * time.Second)
		for range 3 {
			func() {
				defer func() {
					if r := recover(); r != "parser" {
						t.Errorf("recovered %v", r)
					}
				}()
				h.Exchange(context.Background(), payment(time.Hour))
			}()
			is(t, h.request.circuit, HalfOpen)
		}
		if s := h.Circuits()[0]; s.Neutral != 3 || s.ProbesInFlight != 0 {
			t.Errorf("%+v", s)
		}
		broken = false
		if res := h.Exchange(context.Background(), payment(time.Hour)); !res.Answered() {
			t.Errorf("%+v", res)
		}
		is(t, h.request.circuit, Closed)
	})
}

// A probe whose caller leaves, or that gets no connection, proves nothing.
func TestExchange_ProbeThatProvesNothingGivesItsPlaceBack(t *testing.T) {
	for name, end := range map[string]func() corelink.Result{
		"canceled":           ends(lost, corelink.ErrAbandoned),
		"starved":            ends(unsent, corelink.ErrSaturated),
		"send window gone":   ends(unsent, corelink.ErrNotReady),
		"no time to connect": ends(unsent, corelink.ErrNoTime),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent atomic.Int64
				down := ends(unsent, corelink.ErrConnect)
				h := build(t, consecutive(1), script(&sent, down, down, down, end, end, end, answered))
				for range 3 {
					h.Exchange(context.Background(), payment(time.Hour))
				}
				time.Sleep(10 * time.Second)
				for range 3 {
					h.Exchange(context.Background(), payment(time.Hour))
					is(t, h.request.circuit, HalfOpen)
				}
				if res := h.Exchange(context.Background(), payment(time.Hour)); !res.Answered() {
					t.Errorf("%+v", res)
				}
				is(t, h.request.circuit, Closed)
			})
		})
	}
}

func TestExchange_HalfOpenLetsOutNoMoreThanItsProbes(t *testing.T) {
	rate := standard()
	rate.HalfopenMinCalls = 5
	for name, v := range map[string]struct {
		flags Flags
		most  int
	}{"rate": {rate, 5}, "one probe": {consecutive(1), 1}, "three probes": {consecutive(3), 3}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { herd(t, v.flags, v.most) })
		})
	}
}

// herd sends 500 callers at once against a circuit whose wait is just over.
func herd(t *testing.T, f Flags, most int) {
	var now, peak, total atomic.Int64
	up := false
	h := build(t, f, func(context.Context, corelink.Call) corelink.Result {
		if !up {
			return unsent(corelink.ErrConnect)
		}
		total.Add(1)
		n := now.Add(1)
		for old := peak.Load(); n > old && !peak.CompareAndSwap(old, n); old = peak.Load() {
		}
		time.Sleep(time.Second)
		now.Add(-1)
		return answered()
	})
	for range f.CircuitMinCalls {
		h.Exchange(context.Background(), payment(time.Hour))
	}
	is(t, h.request.circuit, Open)
	time.Sleep(f.CircuitOpenWait)
	up = true
	var turnedAway atomic.Int64
	var work sync.WaitGroup
	for range 500 {
		work.Go(func() {
			if res := h.Exchange(context.Background(), payment(time.Hour)); errors.Is(res.Err, ErrOpen) {
				turnedAway.Add(1)
			}
		})
	}
	work.Wait()
	if got := int(peak.Load()); got != most || int(total.Load()) != most || int(turnedAway.Load()) != 500-most {
		t.Errorf("%d at once, %d in all, %d refused; %d may pass", got, total.Load(), turnedAway.Load(), most)
	}
	is(t, h.request.circuit, Closed)
}
