package matrix

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/resilience"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/corebank/simulator"
)

// Every fault, on every frame, over a pool of one connection that is cold or
// warm; an inquiry is struck in its first attempt or in all of them.
func TestMatrix(t *testing.T) {
	cells := 0
	for _, l := range lines {
		for _, mti := range mtis {
			fault, ok := l.on(mti)
			if !ok {
				continue
			}
			for _, warm := range []bool{false, true} {
				for _, c := range strikes(l, mti) {
					c.fault, c.warm = fault, warm
					cells++
					t.Run(c.name(), func(t *testing.T) {
						t.Parallel()
						c.run(t)
					})
				}
			}
		}
	}
	t.Logf("%d cells", cells)
}

// cell is one exchange, struck by one fault.
type cell struct {
	line
	mti  string
	warm bool
	// struck is how many of its attempts are, total how many it makes.
	struck, total int
}

// strikes are the ways in which a frame of this type can be struck.
func strikes(l line, mti string) []cell {
	always := cell{line: l, mti: mti, struck: 1, total: 1}
	if !l.end.fails() || !inquiry(mti) {
		return []cell{always}
	}
	once := always
	once.total = 2
	always.struck, always.total = 1+retries, 1+retries
	return []cell{once, always}
}

func inquiry(mti string) bool {
	return mti == telegram.BalanceRequestMTI || mti == telegram.StatusRequestMTI
}

// circuitOf is the circuit, and so the pool, of a frame.
func circuitOf(mti string) string {
	if inquiry(mti) {
		return resilience.CoreQuery
	}
	return resilience.CoreRequest
}

func (c *cell) name() string {
	temper := "cold"
	if c.warm {
		temper = "warm"
	}
	return fmt.Sprintf("%s/%s/%s/struck %d of %d", c.line.name, c.mti, temper, c.struck, c.total)
}

const (
	// The struck call and the one after it are about the same account.
	subject       = "12345678901234"
	subjectAmount = account.Won(1000)
	nextAmount    = account.Won(2000)
	nextBalance   = account.Won(777_777)
)

func (c *cell) run(t *testing.T) {
	tn := buildTown(t, 1)
	defer tn.close()
	id := c.prepare(tn)
	if c.warm {
		c.healthy(tn, 10)
	}
	circuit := circuitOf(c.mti)
	pools, counts := tn.pool(circuit), tn.circuit(circuit)

	row := c.strike(tn, id)

	if want := c.outcome(); outcomeOf(row) != want {
		t.Errorf("the row is %+v, want %+v: %s", outcomeOf(row), want, row.Reason)
	}
	if row.SentAt.IsZero() {
		t.Error("the row does not say when its request left")
	}
	if got, want := tn.circuit(circuit).since(counts), c.counts(); got != want {
		t.Errorf("the circuit counted %+v, want %+v", got, want)
	}
	if c.core != holds {
		tn.core.door.quiet(t)
	}
	next := c.healthy(tn, nextAmount)
	if got, want := tn.pool(circuit).since(pools), c.pool(); got != want {
		t.Errorf("after the next call the pool is %+v, want %+v", got, want)
	}
	// What is held is asked about while it is: it must not be done after it was
	// said not to be.
	tn.settle()
	c.journal(tn, row.ID, next)
	if c.trait != lies {
		tn.audit()
	}
}

// prepare makes what the call is about, if it is about something.
func (c *cell) prepare(tn *town) tranid.ID {
	switch c.mti {
	case telegram.StatusRequestMTI:
		return tn.lostPayment(ledger.PolicyConfirm)
	case telegram.CancelRequestMTI:
		return tn.lostPayment(ledger.PolicyNetCancel)
	default:
		return ""
	}
}

// strike makes the call, and returns its row.
func (c *cell) strike(tn *town, id tranid.ID) ledger.Transaction {
	fault := c.fault
	fault.Times = int64(c.struck)
	tn.core.strike(fault)
	defer tn.core.faults.Clear("")
	tn.core.door.delay(lateness{c.trait, c.mti, c.struck, tn.way(circuitOf(c.mti))})
	return tn.call(c.mti, id)
}

// call makes a call whose frame is of this type.
func (h *house) call(mti string, id tranid.ID) ledger.Transaction {
	switch mti {
	case telegram.PaymentRequestMTI:
		return h.pay(subject, subjectAmount, ledger.PolicyNetCancel)
	case telegram.BalanceRequestMTI:
		_, row := h.balance(subject)
		return row
	default:
		return h.resolve(id)
	}
}

