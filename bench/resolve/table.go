package main

import (
	"fmt"
	"slices"
	"time"
)

const heading = `| ledger | the core answers | base per s | exchanges per s | rows per s | ratio | A/A | CPU us of an exchange: reconciler | database | goal | |
|---|---|--:|--:|--:|--:|--:|--:|--:|---|---|
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
	own, database              []time.Duration
}

func (r *result) add(before, drained, after float64, used cpus) {
	r.bases = append(r.bases, (before+after)/2)
	r.drains = append(r.drains, drained)
	r.ratios = append(r.ratios, drained/((before+after)/2))
	r.aas = append(r.aas, after/before)
	r.own, r.database = append(r.own, used.reconciler), append(r.database, used.database)
}

// line is what is printed, and whether the goal is met.
func (r *result) line(ledger, answers string) (line string, met bool) {
	ratio, aa := median(r.ratios), median(r.aas)
	verdict := "met"
	switch {
	case aa < minAA || aa > maxAA:
		verdict = "rejected"
	case ratio < wanted:
		verdict = "MISSED"
	}
	drained := median(r.drains)
	return fmt.Sprintf("| %s | %s | %.0f | %.0f | %.0f | %.3f | %.2f | %.1f | %.1f | ratio at least %.2f | %s |\n",
		ledger, answers, median(r.bases), drained, drained/exchangesPerRow, ratio, aa,
		micros(r.own), micros(r.database), wanted, verdict), verdict == "met"
}

// micros is the median in microseconds.
func micros(values []time.Duration) float64 {
	return float64(median(values)) / float64(time.Microsecond)
}

// median is the middle one, or the mean of the two.
func median[N float64 | time.Duration](values []N) N {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
