package ledgertest

import (
	"strings"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

var discrepancyCases = []conformance{
	{"difference that is found is kept, and opened once", foundOnce},
	{"note and state outlive the next run, unless it finds another difference", foundAgain},
	{"discrepancy is closed by what is equal, and opened again", foundEqual},
	{"note of an operator is kept, whatever it holds", noted},
	{"note that is empty, or of nothing, is refused", noteRefused},
	{"difference that no discrepancy may be is refused, and the rest with it", foundRefused},
	{"too many differences at a time are refused", foundTooMany},
	{"discrepancies are listed newest first, by run and state, page by page", discrepanciesListed},
	{"discrepancies of a day that are not closed are read in order", discrepanciesUnclosed},
	{"open discrepancies are counted by class", discrepanciesCounted},
}

// ghost is a difference of its own transaction: done there, FAILED here.
func (b *book) ghost() ledger.Difference {
	return ledger.Difference{
		ID: b.newID(), Class: ledger.ClassCoreOnly, LedgerStatus: ledger.StatusFailed, LedgerAmount: 5000,
		CoreState: ledger.CoreDone, CoreAmount: 5000,
	}
}

func (b *book) discrepancies(f ledger.DiscrepancyFilter) ledger.DiscrepancyPage {
	b.Helper()
	if f.Limit == 0 {
		f.Limit = ledger.MaxPage
	}
	page, err := b.ListDiscrepancies(b.ctx, f)
	if err != nil {
		b.Fatalf("list discrepancies: %v", err)
	}
	return page
}

// only is the one discrepancy that there is.
func (b *book) only() ledger.Discrepancy {
	b.Helper()
	page := b.discrepancies(ledger.DiscrepancyFilter{})
	if len(page.Discrepancies) != 1 {
		b.Fatalf("%d discrepancies", len(page.Discrepancies))
	}
	return page.Discrepancies[0]
}

func (b *book) note(id tranid.ID, text string) ledger.Discrepancy {
	b.Helper()
	d, err := b.NoteDiscrepancy(b.ctx, id, text, "operator:kim")
	if err != nil {
		b.Fatalf("note: %v", err)
	}
	b.same("what was noted", d, b.only())
	return d
}

// nextRun ends a run and begins another of the same day.
func (b *book) nextRun(run ledger.SettlementRun) ledger.SettlementRun {
	b.Helper()
	b.end(run.ID, ledger.RunSucceeded, "")
	return b.start(ledger.SettlementStart{Day: run.Day})
}

func foundOnce(b *book) {
	run, difference := b.start(ledger.SettlementStart{}), b.ghost()
	opened := b.save(ledger.SettlementProgress{Run: run.ID, Found: []ledger.Difference{difference}})
	b.same("opened", []tranid.ID{difference.ID}, opened)
	d := b.only()
	b.same("stored", ledger.Discrepancy{
		Difference: difference, Run: run.ID, State: ledger.DiscrepancyOpen, FoundAt: d.FoundAt,
	}, d)
	if d.FoundAt.Before(run.StartedAt) {
		b.Errorf("found at %s, started at %s", d.FoundAt, run.StartedAt)
	}
	run = b.nextRun(run)
	difference.CoreAmount = 4000
	opened = b.save(ledger.SettlementProgress{Run: run.ID, Found: []ledger.Difference{difference}})
	b.same("opened again", []tranid.ID(nil), opened)
	d.Run, d.CoreAmount = run.ID, 4000
	b.same("stored again", d, b.only())
}

func foundAgain(b *book) {
	run := b.start(ledger.SettlementStart{})
	difference := ledger.Difference{ID: b.newID(), Class: ledger.ClassUnresolved, LedgerStatus: ledger.StatusUnknown, LedgerAmount: 1}
	b.save(ledger.SettlementProgress{Run: run.ID, Found: []ledger.Difference{difference}})
	d := b.note(difference.ID, "asked the bank")
	run = b.nextRun(run)
	b.same("opened", []tranid.ID(nil), b.save(ledger.SettlementProgress{Run: run.ID, Found: []ledger.Difference{difference}}))
	d.Run = run.ID
	b.same("found again", d, b.only())
	run = b.nextRun(run)
	difference.Class, difference.LedgerStatus = ledger.ClassCoreOnly, ledger.StatusFailed
	difference.CoreState, difference.CoreAmount = ledger.CoreDone, 1
	opened := b.save(ledger.SettlementProgress{Run: run.ID, Found: []ledger.Difference{difference}})
	b.same("opened as another", []tranid.ID{difference.ID}, opened)
	after := b.only()
	d.Difference, d.Run, d.State, d.FoundAt = difference, run.ID, ledger.DiscrepancyOpen, after.FoundAt
	b.same("found as another", d, after)
}

func foundEqual(b *book) {
	run, difference := b.start(ledger.SettlementStart{}), b.ghost()
	b.save(ledger.SettlementProgress{Run: run.ID, Found: []ledger.Difference{difference}})
	d := b.note(difference.ID, "asked the bank")
	run = b.nextRun(run)
	b.save(ledger.SettlementProgress{Run: run.ID, Equal: []tranid.ID{b.newID(), difference.ID}})
	closed := b.only()
	d.State, d.ClosedAt = ledger.DiscrepancyClosed, closed.ClosedAt
	b.same("closed", d, closed)
	if closed.ClosedAt.Before(closed.FoundAt) {
		b.Errorf("closed at %s, found at %s", closed.ClosedAt, closed.FoundAt)
	}
	b.save(ledger.SettlementProgress{Run: run.ID, Equal: []tranid.ID{difference.ID}})
	b.same("closed once", closed, b.only())
	d = b.note(difference.ID, "settled") // what is closed stays closed
	run = b.nextRun(run)
	opened := b.save(ledger.SettlementProgress{Run: run.ID, Found: []ledger.Difference{difference}})
	b.same("opened again", []tranid.ID{difference.ID}, opened)
	after := b.only()
	d.Run, d.State, d.FoundAt, d.ClosedAt = run.ID, ledger.DiscrepancyOpen, after.FoundAt, time.Time{}
	b.same("found again", d, after)
}

func noted(b *book) {
	run, difference := b.start(ledger.SettlementStart{}), b.ghost()
	b.save(ledger.SettlementProgress{Run: run.ID, Found: []ledger.Difference{difference}})
	d := b.note(difference.ID, "은행에 물어봄")
	if d.State != ledger.DiscrepancyNoted || d.Note != "은행에 물어봄" || d.NotedBy != "operator:kim" {
		b.Errorf("noted %+v", d)
	}
	d = b.note(difference.ID, strings.Repeat("가", ledger.MaxNote+1))
	b.same("a long note", strings.Repeat("가", ledger.MaxNote), d.Note)
	d = b.note(difference.ID, "line\nfeed, \x00 and \xff")
	b.same("a bad note", "line\uFFFDfeed, \uFFFD and \uFFFD", d.Note)
}

func noteRefused(b *book) {
	run, difference := b.start(ledger.SettlementStart{}), b.ghost()
	b.save(ledger.SettlementProgress{Run: run.ID, Found: []ledger.Difference{difference}})
	before := b.only()
	for _, id := range []tranid.ID{b.newID(), "", "x", "GWMNU20260230000000001"} {
		_, err := b.NoteDiscrepancy(b.ctx, id, "note", "operator:kim")
		b.fails("note of "+string(id), err, ledger.ErrDiscrepancyNotFound)
	}
	_, err := b.NoteDiscrepancy(b.ctx, difference.ID, "", "operator:kim")
	b.fails("an empty note", err, ledger.ErrInvalidRow)
	_, err = b.NoteDiscrepancy(b.ctx, difference.ID, "note", "")
	b.fails("a note by nobody", err, ledger.ErrInvalidRow)
	b.same("the discrepancy", before, b.only())
}

// impossible are differences that no discrepancy may be.
var impossible = map[string]func(d *ledger.Difference){
	"no class":                     func(d *ledger.Difference) { d.Class = 0 },
	"class unknown":                func(d *ledger.Difference) { d.Class = 9 },
	"status unknown":               func(d *ledger.Difference) { d.LedgerStatus = 9 },
	"core state unknown":           func(d *ledger.Difference) { d.CoreState = "01" },
	"ghost that the core canceled": func(d *ledger.Difference) { d.CoreState = ledger.CoreCanceled },
	"ghost of a success":           func(d *ledger.Difference) { d.LedgerStatus = ledger.StatusSuccess },
	"amount of no row":             func(d *ledger.Difference) { d.LedgerStatus = 0 },
	"row without an amount":        func(d *ledger.Difference) { d.LedgerAmount = 0 },
	"amount negative":              func(d *ledger.Difference) { d.LedgerAmount = -1 },
	"amount of the core negative":  func(d *ledger.Difference) { d.CoreAmount = -1 },
	"amount too large":             func(d *ledger.Difference) { d.CoreAmount = 1_000_000_000_000 },
	"mismatch with nothing":        func(d *ledger.Difference) { d.Class, d.CoreState, d.CoreAmount = ledger.ClassMismatch, "", 0 },
	"mismatch of what is unknown":  func(d *ledger.Difference) { d.Class, d.LedgerStatus = ledger.ClassMismatch, ledger.StatusUnknown },
	"here alone, and there":        func(d *ledger.Difference) { d.Class, d.LedgerStatus = ledger.ClassLedgerOnly, ledger.StatusSuccess },
	"unresolved, and final":        func(d *ledger.Difference) { d.Class = ledger.ClassUnresolved },
	"another day's":                func(d *ledger.Difference) { d.ID = "GWMNU20000101000000001" },
	"no ID":                        func(d *ledger.Difference) { d.ID = "x" },
}

func foundRefused(b *book) {
	run := b.start(ledger.SettlementStart{})
	for what, spoil := range impossible {
		bad := b.ghost()
		spoil(&bad)
		_, err := b.SaveSettlement(b.ctx, ledger.SettlementProgress{
			Run: run.ID, Lease: time.Hour, Counts: ledger.SettlementCounts{Match: 1}, Found: []ledger.Difference{b.ghost(), bad},
		})
		b.fails(what, err, ledger.ErrInvalidRow)
	}
	b.same("the run", run, b.run(run.ID))
	b.same("discrepancies", ledger.DiscrepancyPage{}, b.discrepancies(ledger.DiscrepancyFilter{}))
}

func foundTooMany(b *book) {
	run := b.start(ledger.SettlementStart{})
	p := ledger.SettlementProgress{Run: run.ID, Lease: time.Hour}
	for range ledger.MaxClaim / 2 {
		p.Found = append(p.Found, b.ghost())
		p.Equal = append(p.Equal, b.newID())
	}
	b.same("opened", ledger.MaxClaim/2, len(b.save(p)))
	p.Equal = append(p.Equal, b.newID())
	_, err := b.SaveSettlement(b.ctx, p)
	b.fails("one more", err, ledger.ErrInvalidRow)
}

func discrepanciesListed(b *book) {
	first, second := b.start(ledger.SettlementStart{}), b.start(ledger.SettlementStart{Day: b.daysAgo(1)})
	var ids []tranid.ID // the newest first
	for range 4 {
		difference := b.ghost()
		b.save(ledger.SettlementProgress{Run: first.ID, Found: []ledger.Difference{difference}})
		ids = append([]tranid.ID{difference.ID}, ids...)
	}
	b.save(ledger.SettlementProgress{Run: first.ID, Equal: ids[1:2]})
	if _, err := b.NoteDiscrepancy(b.ctx, ids[2], "seen", "operator:kim"); err != nil {
		b.Fatal(err)
	}
	list := func(f ledger.DiscrepancyFilter) []tranid.ID {
		b.Helper()
		var got []tranid.ID
		for pages := 0; ; pages++ {
			page := b.discrepancies(f)
			for _, d := range page.Discrepancies {
				got = append(got, d.ID)
			}
			if f.After = page.Next; f.After == nil || pages > len(ids) {
				return got
			}
			late := b.ghost()
			late.ID = tranid.New(second.Day, b.count.Add(1)) // shifts no page
			b.save(ledger.SettlementProgress{Run: second.ID, Found: []ledger.Difference{late}})
		}
	}
	b.same("all, two at a time", ids, list(ledger.DiscrepancyFilter{Limit: 2}))
	b.same("of a run", ids, list(ledger.DiscrepancyFilter{Run: first.ID, Limit: 1}))
	b.same("of no run", []tranid.ID(nil), list(ledger.DiscrepancyFilter{Run: "no such run"}))
	b.same("closed", ids[1:2], list(ledger.DiscrepancyFilter{State: ledger.DiscrepancyClosed}))
	b.same("noted", ids[2:3], list(ledger.DiscrepancyFilter{State: ledger.DiscrepancyNoted}))
	b.same("open, of a run", []tranid.ID{ids[0], ids[3]},
		list(ledger.DiscrepancyFilter{Run: first.ID, State: ledger.DiscrepancyOpen, Limit: 1}))
	for _, limit := range []int{-1, ledger.MaxPage + 1} {
		if _, err := b.ListDiscrepancies(b.ctx, ledger.DiscrepancyFilter{Limit: limit}); err == nil {
			b.Errorf("%d discrepancies are listed", limit)
		}
	}
}

func discrepanciesUnclosed(b *book) {
	run := b.start(ledger.SettlementStart{})
	differences := []ledger.Difference{b.ghost(), b.ghost(), b.ghost(), b.ghost()}
	b.save(ledger.SettlementProgress{Run: run.ID, Found: differences})
	b.save(ledger.SettlementProgress{Run: run.ID, Equal: []tranid.ID{differences[1].ID}})
	if _, err := b.NoteDiscrepancy(b.ctx, differences[2].ID, "seen", "operator:kim"); err != nil {
		b.Fatal(err)
	}
	first, err := b.UnclosedDiscrepancies(b.ctx, b.day, "", 2)
	b.fails("the first page", err, nil)
	b.same("the first page", []tranid.ID{differences[0].ID, differences[2].ID}, first)
	second, err := b.UnclosedDiscrepancies(b.ctx, b.day, first[1], 2)
	b.fails("the second page", err, nil)
	b.same("the second page", []tranid.ID{differences[3].ID}, second)
	other, err := b.UnclosedDiscrepancies(b.ctx, b.daysAgo(1), "", 2)
	b.fails("another day", err, nil)
	b.same("another day", []tranid.ID(nil), other)
}

func discrepanciesCounted(b *book) {
	count := func(want map[ledger.DiscrepancyClass]int64) {
		b.Helper()
		got, err := b.CountDiscrepancies(b.ctx)
		b.fails("count", err, nil)
		b.same("counts", want, got)
	}
	none := map[ledger.DiscrepancyClass]int64{
		ledger.ClassMismatch: 0, ledger.ClassLedgerOnly: 0, ledger.ClassCoreOnly: 0, ledger.ClassUnresolved: 0,
	}
	count(none)
	run := b.start(ledger.SettlementStart{})
	differences := []ledger.Difference{b.ghost(), b.ghost(), b.ghost(), {
		ID: b.newID(), Class: ledger.ClassLedgerOnly, LedgerStatus: ledger.StatusSuccess, LedgerAmount: 1,
	}}
	b.save(ledger.SettlementProgress{Run: run.ID, Found: differences})
	none[ledger.ClassCoreOnly], none[ledger.ClassLedgerOnly] = 3, 1
	count(none)
	b.save(ledger.SettlementProgress{Run: run.ID, Equal: []tranid.ID{differences[3].ID}})
	if _, err := b.NoteDiscrepancy(b.ctx, differences[0].ID, "seen", "operator:kim"); err != nil {
		b.Fatal(err)
	}
	none[ledger.ClassCoreOnly], none[ledger.ClassLedgerOnly] = 2, 0
	count(none)
}
