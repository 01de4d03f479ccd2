package ledgertest

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

var settlementCases = []conformance{
	{"settlement of a day runs once at a time", runOnceAtATime},
	{"many that begin a settlement at once begin one", runRace},
	{"run that is lost is failed by who begins next", runTakenOver},
	{"lost runs are failed, and no others", runsFailedWhenLost},
	{"scheduled run that succeeded is not begun again", scheduledOnce},
	{"scheduled run that failed is begun again later", scheduledAgain},
	{"progress of a run is seen while it runs", runProgress},
	{"run that has ended stays as it is", runEnds},
	{"end of a run that no run may have is refused", runEndsRefused},
	{"runs are listed newest first, by day, page by page", runsListed},
	{"day that is retired has nothing to settle", runOfARetiredDay},
	{"rows of a day are read in order, page by page", dayRows},
	{"what is unknown of a day is read in order, page by page", dayUnknown},
	{"reading no or too many rows of a day is refused", dayLimits},
}

// start begins a run that must be new.
func (b *book) start(s ledger.SettlementStart) ledger.SettlementRun {
	b.Helper()
	if s.Day.IsZero() {
		s.Day = b.day
	}
	if s.Lease == 0 {
		s.Lease = time.Hour
	}
	s.Instance = "reconciler-1"
	run, begun, err := b.BeginSettlement(b.ctx, s)
	if err != nil || !begun {
		b.Fatalf("begin a settlement: begun %t, error %v", begun, err)
	}
	return run
}

// needless begins a run that must not be new, and returns the one that there is.
func (b *book) needless(s ledger.SettlementStart) ledger.SettlementRun {
	b.Helper()
	if s.Day.IsZero() {
		s.Day = b.day
	}
	s.Lease = time.Hour
	run, begun, err := b.BeginSettlement(b.ctx, s)
	if err != nil || begun {
		b.Fatalf("begin a settlement: begun %t, error %v", begun, err)
	}
	return run
}

func (b *book) save(p ledger.SettlementProgress) []tranid.ID {
	b.Helper()
	if p.Lease == 0 {
		p.Lease = time.Hour
	}
	opened, err := b.SaveSettlement(b.ctx, p)
	if err != nil {
		b.Fatalf("save: %v", err)
	}
	return opened
}

func (b *book) end(id ledger.RunID, state ledger.RunState, why string) {
	b.Helper()
	if err := b.EndSettlement(b.ctx, ledger.SettlementEnd{Run: id, State: state, Error: why}); err != nil {
		b.Fatalf("end: %v", err)
	}
}

func (b *book) run(id ledger.RunID) ledger.SettlementRun {
	b.Helper()
	run, err := b.GetSettlement(b.ctx, id)
	if err != nil {
		b.Fatalf("get run: %v", err)
	}
	return run
}

func runOnceAtATime(b *book) {
	run := b.start(ledger.SettlementStart{})
	b.same("a new run", ledger.SettlementRun{
		ID: run.ID, Day: b.day, State: ledger.RunRunning, Instance: "reconciler-1", StartedAt: run.StartedAt,
	}, run)
	if age := time.Since(run.StartedAt); run.ID == "" || age < -time.Minute || age > time.Minute {
		b.Errorf("run %q started %s ago", run.ID, age)
	}
	b.same("the run stored", run, b.run(run.ID))
	b.same("a second", run, b.needless(ledger.SettlementStart{}))
	b.same("a scheduled one meanwhile", run, b.needless(ledger.SettlementStart{Scheduled: true}))
	other := b.start(ledger.SettlementStart{Day: b.daysAgo(1)})
	b.same("a second of another day", other, b.needless(ledger.SettlementStart{Day: b.daysAgo(1)}))
	b.end(run.ID, ledger.RunSucceeded, "")
	if again := b.start(ledger.SettlementStart{}); again.ID == run.ID {
		b.Errorf("run %s began twice", run.ID)
	}
}

