package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gwanmun/gwanmun/bench/paired"
	"github.com/gwanmun/gwanmun/pkg/corelink"
)

// comparing sets up two sides and compares them.
type comparing func(ctx context.Context, plan paired.Plan) (paired.Result, error)

// comparison is one line of the table.
type comparison struct {
	what    string
	callers int
	run     comparing
	// goal says what is wanted, in words; meets whether it is so. Both may be
	// missing.
	goal  string
	meets func(r paired.Result) bool
}

// extra is how much CPU time the subject takes in an operation beyond the base.
func extra(r paired.Result) time.Duration { return r.Subject.CPU - r.Base.CPU }

// maxCallers are more than the cores can serve at once.
const maxCallers = 64

// comparisons are all that are made, with the core at addr.
func comparisons(addr string) []comparison {
	var all []comparison
	for _, callers := range []int{1, 16, maxCallers} {
		payment := comparison{what: "payment's exchange over the pool / on a bare socket", callers: callers, run: overPool(addr, corelink.Mutation)}
		if callers == maxCallers {
			payment.goal, payment.meets = "ratio at least 0.9", func(r paired.Result) bool { return r.Ratio >= 0.9 }
		}
		all = append(all, payment)
	}
	all = append(all, comparison{what: "inquiry's exchange over the pool / on a bare socket", callers: maxCallers, run: overPool(addr, corelink.Inquiry)})
	cheap := func(r paired.Result) bool { return extra(r) < 2*time.Microsecond }
	for _, callers := range []int{1, maxCallers} {
		all = append(all,
			comparison{"payment through its circuit / straight", callers, throughGate(corelink.Mutation), "under 2 us more", cheap},
			comparison{"inquiry through its circuit / straight", callers, throughGate(corelink.Inquiry), "under 2 us more", cheap},
		)
	}
	return append(all, comparison{
		"refusal by an open circuit / healthy inquiry", maxCallers, refusedAgainst(addr),
		"ratio at least 1.5", func(r paired.Result) bool { return r.Ratio >= 1.5 },
	})
}

func overPool(addr string, kind corelink.Kind) comparing {
	return func(ctx context.Context, plan paired.Plan) (paired.Result, error) {
		base, end, err := bare(ctx, addr, plan.Callers)
		if err != nil {
			return paired.Result{}, err
		}
		defer end()
		link := pooled(addr, plan.Callers)
		defer func() { _ = link.Close() }()
		return paired.Run(ctx, plan, base, calls("pool", link, kind))
	}
}

func throughGate(kind corelink.Kind) comparing {
	return func(ctx context.Context, plan paired.Plan) (paired.Result, error) {
		return paired.Run(ctx, plan, calls("straight", instant{}, kind), calls("circuit", gate(instant{}), kind))
	}
}

func refusedAgainst(addr string) comparing {
	return func(ctx context.Context, plan paired.Plan) (paired.Result, error) {
		link := pooled(addr, plan.Callers)
		defer func() { _ = link.Close() }()
		dead, err := refusals(ctx)
		if err != nil {
			return paired.Result{}, err
		}
		return paired.Run(ctx, plan, calls("healthy", gate(link), corelink.Inquiry), dead)
	}
}

const heading = `| subject / base | callers | base per s | subject per s | ratio | A/A | base CPU us | subject CPU us | more us | goal | |
|---|--:|--:|--:|--:|--:|--:|--:|--:|---|---|
`

// line is the comparison in the table, and whether it is sound and its goal is
// met.
func (c comparison) line(r paired.Result) (line string, met bool) {
	verdict := ""
	switch {
	case !r.Sound():
		verdict = "rejected"
	case c.meets == nil:
	case c.meets(r):
		verdict = "met"
	default:
		verdict = "MISSED"
	}
	us := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	return fmt.Sprintf("| %s | %d | %.0f | %.0f | %.2f | %.2f | %.2f | %.2f | %.2f | %s | %s |\n",
		c.what, c.callers, r.Base.PerSecond, r.Subject.PerSecond, r.Ratio, r.AA,
		us(r.Base.CPU), us(r.Subject.CPU), us(extra(r)), c.goal, verdict), verdict == "" || verdict == "met"
}
