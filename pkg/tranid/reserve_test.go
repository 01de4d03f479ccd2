package tranid_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/tranid"
)

func TestReserve_IsFilledInTheBackgroundAndNotAheadOfTheFloor(t *testing.T) {
	atDesk(t, 1000, func(d *desk) {
		d.pay()
		pass(10 * time.Second)
		slices := d.shelf.blocks(true)
		if len(slices) != reserve/reserveSlice {
			t.Errorf("%d slices", len(slices))
		}
		for _, s := range slices {
			if s.lead > reserveSlice+1000 {
				t.Errorf("from %d: %d above the floor", s.First, s.lead)
			}
		}
	})
}

func TestReserve_IsForInquiriesWhenThereIsNoDatabase(t *testing.T) {
	atDesk(t, 1000, func(d *desk) {
		d.pay()
		pass(10 * time.Second)
		d.shelf.down()
		for range 999 {
			d.pay()
		}
		for range 3 {
			if id, _, err := d.Next(d.Context()); !errors.Is(err, errDown) {
				t.Fatalf("%s for a payment, error %v", id, err)
			}
		}
		begin := time.Now()
		if n := d.drain(); n != reserve {
			t.Errorf("%d IDs of the reserve", n)
		}
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("waited for %s", waited)
		}
		if _, _, err := d.NextReserved(d.Context()); !errors.Is(err, errDown) {
			t.Errorf("error %v", err)
		}
	})
}

func TestReserve_IsNotTouchedWhileTheDatabaseAnswers(t *testing.T) {
	atDesk(t, 10, func(d *desk) {
		d.Warm()
		pass(10 * time.Second)
		d.shelf.trip = patience / 2
		held := map[int64]bool{}
		for _, s := range d.shelf.blocks(true) {
			for n := range s.Count {
				held[s.First+n] = true
			}
		}
		for range 500 {
			if id := d.inquire(); held[number(id)] {
				t.Fatalf("%s is of the reserve", id)
			}
		}
	})
}

// number is the last nine digits.
func number(id tranid.ID) int64 {
	var n int64
	for _, digit := range id[tranid.Length-9:] {
		n = n*10 + int64(digit-'0')
	}
	return n
}

func TestReserve_OneInquiryWaitsForADatabaseThatStalls(t *testing.T) {
	atDesk(t, 1000, func(d *desk) {
		d.Warm()
		pass(10 * time.Second)
		release := make(chan struct{})
		d.shelf.set(func(s *shelf) { s.stall = release })
		for range 500 {
			d.inquire()
		}
		time.Sleep(time.Second) // the take ahead hangs
		for range 500 {
			d.inquire()
		}
		begin := time.Now()
		d.inquire()
		if waited := time.Since(begin); waited > patience {
			t.Errorf("the first waited for %s", waited)
		}
		begin = time.Now()
		for range 5000 { // 50 s of inquiries
			d.inquire()
			time.Sleep(10 * time.Millisecond)
		}
		if waited := time.Since(begin) - 5000*10*time.Millisecond; waited != 0 {
			t.Errorf("those after it waited for %s", waited)
		}
		close(release)
	})
}

func TestReserve_FirstInquiryOfAllWaitsForTheDatabase(t *testing.T) {
	atDesk(t, 1000, func(d *desk) {
		d.shelf.trip = time.Second
		d.inquire()
		ctx, cancel := context.WithTimeout(d.Context(), time.Millisecond)
		defer cancel()
		time.Sleep(time.Millisecond)
		if _, _, err := d.NextReserved(ctx); err != nil {
			t.Errorf("what is held needs no time: %v", err)
		}
	})
}

func TestReserve_EndOfTheContextIsToldWhenThereIsNoReserve(t *testing.T) {
	atDesk(t, 1000, func(d *desk) {
		d.shelf.trip = time.Second
		ctx, cancel := context.WithTimeout(d.Context(), 2*patience)
		defer cancel()
		if _, _, err := d.NextReserved(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
}

func TestReserve_PaymentsGoOnFirstWhenTheDatabaseIsBackAndTheReserveIsFilledAgain(t *testing.T) {
	atDesk(t, 1000, func(d *desk) {
		d.Warm()
		pass(10 * time.Second)
		d.shelf.down()
		for range 1000 + 30_000 {
			d.inquire()
		}
		pass(20 * time.Second)
		d.shelf.up()
		begin, slices := time.Now(), len(d.shelf.blocks(true))
		d.pay()
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("a payment waited for %s", waited)
		}
		pass(10 * time.Second)
		if got := len(d.shelf.blocks(true)) - slices; got != 3 {
			t.Errorf("%d slices were taken again", got)
		}
		d.shelf.down()
		if n := d.drain(); n != 999+reserve {
			t.Errorf("%d IDs are held", n)
		}
	})
}

func TestReserve_InquiriesDoNotHammerADatabaseThatIsDown(t *testing.T) {
	atDesk(t, 1000, func(d *desk) {
		d.Warm()
		pass(10 * time.Second)
		d.shelf.down()
		before := d.shelf.asked
		for range 20_000 { // over 20 s
			d.inquire()
			time.Sleep(time.Millisecond)
		}
		if asked := d.shelf.asked - before; asked < 3 || asked > 12 {
			t.Errorf("asked %d times", asked)
		}
	})
}

func TestReserve_BothAreThereForTheNewDay(t *testing.T) {
	atDesk(t, 1000, func(d *desk) {
		midnight := tranid.DateOf(noon).Start().Add(24 * time.Hour)
		d.set(midnight.Add(-10 * time.Minute))
		d.pay()
		pass(9*time.Minute + 30*time.Second)
		d.shelf.down()
		pass(time.Minute)
		if at := d.now(); !at.After(midnight) {
			t.Fatal("it is not tomorrow")
		}
		for range 1000 {
			d.pay()
		}
		if n := d.drain(); n != reserve {
			t.Errorf("%d IDs of the reserve", n)
		}
	})
}
