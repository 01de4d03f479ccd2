package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/gwanmun/gwanmun/bench/paired"
)

const heading = `| subject / base | callers | base per s | subject per s | ratio | A/A | base p50, p99 ms | subject p50, p99 ms | p99 ratio | base CPU us: all, service | subject CPU us: all, service | CPU ratio | rows a commit: base, subject |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
`

const goalsHeading = `| goal | callers | measured | wanted | | acceptable at first | |
|---|--:|--:|--:|---|--:|---|
`

// row is the comparison in the table.
func (c comparison) row(r paired.Result, err error) string {
	if err != nil {
		why := strings.NewReplacer("|", "/", "\n", "; ").Replace(err.Error())
		return fmt.Sprintf("| %s | %d | FAILED: %s |%s\n", c.what, c.callers, why, strings.Repeat(" |", 10))
	}
	return fmt.Sprintf("| %s | %d | %.0f | %.0f | %.2f | %.2f | %s | %s | %.2f | %s | %s | %.2f | %s, %s |\n",
		c.what, c.callers, r.Base.PerSecond, r.Subject.PerSecond, r.Ratio, r.AA,
		latencies(r.Base), latencies(r.Subject), r.P99Ratio, cpu(r.Base), cpu(r.Subject), cpuRatio(r),
		rowsText(c.op, r.Base), rowsText(c.op, r.Subject))
}

func latencies(f paired.Figures) string {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return fmt.Sprintf("%.2f, %.2f", ms(f.P50), ms(f.P99))
}

func cpu(f paired.Figures) string {
	text := fmt.Sprintf("%.0f", float64(f.CPU)/float64(time.Microsecond))
	if len(f.Meters) > serviceMeter {
		text += fmt.Sprintf(", %.0f", f.Meters[serviceMeter]*1e6)
	}
	return text
}

// cpuRatio is how many times as fast the subject would be if CPU time were all
// that either needs, that of its callers included. It does not depend on who else
// is on the machine.
func cpuRatio(r paired.Result) float64 {
	all := func(f paired.Figures) float64 {
		needed := f.CPU.Seconds()
		if len(f.Meters) > generatorMeter {
			needed += f.Meters[generatorMeter]
		}
		return needed
	}
	return all(r.Base) / all(r.Subject)
}

// rowsPerCommit is how many rows a side writes in one database transaction; zero
// where that is not known.
func rowsPerCommit(op operation, f paired.Figures) float64 {
	if len(f.Meters) <= commitMeter || f.Meters[commitMeter] <= 0 {
		return 0
	}
	return op.rows / f.Meters[commitMeter]
}

func rowsText(op operation, f paired.Figures) string {
	if rows := rowsPerCommit(op, f); rows > 0 {
		return fmt.Sprintf("%.1f", rows)
	}
	return "-"
}

// judge is the comparison's goals in their table, and whether it is sound and
// acceptable.
func (c comparison) judge(r paired.Result, err error) (lines string, met bool) {
	met = err == nil && (r.Sound() || len(c.goals) == 0)
	var out strings.Builder
	for _, g := range c.goals {
		value := g.measure(r)
		measured, wanted, acceptable := fmt.Sprintf("%.2f", value), verdict(g.meets(value, g.wanted)), verdict(g.meets(value, g.acceptable))
		switch {
		case err != nil:
			measured, wanted, acceptable = "-", "failed", "failed"
		case !r.Sound():
			wanted, acceptable = "rejected", "rejected"
		case !g.meets(value, g.acceptable):
			met = false
		}
		bound := "at least"
		if g.atMost {
			bound = "at most"
		}
		_, _ = fmt.Fprintf(&out, "| %s: %s | %d | %s | %s %g | %s | %s %g | %s |\n",
			c.what, g.what, c.callers, measured, bound, g.wanted, wanted, bound, g.acceptable, acceptable)
	}
	return out.String(), met
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "MISSED"
}
