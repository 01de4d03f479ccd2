package integration

import (
	"context"
	"fmt"
	"testing"

	circuitv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/circuit/v1"
)

// TestCircuit_OfPaymentsOpensAlone lets the core drop three payments in a row.
// The next is refused before anything is stored or sent, inquiries go on, what
// is unknown is resolved meanwhile, and a probe closes the circuit.
func TestCircuit_OfPaymentsOpensAlone(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		consecutive := []string{"--circuit-mode=consecutive", "--circuit-open-wait=2s"}
		p := s.startPayment(t, consecutive...)
		s.startReconciler(t, consecutive...)
		circuits := circuitv1.NewCircuitServiceClient(p.dial(t))
		state := func(name string) *circuitv1.Circuit {
			t.Helper()
			list, err := circuits.ListCircuits(t.Context(), &circuitv1.ListCircuitsRequest{})
			if err != nil || len(list.GetCircuits()) != 2 {
				t.Fatal(list, err)
			}
			for _, c := range list.GetCircuits() {
				if c.GetName() == name {
					return c
				}
			}
			t.Fatalf("no circuit %s", name)
			return nil
		}
		for i := range 3 {
			if a := p.pay(t, fmt.Sprintf("dropped-%d", i), "88888888888888", 10, netCancel); a.reason() != "OUTCOME_UNKNOWN" {
				t.Fatal(a)
			}
		}
		if c := state("core-request"); c.GetState() != circuitv1.CircuitState_CIRCUIT_STATE_OPEN || c.GetRetryAfter() == nil {
			t.Fatalf("after three failures in a row: %v", c)
		}
		refused := p.pay(t, "key", ordinary, 10, netCancel)
		if refused.reason() != "CIRCUIT_OPEN" || len(s.wire.sightings(fromCaller, "0100", refused.id())) != 0 {
			t.Errorf("told %s", refused)
		}
		if a := p.ask(t, ordinary); a.err != nil {
			t.Errorf("an inquiry beside the open circuit: %s", a)
		}
		if c := state("core-query"); c.GetState() != circuitv1.CircuitState_CIRCUIT_STATE_CLOSED {
			t.Errorf("the circuit of the inquiries: %v", c)
		}
		// The key is free: another amount under it is no conflict.
		eventually(t, "a probe is let through", func(context.Context) error {
			if a := p.pay(t, "key", ordinary, 20, netCancel); a.err != nil {
				return a.err
			}
			return nil
		})
		if c := state("core-request"); c.GetState() != circuitv1.CircuitState_CIRCUIT_STATE_CLOSED || c.GetOpenedTotal() != 1 {
			t.Errorf("after a probe that succeeded: %v", c)
		}
		p.settled(t, 0)
		s.audit(t, p)
	})
}
