package faultnet

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Three segments of ten bytes are written at once, and the fate is that of the
// second. The times are those of arrival.
var fateCases = []struct {
	name string
	fate Fate
	want []arrival
	end  End
}{
	{"nothing", Fate{}, []arrival{{0, "abcdefghij"}, {0, "klmnopqrst"}, {0, "uvwxyzabcd"}}, Continue},
	{"late", Fate{Delay: time.Second}, []arrival{
		{0, "abcdefghij"}, {time.Second, "klmnopqrst"}, {time.Second, "uvwxyzabcd"},
	}, Continue},
	{"dropped", Fate{Drop: true}, []arrival{{0, "abcdefghij"}, {0, "uvwxyzabcd"}}, Continue},
	{"twice", Fate{Duplicate: true}, []arrival{
		{0, "abcdefghij"}, {0, "klmnopqrst"}, {0, "klmnopqrst"}, {0, "uvwxyzabcd"},
	}, Continue},
	{"twice and dropped", Fate{Duplicate: true, Drop: true}, []arrival{{0, "abcdefghij"}, {0, "uvwxyzabcd"}}, Continue},
	{"in pieces", Fate{Split: 4}, []arrival{
		{0, "abcdefghij"}, {0, "klmn"}, {0, "opqr"}, {0, "st"}, {0, "uvwxyzabcd"},
	}, Continue},
	{"in pieces, late, apart and twice", Fate{Split: 6, Gap: time.Second, Delay: time.Minute, Duplicate: true}, []arrival{
		{0, "abcdefghij"},
		{time.Minute, "klmnop"},
		{time.Minute + time.Second, "qrst"},
		{time.Minute + time.Second, "klmnopqrst"},
		{time.Minute + time.Second, "uvwxyzabcd"},
	}, Continue},
	{"half closed", Fate{End: HalfClose, At: 3}, []arrival{{0, "abcdefghij"}, {0, "klm"}}, HalfClose},
	{"truncated", Fate{End: Truncate, At: 9}, []arrival{{0, "abcdefghij"}, {0, "klmnopqrs"}}, Truncate},
	{"truncated to nothing", Fate{End: Truncate}, []arrival{{0, "abcdefghij"}}, Truncate},
	{"truncated behind it", Fate{End: Truncate, At: 10}, []arrival{{0, "abcdefghij"}, {0, "klmnopqrst"}}, Truncate},
	{"truncated at more than there is", Fate{End: Truncate, At: 99}, []arrival{{0, "abcdefghij"}, {0, "klmnopqrst"}}, Truncate},
	{"truncated and dropped", Fate{End: Truncate, At: 5, Drop: true}, []arrival{{0, "abcdefghij"}}, Truncate},
	{"truncated late", Fate{End: Truncate, At: 2, Delay: time.Second}, []arrival{
		{0, "abcdefghij"}, {time.Second, "kl"},
	}, Truncate},
}

func TestFate_OnTheWayOut(t *testing.T) {
	for _, tt := range fateCases {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, peer := pipe(t, Direction{Segment: 10, Fates: Script(Fate{}, tt.fate)}, Direction{})
				write(t, c, text(30))
				if tt.end == Continue {
					_ = c.Close()
				}
				got, err := trace(peer)
				if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(arrival{})); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if !isEnd(err) {
					t.Errorf("ended by %v", err)
				}
			})
		})
	}
}

func TestFate_OnTheWayIn(t *testing.T) {
	for _, tt := range fateCases {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, peer := pipe(t, Direction{}, Direction{Segment: 10, Fates: Script(Fate{}, tt.fate)})
				write(t, peer, text(30))
				if tt.end == Continue {
					_ = peer.Close()
				}
				got, err := trace(c)
				if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(arrival{})); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if !isEnd(err) {
					t.Errorf("ended by %v", err)
				}
			})
		})
	}
}

func TestFate_OfASegmentThatIsAWriteOrARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fates := Script(Fate{}, Fate{Drop: true}, Fate{Duplicate: true})
		c, peer := pipe(t, Direction{Fates: fates}, Direction{Fates: fates})
		var writing sync.WaitGroup
		for _, from := range []net.Conn{c, peer} {
			writing.Go(func() {
				for _, b := range []string{"one", "two", "three", "four"} {
					write(t, from, []byte(b))
				}
			})
		}
		for _, to := range []net.Conn{peer, c} {
			readFull(t, to, []byte("onethreethreefour"))
		}
		writing.Wait()
	})
}

func TestFate_IsAskedForOnceForEachSegmentWithItsLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type asked struct{ Segment, Length int }
		var got []asked
		c, peer := pipe(t, Direction{Segment: 10, Fates: func(segment, length int) Fate {
			got = append(got, asked{segment, length})
			return Fate{}
		}}, Direction{})
		for _, b := range [][]byte{text(3), text(17), text(1), text(19)} {
			write(t, c, b)
		}
		readFull(t, peer, slices.Concat(text(3), text(17), text(1), text(19)))
		if diff := cmp.Diff([]asked{{0, 10}, {1, 10}, {2, 10}, {3, 10}}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// What a fate says of a segment is true of its bytes, however they are cut up.
func TestFate_HoldsForASegmentThatComesByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fates := Script(Fate{Duplicate: true}, Fate{Drop: true}, Fate{End: Truncate, At: 4})
		c, peer := pipe(t, Direction{Segment: 10, Fates: fates}, Direction{})
		for _, b := range text(30) {
			write(t, c, []byte{b})
		}
		got, err := trace(peer)
		if want := "abcdefghijabcdefghijuvwx"; contents(got) != want || !isEnd(err) {
			t.Errorf("arrived: %q and %v, want %q", contents(got), err, want)
		}
	})
}

