package simulation

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/services/corebank/simulator"
)

// plan is a day before it begins: the house, and all that is to happen in it, in
// the order of time. What its events do beside that, the dice of the seed say. An
// event may be left out without another's changing.
type plan struct {
	seed   uint64
	house  house
	events []event
}

// house is how the day's house is built.
type house struct {
	payments, reconcilers int
	fences                bool
	consecutive           bool
	openWait              time.Duration
	poolSize              int
	keyLife               time.Duration
	sweep                 time.Duration
	lateWindow            time.Duration
	maxAttempts           int
	// dedupes: the core refuses an ID that was used. Where it does not, the wire
	// doubles no frame: nobody could help that.
	dedupes bool
	// reviewed is whether an operator settles in the end what is in review.
	reviewed bool
	// toMidnight is how long after the beginning the day ends in Seoul.
	toMidnight time.Duration
	// troubles is how long callers call and faults strike.
	troubles time.Duration
}

// event is one thing that is planned.
type event struct {
	at, until time.Duration
	kind      kind
	// slot is which process it is about; anywhere is all of them.
	slot slot
	// odds are how likely each single thing is, amount is a measure of the kind.
	odds   float64
	amount time.Duration
	fault  simulator.Fault
	call   call
	// die is the event's own.
	die dice
}

// slot is the place of a process: payment services first, reconcilers behind them.
type slot int

const anywhere slot = -1

// kind is what an event is. The zero kind is invalid.
type kind uint8

const (
	aCall         kind = iota + 1
	ledgerDown         // of one process, or of all: writes and reads fail or hang
	ledgerSlow         // they take as long as amount
	ledgerDoubt        // they fail before or after they were done
	wireRough          // resets, cuts, losses
	wireLate           // requests that are late by amount
	wireTorn           // requests that the kernel takes a part of
	cutOff             // a process reaches no core
	confusion          // the core answers with others' answers
	coreDown           // it crashes, and comes back with its book
	coreFault          // a fault of the simulator
	coreSlow           // its book is slow
	crash              // a process dies, and another takes its place
	crashInLedger      // it dies within a call of the ledger
	graceful           // it is asked to end, drains, and another takes its place
	pause              // it stands still, and wakes up
	clockStep          // its clock is set
	hints              // the core, or who knows who, hints at payments
	operator           // resolves and settles, and knows from the bank what it did
	settlementRun
	ledgerStale // reads see rows as they were up to amount ago
	oldList     // hints and operators go after what was pending up to amount ago
)

var kinds = []string{
	"", "call", "ledger down", "ledger slow", "ledger in doubt", "wire rough", "wire late", "write torn", "cut off", "confusion",
	"core down", "core fault", "core slow", "crash", "crash in ledger", "graceful stop", "pause", "clock step", "hints", "operator", "settlement",
	"stale reads", "old list",
}

func (e *event) String() string {
	s := fmt.Sprintf("%9.3fs  %-15s", e.at.Seconds(), kinds[e.kind])
	if e.until > e.at {
		s += fmt.Sprintf(" for %.3fs", (e.until - e.at).Seconds())
	}
	switch e.kind {
	case aCall:
		return s + " " + e.call.String()
	case coreFault:
		return s + fmt.Sprintf(" %s %s when %d delay %s code %q", e.fault.MTI, e.fault.Action, e.fault.When, e.fault.Delay, e.fault.ResponseCode)
	default:
		return s + fmt.Sprintf(" slot %d odds %.2f amount %s", e.slot, e.odds, e.amount)
	}
}

