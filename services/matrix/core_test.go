package matrix

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/corebank/simulator"
)

// core is the simulated one, which misbehaves on order.
type core struct {
	*simulator.Bank
	t      testing.TB
	faults *simulator.Faults
	door   *door
	stop   context.CancelFunc
	served chan error
}

func openCore(t testing.TB) *core {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	bank, err := simulator.Open(ctx, simulator.NewMemoryBook(), simulator.Rules{}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	c := &core{
		Bank: bank, t: t, faults: simulator.NewFaults(), door: &door{Listener: listen(t)},
		stop: stop, served: make(chan error, 1),
	}
	server := simulator.NewServer(bank, simulator.Options{Faults: c.faults})
	go func() { c.served <- server.Serve(ctx, c.door) }()
	return c
}

func (c *core) close() {
	c.t.Helper()
	c.stop()
	if err := <-c.served; err != nil {
		c.t.Errorf("serve: %v", err)
	}
}

// town is a house before the simulated core.
type town struct {
	*house
	core *core
}

func buildTown(t testing.TB, poolSize int) *town {
	t.Helper()
	c := openCore(t)
	return &town{house: build(t, c.door.Addr().String(), poolSize), core: c}
}

func (tn *town) close() {
	tn.t.Helper()
	tn.house.close()
	tn.core.close()
}

// strike sets a fault.
func (c *core) strike(f simulator.Fault) {
	c.t.Helper()
	if _, err := c.faults.Set(f); err != nil {
		c.t.Fatalf("set %+v: %v", f, err)
	}
}

// frames are what the core was sent, oldest first: under one ID or any, of one
// type or of any.
func (c *core) frames(mti string, id tranid.ID) []simulator.Entry {
	c.t.Helper()
	filter := simulator.Filter{TranID: id, MTI: mti, Limit: simulator.MaxPage}
	var frames []simulator.Entry
	for {
		page, err := c.Journal(context.Background(), filter)
		if err != nil {
			c.t.Errorf("read the journal: %v", err)
		}
		frames = append(frames, page.Entries...)
		if !page.More {
			return frames
		}
		filter.After = frames[len(frames)-1].Sequence
	}
}

// stands is how many debits of an ID were done and not undone.
func (c *core) stands(id tranid.ID) int {
	n := 0
	for _, e := range c.frames("", id) {
		switch e.Effect {
		case simulator.EffectDebit:
			n++
		case simulator.EffectCancel:
			n--
		default:
		}
	}
	return n
}

// lostPayment is one that the core did and whose answer was lost. It leaves no
// connection idle.
func (tn *town) lostPayment(policy ledger.Policy) tranid.ID {
	tn.t.Helper()
	tn.core.strike(simulator.Fault{MTI: "0100", Action: simulator.FaultClose})
	row := tn.pay(lostAccount, lostAmount, policy)
	tn.core.faults.Clear("")
	if row.Status != ledger.StatusUnknown || tn.core.stands(row.ID) != 1 {
		tn.t.Fatalf("a payment is %s and not lost", row.Status)
	}
	return row.ID
}

const (
	lostAccount = "12345678900001"
	lostAmount  = account.Won(1500)
)

// paid checks a payment that the core had no reason not to do: the answer is its
// own.
func (tn *town) paid(row ledger.Transaction, amount account.Won) {
	tn.t.Helper()
	frames := tn.core.frames("0100", row.ID)
	if len(frames) != 1 {
		tn.t.Errorf("the core saw %d frames of %s", len(frames), row.ID)
		return
	}
	done := frames[0]
	if row.Status != ledger.StatusSuccess || done.Effect != simulator.EffectDebit || done.Amount != amount || row.Answer.Approval != approval(done) {
		tn.t.Errorf("payment %s is %s with approval %q; the core did %s of %d, approval %s",
			row.ID, row.Status, row.Answer.Approval, done.Effect, done.Amount, approval(done))
	}
}

// approval is the number that the core answers a debit with: no two are alike.
func approval(e simulator.Entry) string { return fmt.Sprintf("%011d", 10_000_000_000+e.Sequence) }

// settle resolves what is UNKNOWN, as an operator would.
func (tn *town) settle() {
	tn.t.Helper()
	for _, row := range tn.rows() {
		for range 3 {
			if row.Status == ledger.StatusUnknown && !row.OperatorOnly() {
				row = tn.resolve(row.ID)
			}
		}
		if !row.Status.Final() && !row.OperatorOnly() {
			tn.t.Errorf("%s stays %s: %s", row.ID, row.Status, row.Reason)
		}
	}
}

// audit compares the books: money that the ledger says moved has, and none that
// it says did not.
func (tn *town) audit() {
	tn.t.Helper()
	for _, row := range tn.rows() {
		if row.Kind.MovesMoney() {
			tn.compare(row)
		}
	}
}

func (tn *town) compare(row ledger.Transaction) {
	tn.t.Helper()
	stands := tn.core.stands(row.ID)
	switch row.Status {
	case ledger.StatusSuccess:
		if stands != 1 {
			tn.t.Errorf("%s is SUCCESS, and %d debits stand", row.ID, stands)
		}
	case ledger.StatusFailed, ledger.StatusCanceled:
		if stands != 0 {
			tn.t.Errorf("ghost: %s is %s by %s, and %d debits stand", row.ID, row.Status, row.Evidence, stands)
		}
	default: // not known, and says so
	}
}
