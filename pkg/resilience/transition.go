package resilience

import (
	"context"
	"fmt"
	"log/slog"
)

// transition is one change of a circuit's state and the results that made it.
type transition struct {
	from, to        State
	calls, failures int
	lastFailure     error
}

// move changes the state and notes it for the log. The caller holds mu, and
// calls announce when it holds it no longer.
func (c *circuit) move(change func()) {
	calls, failures := c.results()
	t := transition{from: stateOf(c.breaker.State()), calls: calls, failures: failures, lastFailure: c.lastFailure}
	change()
	t.to = stateOf(c.breaker.State())
	c.unsaid = append(c.unsaid, t)
	c.news.Store(true)
}

// announce writes a line for each transition that has none yet. The circuit is
// not locked meanwhile: a logger that is slow, or that panics, harms the call
// that made the transition and no other.
func (c *circuit) announce(ctx context.Context) {
	if !c.news.Load() {
		return
	}
	c.saying.Lock()
	defer c.saying.Unlock()
	for _, t := range c.takeUnsaid() {
		c.say(ctx, t)
	}
}

func (c *circuit) takeUnsaid() []transition {
	c.mu.Lock()
	defer c.mu.Unlock()
	unsaid := c.unsaid
	c.unsaid = nil
	c.news.Store(false)
	return unsaid
}

func (c *circuit) say(ctx context.Context, t transition) {
	attrs := []slog.Attr{
		slog.String("circuit", c.name),
		slog.String("from", t.from.String()), slog.String("to", t.to.String()),
		slog.String("reason", c.reason(t)),
		slog.Int("buffered_calls", t.calls), slog.Int("failed_calls", t.failures),
	}
	if t.to == Open {
		attrs = append(attrs, slog.Duration("open_wait", c.rules.openWait))
		if t.lastFailure != nil {
			attrs = append(attrs, slog.String("last_failure", t.lastFailure.Error()))
		}
	}
	c.logger.LogAttrs(ctx, slog.LevelWarn, "circuit changed state", attrs...)
}

// reason says in words and numbers why the circuit moved.
func (c *circuit) reason(t transition) string {
	r := &c.rules
	rate := fmt.Sprintf("%.1f %%, threshold %d %%", percentage(t.calls, t.failures), r.percent)
	switch {
	case t.to == HalfOpen && r.probes == 1:
		return fmt.Sprintf("it was open for %s; 1 probe may pass", r.openWait)
	case t.to == HalfOpen:
		return fmt.Sprintf("it was open for %s; %d probes may pass", r.openWait, r.probes)
	case c.mode == ModeConsecutive && t.to == Closed:
		return "a probe succeeded"
	case c.mode == ModeConsecutive && t.from == HalfOpen:
		return "a probe failed"
	case c.mode == ModeConsecutive:
		return fmt.Sprintf("%d calls in a row failed", t.failures)
	case t.to == Closed:
		return fmt.Sprintf("%d of %d probes failed (%s)", t.failures, t.calls, rate)
	case t.from == HalfOpen:
		return fmt.Sprintf("%d of %d probes failed (%s), and %d probes cannot come below it", t.failures, t.calls, rate, r.closeAt)
	default:
		return fmt.Sprintf("%d of the last %d calls failed (%s)", t.failures, t.calls, rate)
	}
}
