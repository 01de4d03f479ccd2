package resilience

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"

	"github.com/gwanmun/gwanmun/pkg/corelink"
)

// guarded makes an attempt within what stands around every one: the deadline and
// the circuit. An error says that it was not made, and why. An attempt that runs
// is left to end by itself: the deadline is on its socket, and what it brings home
// counts.
func (c *course) guarded(ctx context.Context) (v verdict, refused error) {
	if err := ctx.Err(); err != nil {
		return verdict{}, fmt.Errorf("%w: %w", corelink.ErrAbandoned, err)
	}
	if !c.now().Before(c.call.Deadline) {
		return verdict{}, corelink.ErrNoTime
	}
	return c.leg.circuit.around(ctx, c.attempt)
}

// around makes an attempt with a permit, which is settled whatever happens. An
// attempt that panics has no verdict, and none is neutral.
func (c *circuit) around(ctx context.Context, attempt func(context.Context) verdict) (v verdict, refused error) {
	p, err := c.acquire()
	if err != nil {
		return verdict{}, err
	}
	defer func() {
		c.settle(p, v)
		c.announce(ctx)
	}()
	c.announce(ctx)
	return attempt(ctx), nil
}

// errAgain marks the end of an attempt that may be followed by another.
// Nothing else is ever tried again.
var errAgain = errors.New("to be tried again")

// again makes the attempts of an inquiry after its first, as failsafe-go's retry
// counts and spaces them. It is told that there was one: most inquiries need no
// other, and have nothing to do with it. The end that it returns is not asked: when
// ctx has ended it is the context's error, whatever came back. A refusal is never
// followed by an attempt, and never takes the place of what those before brought
// home.
func (c *course) again(ctx context.Context) {
	_, _ = failsafe.With[verdict](c.gate.retry).WithContext(ctx).Get(c.further(ctx))
}

// further says of the attempt that was made that it may be followed by another,
// and then makes one each time.
func (c *course) further(ctx context.Context) func() (verdict, error) {
	told := false
	return func() (verdict, error) {
		if !told {
			told = true
			return verdict{}, errAgain
		}
		v, refused := c.guarded(ctx)
		if refused != nil {
			return verdict{}, refused
		}
		if c.mayTryAgain(v) {
			return v, errAgain
		}
		return v, nil
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

// newRetry is failsafe-go's retry, for what is marked.
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
