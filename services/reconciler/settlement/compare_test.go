package settlement

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// planted is one payment as both books have it, and what must be found.
type planted struct {
	name string
	// here is how it ended in the ledger, there is its state at the core; empty
	// for nothing.
	here  string
	there ledger.CoreState
	// other changes the record at the core.
	other func(r *Record)
	want  ledger.DiscrepancyClass
}

var plantings = []planted{
	{"done on both sides", "SUCCESS", "00", nil, 0},
	{"declined, and absent", "FAILED", "", nil, 0},
	{"never sent, and absent", "NOT_SENT", "", nil, 0},
	{"declined, and canceled there", "FAILED", "99", nil, 0},
	{"canceled, and absent", "CANCELED", "", nil, 0},
	{"canceled on both sides", "CANCELED", "99", nil, 0},
	{"not here, and canceled there", "", "99", nil, 0},
	{"another amount", "SUCCESS", "00", func(r *Record) { r.Amount = 999 }, ledger.ClassMismatch},
	{"another account", "SUCCESS", "00", func(r *Record) { r.Account = bob }, ledger.ClassMismatch},
	{"done here, canceled there", "SUCCESS", "99", nil, ledger.ClassMismatch},
	{"canceled on both sides, another amount", "CANCELED", "99", func(r *Record) { r.Amount = 1 }, ledger.ClassMismatch},
	{"declined, canceled there, another account", "FAILED", "99", func(r *Record) { r.Account = bob }, ledger.ClassMismatch},
	{"done here, absent there", "SUCCESS", "", nil, ledger.ClassLedgerOnly},
	{"not here, done there", "", "00", nil, ledger.ClassCoreOnly},
	{"declined, done there", "FAILED", "00", nil, ledger.ClassCoreOnly},
	{"never sent, done there", "NOT_SENT", "00", nil, ledger.ClassCoreOnly},
	{"canceled, done there", "CANCELED", "00", nil, ledger.ClassCoreOnly},
	{"canceled, done there with another amount", "CANCELED", "00", func(r *Record) { r.Amount = 1 }, ledger.ClassCoreOnly},
	{"unknown, done there", "UNKNOWN", "00", nil, ledger.ClassUnresolved},
	{"unknown, canceled there", "UNKNOWN", "99", nil, ledger.ClassUnresolved},
	{"unknown, absent there", "UNKNOWN", "", nil, ledger.ClassUnresolved},
	{"unknown, done there with another amount", "UNKNOWN", "00", func(r *Record) { r.Amount = 1 }, ledger.ClassUnresolved},
	{"in flight, done there", "REQUESTED", "00", nil, ledger.ClassUnresolved},
	{"in flight, absent there", "REQUESTED", "", nil, ledger.ClassUnresolved},
}

func (b *books) plant(t *testing.T, n int64, p *planted) {
	t.Helper()
	if p.here != "" {
		b.pay(t, n, p.here)
	}
	if p.there != "" {
		r := Record{ID: b.id(n), Account: alice, Amount: 1000, State: p.there}
		if p.other != nil {
			p.other(&r)
		}
		b.core.put(r)
	}
}

// statusHere is the status that an ending leads to.
func (p *planted) statusHere() ledger.Status {
	if p.here == "" {
		return 0
	}
	to := ledger.StatusRequested
	for _, step := range endings[p.here] {
		to = step.To
	}
	return to
}

func TestSettlement_EveryPlantedDifferenceIsFoundAndClassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks(nil)
		defer running(t, b.Service)()
		want := ledger.SettlementCounts{}
		for i := range plantings {
			p := &plantings[i]
			b.plant(t, int64(i), p)
			if p.there != "" {
				want.Records++
			}
			if p.want == 0 {
				want.Match++
			} else {
				want.Add(p.want)
			}
		}
		run := b.succeeds(t)
		if run.Counts != want {
			t.Errorf("counted %+v, want %+v", run.Counts, want)
		}
		found := b.found(t)
		for i := range plantings {
			checkFound(t, &plantings[i], found[int64(i)], run.ID)
		}
		if ghosts := metric(t, b.registry, "gwanmun_ghost_total", ""); ghosts != 5 || b.logs.count(slog.LevelError, "ghost") != 5 {
			t.Errorf("%v ghosts counted, %d told", ghosts, b.logs.count(slog.LevelError, "ghost"))
		}
		for _, class := range ledger.DiscrepancyClasses {
			counts := ledger.SettlementCounts{}
			counts.Add(class)
			if open := metric(t, b.registry, "gwanmun_settlement_discrepancies", class.String()); open == 0 {
				t.Errorf("no %s in the gauge", class)
			}
		}
	})
}

func checkFound(t *testing.T, p *planted, d ledger.Discrepancy, run ledger.RunID) {
	t.Helper()
	if p.want == 0 {
		if d.State != 0 {
			t.Errorf("%s: found %+v", p.name, d)
		}
		return
	}
	r := Record{}
	if p.there != "" {
		r = Record{Amount: 1000, State: p.there}
		if p.other != nil {
			p.other(&r)
		}
	}
	want := ledger.Discrepancy{
		Difference: ledger.Difference{
			ID: d.ID, Class: p.want, LedgerStatus: p.statusHere(), CoreState: p.there, CoreAmount: r.Amount,
		},
		Run: run, State: ledger.DiscrepancyOpen, FoundAt: d.FoundAt,
	}
	if p.here != "" {
		want.LedgerAmount = 1000
	}
	if d != want {
		t.Errorf("%s: found %+v, want %+v", p.name, d, want)
	}
}

