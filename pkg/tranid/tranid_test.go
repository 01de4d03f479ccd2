package tranid_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/tranid"
)

func date(t *testing.T, s string) tranid.Date {
	t.Helper()
	day, err := tranid.ParseDate(s)
	if err != nil {
		t.Fatal(err)
	}
	return day
}

func TestNew_IsPrefixDayAndNineDigits(t *testing.T) {
	day := date(t, "2026-07-25")
	for number, want := range map[int64]tranid.ID{
		0:                "GWMNU20260725000000000",
		7:                "GWMNU20260725000000007",
		tranid.MaxNumber: "GWMNU20260725999999999",
	} {
		id := tranid.New(day, number)
		if id != want || len(id) != tranid.Length {
			t.Errorf("%d: %s, want %s", number, id, want)
		}
		if parsed, err := tranid.Parse(string(id)); parsed != id || err != nil {
			t.Errorf("%s is read as %s, error %v", id, parsed, err)
		}
		if id.Date() != day {
			t.Errorf("%s is of %s", id, id.Date())
		}
	}
}

func TestNew_PanicsOutOfRange(t *testing.T) {
	for _, number := range []int64{-1, tranid.MaxNumber + 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d made an ID", number)
				}
			}()
			tranid.New(date(t, "2026-07-25"), number)
		}()
	}
}

func TestParse_RefusesWhatIsNoID(t *testing.T) {
	for _, s := range []string{
		"", "GWMNU", "GWMNU2026072500000000", "GWMNU202607250000000000", "gwmnu20260725000000000", "GWMNX20260725000000000",
		"GWMNU20260230000000000", "GWMNU20261301000000000", "GWMNU20260700000000000", "GWMNU19991231000000000",
		"GWMNU2026072500000000X", "GWMNU20260725-00000001", "GWMNU20260725 00000001", "GWMNU2026072500000000\x00",
		"GWMNU２026072500000000", "%%%%%%%%%%%%%%%%%%%%%%", "XXXXX20260725abcdefghi",
	} {
		id, err := tranid.Parse(s)
		if !errors.Is(err, tranid.ErrID) || id != "" {
			t.Errorf("%q is read as %q, error %v", s, id, err)
		}
		if day := tranid.ID(s).Date(); !day.IsZero() {
			t.Errorf("%q is of %s", s, day)
		}
	}
}

func TestParseDate_KnowsTheCalendar(t *testing.T) {
	for s, want := range map[string]string{
		"20260725": "2026-07-25", "2026-07-25": "2026-07-25", "20240229": "2024-02-29", "20000101": "2000-01-01",
		"99991231": "9999-12-31",
	} {
		if got := date(t, s).String(); got != want {
			t.Errorf("%s: %s, want %s", s, got, want)
		}
	}
	for _, s := range []string{"", "20250229", "20260431", "19991231", "2026-7-25", "26-07-2025", "2026/07/25", "20260725 ", "0000-00-00"} {
		if day, err := tranid.ParseDate(s); err == nil || !day.IsZero() {
			t.Errorf("%q: %s, error %v", s, day, err)
		}
	}
}

func TestDateOf_TurnsAtMidnightInSeoul(t *testing.T) {
	for at, want := range map[string]string{
		"2026-07-25T14:59:59.999999999Z": "2026-07-25",
		"2026-07-25T15:00:00Z":           "2026-07-26",
		"2026-12-31T15:00:00Z":           "2027-01-01",
		"2026-07-26T00:00:00+09:00":      "2026-07-26",
		"2026-07-25T11:00:00-04:00":      "2026-07-26",
	} {
		moment, err := time.Parse(time.RFC3339Nano, at)
		if err != nil {
			t.Fatal(err)
		}
		day := tranid.DateOf(moment)
		if day.String() != want {
			t.Errorf("%s: %s, want %s", at, day, want)
		}
		if start := day.Start(); moment.Before(start) || !moment.Before(start.Add(24*time.Hour)) {
			t.Errorf("%s is not within the day that starts at %s", at, start)
		}
	}
}

func TestTakeBlock(t *testing.T) {
	day := date(t, "2026-07-25")
	for what, c := range map[string]struct {
		next, count, floor int64
		first, got         int64
		err                error
	}{
		"of a new day":       {0, 10, 0, 0, 10, nil},
		"after the last":     {50, 10, 20, 50, 10, nil},
		"from the floor":     {50, 10, 70, 70, 10, nil},
		"to the very end":    {0, 10, tranid.MaxNumber - 9, tranid.MaxNumber - 9, 10, nil},
		"shorter at the end": {tranid.MaxNumber, 10, 0, tranid.MaxNumber, 1, nil},
		"after the end":      {tranid.MaxNumber + 1, 10, 0, 0, 0, tranid.ErrDayExhausted},
		"above the end":      {0, 10, tranid.MaxNumber + 1, 0, 0, tranid.ErrDayExhausted},
	} {
		block, err := tranid.TakeBlock(day, c.next, c.count, c.floor)
		if !errors.Is(err, c.err) || block.First != c.first || block.Count != c.got {
			t.Errorf("%s: %+v, error %v", what, block, err)
		}
	}
	for what, call := range map[string]func() (tranid.Block, error){
		"no day":         func() (tranid.Block, error) { return tranid.TakeBlock(tranid.Date{}, 0, 1, 0) },
		"no numbers":     func() (tranid.Block, error) { return tranid.TakeBlock(day, 0, 0, 0) },
		"below 0":        func() (tranid.Block, error) { return tranid.TakeBlock(day, 0, 1, -1) },
		"next is absurd": func() (tranid.Block, error) { return tranid.TakeBlock(day, -1, 1, 0) },
	} {
		if block, err := call(); err == nil || errors.Is(err, tranid.ErrDayExhausted) {
			t.Errorf("%s: %+v, error %v", what, block, err)
		}
	}
}

// Every text of a year's months and days, those that are none too, is judged as
// package time judges it.
func TestParseDate_AgreesWithTheCalendarOfTheStandardLibrary(t *testing.T) {
	for _, year := range []int{0, 1999, 2000, 2024, 2025, 2100, 9999} {
		for month := range 15 {
			for day := range 34 {
				for text, layout := range map[string]string{
					fmt.Sprintf("%04d%02d%02d", year, month, day):   "20060102",
					fmt.Sprintf("%04d-%02d-%02d", year, month, day): time.DateOnly,
				} {
					want, errWant := time.Parse(layout, text)
					if want.Year() < 2000 {
						errWant = errors.New("too early")
					}
					got, err := tranid.ParseDate(text)
					if (err == nil) != (errWant == nil) || err == nil && got.String() != want.Format(time.DateOnly) {
						t.Errorf("%s: %s, error %v, want %s, error %v", text, got, err, want, errWant)
					}
				}
			}
		}
	}
}
