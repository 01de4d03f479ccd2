package audit

import (
	"slices"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// moves are where a status may lead.
var moves = map[ledger.Status][]ledger.Status{
	0:                      {ledger.StatusRequested, ledger.StatusFailed, ledger.StatusSuccess, ledger.StatusUnknown},
	ledger.StatusRequested: {ledger.StatusSuccess, ledger.StatusFailed, ledger.StatusUnknown},
	ledger.StatusUnknown:   {ledger.StatusUnknown, ledger.StatusSuccess, ledger.StatusFailed, ledger.StatusCanceled},
}

// Row is told a row and its history as they were committed, at the database's time
// now. It may be told the same again.
func (a *Auditor) Row(now time.Time, t ledger.Transaction, events []ledger.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.of(t.ID)
	if !p.seen {
		a.first(p, now, &t)
	} else {
		a.changed(p, &t)
	}
	a.history(p, &t, events)
	a.written(&t, events[min(len(p.events), len(events)):])
	p.seen, p.row, p.events = true, t, events
	if t.Kind.MovesMoney() {
		a.meaning(p)
		a.order(p)
	}
}

// first is a row that was not there before.
func (a *Auditor) first(p *payment, now time.Time, t *ledger.Transaction) {
	if !slices.Contains(moves[0], t.Status) {
		a.broken("a row begins REQUESTED, or ended without an intent", p.id, "it begins %s", t.Status)
	}
	if !t.Kind.MovesMoney() || t.Status != ledger.StatusRequested {
		return
	}
	p.bound = now
	k := key{t.Client, t.Key}
	if holders := a.keys[k]; len(holders) > 0 {
		last := holders[len(holders)-1]
		over := last.row.Status.Final() && !now.Before(last.bound.Add(a.opts.KeyLife))
		if !over && !neverSent(&last.row) {
			a.broken("a key lives until its transaction is final, and its life is over", p.id,
				"bound again while %s is %s %s, %s after that was bound", last.id, last.row.Status, last.row.Evidence, now.Sub(last.bound))
		}
		if over {
			delete(a.answers, k)
		}
	}
	a.keys[k] = append(a.keys[k], p)
	if t.Order != "" {
		o := order{t.Client, t.Order}
		a.orders[o] = append(a.orders[o], p)
	}
}

func neverSent(t *ledger.Transaction) bool {
	return t.Status == ledger.StatusFailed && t.Evidence == ledger.EvidenceNotSent
}

// changed is a row that was there.
func (a *Auditor) changed(p *payment, t *ledger.Transaction) {
	was := &p.row
	if was.Status.Final() {
		if lasting(was) != lasting(t) {
			a.broken("final rows never change", p.id, "%s %s became %s %s, decision %q then %q",
				was.Status, was.Evidence, t.Status, t.Evidence, was.Decision, t.Decision)
		}
		return
	}
	if t.Status != was.Status && !slices.Contains(moves[was.Status], t.Status) {
		a.broken("a row makes legal moves alone", p.id, "%s became %s", was.Status, t.Status)
	}
	if who(was) != who(t) {
		a.broken("who pays what never changes", p.id, "the row is another payment's now")
	}
	if was.Decision != 0 && t.Decision != was.Decision {
		a.broken("a decision is irrevocable", p.id, "it was taken back")
	}
}

// lasting is a final row without what the telling of a net cancel that is owed
// changes.
func lasting(t *ledger.Transaction) ledger.Transaction {
	l := *t
	l.NextResolveAt, l.Asked, l.ResolveAttempts, l.NotFound = time.Time{}, false, 0, 0
	return l
}

// who is what a row was born with.
func who(t *ledger.Transaction) ledger.Transaction {
	return ledger.Transaction{
		ID: t.ID, Kind: t.Kind, Client: t.Client, Key: t.Key, Order: t.Order, Policy: t.Policy,
		AccountMasked: t.AccountMasked, AccountHash: t.AccountHash, Amount: t.Amount, RequestedAt: t.RequestedAt,
	}
}

// history is what the events must be: nothing of them changes, and played again
// they lead to the row.
func (a *Auditor) history(p *payment, t *ledger.Transaction, events []ledger.Event) {
	if len(events) < len(p.events) || !slices.Equal(events[:len(p.events)], p.events) {
		a.broken("events are appended, never edited", p.id, "%d were %d", len(events), len(p.events))
		return
	}
	status, evidence := ledger.Status(0), ledger.Evidence(0)
	last := int64(0)
	for i := range events {
		e := &events[i]
		switch {
		case e.Sequence <= last:
			a.broken("events are numbered", p.id, "event %d has number %d after %d", i+1, e.Sequence, last)
		case e.From != status:
			a.broken("events replay to the row", p.id, "event %d begins at %q, and the row was %q", i+1, e.From, status)
		}
		if e.To != status {
			evidence = e.Evidence
		}
		status, last = e.To, e.Sequence
	}
	if status != t.Status || t.Status.Final() && evidence != t.Evidence {
		a.broken("events replay to the row", p.id, "they end %s %s, the row is %s %s", status, evidence, t.Status, t.Evidence)
	}
}

// written looks for account numbers in a row and its new events.
func (a *Auditor) written(t *ledger.Transaction, events []ledger.Event) {
	a.text("a row", t.ID, t.Reason+"\n"+t.Answer.Message+"\n"+t.AccountMasked+"\n"+string(t.Key)+"\n"+t.CorrelationID)
	for i := range events {
		a.text("an event", t.ID, events[i].Detail+"\n"+events[i].By.Name)
	}
}

// meaning holds the status of a payment against what left and what the core did.
func (a *Auditor) meaning(p *payment) {
	t := &p.row
	if t.Status.Final() && t.Evidence == 0 {
		a.broken("nothing is final without evidence", p.id, "%s on none", t.Status)
	}
	switch t.Status {
	case ledger.StatusSuccess:
		if !p.stands() {
			a.broken("SUCCESS has one live debit", p.id, "%s, and the core did %d debits and %d cancels", t.Evidence, p.debits, p.cancels)
		}
		if t.Decision != 0 {
			a.broken("a decision blocks SUCCESS", p.id, "SUCCESS in spite of %s", t.Decision)
		}
	case ledger.StatusFailed, ledger.StatusCanceled:
		if p.stands() && t.Evidence != ledger.EvidenceOperator {
			a.broken("FAILED and CANCELED have no debit", p.id, "%s on %s, and a debit stands", t.Status, t.Evidence)
		}
	default:
	}
	switch t.Evidence {
	case ledger.EvidenceNotSent:
		if p.frames > 0 {
			a.broken("NOT_SENT means that no byte left", p.id, "a frame left")
		}
	case ledger.EvidenceFenced, ledger.EvidenceWindowElapsed:
		if t.Decision == 0 {
			a.broken("a decision comes before a net cancel", p.id, "%s without one", t.Evidence)
		}
		if t.Evidence == ledger.EvidenceFenced && !p.fenced {
			a.broken("FENCED means that the core refuses it", p.id, "it has no fence")
		}
	default:
	}
}

// order is at most one payment of an order that is done or may be.
func (a *Auditor) order(p *payment) {
	if p.row.Order == "" || p.bound.IsZero() {
		return
	}
	holding := 0
	for _, other := range a.orders[order{p.row.Client, p.row.Order}] {
		if s := other.row.Status; s != ledger.StatusFailed && s != ledger.StatusCanceled {
			holding++
		}
	}
	if holding > 1 {
		a.broken("an order is paid once", p.id, "%d payments of it are done, or may be", holding)
	}
}
