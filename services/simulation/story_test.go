package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/services/corebank/simulator"
)

// Stories are troubles that come together. Chance alone would tell them once in
// thousands of days.

// burst adds payments at one service, close together, and returns when the first
// of them begins.
func (p *plan) burst(r *rand.Rand, s slot, count int, within time.Duration) time.Duration {
	at := between(r, 0, p.house.troubles)
	for range count {
		p.add(event{kind: aCall, at: at + between(r, 0, within), call: p.payment(r, s)})
	}
	return at
}

// payment is one of a burst.
func (p *plan) payment(r *rand.Rand, s slot) call {
	return call{
		client: "shop", key: ledger.IdempotencyKey(fmt.Sprintf("key-%d", len(p.events))), account: accounts[r.IntN(3)],
		amount: account.Won(1000 + r.IntN(100_000)), policy: []ledger.Policy{ledger.PolicyNetCancel, ledger.PolicyConfirm}[r.IntN(2)],
		slot: s, deadline: 10 * time.Second, tries: 1 + r.IntN(3), gap: 3 * time.Second,
	}
}

// addLateAnswers: a payment service knows its answers, and is stopped or cut off
// from the ledger until its rows are taken for abandoned. It comes back while the
// reconcilers are at them, with a ledger that is slow.
func (p *plan) addLateAnswers(r *rand.Rand) { p.lateAnswers(r) }

// lateAnswers is when it comes back.
func (p *plan) lateAnswers(r *rand.Rand) (back time.Duration) {
	s := slot(r.IntN(p.house.payments))
	at := p.burst(r, s, 5+r.IntN(6), 20*time.Millisecond)
	back = at + sendWindow + deadline + adoptMargin + between(r, 0, 7*time.Second)
	away := event{kind: pause, at: at + between(r, 2*time.Millisecond, 10*time.Millisecond), until: back, slot: s}
	if r.IntN(3) == 0 {
		away.kind = ledgerDown
	}
	p.add(away)
	for n := range p.house.reconcilers {
		p.add(event{
			kind: ledgerSlow, at: back - 8*time.Second, until: back + 8*time.Second, slot: slot(p.house.payments + n),
			amount: between(r, 1500*time.Millisecond, 4500*time.Millisecond),
		})
	}
	for range r.IntN(3) {
		p.add(event{kind: settlementRun, at: back + between(r, -6*time.Second, 3*time.Second)})
	}
	p.house.troubles = max(p.house.troubles, back+4*time.Second)
	return back
}

// addTrembling: the core does some payments late and loses others, so that a circuit
// opens and is tried again while late answers are still to come.
func (p *plan) addTrembling(r *rand.Rand) {
	s := slot(r.IntN(p.house.payments))
	at := p.burst(r, s, 12+r.IntN(12), 5*time.Second)
	for _, f := range []simulator.Fault{
		{MTI: "0100", Action: simulator.FaultDelay, When: simulator.AfterExecution, Delay: between(r, 500*time.Millisecond, 2900*time.Millisecond)},
		{MTI: "0100", Action: simulator.FaultClose, When: simulator.AfterExecution},
	} {
		odds := 0.2 + r.Float64()*0.5
		f.Probability, f.Seed = &odds, r.Uint64()
		p.add(event{kind: coreFault, at: at, until: at + 6*time.Second, fault: f})
	}
	p.house.openWait = between(r, 100*time.Millisecond, 1500*time.Millisecond)
	p.house.troubles = max(p.house.troubles, at+6*time.Second)
}

// addOutage: the core or the ledger is away for long, up to the moment at which all
// troubles are over.
func (p *plan) addOutage(r *rand.Rand) {
	s := slot(r.IntN(p.house.payments))
	at := p.burst(r, s, 6+r.IntN(10), 3*time.Second)
	p.house.troubles = max(p.house.troubles, at+between(r, 10*time.Second, 90*time.Second))
	away := event{kind: []kind{coreDown, cutOff, ledgerDown}[r.IntN(3)], at: at + between(r, 0, 3*time.Second), until: p.house.troubles, slot: anywhere}
	if r.IntN(2) == 0 {
		for range 3 {
			p.burst(r, slot(r.IntN(p.house.payments)), 1+r.IntN(8), 20*time.Second)
		}
	}
	p.add(away)
}

// addUnsentTwice: payments that could not be sent, and callers who try again with
// the same keys, all at once and everywhere.
func (p *plan) addUnsentTwice(r *rand.Rand) {
	at := between(r, 0, p.house.troubles)
	p.add(event{kind: coreDown, at: at, until: at + between(r, 50*time.Millisecond, 800*time.Millisecond)})
	for range 2 + r.IntN(3) {
		c := p.payment(r, 0)
		c.gap, c.tries = between(r, 5*time.Millisecond, 400*time.Millisecond), 3+r.IntN(4)
		same := c.key
		for n := range 2 + r.IntN(3) {
			c.key, c.slot = same, slot(n%p.house.payments)
			p.add(event{kind: aCall, at: at + between(r, 0, 40*time.Millisecond), call: c})
		}
	}
}
