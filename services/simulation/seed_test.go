package simulation

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "the seed that TestSeed plays")
	seedsFlag = flag.Int("seeds", 0, "how many seeds TestSeeds plays; 0 is as many as fit into -within")
	fromFlag  = flag.Uint64("from", 1, "the first of them; without -seeds every other one is of this hour")
	sameFlag  = flag.Int("same", 20, "how many seeds TestSeeds_AreTheSameEachTime plays")
	within    = flag.Duration("within", 45*time.Second, "how long TestSeeds plays if -seeds is not set; longer where that is few seeds")
)

const (
	// few is how many seeds are played at least without -seeds, on a slow machine too.
	few = 300
	// longest is how long that may take at most.
	longest = 150 * time.Second
)

// quiet is the share of payments, one in so many, that must be UNKNOWN for a while.
const quiet = 15

// TestSeed plays one day again, and tells it.
func TestSeed(t *testing.T) {
	if *seedFlag == 0 {
		t.Skip("it plays the day of -seed again")
	}
	r := play(t, newPlan(*seedFlag))
	if len(r.violations) > 0 {
		t.Errorf("seed %d: %s", *seedFlag, tell(shrink(t, r)))
		return
	}
	t.Logf("seed %d: %s", *seedFlag, tell(r))
}

// TestSeeds plays many days. The first that breaks a promise ends it, and says which
// one it was. Half of those of CI are the same each time, the others are new.
func TestSeeds(t *testing.T) {
	begun := time.Now()
	var payments, doubted, aged, played int
	fresh := uint64(begun.UnixNano())
	goesOn := func() bool {
		if *seedsFlag > 0 {
			return played < *seedsFlag
		}
		took := time.Since(begun)
		return took < *within || played < few && took < longest
	}
	for goesOn() {
		seed := *fromFlag + uint64(played)
		if *seedsFlag == 0 && played%2 == 1 {
			seed = fresh + uint64(played)
		}
		r := play(t, newPlan(seed))
		played++
		payments += r.tally.Payments
		doubted += r.tally.Doubted
		aged += r.aged
		if len(r.violations) > 0 {
			first := r.violations[0].String()
			small := shrink(t, r)
			t.Fatalf("seed %d, after %d seeds: %s\nagain: go test ./simulation -run 'TestSeed$' -seed %d\nof %d events these %d are enough:\n%s",
				seed, played, first, seed, len(r.plan.events), len(small.plan.events), tell(small))
		}
	}
	if played >= 100 && doubted*quiet < payments {
		t.Errorf("%d of %d payments were UNKNOWN for a while: the days have become too quiet to find anything", doubted, payments)
	}
	if played >= 100 && aged < played {
		t.Errorf("%d rows were read as they had been, in %d days: that is no trouble", aged, played)
	}
	from := fmt.Sprint(*fromFlag)
	if *seedsFlag == 0 {
		from += fmt.Sprintf(", every other one from %d", fresh)
	}
	fmt.Printf("simulation: %d seeds from %s in %s, %.1f a second; %d payments, %d of them UNKNOWN for a while; %d rows read as they had been\n", played, from,
		time.Since(begun).Round(time.Second), float64(played)/time.Since(begun).Seconds(), payments, doubted, aged)
}

// tell is what a human needs of a day: what it broke, its plan, and what happened to
// whom by virtual time.
func tell(r *result) string {
	var s strings.Builder
	for _, v := range r.violations {
		fmt.Fprintf(&s, "%.9fs %s\n", v.At.Sub(r.trace.start).Seconds(), v)
	}
	fmt.Fprintf(&s, "\nthe house: %+v\nthe plan:\n", r.plan.house)
	for i := range r.plan.events {
		fmt.Fprintln(&s, &r.plan.events[i])
	}
	fmt.Fprintf(&s, "\nthe day (%+v, hash %x, played in %s):\n", r.tally, r.trace.hash(), r.took.Round(time.Millisecond))
	r.trace.write(&s, about(r.violations))
	return s.String()
}

// TestSeeds_AreTheSameEachTime plays days three times over.
func TestSeeds_AreTheSameEachTime(t *testing.T) {
	if raced {
		t.Skip("the race detector shuffles what is woken at one moment")
	}
	var differ []uint64
	for seed := range uint64(*sameFlag) {
		seed += *fromFlag
		first := play(t, newPlan(seed))
		for range 2 {
			again := play(t, newPlan(seed))
			if again.trace.hash() != first.trace.hash() {
				differ = append(differ, seed)
				t.Logf("seed %d: %s", seed, firstDifference(first.trace, again.trace))
				break
			}
		}
	}
	t.Logf("%d of %d days were the same three times", *sameFlag-len(differ), *sameFlag)
	if len(differ) > *sameFlag/10 {
		t.Errorf("days that differ: %v", differ)
	}
}

// firstDifference says where two traces part.
func firstDifference(a, b *trace) string {
	x, y := a.moments(), b.moments()
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("%.9fs %s %s %s\n      and %.9fs %s %s %s", x[i].at.Seconds(), x[i].who, x[i].id, x[i].what, y[i].at.Seconds(), y[i].who, y[i].id, y[i].what)
		}
	}
	return fmt.Sprintf("%d moments and %d", len(x), len(y))
}
