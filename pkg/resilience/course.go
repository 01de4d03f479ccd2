package resilience

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/telemetry/span"
)

// course is one call on its way: the attempts that are made for it, and what
// came of all of them together. It belongs to one goroutine.
type course struct {
	gate *Gate
	leg  *leg
	// call is what each attempt sends; its deadline is the course's.
	call corelink.Call
	// attempts is how many were handed to the pool.
	attempts int
	// result is what came of them all.
	result corelink.Result
	// refused is why not even a first attempt was made.
	refused error
}

func (c *course) now() time.Time { return c.gate.now() }

// attempt makes one exchange and says what it says of the core.
func (c *course) attempt(ctx context.Context) verdict {
	c.attempts++
	if c.attempts > 1 {
		c.gate.retries.Inc()
	}
	traced, attempt := span.Start(ctx, "attempt")
	defer attempt.End()
	res := sane(c.leg.pool.Exchange(traced, c.call))
	v := judge(&res, gone(ctx, c.now()))
	v.own = c.call.Particular && !errors.Is(v.cause, corelink.ErrConnect)
	if attempt.IsRecording() {
		c.tell(attempt, &res, v)
	}
	c.add(res, v)
	return v
}

// tell says in an attempt's span how it ended.
func (c *course) tell(attempt trace.Span, res *corelink.Result, v verdict) {
	attempt.SetAttributes(span.KeyCircuit.String(c.leg.circuit.name), span.KeySent.String(res.Sent.String()))
	if v.cause != nil {
		span.Fail(attempt, v.cause.Error())
	}
}

// add takes an attempt into the result over all attempts: the most that left in
// any of them, since the first time that something did, and what came back, or
// failed to, in the last. An end of ours in which nothing left does not replace
// what an earlier attempt learned of the core.
func (c *course) add(res corelink.Result, v verdict) {
	sent, at := max(c.result.Sent, res.Sent), c.result.SentAt
	if at.IsZero() {
		at = res.SentAt
	}
	if c.attempts == 1 || v.outcome != neutral || res.Sent != corelink.SentNone {
		c.result = res
	}
	c.result.Sent, c.result.SentAt = sent, at
}

// end is the result over all attempts or, if none was made, the refusal.
func (c *course) end() corelink.Result {
	if c.attempts == 0 {
		return corelink.Result{Sent: corelink.SentNone, Err: c.refused}
	}
	return c.result
}
