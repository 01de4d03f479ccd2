package faultnet

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// rough is a network on which everything happens.
var rough = Odds{
	Delay: 0.3, MinDelay: time.Millisecond, MaxDelay: time.Second,
	Drop: 0.1, Duplicate: 0.1, Split: 0.3, MaxGap: 100 * time.Millisecond,
	Truncate: 0.01, Reset: 0.01, HalfClose: 0.01,
}

func drawn(o Odds, seed uint64, count int) []Fate {
	fates := o.Fates(rand.NewPCG(seed, 0))
	all := make([]Fate, count)
	for i := range all {
		all[i] = fates(i, 61)
	}
	return all
}

func TestOdds_ReplayWithTheirSeed(t *testing.T) {
	first := drawn(rough, 1, 1000)
	if diff := cmp.Diff(first, drawn(rough, 1, 1000)); diff != "" {
		t.Errorf("the same seed (-first +second):\n%s", diff)
	}
	if cmp.Equal(first, drawn(rough, 2, 1000)) {
		t.Error("another seed has the same fates")
	}
}

func TestOdds_OneOfThemChangesNoOtherDraw(t *testing.T) {
	other := rough
	other.Drop, other.Delay = 0.9, 0
	changed := drawn(other, 1, 1000)
	for i, was := range drawn(rough, 1, 1000) {
		was.Drop, was.Delay = changed[i].Drop, 0
		if was != changed[i] {
			t.Errorf("segment %d is %+v, was %+v", i, changed[i], was)
		}
	}
}

func TestOdds_AreKept(t *testing.T) {
	const count = 20_000
	seen := map[string]int{}
	for _, f := range drawn(rough, 3, count) {
		for what, is := range map[string]bool{
			"delay": f.Delay > 0, "drop": f.Drop, "duplicate": f.Duplicate, "split": f.Split > 0,
			"truncate": f.End == Truncate, "reset": f.End == Reset, "half close": f.End == HalfClose,
		} {
			if is {
				seen[what]++
			}
		}
		switch {
		case f.Delay != 0 && (f.Delay < rough.MinDelay || f.Delay > rough.MaxDelay):
			t.Errorf("a delay of %v", f.Delay)
		case f.Split < 0 || f.Split > 60 || f.Gap < 0 || f.Gap > rough.MaxGap:
			t.Errorf("pieces of %d, %v apart", f.Split, f.Gap)
		case f.At < 0 || f.At > 60 || f.End == Continue && f.At != 0:
			t.Errorf("end %d at %d", f.End, f.At)
		}
	}
	for what, odds := range map[string]float64{
		"delay": .3, "drop": .1, "duplicate": .1, "split": .3, "truncate": .01, "reset": .01, "half close": .01,
	} {
		if got := float64(seen[what]) / count; got < odds*0.8 || got > odds*1.2 {
			t.Errorf("%s: %.4f, want %.2f", what, got, odds)
		}
	}
}

func TestOdds_ZeroNeverAndOneAlways(t *testing.T) {
	for _, f := range drawn(Odds{}, 1, 1000) {
		if f != (Fate{}) {
			t.Fatalf("without odds: %+v", f)
		}
	}
	certain := Odds{Delay: 1, MinDelay: time.Second, Drop: 1, Duplicate: 1, Split: 1, Reset: 1}
	for _, f := range drawn(certain, 1, 1000) {
		if f.Delay != time.Second || !f.Drop || !f.Duplicate || f.Split < 1 || f.End != Reset {
			t.Fatalf("with certainty: %+v", f)
		}
	}
}

