package simulation

import (
	"slices"
	"testing"
	"time"
)

const (
	// maxShrinks is how many days are played at most to make a plan smaller, and
	// shrinkTime how long that may take.
	maxShrinks = 400
	shrinkTime = 20 * time.Second
)

// shrink returns the smallest plan it finds that still breaks the same promise.
func shrink(t *testing.T, r *result) *result {
	t.Helper()
	rule, begun, best := r.violations[0].Rule, time.Now(), r
	smallest(r.plan.events, func(events []event) bool {
		if time.Since(begun) > shrinkTime {
			return false
		}
		p := *r.plan
		p.events = events
		again := play(t, &p)
		fails := len(again.violations) > 0 && again.violations[0].Rule == rule
		if fails {
			best = again
		}
		return fails
	})
	return best
}

// smallest leaves out of things what it can, so long as they fail without it: first
// of the end, which leaves the shortest beginning, and then piece by piece.
func smallest[T any](things []T, fails func([]T) bool) []T {
	left := maxShrinks
	try := func(these []T) bool {
		left--
		return left >= 0 && fails(these)
	}
	for cut := len(things) / 2; cut > 0; cut /= 2 {
		for cut <= len(things) && try(things[:len(things)-cut]) {
			things = things[:len(things)-cut]
		}
	}
	for size := max(1, len(things)/2); size > 0; size /= 2 {
		for at := 0; at < len(things); {
			without := slices.Delete(slices.Clone(things), at, min(at+size, len(things)))
			if try(without) {
				things = without
			} else {
				at += size
			}
		}
	}
	return things
}

func TestSmallest_LeavesWhatFailsTogether(t *testing.T) {
	things := make([]int, 57)
	for i := range things {
		things[i] = i
	}
	tries := 0
	got := smallest(things, func(these []int) bool {
		tries++
		return slices.Contains(these, 3) && slices.Contains(these, 31) && slices.Contains(these, 32)
	})
	if !slices.Equal(got, []int{3, 31, 32}) || tries > 150 {
		t.Errorf("%v are left, after %d tries", got, tries)
	}
}
