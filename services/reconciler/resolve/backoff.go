package resolve

import (
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

const (
	// backoffBase is the longest first back-off after an attempt that was
	// answered without evidence.
	backoffBase = time.Second
	// backoffCap is the longest back-off, and that of rows in review.
	backoffCap = 5 * time.Minute
	// crowdSteps is how many steps of back-off a row of a crowd comes later that was
	// given a moment, so that what fell due last is not the same again at once.
	crowdSteps = 4
)

// plan is when a row is asked again.
type plan struct {
	sweep       time.Duration
	maxAttempts int
	// random is uniform in [0, 1) and safe for concurrent use.
	random func() float64
}

// postponement is what a nextWait verdict makes of a claim on t.
func (p plan) postponement(c *ledger.Claim, v verdict) ledger.Postponement {
	t := &c.Transaction
	attempts := t.ResolveAttempts
	if v.answered {
		attempts++
	}
	raise := v.answered && !v.expected && attempts >= p.maxAttempts
	out := ledger.Postponement{
		ID: t.ID, Token: c.Token,
		Answered: v.answered, NotFound: v.notFound, NeedsReview: raise,
		Delay: p.delay(c, v, attempts, raise || t.NeedsReview),
	}
	if v.answered && !t.NeedsReview && attempts <= p.maxAttempts {
		// The same line every few minutes for ever would drown the history that
		// a reviewer reads.
		out.Detail = v.why
	}
	return out
}

func (p plan) delay(c *ledger.Claim, v verdict, attempts int, review bool) time.Duration {
	t := &c.Transaction
	switch {
	case review:
		return p.jitter(backoffCap)
	case !v.answered:
		// An unreachable core costs no attempts, and no time once it is back.
		switch {
		case v.soon && t.Asked:
			return p.jitter(p.exponential(attempts + crowdSteps))
		case v.soon:
			return p.jitter(min(backoffBase, p.sweep))
		}
		return p.jitter(p.sweep)
	case !v.window.IsZero():
		// Due right after the window, if that is sooner. The delay is added to a
		// database clock that is past c.At.
		left := max(v.window.Sub(c.At), 0) + time.Millisecond
		return min(left, p.jitter(p.exponential(attempts)))
	default:
		return p.jitter(p.exponential(attempts))
	}
}

// owed is how long a net cancel is put off that has been owed for an age: as long
// again, to a cap, which needs no counter to be kept.
func (p plan) owed(age time.Duration) time.Duration {
	return p.jitter(min(max(age, min(backoffBase, p.sweep)), backoffCap))
}

// unspent ends an attempt that a hint has brought about: the row is due when it
// would have been, and what is counted is what the sweep does of itself.
func unspent(c *ledger.Claim, v verdict) ledger.Postponement {
	return ledger.Postponement{
		ID: c.Transaction.ID, Token: c.Token, NotFound: v.notFound,
		Delay: max(0, c.Transaction.NextResolveAt.Sub(c.At)),
	}
}

// exponential is the back-off after this many answered attempts, before jitter.
func (p plan) exponential(attempts int) time.Duration {
	d := min(backoffBase, p.sweep)
	for range attempts - 1 {
		if d >= backoffCap {
			break
		}
		d *= 2
	}
	return min(d, backoffCap)
}

// jitter is between half of d and d, so that rows which fell due together do
// not stay together.
func (p plan) jitter(d time.Duration) time.Duration {
	return d/2 + time.Duration(p.random()*float64(d/2))
}
