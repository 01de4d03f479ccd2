package main

import (
	"fmt"
	"slices"
	"time"
)

const heading = `| ledger | base per s | exchanges per s | rows per s | ratio | A/A | CPU us of an exchange | goal | |
|---|--:|--:|--:|--:|--:|--:|---|---|
`

// wanted is the least ratio.
const wanted = 0.25

// The bounds of what the base may be, compared with itself.
const (
	minAA = 0.9
	maxAA = 1.1
)

// result is what all rounds on a ledger came to.
type result struct {
	bases, drains, ratios, aas []float64
	cpus                       []time.Duration
}

func (r *result) add(before, drained, after float64, cpu time.Duration) {
	r.bases = append(r.bases, (before+after)/2)
	r.drains = append(r.drains, drained)
	r.ratios = append(r.ratios, drained/((before+after)/2))
	r.aas = append(r.aas, after/before)
	r.cpus = append(r.cpus, cpu)
}

// line is what is printed, and whether the goal is met.
func (r *result) line(ledger string) (line string, met bool) {
	ratio, aa := median(r.ratios), median(r.aas)
	verdict := "met"
	switch {
	case aa < minAA || aa > maxAA:
		verdict = "rejected"
	case ratio < wanted:
		verdict = "MISSED"
	}
	drained := median(r.drains)
	return fmt.Sprintf("| %s | %.0f | %.0f | %.0f | %.3f | %.2f | %.1f | ratio at least %.2f | %s |\n",
		ledger, median(r.bases), drained, drained/exchangesPerRow, ratio, aa,
		float64(median(r.cpus))/float64(time.Microsecond), wanted, verdict), verdict == "met"
}

// median is the middle one, or the mean of the two.
func median[N float64 | time.Duration](values []N) N {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