func runRace(b *book) {
	var begun atomic.Int64
	ids := make([]ledger.RunID, 8)
	together(len(ids), func(i int) {
		run, isNew, err := b.BeginSettlement(b.ctx, ledger.SettlementStart{Day: b.day, Scheduled: i%2 == 0, Lease: time.Hour})
		if err != nil {
			b.Errorf("begin: %v", err)
		}
		if isNew {
			begun.Add(1)
		}
		ids[i] = run.ID
	})
	for _, id := range ids {
		if id != ids[0] || begun.Load() != 1 {
			b.Fatalf("%d began, runs %v", begun.Load(), ids)
		}
	}
}

func runTakenOver(b *book) {
	lost := b.start(ledger.SettlementStart{Lease: -time.Second})
	next := b.start(ledger.SettlementStart{})
	after := b.run(lost.ID)
	if after.State != ledger.RunFailed || after.Error != ledger.LostRun || after.FinishedAt.IsZero() {
		b.Errorf("the lost run is %+v", after)
	}
	_, err := b.SaveSettlement(b.ctx, ledger.SettlementProgress{
		Run: lost.ID, Lease: time.Hour, Found: []ledger.Difference{b.ghost()},
	})
	b.fails("save of a lost run", err, ledger.ErrRunOver)
	b.fails("end of a lost run", b.EndSettlement(b.ctx, ledger.SettlementEnd{Run: lost.ID, State: ledger.RunSucceeded}), ledger.ErrRunOver)
	b.same("the lost run, later", after, b.run(lost.ID))
	b.same("the live run", next, b.run(next.ID))
	b.same("discrepancies", ledger.DiscrepancyPage{}, b.discrepancies(ledger.DiscrepancyFilter{}))
}

func runsFailedWhenLost(b *book) {
	fail := func(want int) {
		b.Helper()
		if n, err := b.FailLostSettlements(b.ctx); n != want || err != nil {
			b.Errorf("failed %d, want %d, error %v", n, want, err)
		}
	}
	fail(0)
	live := b.start(ledger.SettlementStart{})
	second := b.start(ledger.SettlementStart{Day: b.daysAgo(2)})
	first := b.start(ledger.SettlementStart{Day: b.daysAgo(1), Lease: -time.Second})
	b.save(ledger.SettlementProgress{Run: second.ID, Lease: -time.Second})
	fail(2)
	fail(0)
	for _, id := range []ledger.RunID{first.ID, second.ID} {
		if run := b.run(id); run.State != ledger.RunFailed || run.Error != ledger.LostRun {
			b.Errorf("the lost run is %+v", run)
		}
	}
	b.same("the live run", live, b.run(live.ID))
}

func scheduledOnce(b *book) {
	daily := ledger.SettlementStart{Scheduled: true, Again: -time.Hour}
	run := b.start(daily)
	if !run.Scheduled {
		b.Error("the run is not scheduled")
	}
	b.end(run.ID, ledger.RunSucceeded, "")
	b.same("once more", b.run(run.ID), b.needless(daily))
	asked := b.start(ledger.SettlementStart{})
	b.same("while another runs", asked, b.needless(daily))
	b.end(asked.ID, ledger.RunFailed, "x")
	b.same("after another", b.run(run.ID), b.needless(daily))
	b.start(ledger.SettlementStart{Day: b.daysAgo(1), Scheduled: true})
}

func scheduledAgain(b *book) {
	asked := b.start(ledger.SettlementStart{})
	b.end(asked.ID, ledger.RunSucceeded, "")
	run := b.start(ledger.SettlementStart{Scheduled: true}) // one that was asked for is not the daily one
	b.end(run.ID, ledger.RunFailed, "the core was away")
	b.same("too early", b.run(run.ID), b.needless(ledger.SettlementStart{Scheduled: true, Again: time.Hour}))
	b.start(ledger.SettlementStart{Scheduled: true, Again: -time.Hour})
}

