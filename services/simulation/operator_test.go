package simulation

import (
	"context"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

var human = ledger.Actor{Name: "operator:kim", Instance: "desk"}

// pending are the payments that are not final, or in review.
func (w *world) pending(dice) []tranid.ID { return append(w.open(), w.audit.InReview()...) }

// steps calls what for one payment of a list after the other, as long as an event
// goes on.
func (w *world) steps(e *event, list func(dice) []tranid.ID, what func(p *process, id tranid.ID, die dice)) {
	for n := 0; w.elapsed() < e.until; n++ {
		die := e.die.nth(n)
		time.Sleep(die.between(5*time.Millisecond, 700*time.Millisecond))
		ids := list(die)
		p := w.reconciler()
		if len(ids) == 0 || p == nil || w.elapsed() >= e.until {
			continue
		}
		what(p, ids[int(die.of("which").between(0, time.Duration(len(ids))))], die)
	}
}

// hint hints at payments: twice, and at some that nobody knows.
func (w *world) hint(e *event, list func(dice) []tranid.ID) {
	w.steps(e, list, func(p *process, id tranid.ID, die dice) {
		p.say(id, "gets a hint")
		p.resolver.Hint(string(id))
		if die.of("again").chance(0.3) {
			p.resolver.Hint(string(id))
			p.resolver.Hint("GWMNU19990101000000001")
		}
	})
}

// operate has an operator look after payments: he resolves some, and settles what
// is in review as the bank has it.
func (w *world) operate(e *event, list func(dice) []tranid.ID) {
	w.steps(e, list, func(p *process, id tranid.ID, _ dice) {
		ctx, cancel := context.WithTimeout(p.ends, 30*time.Second)
		defer cancel()
		report, err := p.resolver.ResolveOne(ctx, id, human)
		p.say(id, "is asked by an operator: %s then %s, %v", report.Before, report.Transaction.Status, err)
		for i := range report.Steps {
			s := &report.Steps[i]
			w.audit.Text("a step", string(s.Request)+" "+string(s.Response)+" "+s.CoreMessage+" "+s.Outcome)
		}
		if err == nil && report.Transaction.NeedsReview {
			w.settleOne(ctx, p, id)
		}
	})
}

// settleOne settles a payment as the bank has it at that moment.
func (w *world) settleOne(ctx context.Context, p *process, id tranid.ID) {
	to := ledger.StatusFailed
	if w.audit.Stands(id) {
		to = ledger.StatusSuccess
	}
	_, err := p.resolver.Settle(ctx, id, to, "the bank says so by telephone", human)
	p.say(id, "is settled by an operator: %s, %v", to, err)
	if err != nil && to == ledger.StatusSuccess { // it was decided to cancel it
		_, err = p.resolver.Settle(ctx, id, ledger.StatusCanceled, "to be canceled", human)
		p.say(id, "is settled by an operator: %s, %v", ledger.StatusCanceled, err)
	}
}

// review settles what is in review at the end of the day.
func (w *world) review() {
	ctx := context.Background()
	p := w.reconciler()
	for _, id := range w.audit.InReview() {
		w.settleOne(ctx, p, id)
	}
}

// repay waits until the core was told what it is owed.
func (w *world) repay() {
	bound := w.plan.house.bound() + 5*time.Minute // what is owed is put off for as long again as it is old
	for begun := time.Now(); ; time.Sleep(time.Second + 3*time.Nanosecond) {
		owed := w.audit.Owed()
		if len(owed) == 0 {
			return
		}
		if time.Since(begun) > bound {
			w.audit.Late(owed[0], bound)
			return
		}
	}
}
