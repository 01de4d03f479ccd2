package simulation

import (
	"context"
	"slices"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/simulation/audit"
)

// settle begins a settlement run among payments and faults. What it finds then a
// later run must find again, or close.
func (w *world) settle() {
	p := w.reconciler()
	if p == nil {
		return
	}
	w.run(func() {
		ctx, cancel := context.WithTimeout(p.ends, 10*time.Second)
		defer cancel()
		_, err := p.settler.Start(ctx, tranid.DateOf(time.Now()))
		p.say("", "begins a settlement: %v", err)
	})
}

// reconciler is the first that stands; nil if none does.
func (w *world) reconciler() *process {
	for s := w.plan.house.payments; s < len(w.places); s++ {
		if p := w.at(slot(s)); p != nil {
			return p
		}
	}
	return nil
}

// compareBooks settles the days of the simulation with nothing in the way, and has
// the auditor look at what differs, and at the balances.
func (w *world) compareBooks() {
	ctx := context.Background()
	p := w.at(slot(w.plan.house.payments))
	days := []tranid.Date{tranid.DateOf(w.start)}
	if today := tranid.DateOf(time.Now()); today != days[0] {
		days = append(days, today)
	}
	for _, day := range days {
		w.compareDay(ctx, p, day)
	}
	page, err := w.book.ListDiscrepancies(ctx, ledger.DiscrepancyFilter{Limit: ledger.MaxPage})
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range page.Discrepancies {
		if d := &page.Discrepancies[i]; d.State != ledger.DiscrepancyClosed {
			w.audit.Difference(&d.Difference)
		}
	}
	for _, digits := range accounts {
		n, err := account.Parse(digits)
		if err != nil {
			w.t.Fatal(err)
		}
		a, err := w.core.life.bank.Account(n)
		if err != nil {
			w.t.Fatal(err)
		}
		w.audit.Balance(digits, a.Balance)
	}
}

// longestRun is how long one may take on a good day, an older one's lease included.
const longestRun = 90 * time.Second

// compareDay does runs of a day until one SUCCEEDED that began in the calm.
func (w *world) compareDay(ctx context.Context, p *process, day tranid.Date) {
	var seen []ledger.RunID
	for begun := time.Now(); time.Since(begun) < longestRun; {
		run, err := p.settler.Start(ctx, day)
		if err != nil {
			w.audit.Unsettled(day, err.Error())
			return
		}
		fresh := run.StartedAt.Add(-w.db.skew()).After(begun.Add(-time.Millisecond))
		for run.State == ledger.RunRunning && time.Since(begun) < longestRun {
			time.Sleep(100*time.Millisecond + 13*time.Nanosecond)
			if run, err = w.book.GetSettlement(ctx, run.ID); err != nil {
				w.t.Fatal(err)
			}
		}
		if fresh && run.State == ledger.RunSucceeded {
			return
		}
		if !slices.Contains(seen, run.ID) {
			seen = append(seen, run.ID)
			p.say("", "settlement of %s: %s %s", day, run.State, run.Error)
		}
	}
	w.audit.Unsettled(day, "no run of it SUCCEEDED")
}

// about are the transactions of violations.
func about(violations []audit.Violation) map[tranid.ID]bool {
	ids := map[tranid.ID]bool{}
	for _, v := range violations {
		if v.ID != "" {
			ids[v.ID] = true
		}
	}
	return ids
}