// conversation plays a caller and an echo over a rough network for one seed, and
// returns what each saw, and when.
func conversation(t *testing.T, seed uint64) (log []string) {
	odds := rough
	odds.Delay = 1 // no two things happen at one moment
	synctest.Test(t, func(*testing.T) {
		near, far := net.Pipe()
		c := Wrap(near,
			Direction{Segment: 52, Fates: odds.Fates(rand.NewPCG(seed, 0))},
			Direction{Segment: 61, Fates: odds.Fates(rand.NewPCG(seed, 1))})
		begin := time.Now()
		var seen [2][]string
		var running sync.WaitGroup
		running.Go(func() { // the echo answers each 52 bytes with 61
			defer func() { _ = far.Close() }()
			for frame := make([]byte, 52); ; {
				if _, err := io.ReadFull(far, frame); err != nil {
					seen[0] = append(seen[0], fmt.Sprint(time.Since(begin), " ", err))
					return
				}
				seen[0] = append(seen[0], fmt.Sprint(time.Since(begin), " ", string(frame[:4])))
				if _, err := far.Write(append(text(9), frame...)); err != nil {
					return
				}
			}
		})
		running.Go(func() {
			for i := range 60 {
				_ = c.SetReadDeadline(time.Now().Add(2*time.Second + time.Duration(i)))
				_, werr := c.Write(append([]byte(fmt.Sprintf("%04d", i)), text(48)...))
				n, rerr := io.ReadFull(c, make([]byte, 61))
				seen[1] = append(seen[1], fmt.Sprint(time.Since(begin), " ", werr, " ", n, " ", rerr))
			}
			time.Sleep(time.Minute) // nothing is under way any more
			_ = c.Close()
		})
		running.Wait()
		<-c.Done()
		log = slices.Concat(seen[0], seen[1])
	})
	return log
}

func TestConn_TheSameSeedHasTheSameTrace(t *testing.T) {
	different := 0
	for seed := range uint64(20) {
		first := conversation(t, seed)
		if diff := cmp.Diff(first, conversation(t, seed)); diff != "" {
			t.Errorf("seed %d (-first +second):\n%s", seed, diff)
		}
		if !cmp.Equal(first, conversation(t, seed+1)) {
			different++
		}
	}
	if different < 20 {
		t.Errorf("%d of 20 pairs of seeds differ", different)
	}
}

// wantBytes is what arrives of b by the meaning of the fates alone.
func wantBytes(b []byte, segment int, fates Fates) string {
	var want []byte
	for i := 0; len(b) > 0; i++ {
		part := b[:min(segment, len(b))]
		b = b[len(part):]
		f := fates(i, segment)
		ends := f.End != Continue && f.At <= len(part)
		if ends {
			part = part[:f.At]
		}
		if !f.Drop {
			want = append(want, part...)
		}
		if ends {
			return string(want)
		}
		if f.Duplicate && !f.Drop && len(part) == segment {
			want = append(want, part...)
		}
	}
	return string(want)
}

// However a stream is cut up, what arrives of it follows from the fates of its
// segments.
func TestConn_FatesDoNotDependOnHowBytesAreCutUp(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		segment := rapid.IntRange(1, 20).Draw(rt, "segment")
		sizes := rapid.SliceOfN(rapid.IntRange(1, 30), 1, 20).Draw(rt, "sizes")
		odds := Odds{
			Drop: rapid.Float64Range(0, 1).Draw(rt, "drop"), Duplicate: rapid.Float64Range(0, 1).Draw(rt, "duplicate"),
			Split: rapid.Float64Range(0, 1).Draw(rt, "split"), Truncate: 0.05, HalfClose: 0.05,
		}
		total := 0
		for _, size := range sizes {
			total += size
		}
		sent := text(total)
		way := func() Direction {
			return Direction{Segment: segment, Fates: odds.Fates(rand.NewPCG(seed, 0))}
		}
		want := wantBytes(sent, segment, odds.Fates(rand.NewPCG(seed, 0)))

		near, far := net.Pipe()
		c := Wrap(near, way(), way())
		send := func(to net.Conn) {
			for i, at := 0, 0; i < len(sizes); i++ {
				if _, err := to.Write(sent[at : at+sizes[i]]); err != nil {
					break // it has ended
				}
				at += sizes[i]
			}
		}
		send(c)
		var out []arrival
		var reading sync.WaitGroup
		reading.Go(func() {
			_ = c.Close()
			out, _ = trace(far)
		})
		reading.Wait()
		<-c.Done()
		if contents(out) != want {
			rt.Fatalf("out: %q, want %q", contents(out), want)
		}

		near, far = net.Pipe()
		c = Wrap(near, Direction{}, way())
		var sending sync.WaitGroup
		sending.Go(func() {
			send(far)
			_ = far.Close()
		})
		in, _ := trace(c)
		_ = c.Close()
		sending.Wait()
		<-c.Done()
		if contents(in) != want {
			rt.Fatalf("in: %q, want %q", contents(in), want)
		}
	})
}
