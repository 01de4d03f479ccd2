package settlement

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

func at(text string) func(o *Options) {
	return func(o *Options) { o.Flags.SettlementAt = text }
}

func (b *books) runs(t *testing.T) []ledger.SettlementRun {
	t.Helper()
	page, err := b.store.ListSettlements(t.Context(), ledger.SettlementFilter{Limit: ledger.MaxPage})
	must(t, err)
	return page.Runs
}

// sleepUntil sleeps until a time of the day in Seoul, the next day at the latest.
func sleepUntil(hour, minute int) {
	start := tranid.DateOf(time.Now()).Start()
	until := start.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
	if !until.After(time.Now()) {
		until = until.Add(24 * time.Hour)
	}
	time.Sleep(time.Until(until))
}

func TestSchedule_SettlesYesterdayOnceADayOverAllInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks(nil, at("00:30"))
		sleepUntil(0, 10)
		for range 3 {
			defer running(t, b.instance("another", prometheus.NewRegistry(), at("00:30")))()
		}
		defer running(t, b.Service)()
		for days := range 3 {
			sleepUntil(0, 29)
			if runs := b.runs(t); len(runs) != days {
				t.Fatalf("%d runs before the hour of day %d", len(runs), days)
			}
			yesterday := tranid.DateOf(time.Now().Add(-24 * time.Hour))
			time.Sleep(2 * time.Minute)
			runs := b.runs(t)
			if len(runs) != days+1 {
				t.Fatalf("%d runs after the hour of day %d", len(runs), days)
			}
			if r := runs[0]; r.Day != yesterday || !r.Scheduled || r.State != ledger.RunSucceeded {
				t.Errorf("run %+v, want of %s", r, yesterday)
			}
		}
	})
}

func TestSchedule_RunsAfterARestartPastTheHourUnlessItHasRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks(nil, at("00:30"))
		sleepUntil(13, 0)
		for range 3 {
			s := b.instance("reconciler", prometheus.NewRegistry(), at("00:30"))
			stop := running(t, s)
			time.Sleep(time.Minute)
			stop()
		}
		if runs := b.runs(t); len(runs) != 1 || !runs[0].Scheduled {
			t.Errorf("runs %+v", runs)
		}
	})
}

func TestSchedule_IsOffByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks(nil)
		defer running(t, b.Service)()
		time.Sleep(72 * time.Hour)
		if runs := b.runs(t); len(runs) != 0 {
			t.Errorf("runs %+v", runs)
		}
	})
}

// A run that was asked for is not the daily one, and one that failed is done
// again, not at once.
func TestSchedule_FailedRunIsDoneAgainLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks(nil, at("00:30"))
		b.core.spoil = func(_, _ int, records []Record) ([]Record, error) {
			if time.Now().Before(tranid.DateOf(time.Now()).Start().Add(time.Hour)) {
				return nil, errTest
			}
			return records, nil
		}
		sleepUntil(0, 10)
		defer running(t, b.Service)()
		sleepUntil(5, 0)
		runs := b.runs(t)
		// 00:30 and three more, each ten minutes after the end of the one before.
		if len(runs) < 3 || len(runs) > 4 || runs[0].State != ledger.RunSucceeded || runs[1].State != ledger.RunFailed {
			t.Fatalf("%d runs: %+v", len(runs), runs)
		}
		for i := range runs[:len(runs)-1] {
			if gap := runs[i].StartedAt.Sub(runs[i+1].FinishedAt); gap < againAfter || gap > againAfter+upkeepEvery {
				t.Errorf("run %d began %s after the one before", i, gap)
			}
		}
	})
}

func TestSchedule_DueIsYesterdayOnceTheHourHasCome(t *testing.T) {
	s, err := parseSchedule("06:30")
	must(t, err)
	for _, tc := range []struct {
		now, want string
	}{
		{"2026-07-24T21:29:59Z", ""},           // 06:29:59 of the 25th in Seoul
		{"2026-07-24T21:30:00Z", "2026-07-24"}, // 06:30
		{"2026-07-25T14:59:59Z", "2026-07-24"}, // 23:59:59
		{"2026-07-25T15:00:00Z", ""},           // 00:00 of the 26th
		{"2026-07-25T21:30:00Z", "2026-07-25"},
		{"2025-12-31T22:00:00Z", "2025-12-31"}, // 07:00 of New Year's Day
	} {
		now, err := time.Parse(time.RFC3339, tc.now)
		must(t, err)
		day, isDue := s.due(now)
		if got := day.String(); isDue != (tc.want != "") || isDue && got != tc.want {
			t.Errorf("%s: due %t, %s, want %q", tc.now, isDue, got, tc.want)
		}
	}
}

func TestFlags_HourThatIsNoneIsRefused(t *testing.T) {
	for _, text := range []string{"24:00", "12:60", "7:00", "07:0", "0700", "07:00:00", "noon", " 07:00", "-1:00"} {
		f := Flags{SettlementAt: text}
		if f.Validate() == nil {
			t.Errorf("%q is taken", text)
		}
	}
	for _, text := range []string{"", "00:00", "00:30", "23:59"} {
		f := Flags{SettlementAt: text}
		if err := f.Validate(); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}