// newPlan is the plan that a seed makes.
func newPlan(seed uint64) *plan {
	d := dice(seed).of("plan")
	p := &plan{seed: seed, house: newHouse(d.of("house").rand())}
	r := d.of("calls").rand()
	for range 20 + r.IntN(25) {
		p.addCalls(r)
	}
	r = d.of("troubles").rand()
	troubles := 3 + r.IntN(14)
	if r.IntN(4) == 0 {
		troubles *= 3 // a day on which nothing works
	}
	for range troubles {
		p.addTrouble(r)
	}
	r = d.of("stories").rand()
	for range r.IntN(4) {
		[]func(*rand.Rand){p.addLateAnswers, p.addLateAnswers, p.addTrembling, p.addUnsentTwice, p.addOutage}[r.IntN(5)](r)
	}
	r = d.of("stale reads").rand()
	for range r.IntN(4) {
		p.addStale(r)
	}
	if r.IntN(2) == 0 {
		p.addOldCopies(r)
	}
	for i := range p.events {
		p.events[i].die = dice(seed).of("event").nth(i)
	}
	slices.SortStableFunc(p.events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return p
}

func newHouse(r *rand.Rand) house {
	h := house{
		payments: 1 + r.IntN(3), reconcilers: 1 + r.IntN(3), fences: r.IntN(7) > 0,
		consecutive: r.IntN(2) == 0, openWait: between(r, 300*time.Millisecond, 4*time.Second),
		poolSize: 2 + r.IntN(12), keyLife: 24 * time.Hour, sweep: 5 * time.Second, lateWindow: 75 * time.Second,
		troubles: between(r, 25*time.Second, 60*time.Second),
	}
	h.maxAttempts = []int{10, 10, 2, 3}[r.IntN(4)]
	h.reviewed = r.IntN(2) == 0
	h.dedupes = r.IntN(6) > 0
	h.toMidnight = between(r, -h.troubles, 2*h.troubles)
	if r.IntN(3) == 0 {
		h.openWait = 10 * time.Second
	}
	if r.IntN(2) == 0 {
		h.keyLife = between(r, 3*time.Second, 30*time.Second)
	}
	return h
}

func (h *house) slots() int { return h.payments + h.reconcilers }

func (p *plan) add(e event) { p.events = append(p.events, e) }

// addTrouble adds one event, or some that belong together.
func (p *plan) addTrouble(r *rand.Rand) {
	h := &p.house
	e := event{
		kind: ledgerDown + kind(r.IntN(int(settlementRun-ledgerDown)+1)),
		at:   between(r, 0, h.troubles), slot: slot(r.IntN(h.slots()+1) - 1), odds: 0.02 + r.Float64()*0.3,
	}
	e.until = e.at + between(r, time.Second, 20*time.Second)
	switch e.kind {
	case ledgerSlow:
		e.amount = between(r, 10*time.Millisecond, 2500*time.Millisecond)
	case wireLate:
		e.amount = between(r, time.Second, 18*time.Second)
	case coreDown:
		e.until = e.at + between(r, 100*time.Millisecond, 12*time.Second)
	case coreSlow:
		e.amount = between(r, 10*time.Millisecond, 4*time.Second)
	case coreFault:
		e.fault = newFault(r)
	case crash, crashInLedger, graceful:
		e.slot = slot(r.IntN(h.slots()))
		e.amount = between(r, 10*time.Millisecond, 6*time.Second) // until the next one stands
	case pause:
		e.slot = slot(r.IntN(h.slots()))
		e.until = e.at + between(r, 10*time.Millisecond, 20*time.Second)
	case clockStep:
		e.amount = between(r, -2*time.Second, 2*time.Second)
		if e.slot >= slot(h.payments) {
			e.slot = anywhere // the clock of the database; that of a reconciler is the runtime's
		}
	default:
	}
	e.until = min(e.until, h.troubles)
	p.add(e)
}

// newFault is one that a bank may have: it does not lie about money.
func newFault(r *rand.Rand) simulator.Fault {
	odds := 0.05 + r.Float64()*0.4
	f := simulator.Fault{Probability: &odds, Seed: r.Uint64(), MTI: []string{"0100", "0100", "0200", "0400", "0420"}[r.IntN(5)]}
	f.When = simulator.AfterExecution
	switch r.IntN(14) {
	case 0:
		f.Action, f.When, f.Delay = simulator.FaultDelay, simulator.BeforeExecution, between(r, 10*time.Millisecond, 15*time.Second)
	case 1, 2:
		f.Action, f.Delay = simulator.FaultDelay, between(r, 10*time.Millisecond, 6*time.Second)
	case 3:
		f.Action = simulator.FaultClose
	case 4:
		f.Action, f.When = simulator.FaultClose, simulator.BeforeExecution
	case 5:
		f.Action = simulator.FaultBlackHole
	case 6:
		f.Action, f.Bytes = simulator.FaultTruncate, 1+r.IntN(60)
	case 7:
		f.Action, f.Bytes = simulator.FaultExtraBytes, 1+r.IntN(70)
	case 8:
		f.Action, f.Bytes, f.Gap = simulator.FaultSplit, 1+r.IntN(60), between(r, time.Millisecond, time.Second)
	case 9:
		f.Action = simulator.FaultDuplicateAnswer
	case 10:
		f.Action = simulator.FaultUnsolicitedFrame
	case 11:
		f.Action = []simulator.FaultAction{simulator.FaultWrongEcho, simulator.FaultWrongMTI}[r.IntN(2)]
	case 12:
		f.Action, f.When, f.ResponseCode = simulator.FaultResponseCode, simulator.BeforeExecution, []string{"0098", "0012"}[r.IntN(2)]
	default:
		f.Action, f.Field = simulator.FaultCorruptField, []string{"response_code", "mti", "tran_id"}[r.IntN(3)]
	}
	return f
}

// accounts of the day; the last declines, and the one before it has little money.
var accounts = []string{"12345678901234", "23456789012345", "34567890123456", "00000000000000", "45678901234567", "22222222222222"}

const poorAccount = "45678901234567"

// call is what one caller does.
type call struct {
	balance  bool
	client   ledger.ClientID
	key      ledger.IdempotencyKey
	account  string
	amount   account.Won
	order    ledger.OrderID
	policy   ledger.Policy
	slot     slot
	deadline time.Duration
	// hangUp is when the caller leaves; 0 never.
	hangUp time.Duration
	// tries is how often it calls at most, gap apart, until it knows the end.
	tries int
	gap   time.Duration
}

func (c *call) String() string {
	if c.balance {
		return fmt.Sprintf("balance at payment %d", c.slot)
	}
	return fmt.Sprintf("%s pays %d under %s for %q by %s at payment %d, %d times", c.client, c.amount, c.key, c.order, c.policy, c.slot, c.tries)
}

// addCalls adds a caller, or several whose calls have to do with each other.
func (p *plan) addCalls(r *rand.Rand) {
	n := len(p.events)
	c := call{
		client: []ledger.ClientID{"shop", "mall"}[r.IntN(2)], key: ledger.IdempotencyKey(fmt.Sprintf("key-%d", n)),
		account: accounts[min(r.IntN(9)*2/3, len(accounts)-1)], amount: account.Won(1000 + r.IntN(100_000)),
		policy: ledger.PolicyNetCancel, slot: slot(r.IntN(p.house.payments)),
		deadline: 10 * time.Second, tries: 1, gap: between(r, 10*time.Millisecond, 3*time.Second),
	}
	if r.IntN(2) == 0 {
		c.policy = ledger.PolicyConfirm
	}
	at := between(r, 0, p.house.troubles)
	again := func(change func(c *call)) {
		other := c
		change(&other)
		later := between(r, 0, 500*time.Millisecond)
		if r.IntN(3) == 0 {
			later = between(r, 0, 30*time.Second)
		}
		p.add(event{kind: aCall, at: at + later, call: other})
	}
	elsewhere := func(c *call) { c.slot = slot(r.IntN(p.house.payments)) }
	switch r.IntN(9) {
	case 0:
		c.balance, c.tries = true, 1+r.IntN(3)
	case 1, 2:
		c.tries = 2 + r.IntN(8)
	case 3:
		c.deadline, c.tries = between(r, 50*time.Millisecond, 3*time.Second), 1+r.IntN(8)
	case 4:
		c.hangUp, c.tries = between(r, time.Millisecond, 3*time.Second), 1+r.IntN(4)
	case 5, 6:
		c.tries = 1 + r.IntN(5)
		for range 1 + r.IntN(4) {
			again(elsewhere)
		}
	case 7:
		c.order = ledger.OrderID(fmt.Sprintf("order-%d", n))
		c.tries = 1 + r.IntN(3)
		for i := range 1 + r.IntN(3) {
			again(func(o *call) { elsewhere(o); o.key += ledger.IdempotencyKey(fmt.Sprintf("-%d", i)) })
		}
	default:
		again(func(o *call) { elsewhere(o); o.amount++ })
	}
	p.add(event{kind: aCall, at: at, call: c})
}