// A payment done is in the ledger's history too, but only where the ledger has it,
// and once.
func TestSettlement_GhostIsAnEventOfItsTransactionOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks(nil)
		defer running(t, b.Service)()
		id := b.pay(t, 1, "FAILED")
		b.lists(1, ledger.CoreDone)
		b.lists(2, ledger.CoreDone)
		for range 3 {
			b.succeeds(t)
		}
		events, err := b.store.Events(t.Context(), id)
		must(t, err)
		last := events[len(events)-1]
		if len(events) != 3 || last.Evidence != ledger.EvidenceProcessed || !strings.HasPrefix(last.Detail, "ghost") ||
			last.From != ledger.StatusFailed || last.To != ledger.StatusFailed {
			t.Errorf("%d events, the last %+v", len(events), last)
		}
		if ghosts := metric(t, b.registry, "gwanmun_ghost_total", ""); ghosts != 2 {
			t.Errorf("%v ghosts", ghosts)
		}
	})
}

func TestSettlement_DayOfManyPages(t *testing.T) {
	for _, size := range []int64{0, 1, PageSize - 1, PageSize, PageSize + 1, 3*ledger.MaxDayRows + 7, 16 * PageSize} {
		synctest.Test(t, func(t *testing.T) {
			b := newBooks(nil)
			defer running(t, b.Service)()
			for n := range size {
				b.pay(t, n, "SUCCESS")
				b.lists(n, ledger.CoreDone)
			}
			want := ledger.SettlementCounts{Match: size, Records: size}
			if run := b.succeeds(t); run.Counts != want {
				t.Errorf("%d payments: counted %+v", size, run.Counts)
			}
		})
	}
}

// Books that have nothing in common are the most work: every transaction is
// looked at twice and stored.
func TestSettlement_AllDiffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks(nil)
		defer running(t, b.Service)()
		const size = 2*maxPending + 5
		for n := range int64(size) {
			b.pay(t, 2*n, "SUCCESS")
			b.lists(2*n+1, ledger.CoreDone)
		}
		want := ledger.SettlementCounts{LedgerOnly: size, CoreOnly: size, Records: size}
		if run := b.succeeds(t); run.Counts != want {
			t.Errorf("counted %+v", run.Counts)
		}
		b.core.mu.Lock()
		reads := b.core.reads
		b.core.mu.Unlock()
		if reads > 40 { // 5 pages, and 5 looks at a few of them
			t.Errorf("%d pages were read", reads)
		}
		for n := range int64(size) { // and then all is well
			b.lists(2*n, ledger.CoreDone)
			b.pay(t, 2*n+1, "SUCCESS")
		}
		want = ledger.SettlementCounts{Match: 2 * size, Records: 2 * size}
		if run := b.succeeds(t); run.Counts != want || len(b.found(t)) != 0 {
			t.Errorf("counted %+v, %d are not closed", run.Counts, len(b.found(t)))
		}
	})
}

func TestSettlement_InquiriesAndOtherDaysAreNotCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks(nil)
		defer running(t, b.Service)()
		inquiry := ledger.Transaction{
			ID: b.id(1), Kind: ledger.KindBalanceInquiry, Status: ledger.StatusSuccess, Evidence: ledger.EvidenceAnswered,
			Client: "shop", AccountMasked: "****", Answer: ledger.Answer{Code: "0000"}, RequestedAt: time.Now(),
		}
		other := inquiry
		other.ID = b.id(2)
		must(t, b.store.Record(t.Context(), []ledger.Transaction{inquiry, other}, payer))
		b.pay(t, 3, "SUCCESS")
		b.lists(3, ledger.CoreDone)
		tomorrow := *b
		tomorrow.day = tranid.DateOf(time.Now().Add(24 * time.Hour))
		tomorrow.pay(t, 1, "SUCCESS")
		tomorrow.lists(5, ledger.CoreDone)
		if run := b.succeeds(t); run.Counts != (ledger.SettlementCounts{Match: 1, Records: 1}) {
			t.Errorf("counted %+v", run.Counts)
		}
		// A payment at the core under the ID of an inquiry is a ghost.
		b.lists(2, ledger.CoreDone)
		run := b.succeeds(t)
		if d := b.found(t)[2]; run.Counts.CoreOnly != 1 || d.Class != ledger.ClassCoreOnly || d.LedgerStatus != 0 {
			t.Errorf("counted %+v, found %+v", run.Counts, d)
		}
	})
}

func TestSettlement_WhatIsUnknownIsResolvedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks(nil)
		defer running(t, b.Service)()
		for n := range int64(2*resolvePage + 3) {
			b.pay(t, n, "UNKNOWN")
		}
		b.resolve = func(_ context.Context, id tranid.ID) error {
			switch numberOf(id) {
			case 7:
				return errTest
			case 8:
				panic(errTest)
			}
			b.move(t, id, ledger.StatusUnknown, "CANCELED")
			return nil
		}
		run := b.succeeds(t)
		if run.Counts != (ledger.SettlementCounts{Match: 2*resolvePage + 1, Unresolved: 2}) {
			t.Errorf("counted %+v", run.Counts)
		}
		if n := b.logs.count(slog.LevelWarn, "transaction not resolved before settlement"); n != 2 {
			t.Errorf("%d failures told", n)
		}
	})
}

func TestSettlement_ResolvingTakesItsTimeAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks(nil)
		defer running(t, b.Service)()
		for n := range int64(50) {
			b.pay(t, n, "UNKNOWN")
		}
		b.resolve = func(ctx context.Context, _ tranid.ID) error { <-ctx.Done(); return ctx.Err() }
		run := b.succeeds(t)
		if run.Counts.Unresolved != 50 {
			t.Errorf("counted %+v", run.Counts)
		}
		if took := run.FinishedAt.Sub(run.StartedAt); took < defaultResolveTime || took > defaultResolveTime+beat {
			t.Errorf("took %s", took)
		}
	})
}
