package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/services/payment/payment"
	"github.com/gwanmun/gwanmun/services/simulation/audit"
)

// caller calls until it knows the end, or has called often enough.
func (w *world) caller(e *event) {
	c := &e.call
	for try := range c.tries {
		if try > 0 {
			time.Sleep(e.die.of("gap").nth(try).between(c.gap/2, c.gap))
		}
		if p := w.at((c.slot + slot(try)) % slot(w.plan.house.payments)); p != nil && w.callOnce(p, e, try) {
			return
		}
	}
}

// callOnce makes one call, and reports whether there is no point in another.
func (w *world) callOnce(p *process, e *event, try int) bool {
	c, die := &e.call, e.die.of("call").nth(try)
	ctx, cancel := context.WithTimeout(context.Background(), c.deadline+die.of("deadline").between(0, time.Millisecond))
	defer cancel()
	if c.hangUp > 0 {
		timer := time.AfterFunc(c.hangUp+die.of("hangs up").between(0, time.Second), cancel)
		defer timer.Stop()
	}
	over := make(chan bool, 1)
	w.run(func() {
		time.Sleep(die.of("there").between(50*time.Microsecond, time.Millisecond))
		p.awake(die)
		if p.isDead() {
			over <- false
			return
		}
		theirs := skewed{ctx, p.clock}
		if c.balance {
			over <- w.askBalance(theirs, p, c, die)
		} else {
			over <- w.pay(theirs, p, c, die)
		}
	})
	select {
	case end := <-over:
		return end
	case <-ctx.Done():
		return false
	case <-p.dead:
		return false
	}
}

// pay is a payment at a service that was reached. What it replies is told.
func (w *world) pay(ctx context.Context, p *process, c *call, die dice) bool {
	number, err := account.Parse(c.account)
	if err != nil {
		w.t.Fatal(err)
	}
	reply, err := p.service.Create(ctx, payment.Request{
		Client: c.client, Key: c.key, Account: number, Amount: c.amount, Order: c.order, Policy: c.policy, CorrelationID: string(c.key),
	})
	p.awake(die.of("reply"))
	if p.isDead() {
		return false
	}
	told := audit.Reply{Client: c.client, Key: c.key, Order: c.order, OK: err == nil}
	var refusal *ledger.Refusal
	switch {
	case err == nil:
		told.Transaction, told.Replayed = &reply.Transaction, reply.Replayed
	case errors.As(err, &refusal):
		told.Reason, told.Transaction, told.Replayed = refusal.Reason, refusal.Transaction, refusal.Replayed
		w.audit.Text("an error", err.Error())
	default:
		return false // the end of the caller's own context
	}
	what := "OK"
	if !told.OK {
		what = told.Reason.String()
	}
	if told.Transaction != nil {
		p.say(told.Transaction.ID, "tells %s %s, replayed %t", c.key, what, told.Replayed)
	} else {
		p.say("", "tells %s %s", c.key, what)
	}
	w.audit.Told(told)
	if told.OK || isEnd(told.Reason) {
		return true
	}
	if die.of("looks").chance(0.5) {
		return w.lookAfter(ctx, p, c, die)
	}
	return false
}

// lookAfter asks what became of a payment, and reports whether that is known.
func (w *world) lookAfter(ctx context.Context, p *process, c *call, die dice) bool {
	row, err := p.service.GetByKey(ctx, c.client, c.key)
	p.awake(die.of("looked"))
	if err != nil || p.isDead() {
		return false
	}
	p.say(row.ID, "shows %s to who looks after %s", row.Status, c.key)
	w.audit.Shown(c.client, c.key, &row)
	return row.Status.Final() && row.Evidence != ledger.EvidenceNotSent
}

// dayReasons are all that a caller may be refused for on any day.
var dayReasons = []ledger.Reason{
	ledger.ReasonAccountNotFound, ledger.ReasonDeclined, ledger.ReasonOutcomeUnknown, ledger.ReasonPaymentCanceled,
	ledger.ReasonNotExecuted, ledger.ReasonDeadlineTooShort, ledger.ReasonSendWindowMissed, ledger.ReasonCircuitOpen,
	ledger.ReasonCoreUnreachable, ledger.ReasonLedgerUnavailable, ledger.ReasonLinkSaturated, ledger.ReasonIdempotencyKeyReused,
	ledger.ReasonInProgress, ledger.ReasonOrderAlreadyPaid, ledger.ReasonOrderInDoubt,
}

// isEnd reports whether a reason is the last word about a key.
func isEnd(r ledger.Reason) bool {
	switch r {
	case ledger.ReasonDeclined, ledger.ReasonAccountNotFound, ledger.ReasonNotExecuted, ledger.ReasonPaymentCanceled,
		ledger.ReasonIdempotencyKeyReused, ledger.ReasonOrderAlreadyPaid:
		return true
	default:
		return false
	}
}

func (w *world) askBalance(ctx context.Context, p *process, c *call, die dice) bool {
	asked := time.Now()
	number, err := account.Parse(c.account)
	if err != nil {
		w.t.Fatal(err)
	}
	reply, err := p.service.Balance(ctx, payment.BalanceRequest{Client: c.client, Account: number, CorrelationID: string(c.key)})
	p.awake(die.of("reply"))
	if err != nil || p.isDead() {
		return false
	}
	p.mu.Lock()
	p.told = append(p.told, reply.Transaction.ID)
	p.mu.Unlock()
	p.say(reply.Transaction.ID, "tells a balance of %d", reply.Balance)
	w.audit.Inquired(audit.Reply{Client: c.client, OK: true, Transaction: &reply.Transaction})
	w.audit.ToldBalance(fmt.Sprintf("%014s", c.account), asked, reply.Balance)
	return true
}

// skewed is a caller's context as a process sees it whose clock is wrong: a deadline
// travels as the time that is left.
type skewed struct {
	context.Context
	clock *clock
}

func (s skewed) Deadline() (time.Time, bool) {
	at, ok := s.Context.Deadline()
	if !ok {
		return at, false
	}
	return at.Add(s.clock.skew()), true
}
