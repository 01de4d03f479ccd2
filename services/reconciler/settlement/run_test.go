package settlement

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

func TestRun_NotedAndClosedByALaterRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks(nil)
		defer running(t, b.Service)()
		b.pay(t, 1, "SUCCESS")      // will be found there later
		b.lists(2, ledger.CoreDone) // will be canceled there
		b.pay(t, 3, "UNKNOWN")      // will be resolved
		b.pay(t, 4, "SUCCESS")      // stays as it is
		first := b.succeeds(t)
		for _, n := range []int64{2, 3, 4} {
			_, err := b.store.NoteDiscrepancy(t.Context(), b.id(n), "asked the bank", "operator:kim")
			must(t, err)
		}
		b.lists(1, ledger.CoreDone)
		b.lists(2, ledger.CoreCanceled)
		b.move(t, b.id(3), ledger.StatusUnknown, "CANCELED")
		time.Sleep(time.Minute)
		second := b.succeeds(t)
		if second.Counts != (ledger.SettlementCounts{Match: 3, LedgerOnly: 1, Records: 2}) {
			t.Errorf("counted %+v", second.Counts)
		}
		page, err := b.store.ListDiscrepancies(t.Context(), ledger.DiscrepancyFilter{Limit: 10})
		must(t, err)
		for _, d := range page.Discrepancies {
			n := numberOf(d.ID)
			wantState, wantRun := ledger.DiscrepancyClosed, first.ID
			if n == 4 {
				wantState, wantRun = ledger.DiscrepancyNoted, second.ID
			}
			if d.State != wantState || d.Run != wantRun || (d.Note == "") != (n == 1) ||
				d.ClosedAt.IsZero() == (n != 4) || d.FoundAt.After(second.StartedAt) {
				t.Errorf("%d: %+v", n, d)
			}
		}
		if open := metric(t, b.registry, "gwanmun_settlement_discrepancies", ""); open != 0 {
			t.Errorf("the gauge has %v open", open)
		}
		b.lists(2, ledger.CoreDone) // the core changes its mind, between runs
		if run := b.succeeds(t); run.Counts.CoreOnly != 1 || b.found(t)[2].State != ledger.DiscrepancyOpen {
			t.Errorf("counted %+v, found %+v", run.Counts, b.found(t)[2])
		}
	})
}

// What neither book has any more is equal: the core struck its record out.
func TestRun_DiscrepancyThatNeitherBookHasIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks(nil)
		defer running(t, b.Service)()
		for _, n := range []int64{5, 15, 25} { // before, between and behind all others
			b.lists(n, ledger.CoreDone)
		}
		b.succeeds(t)
		b.core.mu.Lock()
		clear(b.core.records)
		b.core.mu.Unlock()
		b.pay(t, 10, "SUCCESS")
		b.lists(10, ledger.CoreDone)
		b.lists(20, ledger.CoreCanceled)
		run := b.succeeds(t)
		if run.Counts != (ledger.SettlementCounts{Match: 2, Records: 2}) || len(b.found(t)) != 0 {
			t.Errorf("counted %+v, found %v", run.Counts, b.found(t))
		}
	})
}

func TestRun_ProgressIsSeenWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks(nil)
		defer running(t, b.Service)()
		for n := range int64(20 * PageSize) {
			b.pay(t, n, "SUCCESS")
			b.lists(n, ledger.CoreDone)
		}
		b.core.turn = func(int, int) { time.Sleep(time.Second) }
		run, err := b.Start(t.Context(), b.day)
		must(t, err)
		last := ledger.SettlementCounts{}
		for range 5 {
			time.Sleep(2*beat + time.Millisecond)
			now, err := b.store.GetSettlement(t.Context(), run.ID)
			must(t, err)
			if now.State != ledger.RunRunning || now.Counts.Match <= last.Match || now.Counts.Records <= last.Records {
				t.Errorf("%s after %s: %+v", now.State, time.Since(run.StartedAt), now.Counts)
			}
			last = now.Counts
		}
		if run := b.ended(t, run.ID); run.State != ledger.RunSucceeded || run.Counts.Match != 20*PageSize {
			t.Errorf("%s: %+v", run.State, run.Counts)
		}
	})
}

func TestRun_LongerThanItsLeaseStaysAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks(nil)
		defer running(t, b.Service)()
		b.core.turn = func(int, int) { time.Sleep(5 * time.Minute) }
		// Each page takes longer than the lease; the book does not mind the limit.
		if run := b.succeeds(t); run.FinishedAt.Sub(run.StartedAt) < 5*time.Minute {
			t.Errorf("took %s", run.FinishedAt.Sub(run.StartedAt))
		}
	})
}

func TestRun_SecondOfADayIsTheLiveOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks(nil)
		other := b.instance("reconciler-2", prometheus.NewRegistry())
		defer running(t, b.Service)()
		defer running(t, other)()
		b.core.turn = func(int, int) { time.Sleep(time.Minute) }
		first, err := b.Start(t.Context(), b.day)
		must(t, err)
		time.Sleep(2 * upkeepEvery)
		for _, s := range []*Service{b.Service, other} {
			second, err := s.Start(t.Context(), b.day)
			must(t, err)
			if second.ID != first.ID || second.State != ledger.RunRunning {
				t.Errorf("a second run: %+v", second)
			}
		}
		b.ended(t, first.ID)
		third, err := other.Start(t.Context(), b.day)
		must(t, err)
		if third.ID == first.ID || third.Instance != "reconciler-2" {
			t.Errorf("a third run: %+v", third)
		}
		b.ended(t, third.ID)
	})
}

func TestRun_StopEndsItAndARestartRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks(nil)
		stop := running(t, b.Service)
		b.pay(t, 1, "SUCCESS")
		b.lists(1, ledger.CoreDone)
		b.core.turn = func(int, int) { time.Sleep(time.Second) }
		run, err := b.Start(t.Context(), b.day)
		must(t, err)
		time.Sleep(500 * time.Millisecond)
		stop()
		stopped, err := b.store.GetSettlement(t.Context(), run.ID)
		must(t, err)
		if stopped.State != ledger.RunFailed || stopped.Error != "stopped" {
			t.Errorf("the run is %s: %q", stopped.State, stopped.Error)
		}
		if _, err := b.Start(t.Context(), b.day); !errors.Is(err, ErrStopped) {
			t.Errorf("a run after the stop: error %v", err)
		}
		page, err := b.store.ListSettlements(t.Context(), ledger.SettlementFilter{Limit: 10})
		must(t, err)
		for _, r := range page.Runs {
			if r.State == ledger.RunRunning {
				t.Errorf("left %+v", r)
			}
		}
		b.Service = b.instance("reconciler-1b", prometheus.NewRegistry())
		defer running(t, b.Service)()
		if run := b.succeeds(t); run.Counts.Match != 1 {
			t.Errorf("counted %+v", run.Counts)
		}
	})
}

// cutStore is a ledger that a process can be cut off from.
type cutStore struct {
	ledger.Store
	mu  sync.Mutex
	cut bool
}

func (s *cutStore) cutOff(cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = cut
}

func (s *cutStore) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut {
		return ledger.ErrUnavailable
	}
	return nil
}

func (s *cutStore) SaveSettlement(ctx context.Context, p ledger.SettlementProgress) ([]tranid.ID, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.SaveSettlement(ctx, p)
}

func (s *cutStore) EndSettlement(ctx context.Context, e ledger.SettlementEnd) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.Store.EndSettlement(ctx, e)
}

func (s *cutStore) DayRows(ctx context.Context, day tranid.Date, after tranid.ID, limit int) ([]ledger.DayRow, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.DayRows(ctx, day, after, limit)
}

// A process that dies in the middle leaves a run that another ends and does again;
// should the dead one come back, it can store nothing more.
func TestRun_OfADeadInstanceIsFailedByAnotherAndRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks(nil)
		store := b.store
		dying := &cutStore{Store: store}
		b.store = dying
		book := &paperBook{turn: func(int, int) { time.Sleep(10 * time.Minute) }}
		dead := b.instance("reconciler-dead", prometheus.NewRegistry(), func(o *Options) { o.Book = book })
		b.store = store
		defer running(t, dead)()
		defer running(t, b.Service)()
		b.pay(t, 1, "SUCCESS")
		b.lists(1, ledger.CoreDone)

		run, err := dead.Start(t.Context(), b.day)
		must(t, err)
		time.Sleep(time.Second)
		dying.cutOff(true)
		time.Sleep(lease / 2)
		if live, err := b.Start(t.Context(), b.day); err != nil || live.ID != run.ID {
			t.Errorf("before the lease is over: run %+v, error %v", live, err)
		}
		time.Sleep(lease/2 + upkeepEvery + time.Second)
		lost, err := store.GetSettlement(t.Context(), run.ID)
		must(t, err)
		if lost.State != ledger.RunFailed || lost.Error != ledger.LostRun {
			t.Errorf("the run of the dead is %s: %q", lost.State, lost.Error)
		}
		if run := b.succeeds(t); run.Counts.Match != 1 || run.Instance != "reconciler-1" {
			t.Errorf("run again: %+v", run)
		}
		dying.cutOff(false)
		time.Sleep(time.Hour) // an empty book: it would find 1 here alone
		if after, err := store.GetSettlement(t.Context(), run.ID); err != nil || after != lost || len(b.found(t)) != 0 {
			t.Errorf("the dead came back: %+v, found %v, error %v", after, b.found(t), err)
		}
	})
}

