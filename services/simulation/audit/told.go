package audit

import (
	"slices"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// Reply is what a caller of CreatePayment was told.
type Reply struct {
	Client ledger.ClientID
	Key    ledger.IdempotencyKey
	// Order is what the caller pays for; empty for none.
	Order ledger.OrderID
	// OK is true for no error; Reason is set otherwise.
	OK     bool
	Reason ledger.Reason
	// Transaction is the one that the reply is about; nil for none.
	Transaction *ledger.Transaction
	Replayed    bool
}

// answer is a final thing that a caller was told under a key.
type answer struct {
	what string
	of   *payment
}

// Told is told a reply at the moment at which it reaches its caller.
func (a *Auditor) Told(r Reply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reason(&r)
	if r.Transaction == nil {
		if r.OK {
			a.broken("OK means SUCCESS, durable", "", "OK for no transaction")
		}
		return
	}
	p := a.of(r.Transaction.ID)
	a.isOf(p, &r)
	a.says(p, r.Transaction)
	if r.OK {
		if !p.seen || p.row.Status != ledger.StatusSuccess || !p.stands() {
			a.broken("OK means SUCCESS, durable", p.id, "the row is %s, debits %d, cancels %d", p.row.Status, p.debits, p.cancels)
		}
		a.final(r, p, "OK")
		return
	}
	switch r.Reason {
	case ledger.ReasonDeclined, ledger.ReasonAccountNotFound, ledger.ReasonNotExecuted:
		a.expect(p, ledger.StatusFailed, r.Reason)
		a.final(r, p, "FAILED")
	case ledger.ReasonPaymentCanceled:
		a.expect(p, ledger.StatusCanceled, r.Reason)
		a.final(r, p, "CANCELED")
	case ledger.ReasonOrderAlreadyPaid:
		a.expect(p, ledger.StatusSuccess, r.Reason)
	case ledger.ReasonSendWindowMissed, ledger.ReasonCircuitOpen, ledger.ReasonCoreUnreachable, ledger.ReasonLinkSaturated,
		ledger.ReasonDeadlineTooShort, ledger.ReasonLedgerUnavailable:
		p.unsent = true
		if p.frames > 0 {
			a.broken("NOT_SENT means that no byte left", p.id, "%s was told, and a frame had left", r.Reason)
		}
	default:
	}
}

// Inquired is told a reply to an inquiry, whose row is written behind its answer.
func (a *Auditor) Inquired(r Reply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reason(&r)
	switch {
	case r.Transaction != nil:
		p := a.of(r.Transaction.ID)
		p.behind = true
		if p.seen && (p.row.Kind.MovesMoney() || p.row.Client != r.Client) {
			a.broken("an answer reaches its request alone", p.id, "an inquiry was told about a %s of %s", p.row.Kind, p.row.Client)
		}
		a.says(p, r.Transaction)
	case r.OK:
		a.broken("OK means SUCCESS, durable", "", "OK for no transaction")
	}
}

// reason holds why a call was refused against what can be.
func (a *Auditor) reason(r *Reply) {
	switch {
	case r.OK:
	case r.Reason == 0:
		a.broken("a refusal has a reason", "", "there is none under %q", r.Key)
	case a.opts.Reasons != nil && !slices.Contains(a.opts.Reasons, r.Reason):
		a.broken("a refusal has a reason", "", "%s was told under %q, and cannot be", r.Reason, r.Key)
	}
}

// isOf holds the row that a reply is about against who asked. The holder of an order
// may be anybody's.
func (a *Auditor) isOf(p *payment, r *Reply) {
	switch {
	case !p.seen && r.OK:
		a.broken("an answer reaches its request alone", p.id, "there is no such row")
	case !p.seen: // it is written behind its answer
	case r.Reason == ledger.ReasonOrderAlreadyPaid || r.Reason == ledger.ReasonOrderInDoubt:
		if p.row.Order != r.Order || p.row.Client != r.Client {
			a.broken("an answer reaches its request alone", p.id, "told about another order")
		}
	case p.row.Client != r.Client || p.row.Key != r.Key:
		a.broken("an answer reaches its request alone", p.id, "told to another caller, or under another key")
	}
}

// says holds what a caller sees of a row against the row, now and in the end.
func (a *Auditor) says(p *payment, t *ledger.Transaction) {
	if !t.Status.Final() {
		return
	}
	p.said = standing{t.Status, t.Evidence}
	if p.seen && p.said != (standing{p.row.Status, p.row.Evidence}) {
		a.broken("a reply says what the row says", p.id, "%s %s was told, the row is %s %s", t.Status, t.Evidence, p.row.Status, p.row.Evidence)
	}
}

// Shown is told what a caller was shown who looked after the payment of a key.
func (a *Auditor) Shown(client ledger.ClientID, k ledger.IdempotencyKey, t *ledger.Transaction) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.of(t.ID)
	if !p.seen || t.Client != client || t.Key != k {
		a.broken("an answer reaches its request alone", t.ID, "shown to another caller, or under another key")
		return
	}
	a.says(p, t)
	if !t.Status.Final() || neverSent(t) {
		return
	}
	what := t.Status.String()
	if t.Status == ledger.StatusSuccess {
		what = "OK"
	}
	a.final(Reply{Client: client, Key: k}, p, what)
}

func (a *Auditor) expect(p *payment, status ledger.Status, reason ledger.Reason) {
	if !p.seen || p.row.Status != status {
		a.broken("a reply says what the row says", p.id, "%s was told, the row is %s", reason, p.row.Status)
	}
}

// final is told a final thing: under one key there is one.
func (a *Auditor) final(r Reply, p *payment, what string) {
	k := key{r.Client, r.Key}
	before, told := a.answers[k]
	if told && (before.what != what || before.of != p) && p.bound.Sub(before.of.bound).Abs() < a.opts.KeyLife {
		a.broken("nobody is told two different final things", p.id, "%s, and %s of %s before", what, before.what, before.of.id)
	}
	a.answers[k] = answer{what, p}
}
