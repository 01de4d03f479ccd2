package opsapi

import (
	"context"
	"math"

	"google.golang.org/protobuf/types/known/durationpb"

	circuitv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/circuit/v1"

	"github.com/gwanmun/gwanmun/pkg/resilience"
)

// Circuits is whoever has circuits to show.
type Circuits interface {
	Circuits() []resilience.Stats
}

// NewCircuitServer serves CircuitService over the circuits of this process.
func NewCircuitServer(circuits Circuits) circuitv1.CircuitServiceServer {
	return &circuitServer{circuits: circuits}
}

type circuitServer struct {
	circuitv1.UnimplementedCircuitServiceServer
	circuits Circuits
}

// ListCircuits implements circuitv1.CircuitServiceServer.
func (c *circuitServer) ListCircuits(context.Context, *circuitv1.ListCircuitsRequest) (*circuitv1.ListCircuitsResponse, error) {
	res := &circuitv1.ListCircuitsResponse{}
	for _, s := range c.circuits.Circuits() {
		res.Circuits = append(res.Circuits, circuit(s))
	}
	return res, nil
}

func circuit(s resilience.Stats) *circuitv1.Circuit {
	c := &circuitv1.Circuit{
		Name: s.Name, Mode: circuitMode(s.Mode), State: circuitState(s.State),
		BufferedCalls: small(s.Buffered), FailedCalls: small(s.Failed), FailureRate: s.FailureRate,
		ProbesInFlight: small(s.ProbesInFlight),
		OpenedTotal:    large(s.Opened), RejectedTotal: large(s.Rejected), StaleTotal: large(s.Stale),
	}
	if s.RetryAfter > 0 {
		c.RetryAfter = durationpb.New(s.RetryAfter)
	}
	return c
}

func circuitMode(m resilience.Mode) circuitv1.CircuitMode {
	switch m {
	case resilience.ModeRate:
		return circuitv1.CircuitMode_CIRCUIT_MODE_RATE
	case resilience.ModeConsecutive:
		return circuitv1.CircuitMode_CIRCUIT_MODE_CONSECUTIVE
	default:
		return circuitv1.CircuitMode_CIRCUIT_MODE_UNSPECIFIED
	}
}

func circuitState(s resilience.State) circuitv1.CircuitState {
	switch s {
	case resilience.Closed:
		return circuitv1.CircuitState_CIRCUIT_STATE_CLOSED
	case resilience.Open:
		return circuitv1.CircuitState_CIRCUIT_STATE_OPEN
	case resilience.HalfOpen:
		return circuitv1.CircuitState_CIRCUIT_STATE_HALF_OPEN
	default:
		return circuitv1.CircuitState_CIRCUIT_STATE_UNSPECIFIED
	}
}

func small(n int) int32 { return int32(min(n, math.MaxInt32)) }

func large(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
