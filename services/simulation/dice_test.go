package simulation

import (
	"math/rand/v2"
	"time"
)

// dice are thrown for things by their names, so that what happens to one depends on
// the seed and on its name alone, and not on what was thrown for others before it.
type dice uint64

// of are the dice of a thing within these.
func (d dice) of(name string) dice {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset) ^ uint64(d)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * prime
	}
	return dice(mix(h))
}

// nth are the dice of the nth of things that have one name.
func (d dice) nth(n int) dice { return dice(mix(uint64(d) + uint64(n)*0x9e3779b97f4a7c15)) }

// mix is the finalizer of splitmix64: each bit of x changes half of what comes out.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// source is one for a longer series.
func (d dice) source() *rand.PCG { return rand.NewPCG(uint64(d), mix(uint64(d))) }

func (d dice) rand() *rand.Rand { return rand.New(d.source()) }

// chance reports whether a thing of this probability happens.
func (d dice) chance(p float64) bool { return d.float() < p }

// float is uniform in [0, 1).
func (d dice) float() float64 { return float64(mix(uint64(d))>>11) / (1 << 53) }

// between is a time from a to b, to the nanosecond: no two things are to happen at
// the same one, for those are in no order.
func (d dice) between(a, b time.Duration) time.Duration {
	return a + time.Duration(mix(uint64(d))%uint64(b-a))
}

// between is the same of a series.
func between(r *rand.Rand, a, b time.Duration) time.Duration {
	return a + time.Duration(r.Int64N(int64(b-a)))
}
