package audit

import (
	"slices"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Open are the payments that are neither final nor in review, each with when it is
// due next by itself: adoption of a row that nobody ended, or the end of a
// back-off.
func (a *Auditor) Open() map[tranid.ID]time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	open := map[tranid.ID]time.Time{}
	for id, p := range a.payments {
		switch {
		case !p.seen || p.row.Status.Final() || p.row.NeedsReview:
		case p.row.Status == ledger.StatusRequested:
			open[id] = p.row.AdoptAt
		default:
			open[id] = p.row.NextResolveAt
		}
	}
	return open
}

// InReview are the payments that a human should look at, in order.
func (a *Auditor) InReview() []tranid.ID {
	return a.those(func(p *payment) bool { return p.row.NeedsReview })
}

// Owed are the payments of which the core is still to be told that they are
// canceled, in order.
func (a *Auditor) Owed() []tranid.ID {
	return a.those(func(p *payment) bool { return p.row.Status.Final() && !p.row.NextResolveAt.IsZero() })
}

func (a *Auditor) those(wanted func(*payment) bool) []tranid.ID {
	a.mu.Lock()
	defer a.mu.Unlock()
	var ids []tranid.ID
	for id, p := range a.payments {
		if p.seen && wanted(p) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Stands reports whether the core has a debit that was not canceled.
func (a *Auditor) Stands(id tranid.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.of(id).stands()
}

// Late is told that a payment was neither final nor in review when it had to be.
func (a *Auditor) Late(id tranid.ID, bound time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.of(id)
	a.broken("UNKNOWN becomes final in time, or needs review", id, "%s after %d attempts, %s after it was due and the faults were over",
		p.row.Status, p.row.ResolveAttempts, bound)
}

// Drained is told that a payment service ended in order: it told its callers of these
// inquiries and refusals, and has said of these rows (of some, where the ID is empty) that it
// gives them up. It has lost nothing else.
func (a *Auditor) Drained(instance string, told []tranid.ID, lost map[tranid.ID]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range told {
		if p := a.payments[id]; (p == nil || !p.seen) && !lost[id] && !lost[""] {
			a.broken("a process that ends in order loses no row", id, "it was told of, and is in no row")
		}
	}
	for id, p := range a.payments {
		if p.seen && p.row.Status == ledger.StatusRequested && p.frames > 0 && p.events[0].By.Instance == instance && !lost[id] {
			a.broken("a process that ends in order loses no row", id, "it was sent, and %s ended without a word of how that went", instance)
		}
	}
}

// Alarm is told that the house alarms on a ghost: that what it has of a payment cannot
// be true. There is none without a debit or a cancel that says otherwise.
func (a *Auditor) Alarm(id tranid.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.of(id)
	failed := p.row.Status == ledger.StatusFailed && p.debits > 0
	success := p.row.Status == ledger.StatusSuccess && (p.cancels > 0 || p.fenced)
	// An operator's word comes before the core has canceled it.
	canceled := p.row.Status == ledger.StatusCanceled && p.row.Evidence == ledger.EvidenceOperator && p.debits > 0
	if !failed && !success && !canceled {
		a.broken("an alarm is about something", id, "a ghost was seen, the row is %s, debits %d, cancels %d", p.row.Status, p.debits, p.cancels)
	}
}

// Kept is told which rows the ledger has at the end of the day.
func (a *Auditor) Kept(rows map[tranid.ID]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, p := range a.payments {
		if p.seen && !rows[id] {
			a.broken("what was committed stays", id, "the row is gone")
		}
	}
}

// Balance is told what the core says that an account has, at the end of the day.
func (a *Auditor) Balance(name string, won account.Won) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.balances[name]
	if len(all) > 0 && all[len(all)-1].won != won {
		a.broken("money is conserved", "", "an account has %d, and its journal says %d", won, all[len(all)-1].won)
	}
}

// Difference is told what settlement found in the end. What is not final here is
// UNRESOLVED; there is no other reason for a difference.
func (a *Auditor) Difference(d *ledger.Difference) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.of(d.ID)
	if d.Class == ledger.ClassUnresolved && !p.row.Status.Final() {
		return
	}
	a.broken("settlement finds no difference that cannot be explained", d.ID, "%s: %s here, %q there", d.Class, d.LedgerStatus, d.CoreState)
}

// Unsettled is told that a business day could not be compared, with nothing in the
// way of it.
func (a *Auditor) Unsettled(day tranid.Date, why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.broken("settlement of a day comes to an end", "", "%s: %s", day, why)
}

// Finish looks at every payment once more.
func (a *Auditor) Finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.payments {
		if p.seen && p.row.Kind.MovesMoney() {
			a.meaning(p)
			a.kept(p)
			a.proven(p)
		}
		a.lasts(p)
		if p.stands() && !p.seen {
			a.broken("every byte that left had an intent before", p.id, "the core did what no row knows")
		}
	}
}

// Tally is how the day went, in numbers.
type Tally struct {
	Payments, Success, Failed, NotSent, Canceled, Unknown, Review int
	// Doubted is how many were UNKNOWN for a while.
	Doubted int
	Frames  int
}

// Tally counts the payments that had an intent.
func (a *Auditor) Tally() Tally {
	a.mu.Lock()
	defer a.mu.Unlock()
	var n Tally
	for _, p := range a.payments {
		if !p.seen || p.bound.IsZero() {
			continue
		}
		n.Payments++
		n.Frames += p.frames
		for i := range p.events {
			if p.events[i].To == ledger.StatusUnknown {
				n.Doubted++
				break
			}
		}
		switch {
		case p.row.Status == ledger.StatusSuccess:
			n.Success++
		case neverSent(&p.row):
			n.NotSent++
		case p.row.Status == ledger.StatusFailed:
			n.Failed++
		case p.row.Status == ledger.StatusCanceled:
			n.Canceled++
		case p.row.NeedsReview:
			n.Review++
		default:
			n.Unknown++
		}
	}
	return n
}

// kept is what an operator's word has become: the core was told.
func (a *Auditor) kept(p *payment) {
	undone := p.row.Status == ledger.StatusFailed || p.row.Status == ledger.StatusCanceled
	if undone && p.stands() && p.row.NextResolveAt.IsZero() {
		a.broken("FAILED and CANCELED have no debit", p.id, "%s on %s, nothing is owed to the core, and a debit stands", p.row.Status, p.row.Evidence)
	}
}
