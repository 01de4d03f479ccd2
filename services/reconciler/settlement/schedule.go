package settlement

import (
	"context"
	"errors"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

const (
	// upkeepEvery is how often lost runs, the schedule and the gauges are looked
	// at.
	upkeepEvery = 15 * time.Second
	// upkeepTime bounds one call of the ledger for that.
	upkeepTime = 10 * time.Second
	// againAfter is how long after a daily run that FAILED the next one begins,
	// until the day is over.
	againAfter = 10 * time.Minute
)

// schedule is when the daily run begins; the zero schedule is never.
type schedule struct {
	set bool
	// after is the time since midnight in Seoul.
	after time.Duration
}

// parseSchedule reads HH:MM; empty is never.
func parseSchedule(text string) (schedule, error) {
	if text == "" {
		return schedule{}, nil
	}
	at, err := time.Parse("15:04", text)
	if err != nil || len(text) != len("15:04") {
		return schedule{}, errors.New("--settlement-at must be HH:MM, 00:00 to 23:59")
	}
	return schedule{set: true, after: time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute}, nil
}

// due is the day that is to be settled by now: yesterday, once the hour has come.
func (s schedule) due(now time.Time) (tranid.Date, bool) {
	today := tranid.DateOf(now).Start()
	if !s.set || now.Before(today.Add(s.after)) {
		return tranid.Date{}, false
	}
	return tranid.DateOf(today.Add(-time.Hour)), true
}

// upkeep fails what is lost, begins the daily run and sets the gauges, at once and
// then now and again.
func (s *Service) upkeep(ctx context.Context) {
	ticker := time.NewTicker(upkeepEvery)
	defer ticker.Stop()
	var done tranid.Date // the last day that needs no daily run any more
	for ctx.Err() == nil {
		err := guarded(func() error {
			s.failLost(ctx)
			if day, isDue := s.at.due(s.opts.Now()); isDue && day != done && s.daily(ctx, day) {
				done = day
			}
			s.count(ctx)
			return nil
		})
		if err != nil {
			s.log.ErrorContext(ctx, "upkeep of settlement failed", "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

func (s *Service) failLost(ctx context.Context) {
	limited, stop := context.WithTimeout(ctx, upkeepTime)
	defer stop()
	lost, err := s.store.FailLostSettlements(limited)
	switch {
	case err != nil && ctx.Err() == nil:
		s.log.WarnContext(ctx, "lost settlement runs not looked for", "error", err)
	case lost > 0:
		s.log.WarnContext(ctx, "lost settlement runs failed", "count", lost)
	}
}

// daily begins the daily run of a day, and reports whether it is done.
func (s *Service) daily(ctx context.Context, day tranid.Date) bool {
	limited, stop := context.WithTimeout(ctx, upkeepTime)
	defer stop()
	run, begun, err := s.start(limited, ledger.SettlementStart{Day: day, Scheduled: true, Again: againAfter})
	switch {
	case errors.Is(err, ledger.ErrDayRetired):
		return true
	case err != nil:
		if ctx.Err() == nil {
			s.log.WarnContext(ctx, "daily settlement not begun", "business_date", day.String(), "error", err)
		}
		return false
	default:
		return !begun && run.Scheduled && run.State == ledger.RunSucceeded
	}
}

// count sets the gauges.
func (s *Service) count(ctx context.Context) {
	limited, stop := context.WithTimeout(ctx, upkeepTime)
	defer stop()
	counts, err := s.store.CountDiscrepancies(limited)
	switch {
	case err == nil:
		s.metrics.counted(counts)
	case ctx.Err() == nil:
		s.log.WarnContext(ctx, "discrepancies not counted", "error", err)
	}
}
