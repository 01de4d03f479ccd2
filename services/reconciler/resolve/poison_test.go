package resolve

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/resilience"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// behindCircuits is a house whose core is behind real circuits, as they come.
func behindCircuits(flags Flags) *house {
	h := newHouse(nil, flags, time.Now)
	gate := resilience.New(resilience.Options{
		Flags: resilience.Flags{
			CircuitMode: "rate", CircuitWindow: 20, CircuitMinCalls: 10, CircuitRequestThreshold: 15, CircuitQueryThreshold: 20,
			CircuitFailures: 3, CircuitProbes: 1, HalfopenCalls: 5, HalfopenMinCalls: 3, CircuitOpenWait: 10 * time.Second,
			Retries: 2, RetryBackoff: 200 * time.Millisecond,
		},
		Request: h.core, Query: h.core, Now: time.Now, Logger: slog.New(h.logs), Registry: prometheus.NewRegistry(),
	})
	h.Resolver = newResolver(h.store, gate, flags, time.Now, h.logs, prometheus.NewRegistry())
	return h
}

// garbled is a core that answers with what is no answer.
func garbled(context.Context, corelink.Call, string, tranid.ID) corelink.Result {
	return corelink.Result{Sent: corelink.SentAll, Err: corelink.ErrGarbage, Answer: []byte("0410")}
}

// Rows about which the core hangs up or talks nonsense are no reason to ask it
// about no other: they are many, come before the others and stay.
func TestSweep_P4HoldsAmongRowsThatTheCoreHangsUpOn(t *testing.T) {
	for name, bad := range map[string]answering{"closed": closed, "garbled": garbled} {
		for _, interval := range []time.Duration{time.Second, 5 * time.Second} {
			t.Run(name+" every "+interval.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := behindCircuits(sweeping(interval))
					h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
						if id[len(id)-3] != '9' {
							return bad(ctx, call, mti, id)
						}
						return says("02", "02")(ctx, call, mti, id)
					})
					defer h.running(t)()
					putMany(t, h.store, 0, 20)
					for i := range 30 {
						time.Sleep(1700 * time.Millisecond)
						putMany(t, h.store, 1000*(i+1), 3)
						settledWithin(t, h.store, promised(interval), putMany(t, h.store, 1000*(i+1)+900, 1)...)
					}
				})
			})
		}
	}
}