func TestFate_GapsAreCountedFromTheFirstByteOfTheSegment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := pipe(t, Direction{Segment: 9, Fates: Script(Fate{Split: 3, Gap: time.Second})}, Direction{})
		var reading sync.WaitGroup
		reading.Go(func() {
			got, _ := trace(peer)
			want := []arrival{{0, "abc"}, {time.Second, "de"}, {1500 * time.Millisecond, "f"}, {2 * time.Second, "ghi"}}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(arrival{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
		write(t, c, []byte("abcde"))
		time.Sleep(1500 * time.Millisecond)
		write(t, c, []byte("fghi"))
		_ = c.Close()
		reading.Wait()
	})
}

func TestHalfClose_LetsTheOtherDirectionLive(t *testing.T) {
	ends := Direction{Segment: 10, Fates: Script(Fate{End: HalfClose, At: 4})}
	t.Run("out", func(t *testing.T) {
		c, peer := tcp(t, ends, Direction{})
		write(t, c, text(10))
		got, err := trace(peer)
		if contents(got) != "abcd" || !errors.Is(err, io.EOF) {
			t.Errorf("the peer read %q and %v", contents(got), err)
		}
		write(t, c, text(10)) // vanishes
		write(t, peer, []byte("still here"))
		readFull(t, c, []byte("still here"))
	})
	t.Run("in", func(t *testing.T) {
		c, peer := tcp(t, Direction{}, ends)
		write(t, peer, text(10))
		got, err := trace(c)
		if contents(got) != "abcd" || !errors.Is(err, io.EOF) {
			t.Errorf("read %q and %v", contents(got), err)
		}
		write(t, peer, text(10)) // vanishes
		write(t, c, []byte("still here"))
		readFull(t, peer, []byte("still here"))
		if n, err := c.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
			t.Errorf("read %d bytes and %v behind the end", n, err)
		}
	})
}

// How a connection that a fate ended is for both who hold it. What came before
// the end can be read, whoever is first.
func TestEnd_OfBothDirections(t *testing.T) {
	tests := []struct {
		end             End
		read, write     error
		peerSeesItReset bool
	}{
		{Truncate, io.EOF, syscall.EPIPE, false},
		{Reset, syscall.ECONNRESET, syscall.ECONNRESET, true},
	}
	for _, tt := range tests {
		ends := Direction{Segment: 10, Fates: Script(Fate{End: tt.end, At: 4})}
		check := func(t *testing.T, c *Conn, peer net.Conn, arrives string) {
			t.Helper()
			for range 2 { // it stays so
				got, err := trace(c)
				if contents(got) != arrives || !errors.Is(err, tt.read) {
					t.Errorf("read %q and %v, want %q", contents(got), err, arrives)
				}
				arrives = ""
				if _, err := c.Write(text(1)); !errors.Is(err, tt.write) {
					t.Errorf("writing: %v", err)
				}
			}
			if _, err := trace(peer); errors.Is(err, syscall.ECONNRESET) != tt.peerSeesItReset {
				t.Errorf("the peer's reading: %v", err)
			}
		}
		t.Run("out", func(t *testing.T) {
			c, peer := tcp(t, ends, Direction{})
			write(t, c, text(10))
			check(t, c, peer, "")
		})
		t.Run("in", func(t *testing.T) {
			c, peer := tcp(t, Direction{}, ends)
			write(t, peer, text(10))
			check(t, c, peer, "abcd")
		})
	}
}

func TestReset_OnTheWayOutLetsNothingMoreArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := Fate{Delay: time.Minute}
		c, peer := pipe(t, Direction{Fates: Script(Fate{Delay: time.Second, End: Reset})}, Direction{Fates: Script(Fate{}, late)})
		write(t, peer, []byte("early"))
		write(t, peer, []byte("late"))
		write(t, c, text(1))
		begin := time.Now()
		got, err := trace(c)
		if contents(got) != "early" || !errors.Is(err, syscall.ECONNRESET) || time.Since(begin) != time.Second {
			t.Errorf("read %q and %v after %v", contents(got), err, time.Since(begin))
		}
	})
}

func TestReset_TakesEffectWhenItsBytesAreDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := pipe(t, Direction{}, Direction{Fates: Script(Fate{Delay: time.Minute, End: Reset, At: 2})})
		write(t, peer, text(10))
		time.Sleep(time.Minute - 1)
		write(t, c, text(1))
		readFull(t, peer, text(1))
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n, err := c.Write(text(1)); n > 0 || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("wrote %d bytes and %v", n, err)
		}
		if _, err := trace(peer); !isEnd(err) {
			t.Errorf("the peer's reading: %v", err)
		}
	})
}

func TestEnd_OnTheWayInComesBehindWhatIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fates := Script(Fate{Delay: time.Minute}, Fate{End: Truncate})
		c, peer := pipe(t, Direction{}, Direction{Fates: fates})
		write(t, peer, []byte("late"))
		write(t, peer, []byte("lost"))
		synctest.Wait()
		write(t, c, []byte("open"))
		readFull(t, peer, []byte("open"))
		got, err := trace(c)
		if len(got) != 1 || got[0] != (arrival{time.Minute, "late"}) || !errors.Is(err, io.EOF) {
			t.Errorf("read %v and %v", got, err)
		}
	})
}

// Whether a write sees an end is a question of the time, not of which goroutine
// is faster at that moment.
func TestEnd_OnTheWayInIsSeenAtTheMomentItIsDue(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			c, peer := pipe(t, Direction{}, Direction{Fates: Script(Fate{Delay: time.Minute, End: Truncate})})
			write(t, peer, text(1))
			time.Sleep(time.Minute)
			if _, err := c.Write(text(1)); !errors.Is(err, syscall.EPIPE) {
				t.Fatalf("writing: %v", err)
			}
		})
	}
}
