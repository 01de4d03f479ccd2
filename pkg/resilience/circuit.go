package resilience

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
)

// busyWait is the most that a caller is told to wait for a half-open circuit
// whose places are all taken: its probes are under way, and how they end is not
// known yet.
const busyWait = time.Second

// permit is the leave to make one attempt. It holds for the state in which it
// was given: the end of an attempt that began in another one changes nothing.
type permit struct {
	generation uint64
}

// circuit is failsafe-go's breaker behind rules that are safe for money. The
// breaker keeps state, results and wait, and thresholds that it cannot reach;
// it is told when to open and when to close. Every use of it is under mu.
type circuit struct {
	name   string
	mode   Mode
	rules  rules
	logger *slog.Logger

	mu      sync.Mutex
	breaker circuitbreaker.CircuitBreaker[verdict]
	// generation rises with every change of state.
	generation uint64
	// probing is how many probes of this generation are under way.
	probing                          int
	opened, rejected, stale, neutral uint64
	// lastFailure is the kind of the last failure that counted.
	lastFailure error
	// unsaid are the transitions that wait for their line in the log, oldest
	// first. Whoever makes one also takes it out again.
	unsaid []transition

	// news is true while unsaid has something: most calls look no further.
	news atomic.Bool
	// saying keeps the lines in the order of the transitions.
	saying sync.Mutex
}

func newCircuit(name string, mode Mode, r rules, logger *slog.Logger) *circuit {
	c := &circuit{name: name, mode: mode, rules: r, logger: logger}
	window, probes := uint(r.window), uint(r.probes)
	c.breaker = circuitbreaker.NewBuilder[verdict]().
		WithFailureThresholdRatio(window+1, window).
		WithSuccessThresholdRatio(probes+1, 2*probes+1).
		WithDelay(r.openWait).
		OnStateChanged(c.changed).
		Build()
	return c
}

// changed is called by the breaker, in the goroutine that moved it, which
// holds mu.
func (c *circuit) changed(e circuitbreaker.StateChangedEvent) {
	c.generation++
	c.probing = 0
	if e.NewState == circuitbreaker.OpenState {
		c.opened++
	}
}

// acquire gives leave for one attempt, or says in an *OpenError why not. Every
// permit must be settled, whatever becomes of the attempt. It may have moved
// the circuit: the caller announces, when it can no longer lose the permit.
func (c *circuit) acquire() (permit, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if refused := c.refusal(); refused != nil {
		c.rejected++
		return permit{}, refused
	}
	if c.breaker.IsOpen() {
		c.move(c.breaker.HalfOpen)
	}
	if c.breaker.IsHalfOpen() {
		c.probing++
	}
	return permit{generation: c.generation}, nil
}

// look is nil or an *OpenError: what acquire would say, without taking a place.
func (c *circuit) look() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if refused := c.refusal(); refused != nil {
		c.rejected++
		return refused
	}
	return nil
}

// refusal is why a call may not pass now; nil if it may. The caller holds mu.
func (c *circuit) refusal() *OpenError {
	wait := c.retryAfter()
	if wait <= 0 {
		return nil
	}
	return &OpenError{Name: c.name, State: stateOf(c.breaker.State()), RetryAfter: wait}
}

// retryAfter is zero if a call may pass now. The caller holds mu.
func (c *circuit) retryAfter() time.Duration {
	switch c.breaker.State() {
	case circuitbreaker.OpenState:
		return c.breaker.RemainingDelay()
	case circuitbreaker.HalfOpenState:
		// A result uses a place up for good, a neutral end gives it back.
		if calls, _ := c.results(); c.probing+calls >= c.rules.probes {
			return min(busyWait, c.rules.openWait)
		}
		return 0
	default:
		return 0
	}
}

// staysOpen reports whether the circuit refuses every call until after d.
func (c *circuit) staysOpen(d time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.breaker.RemainingDelay() > d
}

// settle takes a permit back, with what the attempt said of the core. It may
// have moved the circuit: the caller announces.
func (c *circuit) settle(p permit, v verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.generation != c.generation {
		c.stale++
		return
	}
	if c.breaker.IsHalfOpen() {
		c.probing--
	}
	switch {
	case v.outcome == success:
		c.breaker.RecordSuccess()
	case v.outcome == failure && !v.own:
		c.lastFailure = v.cause
		c.breaker.RecordFailure()
	default:
		c.neutral++
		return
	}
	c.decide()
}

// decide moves the circuit if its results ask for it. The caller holds mu.
func (c *circuit) decide() {
	calls, failures := c.results()
	if c.breaker.IsClosed() {
		if c.rules.opens(calls, failures) {
			c.move(c.breaker.Open)
		}
		return
	}
	switch {
	case c.rules.reopens(calls, failures):
		c.move(c.breaker.Open)
	case c.rules.closes(calls):
		c.move(c.breaker.Close)
	}
}

// results are those that the present state judges. The caller holds mu.
func (c *circuit) results() (calls, failures int) {
	m := c.breaker.Metrics()
	return int(m.Executions()), int(m.Failures())
}

// stats is a snapshot whose numbers belong together.
func (c *circuit) stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls, failures := c.results()
	return Stats{
		Name: c.name, Mode: c.mode, State: stateOf(c.breaker.State()),
		Buffered: calls, Failed: failures, FailureRate: percentage(calls, failures),
		ProbesInFlight: c.probing,
		Opened:         c.opened, Rejected: c.rejected, Stale: c.stale, Neutral: c.neutral,
		RetryAfter: c.retryAfter(),
	}
}

// percentage is failures of calls; 0 of none.
func percentage(calls, failures int) float64 {
	if calls == 0 {
		return 0
	}
	return float64(failures) * 100 / float64(calls)
}
