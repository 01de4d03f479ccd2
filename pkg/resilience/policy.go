package resilience

import (
	"errors"
	"fmt"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/common"
	"github.com/failsafe-go/failsafe-go/policy"
	"github.com/failsafe-go/failsafe-go/retrypolicy"

	"github.com/gwanmun/gwanmun/pkg/corelink"
)

// What travels through failsafe-go is the verdict of an attempt and nothing
// else. The Result stays in the course, so that no policy can lose it, replace
// it or throw it away because a context ended.
type (
	execution = failsafe.Execution[verdict]
	ended     = common.PolicyResult[verdict]
	step      = func(execution) *ended
)

// refusal is the end of an attempt that was not made.
func refusal(err error) *ended {
	return &ended{Error: err, Done: true}
}

// policyOf is a policy of ours, and its own executor: it has no state of its own.
type policyOf struct {
	policy.BaseExecutor[verdict]
	// around is what the policy does around the step within it.
	around func(inner step) step
}

func newPolicy(around func(inner step) step) *policyOf {
	p := &policyOf{around: around}
	p.Executor = p
	return p
}

// ToExecutor is how failsafe-go asks for what a policy does.
func (p *policyOf) ToExecutor(verdict) any { return p }

// Apply puts the policy around inner.
func (p *policyOf) Apply(inner step) step { return p.around(inner) }

// guarded is what stands around every attempt. It is one policy and not two:
// each costs a call several allocations.
func (c *course) guarded(attempt step) step { return c.inTime(c.leg.circuit.around(attempt)) }

// repeated is what stands around every attempt of an inquiry, within the retry.
func (c *course) repeated(attempt step) step { return c.stopRetry(c.guarded(attempt)) }

// around is the circuit as a policy: a permit for each attempt, settled
// whatever happens. An attempt that panics has no verdict, and none is neutral.
func (c *circuit) around(inner step) step {
	return func(exec execution) *ended {
		p, err := c.acquire()
		if err != nil {
			return refusal(err)
		}
		var v verdict
		defer func() {
			c.settle(p, v)
			c.announce(exec.Context())
		}()
		c.announce(exec.Context())
		end := inner(exec)
		v = end.Result
		return end
	}
}

// inTime is the deadline as a policy: no attempt begins when its time is up or
// its caller has gone. One that runs is left to end by itself: the deadline is
// on its socket, and what it brings home counts.
func (c *course) inTime(inner step) step {
	return func(exec execution) *ended {
		if err := exec.Context().Err(); err != nil {
			return refusal(fmt.Errorf("%w: %w", corelink.ErrAbandoned, err))
		}
		if !c.now().Before(c.call.Deadline) {
			return refusal(corelink.ErrNoTime)
		}
		return inner(exec)
	}
}

// errAgain marks the end of an attempt that may be followed by another.
// Nothing else is ever tried again.
var errAgain = errors.New("to be tried again")

// stopRetry decides, within the retry policy, whether there may be another
// attempt. A refusal is never followed by one and, after the first attempt,
// never takes the place of what that one brought home.
func (c *course) stopRetry(inner step) step {
	return func(exec execution) *ended {
		before := c.attempts
		end := inner(exec)
		switch {
		case c.attempts == before && before == 0:
			c.refused = end.Error
			return end
		case c.attempts == before:
			return refusal(c.result.Err)
		case c.mayTryAgain(end.Result):
			return &ended{Result: end.Result, Error: errAgain}
		}
		return end
	}
}

// mayTryAgain is true after a failure of the core, if there is time for the
// back-off and more, and the circuit may let the attempt pass after it.
func (c *course) mayTryAgain(v verdict) bool {
	pause := c.gate.flags.backoff(c.attempts)
	return v.outcome == failure &&
		c.now().Add(pause).Before(c.call.Deadline) &&
		!c.leg.circuit.staysOpen(pause)
}

// newRetry is failsafe-go's retry, for what stopRetry marks.
func newRetry(f *Flags) retrypolicy.RetryPolicy[verdict] {
	return retrypolicy.NewBuilder[verdict]().
		HandleIf(func(_ verdict, err error) bool { return errors.Is(err, errAgain) }).
		WithMaxRetries(f.Retries).
		WithDelayFunc(func(exec failsafe.ExecutionAttempt[verdict]) time.Duration {
			return f.backoff(exec.Retries() + 1)
		}).
		ReturnLastFailure().
		Build()
}
