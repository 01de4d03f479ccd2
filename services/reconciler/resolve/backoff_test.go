package resolve

import (
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

const someID tranid.ID = "GWMNU20260105000000123"

func steady(v float64) func() float64 { return func() float64 { return v } }

func TestBackoff_GrowsWithAnsweredAttemptsToTheCap(t *testing.T) {
	second, sweep := time.Second, 5*time.Second
	for _, tc := range []struct {
		name          string
		sweep         time.Duration
		attempts      int
		least, atMost time.Duration
	}{
		{"the first", sweep, 1, second / 2, second},
		{"the second", sweep, 2, second, 2 * second},
		{"the third", sweep, 3, 2 * second, 4 * second},
		{"the eighth", sweep, 8, 64 * second, 128 * second},
		{"the ninth", sweep, 9, 128 * second, 256 * second},
		{"the cap", sweep, 10, 150 * second, 300 * second},
		{"no overflow", sweep, 1 << 20, 150 * second, 300 * second},
		{"a short interval", 200 * time.Millisecond, 1, 100 * time.Millisecond, 200 * time.Millisecond},
		{"a short interval, grown", 200 * time.Millisecond, 4, 800 * time.Millisecond, 1600 * time.Millisecond},
		{"a long interval", time.Minute, 1, second / 2, second},
	} {
		for _, edge := range []struct {
			random float64
			want   time.Duration
		}{{0, tc.least}, {1, tc.atMost}} {
			p := plan{sweep: tc.sweep, maxAttempts: 1 << 30, random: steady(edge.random)}
			row := ledger.Claim{Transaction: ledger.Transaction{ID: someID, ResolveAttempts: tc.attempts - 1}}
			got := p.postponement(&row, verdict{next: nextWait, answered: true})
			if got.Delay != edge.want || !got.Answered || got.NeedsReview {
				t.Errorf("%s, random %v: postponed %+v, want by %s", tc.name, edge.random, got, edge.want)
			}
		}
	}
}

func TestBackoff_SilenceCostsNoAttemptAndAboutOneInterval(t *testing.T) {
	for _, attempts := range []int{0, 1, 9, 500} {
		for _, random := range []float64{0, 0.5, 0.999} {
			p := plan{sweep: 5 * time.Second, maxAttempts: 1000, random: steady(random)}
			row := ledger.Claim{Token: "t", Transaction: ledger.Transaction{ID: someID, ResolveAttempts: attempts}}
			got := p.postponement(&row, verdict{next: nextWait, why: "silence"})
			if got.Delay < 2500*time.Millisecond || got.Delay > 5*time.Second {
				t.Errorf("after %d attempts: postponed by %s, want half an interval to one", attempts, got.Delay)
			}
			if got.Answered || got.NotFound || got.NeedsReview || got.Detail != "" {
				t.Errorf("after %d attempts: silence cost %+v", attempts, got)
			}
		}
	}
}

func TestBackoff_TheLastAttemptRaisesReviewAndAsksOnAtTheCap(t *testing.T) {
	p := plan{sweep: time.Second, maxAttempts: 3, random: steady(1)}
	for _, tc := range []struct {
		name     string
		row      ledger.Transaction
		answered bool
		review   bool
		delay    time.Duration
		detail   bool
	}{
		{"one before", ledger.Transaction{ResolveAttempts: 1}, true, false, 2 * time.Second, true},
		{"the last", ledger.Transaction{ResolveAttempts: 2}, true, true, backoffCap, true},
		{"in review, answered", ledger.Transaction{ResolveAttempts: 7, NeedsReview: true}, true, true, backoffCap, false},
		{"in review, silent", ledger.Transaction{ResolveAttempts: 7, NeedsReview: true}, false, false, backoffCap, false},
	} {
		got := p.postponement(&ledger.Claim{Transaction: tc.row}, verdict{next: nextWait, answered: tc.answered, why: "w"})
		if got.NeedsReview != tc.review || got.Delay != tc.delay || (got.Detail != "") != tc.detail {
			t.Errorf("%s: %+v", tc.name, got)
		}
	}
}

// A core that does not fence makes every payment that it lost wait for the late
// window: that is no trouble, and it ends when the window does.
func TestBackoff_TheLateWindowIsWaitedOutAndNeedsNoReview(t *testing.T) {
	at := time.Date(2026, 1, 5, 3, 0, 0, 0, time.UTC)
	p := plan{sweep: 5 * time.Second, maxAttempts: 3, random: steady(1)}
	for _, tc := range []struct {
		name     string
		attempts int
		left     time.Duration
		want     time.Duration
	}{
		{"long to wait", 1, time.Hour, 2 * time.Second},
		{"attempts used up", 9, time.Hour, backoffCap},
		{"soon over", 9, 3 * time.Second, 3*time.Second + time.Millisecond},
		{"over this instant", 9, 0, time.Millisecond},
	} {
		claim := ledger.Claim{At: at, Transaction: ledger.Transaction{ResolveAttempts: tc.attempts}}
		got := p.postponement(&claim, verdict{
			next: nextWait, answered: true, notFound: true, expected: true, window: at.Add(tc.left),
		})
		if got.Delay != tc.want || got.NeedsReview || !got.NotFound {
			t.Errorf("%s: %+v, want a delay of %s", tc.name, got, tc.want)
		}
	}
}