func runProgress(b *book) {
	run := b.start(ledger.SettlementStart{})
	run.Counts = ledger.SettlementCounts{
		Match: 1, Mismatch: 2, LedgerOnly: 3, CoreOnly: 4, Unresolved: 5, Unreadable: 6, Records: 7,
	}
	b.save(ledger.SettlementProgress{Run: run.ID, Counts: run.Counts})
	b.same("under way", run, b.run(run.ID))
	run.Counts.Match = 1 << 40
	err := b.EndSettlement(b.ctx, ledger.SettlementEnd{Run: run.ID, State: ledger.RunFailed, Counts: run.Counts, Error: "bad\nbyte \xff"})
	if err != nil {
		b.Fatal(err)
	}
	ended := b.run(run.ID)
	run.State, run.Error, run.FinishedAt = ledger.RunFailed, "bad\uFFFDbyte \uFFFD", ended.FinishedAt
	b.same("ended", run, ended)
	if ended.FinishedAt.Before(run.StartedAt) {
		b.Errorf("finished at %s, started at %s", ended.FinishedAt, run.StartedAt)
	}
}

func runEnds(b *book) {
	for _, state := range []ledger.RunState{ledger.RunSucceeded, ledger.RunFailed} {
		run := b.start(ledger.SettlementStart{})
		b.end(run.ID, state, strings.Repeat("x", int(state-ledger.RunSucceeded)))
		ended := b.run(run.ID)
		_, err := b.SaveSettlement(b.ctx, ledger.SettlementProgress{Run: run.ID, Lease: time.Hour})
		b.fails("save", err, ledger.ErrRunOver)
		b.fails("end", b.EndSettlement(b.ctx, ledger.SettlementEnd{Run: run.ID, State: ledger.RunFailed, Error: "x"}), ledger.ErrRunOver)
		b.same("the run", ended, b.run(run.ID))
	}
	_, err := b.GetSettlement(b.ctx, "no such run")
	b.fails("get", err, ledger.ErrRunNotFound)
	_, err = b.SaveSettlement(b.ctx, ledger.SettlementProgress{Run: "no such run", Lease: time.Hour})
	b.fails("save of none", err, ledger.ErrRunOver)
}

func runEndsRefused(b *book) {
	run := b.start(ledger.SettlementStart{})
	for _, e := range []ledger.SettlementEnd{
		{State: ledger.RunRunning},
		{},
		{State: ledger.RunSucceeded, Error: "x"},
		{State: ledger.RunFailed},
		{State: 9, Error: "x"},
	} {
		e.Run = run.ID
		b.fails("end "+e.State.String(), b.EndSettlement(b.ctx, e), ledger.ErrInvalidRow)
	}
	b.same("the run", run, b.run(run.ID))
}

func runsListed(b *book) {
	var want []ledger.SettlementRun
	for i := range 5 {
		run := b.start(ledger.SettlementStart{Day: b.daysAgo(i % 2)})
		b.end(run.ID, ledger.RunSucceeded, "")
		want = append([]ledger.SettlementRun{b.run(run.ID)}, want...)
	}
	list := func(f ledger.SettlementFilter) []ledger.SettlementRun {
		b.Helper()
		var got []ledger.SettlementRun
		for pages := 1; ; pages++ {
			page, err := b.ListSettlements(b.ctx, f)
			if err != nil || pages > len(want) {
				b.Fatalf("page %d, error %v", pages, err)
			}
			got = append(got, page.Runs...)
			if f.After = page.Next; f.After == nil {
				return got
			}
			late := b.start(ledger.SettlementStart{Day: b.daysAgo(7)}) // shifts no page
			b.end(late.ID, ledger.RunSucceeded, "")
		}
	}
	b.same("all, two at a time", want, list(ledger.SettlementFilter{Limit: 2}))
	b.same("of a day, one at a time", []ledger.SettlementRun{want[1], want[3]},
		list(ledger.SettlementFilter{Day: b.daysAgo(1), Limit: 1}))
	b.same("of a day without any", []ledger.SettlementRun(nil), list(ledger.SettlementFilter{Day: b.daysAgo(3), Limit: 500}))
	for _, limit := range []int{-1, 0, ledger.MaxPage + 1} {
		if _, err := b.ListSettlements(b.ctx, ledger.SettlementFilter{Limit: limit}); err == nil {
			b.Errorf("%d runs are listed", limit)
		}
	}
}

