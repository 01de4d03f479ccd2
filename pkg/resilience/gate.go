// Package resilience stands between the use cases and the links to the core:
// two circuits, the retries of an inquiry and one deadline over all of it. It
// is failsafe-go behind rules that are safe for money, and the only package
// that knows failsafe-go.
//
// What it promises: a Mutation is sent at most once. Only the core's faults
// count in a circuit. The end of a call that began in an earlier state changes
// nothing. A half-open circuit never lets out more probes than it may, and a
// probe's place is never lost. Nothing that came back is thrown away, and no
// refusal makes a lost answer look like nothing sent.
//
// docs/resilience.md has the rules with worked tables.
package resilience

import (
	"context"
	"log/slog"
	"time"

	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/corelink"
)

// The circuits' names.
const (
	// CoreRequest is the circuit of payments and net cancels.
	CoreRequest = "core-request"
	// CoreQuery is the circuit of inquiries.
	CoreQuery = "core-query"
)

// Exchanger makes one exchange with the core, and ends by the call's deadline,
// or soon after ctx does. It is safe for concurrent use.
type Exchanger interface {
	Exchange(ctx context.Context, call corelink.Call) corelink.Result
}

// Options are what a Gate works with. All are required.
type Options struct {
	// Flags must satisfy Validate.
	Flags Flags
	// Request carries payments and net cancels, Query carries inquiries. They
	// must not share connections: slow payments would take those that their
	// repair needs.
	Request, Query Exchanger
	// Now is the clock of deadlines. The circuits' wait and the back-off go by
	// the runtime's own, so in tests it is time.Now in a synctest bubble.
	Now      func() time.Time
	Logger   *slog.Logger
	Registry prometheus.Registerer
}

// Gate is the way to the core. It is safe for concurrent use.
type Gate struct {
	flags          Flags
	now            func() time.Time
	request, query leg
	retry          retrypolicy.RetryPolicy[verdict]
	retries        prometheus.Counter
}

// leg is a pool of connections behind its circuit.
type leg struct {
	circuit *circuit
	pool    Exchanger
}

// New returns a Gate with both circuits closed, and registers its metrics. It
// panics on flags that Validate refuses.
func New(o Options) *Gate {
	if err := o.Flags.Validate(); err != nil {
		panic("resilience: " + err.Error())
	}
	f := o.Flags
	g := &Gate{
		flags:   f,
		now:     o.Now,
		request: leg{newCircuit(CoreRequest, f.CircuitMode, f.rules(f.CircuitRequestThreshold), o.Logger), o.Request},
		query:   leg{newCircuit(CoreQuery, f.CircuitMode, f.rules(f.CircuitQueryThreshold), o.Logger), o.Query},
		retries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gwanmun_core_retries_total",
			Help: "Attempts of an inquiry after its first.",
		}),
	}
	g.retry = newRetry(&g.flags)
	o.Registry.MustRegister(g.retries, collector{g})
	return g
}

// Exchange makes a call: a Mutation in one attempt, an Inquiry in as many as
// the flags and the deadline allow. Whatever is not an Inquiry is a Mutation.
//
// The Result is that of all attempts together: Sent is the most that left in
// any of them and SentAt when the first byte of the first was about to leave;
// Err is the last failure that was one. If a circuit refused before the first
// attempt, Err is an *OpenError and nothing left. The call's Check may be asked
// once for each attempt.
//
// An inquiry also ends by its caller's deadline. A mutation does not obey one
// here, but an Exchanger gives up when ctx ends: whoever must not abandon what
// was sent gives a ctx that does not end.
func (g *Gate) Exchange(ctx context.Context, call corelink.Call) corelink.Result {
	if call.Kind == corelink.Inquiry {
		return g.inquire(ctx, call)
	}
	return g.mutate(ctx, call)
}

// mutate has no retry policy in it, and none is to be put there: the second
// copy of a payment moves the money a second time.
func (g *Gate) mutate(ctx context.Context, call corelink.Call) corelink.Result {
	c := &course{gate: g, leg: &g.request, call: call}
	_, c.refused = c.guarded(ctx)
	return c.end()
}

func (g *Gate) inquire(ctx context.Context, call corelink.Call) corelink.Result {
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(call.Deadline) {
		call.Deadline = deadline
	}
	c := &course{gate: g, leg: &g.query, call: call}
	v, refused := c.guarded(ctx)
	if c.refused = refused; refused == nil && c.mayTryAgain(v) {
		c.again(ctx)
	}
	return c.end()
}

// Admits reports whether a call of the kind would be let through now: nil or an
// *OpenError. It takes no place, so the call itself may still be refused. A
// refusal counts as a rejected call: ask once for a call, and only for one.
func (g *Gate) Admits(kind corelink.Kind) error {
	if kind == corelink.Inquiry {
		return g.query.circuit.look()
	}
	return g.request.circuit.look()
}

// Circuits are core-request and core-query, in this order. Each is consistent
// in itself; they are not of the same instant.
func (g *Gate) Circuits() []Stats {
	return []Stats{g.request.circuit.stats(), g.query.circuit.stats()}
}