// healthy makes a call that is not struck on the pool of the frame, checks that
// the answer is its own, and returns the connection that it used.
func (c *cell) healthy(tn *town, amount account.Won) int64 {
	tn.t.Helper()
	if !inquiry(c.mti) {
		row := tn.pay(subject, amount, ledger.PolicyNetCancel)
		tn.paid(row, amount)
		return tn.core.frames("0100", row.ID)[0].Connection
	}
	// The balance is another one each time: that of an earlier answer is wrong.
	want := nextBalance + amount
	if _, err := tn.core.PutAccount(number(tn.t, subject), want); err != nil {
		tn.t.Fatal(err)
	}
	got, row := tn.balance(subject)
	if row.Status != ledger.StatusSuccess || got != want {
		tn.t.Errorf("balance %s is %s, %d; want %d", row.ID, row.Status, got, want)
	}
	return tn.core.frames("0200", row.ID)[0].Connection
}

func (c *cell) outcome() outcome {
	if c.total > c.struck {
		return outcomes[answered][c.mti]
	}
	return outcomes[c.end][c.mti]
}

// counts: every valid answer is a success, each attempt without one a failure.
func (c *cell) counts() counted {
	var n counted
	if c.end.fails() {
		n.failure = c.struck
	}
	n.success = c.total - n.failure
	return n
}

// pool is what the attempts and the next call make of it: each of them uses what
// the one before it has left.
func (c *cell) pool() pool {
	want := pool{idle: 1}
	left := c.warm
	for attempt := 1; attempt <= c.total+1; attempt++ {
		if left {
			want.reused++
		} else {
			want.opened++
		}
		left = attempt > c.struck || c.socket == kept
		if !left {
			want.destroyed++
		}
	}
	return want
}

// journal checks what the core saw of the struck frames, and on which
// connections: next is that of the call after them.
func (c *cell) journal(tn *town, id tranid.ID, next int64) {
	tn.t.Helper()
	eventually(tn.t, "the core has decided, or dropped, each frame", func() bool {
		return len(tn.core.frames(c.mti, id)) >= c.total
	})
	frames := tn.core.frames(c.mti, id)
	// A row that stayed UNKNOWN was asked about, or canceled, once more.
	if (c.mti == "0100" || c.mti == "0200") && len(frames) != c.total {
		tn.t.Errorf("the core saw %d frames, want %d", len(frames), c.total)
		return
	}
	if c.core == holds {
		return // what it did depends on what came first: the books are compared
	}
	// In the order of their sending; that of deciding is another one where the
	// caller hears of the end before the journal does.
	slices.SortStableFunc(frames, func(a, b simulator.Entry) int { return cmp.Compare(a.Connection, b.Connection) })
	used := map[int64]bool{}
	for i, f := range frames[:c.struck] {
		if err := c.did(f); err != nil {
			tn.t.Errorf("struck frame %d: %v", i+1, err)
		}
		used[f.Connection] = true
	}
	if len(used) != c.struck || used[next] != (c.socket == kept) {
		tn.t.Errorf("%d struck frames on connections %v, and then %d", c.struck, used, next)
		return
	}
	c.gone(tn, used)
}

// did checks what a struck frame did.
func (c *cell) did(f simulator.Entry) error {
	effect, code := simulator.EffectNone, "0000"
	switch c.core {
	case drops:
		code = ""
	case declines:
		code = c.fault.ResponseCode
	default:
		switch c.mti {
		case telegram.PaymentRequestMTI:
			effect = simulator.EffectDebit
		case telegram.CancelRequestMTI:
			effect = simulator.EffectCancel
		}
	}
	if f.Effect != effect || f.ResponseCode != code {
		return fmt.Errorf("the core did %s %q, want %s %q", f.Effect, f.ResponseCode, effect, code)
	}
	return nil
}

// gone checks what the core saw of the ends of connections.
func (c *cell) gone(tn *town, used map[int64]bool) {
	tn.t.Helper()
	if c.socket == kept {
		return
	}
	guests := tn.core.door.all()
	for number := range used {
		g := guests[number-1]
		eventually(tn.t, "the core has done with the connection", g.closed.Load)
		if g.reset.Load() != (c.socket == reset) {
			tn.t.Errorf("connection %d: reset %t, want %s", number, g.reset.Load(), c.socket)
		}
	}
}