func runOfARetiredDay(b *book) {
	day := b.daysAgo(9)
	b.oldPayment(day, toSuccess)
	run := b.start(ledger.SettlementStart{Day: day})
	b.purgeAll()
	if step := b.retire(b.retaining(1)); step.Day != day || step.Rows != 1 {
		b.Fatalf("retired %+v", step)
	}
	_, err := b.SaveSettlement(b.ctx, ledger.SettlementProgress{Run: run.ID, Lease: time.Hour})
	b.fails("save", err, ledger.ErrDayRetired)
	b.fails("success", b.EndSettlement(b.ctx, ledger.SettlementEnd{Run: run.ID, State: ledger.RunSucceeded}), ledger.ErrDayRetired)
	b.same("the run", run, b.run(run.ID))
	b.end(run.ID, ledger.RunFailed, "retired")
	_, _, err = b.BeginSettlement(b.ctx, ledger.SettlementStart{Day: day, Lease: time.Hour})
	b.fails("begin", err, ledger.ErrDayRetired)
}

// dayRowOf is what DayRows shows of a transaction.
func dayRowOf(t ledger.Transaction) ledger.DayRow {
	return ledger.DayRow{
		ID: t.ID, Kind: t.Kind, Status: t.Status, AccountHash: t.AccountHash, Amount: t.Amount, RequestedAt: t.RequestedAt,
	}
}

func dayRows(b *book) {
	b.oldPayment(b.daysAgo(1))
	want := []ledger.DayRow{
		dayRowOf(b.requested()), dayRowOf(b.unknown()), dayRowOf(b.move(b.requested().ID, toSuccess)),
		dayRowOf(b.move(b.requested().ID, toNotSent)), dayRowOf(b.move(b.unknown().ID, toCanceled)),
	}
	inquiry := b.inquiry()
	if err := b.Record(b.ctx, []ledger.Transaction{inquiry}, payer); err != nil {
		b.Fatal(err)
	}
	want = append(want, dayRowOf(b.get(inquiry.ID)))
	var got []ledger.DayRow
	after := tranid.ID("")
	for pages := 1; ; pages++ {
		page, err := b.DayRows(b.ctx, b.day, after, 4)
		if err != nil || pages > 2 {
			b.Fatalf("page %d, error %v", pages, err)
		}
		got = append(got, page...)
		if len(page) < 4 {
			break
		}
		after = page[len(page)-1].ID
	}
	b.same("rows", want, got)
	page, err := b.DayRows(b.ctx, b.daysAgo(3), "", ledger.MaxDayRows)
	b.fails("a day without rows", err, nil)
	b.same("a day without rows", []ledger.DayRow(nil), page)
}

func dayUnknown(b *book) {
	b.oldPayment(b.daysAgo(1), toUnknown)
	b.requested()
	want := []tranid.ID{b.unknown().ID, b.unknown().ID, b.unknown().ID}
	b.move(b.unknown().ID, toCanceled)
	first, err := b.DayUnknown(b.ctx, b.day, "", 2)
	b.fails("the first page", err, nil)
	b.same("the first page", want[:2], first)
	second, err := b.DayUnknown(b.ctx, b.day, want[1], 2)
	b.fails("the second page", err, nil)
	b.same("the second page", want[2:], second)
}

func dayLimits(b *book) {
	for _, tc := range []struct {
		day   tranid.Date
		limit int
	}{{b.day, 0}, {b.day, -1}, {b.day, ledger.MaxDayRows + 1}, {tranid.Date{}, 1}} {
		_, rows := b.DayRows(b.ctx, tc.day, "", tc.limit)
		_, unknown := b.DayUnknown(b.ctx, tc.day, "", tc.limit)
		_, unclosed := b.UnclosedDiscrepancies(b.ctx, tc.day, "", tc.limit)
		if rows == nil || unknown == nil || unclosed == nil {
			b.Errorf("%d rows of %s: errors %v, %v, %v", tc.limit, tc.day, rows, unknown, unclosed)
		}
	}
}
