package tranid_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"
	_ "time/tzdata" // the zones below, wherever the tests run

	"github.com/gwanmun/gwanmun/pkg/tranid"
)

func TestMidnight_InSeoulTurnsTheDay(t *testing.T) {
	atDesk(t, 100, func(d *desk) {
		d.set(time.Date(2026, 7, 25, 14, 59, 59, 999_000_000, time.UTC))
		before := d.pay()
		pass(time.Millisecond)
		after, later := d.pay(), d.pay()
		if before != "GWMNU20260725863999990" || after != "GWMNU20260726000000000" || later != "GWMNU20260726000000001" {
			t.Errorf("%s, then %s and %s", before, after, later)
		}
	})
}

// A process of its own for each, since a time zone is read once.
func TestMidnight_IsSeoulsWhateverTheZoneOfTheProcess(t *testing.T) {
	for zone, offset := range map[string]string{"UTC": "+0000", "America/New_York": "-0400", "Asia/Seoul": "+0900"} {
		if os.Getenv("GWANMUN_TEST_OFFSET") != "" {
			if got := noon.Local().Format("-0700"); got != os.Getenv("GWANMUN_TEST_OFFSET") {
				t.Errorf("the zone is %s", got)
			}
			return
		}
		cmd := exec.Command(os.Args[0], "-test.run", "^TestMidnight_I|^TestDate|^TestNew")
		cmd.Env = append(os.Environ(), "TZ="+zone, "GWANMUN_TEST_OFFSET="+offset)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", zone, err, out)
		}
	}
}

func TestMidnight_TomorrowsBlockIsTakenInTheLastMinuteByAnIdleProcessToo(t *testing.T) {
	atDesk(t, 100, func(d *desk) {
		tomorrow := tranid.DateOf(noon.Add(24 * time.Hour))
		of := func(given []taken) (n int) {
			for _, b := range given {
				if b.Day == tomorrow {
					n++
				}
			}
			return n
		}
		d.pay()
		pass(tomorrow.Start().Sub(d.now()) - time.Minute - time.Millisecond)
		if n := of(d.shelf.blocks(false)); n != 0 {
			t.Errorf("%d blocks before the last minute", n)
		}
		pass(10 * time.Second)
		if n, m := of(d.shelf.blocks(false)), of(d.shelf.blocks(true)); n != 1 || m != reserve/reserveSlice {
			t.Errorf("%d blocks and %d slices in the last minute", n, m)
		}
		d.shelf.set(func(s *shelf) { s.trip = time.Second })
		pass(time.Minute)
		begin := time.Now()
		if id := d.pay(); id.Date() != tomorrow || time.Since(begin) != 0 {
			t.Errorf("%s after %s", id, time.Since(begin))
		}
	})
}

func TestMidnight_ProcessThatNobodyUsesTakesNoMoreDayAfterDay(t *testing.T) {
	atDesk(t, 100, func(d *desk) {
		d.pay()
		pass(36 * time.Hour)
		before := d.shelf.asked
		pass(30 * 24 * time.Hour)
		if asked := d.shelf.asked - before; asked != 0 {
			t.Errorf("asked %d times", asked)
		}
		d.pay()
		pass(10 * time.Second)
		d.shelf.down()
		if n := d.drain(); n != 99+reserve {
			t.Errorf("%d IDs are held", n)
		}
	})
}

func TestMidnight_ClockThatStepsBackRepeatsNothing(t *testing.T) {
	atDesk(t, 3, func(d *desk) {
		midnight := tranid.DateOf(noon).Start().Add(24 * time.Hour)
		d.set(midnight.Add(-2 * time.Second))
		for range 20 {
			for _, step := range []time.Duration{3 * time.Second, -3 * time.Second, time.Millisecond, -time.Millisecond} {
				d.pay()
				d.inquire()
				d.step(step)
			}
		}
		for _, step := range []time.Duration{
			0, -time.Hour, time.Hour, -24 * time.Hour, 24 * time.Hour, -time.Millisecond, -48 * time.Hour, 48 * time.Hour,
			-240 * time.Hour, 480 * time.Hour, -240 * time.Hour,
		} {
			d.step(step)
			for range 50 {
				d.pay()
			}
			pass(10 * time.Second)
		}
	})
}

func TestMidnight_ClockThatStepsBackFindsYesterdaysNumbersWithoutADatabase(t *testing.T) {
	atDesk(t, 100, func(d *desk) {
		d.set(tranid.DateOf(noon).Start().Add(24*time.Hour - time.Second))
		yesterday := d.pay().Date()
		pass(2 * time.Second)
		today := d.pay().Date()
		d.shelf.down()
		d.step(-3 * time.Second)
		if id := d.pay(); id.Date() != yesterday || today == yesterday {
			t.Errorf("%s, %s, then %s", yesterday, today, id)
		}
	})
}

func TestClose_EndsATakeThatHangs(t *testing.T) {
	atDesk(t, 100, func(d *desk) {
		release := make(chan struct{})
		d.shelf.stall = release
		failed := make(chan error, 1)
		go func() {
			_, _, err := d.Next(context.Background())
			failed <- err
		}()
		pass(time.Second)
		begin := time.Now()
		if err := d.Close(d.Context()); err != nil || time.Since(begin) != 0 {
			t.Errorf("closed after %s: %v", time.Since(begin), err)
		}
		if err := <-failed; err == nil {
			t.Error("who waited got an ID")
		}
		close(release)
	})
}

func TestClose_WhatIsHeldMayBeUsedAndNothingIsTakenAnyMore(t *testing.T) {
	atDesk(t, 100, func(d *desk) {
		d.pay()
		pass(10 * time.Second)
		for range 2 { // the second is harmless
			if err := d.Close(d.Context()); err != nil {
				t.Error(err)
			}
		}
		asked := d.shelf.asked
		for range 99 {
			d.pay()
		}
		if _, _, err := d.Next(d.Context()); !errors.Is(err, tranid.ErrClosed) {
			t.Errorf("error %v", err)
		}
		if n := d.drain(); n != reserve {
			t.Errorf("%d IDs of the reserve", n)
		}
		pass(48 * time.Hour)
		if d.shelf.asked != asked {
			t.Error("more was taken")
		}
	})
}

func TestClose_SaysThatATakeDidNotEnd(t *testing.T) {
	atDesk(t, 100, func(d *desk) {
		d.shelf.trip = time.Hour // and heeds no context
		go func() { _, _, _ = d.Next(context.Background()) }()
		pass(time.Second)
		ctx, cancel := context.WithTimeout(d.Context(), time.Second)
		defer cancel()
		if err := d.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		pass(time.Hour)
	})
}
