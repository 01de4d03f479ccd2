package audit

import (
	"strings"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Entry is one entry of the core's journal.
type Entry struct {
	Sequence int64
	MTI      string
	ID       tranid.ID
	// Account is its 14 digits, or masked as the row has it where the journal says
	// no more; empty when the core does not know it.
	Account string
	Amount  account.Won
	// Effect is NONE, DEBIT, CANCEL or FENCE.
	Effect string
	// Code is what was answered; empty where nothing was.
	Code string
}

// balance is what an account had from a moment on.
type balance struct {
	from time.Time
	won  account.Won
}

// Opened is told that the core opened an account, or set its balance. The account is
// named as the entries of the journal name it.
func (a *Auditor) Opened(name string, won account.Won) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.balances[name] = append(a.balances[name], balance{a.opts.Now(), won})
}

// Core is told an entry when it is in the core's book.
func (a *Auditor) Core(e Entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sequence++; e.Sequence != a.sequence {
		a.broken("the core's journal has no gaps", e.ID, "entry %d after %d", e.Sequence, a.sequence-1)
		a.sequence = e.Sequence
	}
	p := a.of(e.ID)
	p.entries[e.MTI]++
	if e.Code == ledger.CodeIDUsed && !a.opts.Doubles {
		a.broken("an ID is given out once", e.ID, "the core has it already")
	}
	switch e.Effect {
	case "DEBIT":
		a.debit(p, &e)
	case "CANCEL":
		p.cancels++
		a.move(e.Account, e.Amount)
		a.undone(p)
	case "FENCE":
		p.fenced = true
		a.undone(p)
	}
}

func (a *Auditor) debit(p *payment, e *Entry) {
	p.debits++
	a.move(e.Account, -e.Amount)
	if p.debits > 1 {
		a.broken("at most one DEBIT for a transaction", p.id, "the core did %d", p.debits)
	}
	if !p.seen || p.frames == 0 {
		a.broken("every byte that left had an intent before", p.id, "a debit of which nothing is known here")
		return
	}
	if p.row.Amount != e.Amount {
		a.broken("the core debits what was asked for", p.id, "%d in place of %d", e.Amount, p.row.Amount)
	}
	if !isMasked(e.Account, p.row.AccountMasked) {
		a.broken("the core debits what was asked for", p.id, "another account in place of %s", p.row.AccountMasked)
	}
	if s := p.row.Status; (s == ledger.StatusFailed || s == ledger.StatusCanceled) && p.row.Evidence != ledger.EvidenceOperator {
		a.broken("FAILED and CANCELED have no debit", p.id, "a ghost: debited after it was %s on %s", s, p.row.Evidence)
	}
	a.once(p)
	a.onceForItsOrder(p)
}

// isMasked reports whether a mask may be of an account, which may be masked too.
func isMasked(number, mask string) bool {
	head, _, _ := strings.Cut(mask, "*")
	tail := mask[strings.LastIndex(mask, "*")+1:]
	return len(mask) > len(head) && strings.HasPrefix(number, head) && strings.HasSuffix(number, tail)
}

// onceForItsOrder is at most one debit of an order that stands. What an operator has
// called undone the core may still be about to be told of.
func (a *Auditor) onceForItsOrder(p *payment) {
	if p.row.Order == "" {
		return
	}
	for _, other := range a.orders[order{p.row.Client, p.row.Order}] {
		if other != p && other.stands() && other.row.Evidence != ledger.EvidenceOperator {
			a.broken("an order is paid once", p.id, "debited while the debit of %s stands", other.id)
		}
	}
}

// once is at most one debit in the life of a key. One that was bound again when its
// life was over has another life.
func (a *Auditor) once(p *payment) {
	for _, other := range a.keys[key{p.row.Client, p.row.Key}] {
		apart := p.bound.Sub(other.bound).Abs()
		if other != p && other.debits > 0 && apart < a.opts.KeyLife {
			a.broken("at most one debit in the life of a key", p.id, "%s was debited too", other.id)
		}
	}
}

// undone is told that the core canceled or fenced a payment.
func (a *Auditor) undone(p *payment) {
	switch {
	case !p.seen:
		a.broken("a net cancel is of a payment", p.id, "there is no row")
	case p.row.Status == ledger.StatusSuccess:
		a.broken("SUCCESS has one live debit", p.id, "the core was told to cancel it")
	case p.row.Decision == 0:
		a.broken("a decision comes before a net cancel", p.id, "the core canceled a row without one")
	}
}

func (a *Auditor) move(digits string, by account.Won) {
	all := a.balances[digits]
	if len(all) == 0 {
		a.broken("money is conserved", "", "an account moved that was never opened")
		return
	}
	a.balances[digits] = append(all, balance{a.opts.Now(), all[len(all)-1].won + by})
}

// ToldBalance is told what a caller heard of an account, and when he asked.
func (a *Auditor) ToldBalance(name string, asked time.Time, won account.Won) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.balances[name]
	for i := range all {
		over := i+1 < len(all) && all[i+1].from.Before(asked)
		if all[i].won == won && !over {
			return
		}
	}
	a.broken("an answer reaches its request alone", "", "a balance was told that the account did not have meanwhile")
}
