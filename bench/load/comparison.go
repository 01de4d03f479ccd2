package main

import (
	"context"
	"fmt"

	"github.com/gwanmun/gwanmun/bench/paired"
)

// comparison is one line of the table.
type comparison struct {
	// name is what --only knows it by.
	name          string
	what          string
	base, subject string
	callers       int
	op            operation
	goals         []goal
}

// goal is what is wanted of a comparison.
type goal struct {
	what    string
	measure func(paired.Result) float64
	// wanted is the goal, acceptable what must be reached before that. Both are
	// least values, or most where atMost is set.
	wanted, acceptable float64
	atMost             bool
}

func (g goal) meets(value, bound float64) bool {
	if g.atMost {
		return value <= bound
	}
	return value >= bound
}

func speed(wanted, acceptable float64) goal {
	return goal{"times as fast", func(r paired.Result) float64 { return r.Ratio }, wanted, acceptable, false}
}

func p99(wanted, acceptable float64) goal {
	return goal{"p99, part of the base's", func(r paired.Result) float64 { return r.P99Ratio }, wanted, acceptable, true}
}

func batching(wanted float64) goal {
	return goal{"rows a commit", func(r paired.Result) float64 { return rowsPerCommit(pay, r.Subject) }, wanted, wanted, false}
}

// noise is how far a ratio of two things alike may be from one: what a sound run
// allows the base against itself.
const noise = 0.1

// comparisons are all that are made. What is wanted is wanted against GORM as it
// comes; the tuned service shows how much of that is GORM's transactions.
var comparisons = []comparison{
	{
		name: "payment-1", what: "payment / naive", base: naive, subject: product, callers: 1, op: pay,
		goals: []goal{speed(1, 1-noise)},
	},
	{
		name: "payment-64", what: "payment / naive", base: naive, subject: product, callers: 64, op: pay,
		goals: []goal{speed(4, 1.8)},
	},
	{
		name: "payment-256", what: "payment / naive", base: naive, subject: product, callers: 256, op: pay,
		goals: []goal{speed(6, 3), p99(0.15, 0.35), batching(25)},
	},
	{name: "tuned-1", what: "payment / naive, tuned", base: naiveTuned, subject: product, callers: 1, op: pay},
	{name: "tuned-64", what: "payment / naive, tuned", base: naiveTuned, subject: product, callers: 64, op: pay},
	{name: "tuned-256", what: "payment / naive, tuned", base: naiveTuned, subject: product, callers: 256, op: pay},
	{
		name: "inquiry-64", what: "inquiry with its row / bare bridge", base: bridge, subject: product, callers: 64, op: ask,
		goals: []goal{speed(0.8, 0.5)},
	},
	{name: "bridge-64", what: "payment / bare bridge", base: bridge, subject: product, callers: 64, op: pay},
	{name: "sqlite-64", what: "payment / naive, both on SQLite", base: naiveSQLite, subject: productSQLite, callers: 64, op: pay},
}

// try makes the comparison, and again while it is not sound, and then looks into
// the books.
func (c comparison) try(ctx context.Context, cfg config, sides map[string]*side) (r paired.Result, err error) {
	base, subject := sides[c.base], sides[c.subject]
	for n := 0; n < cfg.Tries && err == nil && (n == 0 || !r.Sound()); n++ {
		r, err = paired.Run(ctx, cfg.plan(c.callers), base.paired(c.op), subject.paired(c.op))
	}
	for _, s := range []*side{base, subject} {
		if err == nil {
			err = s.audit(ctx)
		}
	}
	if err != nil {
		return paired.Result{}, fmt.Errorf("%s: %w", c.name, err)
	}
	return r, nil
}
