package faultnet

import (
	"math/rand/v2"
	"time"
)

// Fate is what becomes of one segment. The zero Fate lets it pass at once.
type Fate struct {
	// Delay is how much later the segment's bytes arrive.
	Delay time.Duration
	// Drop makes the segment vanish; what follows arrives.
	Drop bool
	// Duplicate makes the segment arrive twice, one behind the other.
	Duplicate bool
	// Split, above 0, makes the segment arrive in pieces of at most so many
	// bytes, Gap apart.
	Split int
	Gap   time.Duration
	// End ends the connection within the segment, when At of its bytes (at most
	// all of them) have passed; the rest, and all that follows, does not arrive.
	End End
	At  int
}

// End is how a fate ends a connection. The zero End does not.
type End uint8

// The ends.
const (
	// Continue does not end anything.
	Continue End = iota
	// HalfClose ends this direction alone, as a FIN does: who reads from it sees
	// io.EOF. What is still written into it vanishes. Beneath a connection
	// without CloseWrite, such as a pipe, a HalfClose on the way out is a
	// Truncate.
	HalfClose
	// Truncate closes the connection both ways.
	Truncate
	// Reset closes the connection both ways by a TCP reset. The peer of a pipe
	// sees it closed.
	Reset
)

// Fates says the fate of each segment of one direction of one connection. It is
// called once for each, in order, numbered from 0. The length is how many bytes
// the segment has if all of it comes. Calls do not overlap, and must not block.
type Fates func(segment, length int) Fate

// Script gives the first segments these fates, and lets all others pass.
func Script(fates ...Fate) Fates {
	return func(segment, _ int) Fate {
		if segment < len(fates) {
			return fates[segment]
		}
		return Fate{}
	}
}

// Odds are how likely each thing happens to a segment, from 0, never, to 1,
// always. The zero Odds let everything pass.
type Odds struct {
	// Delay is how likely a segment is late, by MinDelay to MaxDelay.
	Delay              float64
	MinDelay, MaxDelay time.Duration

	Drop      float64
	Duplicate float64

	// Split is how likely a segment arrives in pieces, of any size, at most
	// MaxGap apart.
	Split  float64
	MaxGap time.Duration

	// At most one of the ends happens, at any byte of the segment. Together they
	// are at most 1.
	Truncate, Reset, HalfClose float64
}

// Fates draws fates. The source must not be used by anyone else.
func (o Odds) Fates(source rand.Source) Fates {
	draw := rand.New(source).Float64 // one number of the source each
	return func(_, length int) Fate {
		late, howLate := draw(), draw()
		dropped, doubled := draw(), draw()
		split, size, gap := draw(), draw(), draw()
		ended, at := draw(), draw()

		f := Fate{Drop: dropped < o.Drop, Duplicate: doubled < o.Duplicate, End: o.end(ended)}
		if late < o.Delay {
			f.Delay = o.MinDelay + portion(howLate, o.MaxDelay-o.MinDelay)
		}
		if split < o.Split {
			f.Split, f.Gap = 1+portion(size, length-1), portion(gap, o.MaxGap)
		}
		if f.End != Continue {
			f.At = portion(at, length)
		}
		return f
	}
}

// end is what a number drawn from 0 to 1 says.
func (o Odds) end(drawn float64) End {
	switch {
	case drawn < o.Truncate:
		return Truncate
	case drawn < o.Truncate+o.Reset:
		return Reset
	case drawn < o.Truncate+o.Reset+o.HalfClose:
		return HalfClose
	default:
		return Continue
	}
}

// portion is so much of the whole, never all of it; 0 of a negative one.
func portion[T ~int | ~int64](drawn float64, whole T) T { return T(drawn * float64(max(0, whole))) }