func TestRun_LedgerThatIsAwayForAMomentEndsNoRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := &cutStore{Store: memstore.New(time.Now)}
		b := newBooks(away)
		defer running(t, b.Service)()
		b.pay(t, 1, "SUCCESS")
		away.cutOff(true)
		time.AfterFunc(time.Second, func() { away.cutOff(false) })
		if run := b.succeeds(t); run.Counts.LedgerOnly != 1 {
			t.Errorf("counted %+v", run.Counts)
		}
		// For good: the run fails, and the ledger learns of it when it is back.
		run, err := b.Start(t.Context(), b.day)
		must(t, err)
		away.cutOff(true)
		time.Sleep(5 * time.Second)
		away.cutOff(false)
		if run := b.ended(t, run.ID); run.State != ledger.RunFailed {
			t.Errorf("the run is %s", run.State)
		}
	})
}

// spoiltStore has rows that hold garbage, as a database can.
type spoiltStore struct {
	ledger.Store
	bad map[tranid.ID]bool
	// later is garbage at the second look alone.
	later map[tranid.ID]bool
}

func (s *spoiltStore) DayRows(ctx context.Context, day tranid.Date, after tranid.ID, limit int) ([]ledger.DayRow, error) {
	rows, err := s.Store.DayRows(ctx, day, after, limit)
	for i := range rows {
		if s.bad[rows[i].ID] {
			rows[i] = ledger.DayRow{ID: rows[i].ID, Err: errTest}
		}
	}
	return rows, err
}

func (s *spoiltStore) Get(ctx context.Context, id tranid.ID) (ledger.Transaction, error) {
	if s.bad[id] || s.later[id] {
		return ledger.Transaction{}, errTest
	}
	return s.Store.Get(ctx, id)
}

func TestRun_GarbageIsCountedAndSteppedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spoilt := &spoiltStore{Store: memstore.New(time.Now), bad: map[tranid.ID]bool{}, later: map[tranid.ID]bool{}}
		b := newBooks(spoilt)
		defer running(t, b.Service)()
		for n := range int64(4 * maxLoggedRows) {
			b.pay(t, n, "SUCCESS")
			if n%2 == 0 {
				b.lists(n, ledger.CoreDone)
			}
			spoilt.bad[b.id(n)] = n%4 < 2    // with a record and without
			spoilt.later[b.id(n)] = n%8 == 3 // LEDGER_ONLY at the first look
		}
		b.lists(1_000_000, ledger.CoreDone)
		run := b.succeeds(t)
		want := ledger.SettlementCounts{
			Match: maxLoggedRows, LedgerOnly: maxLoggedRows / 2, CoreOnly: 1, Unreadable: 2*maxLoggedRows + maxLoggedRows/2,
			Records: 2*maxLoggedRows + 1,
		}
		if run.Counts != want {
			t.Errorf("counted %+v, want %+v", run.Counts, want)
		}
		if n := b.logs.count(slog.LevelError, "settlement stepped over a row"); n != maxLoggedRows {
			t.Errorf("%d rows are told", n)
		}
	})
}

func TestStart_AtMostSoManyAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks(nil)
		time.Sleep(10 * 24 * time.Hour)
		defer running(t, b.Service)()
		b.core.turn = func(int, int) { time.Sleep(time.Minute) }
		day := func(i int) tranid.Date { return tranid.DateOf(time.Now().Add(-time.Duration(i) * 24 * time.Hour)) }
		var first ledger.SettlementRun
		for i := range MaxRuns {
			run, err := b.Start(t.Context(), day(i))
			must(t, err)
			if i == 0 {
				first = run
			}
		}
		if _, err := b.Start(t.Context(), day(MaxRuns)); !errors.Is(err, ErrBusy) {
			t.Errorf("one more: error %v", err)
		}
		if again, err := b.Start(t.Context(), day(0)); err != nil || again.ID != first.ID {
			t.Errorf("a live one: %+v, error %v", again, err)
		}
		time.Sleep(10 * time.Minute)
		if _, err := b.Start(t.Context(), day(MaxRuns)); err != nil {
			t.Errorf("when there is room: error %v", err)
		}
	})
}

func TestStart_DayThatHasNotBegunIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks(nil)
		defer running(t, b.Service)()
		if _, err := b.Start(t.Context(), tranid.DateOf(time.Now().Add(24*time.Hour))); !errors.Is(err, ErrNotBegun) {
			t.Errorf("error %v", err)
		}
	})
}

// What a run tells of its failure holds no address, no account and no text of a
// driver.
func TestRun_ErrorTellsNoSecret(t *testing.T) {
	for _, err := range []error{
		errTest, errors.Join(errBook, errTest), errors.Join(ledger.ErrUnavailable, errTest), ledger.ErrDayRetired, &panicError{value: errTest},
	} {
		if text := reasonOf(t.Context(), err); text == "" || strings.Contains(text, errTest.Error()) {
			t.Errorf("%v: %q", err, text)
		}
	}
}
