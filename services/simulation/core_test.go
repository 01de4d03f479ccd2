package simulation

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/services/corebank/simulator"
	"github.com/gwanmun/gwanmun/services/simulation/audit"
)

// core is the bank: its book outlives its process.
type core struct {
	w      *world
	book   *simulator.MemoryBook
	faults *simulator.Faults

	mu   sync.Mutex
	life *coreLife // nil while it is down
	// said is the last answer of each type that said that something was done.
	said map[string][]byte
}

// coreLife is one process of the core.
type coreLife struct {
	core   *core
	server *simulator.Server
	bank   *simulator.Bank
	ctx    context.Context
	stop   context.CancelFunc
	dead   chan struct{}

	mu    sync.Mutex
	conns []net.Conn
}

func newCore(w *world) *core {
	return &core{w: w, book: simulator.NewMemoryBook(), faults: simulator.NewFaults(), said: map[string][]byte{}}
}

// start begins a life, unless there is one.
func (c *core) start() {
	if c.isUp() {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	l := &coreLife{core: c, ctx: ctx, stop: stop, dead: make(chan struct{})}
	bank, err := simulator.Open(ctx, journal{c.book, l}, simulator.Rules{NoFences: !c.w.plan.house.fences, NoDedupe: !c.w.plan.house.dedupes}, time.Now)
	if err != nil {
		c.w.t.Fatalf("open the bank: %v", err)
	}
	l.bank = bank
	l.server = simulator.NewServer(bank, simulator.Options{Faults: c.faults, LateAnswer: 5 * time.Second, WriteTimeout: 2 * time.Second})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.life = l
	c.w.trace.add("core", "", "stands")
}

// crash ends a life: nothing more is written or said by it.
func (c *core) crash() {
	c.mu.Lock()
	l := c.life
	c.life = nil
	c.mu.Unlock()
	if l == nil {
		return
	}
	c.w.trace.add("core", "", "crashes")
	close(l.dead)
	l.stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		_ = conn.Close()
	}
}

func (c *core) isUp() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.life != nil
}

// accept is the other end of a new connection; nil while the core is down.
func (c *core) accept(to port, die dice) net.Conn {
	c.mu.Lock()
	l := c.life
	c.mu.Unlock()
	if l == nil {
		return nil
	}
	ours, theirs := net.Pipe()
	l.mu.Lock()
	l.conns = append(l.conns, ours)
	l.mu.Unlock()
	if to == listings {
		c.w.run(func() { l.server.ServeListingConn(l.ctx, theirs) })
	} else {
		c.w.run(func() { l.server.ServeConn(l.ctx, &confused{Conn: theirs, core: c, die: die.of("confused")}) })
	}
	return ours
}

// journal is the core's book as one life of it has it.
type journal struct {
	*simulator.MemoryBook
	life *coreLife
}

var errCrashed = errors.New("the core has crashed")

// Append takes the time of a disk. A life that has ended writes nothing.
func (j journal) Append(b simulator.Batch) error {
	w := j.life.core.w
	if len(b.Entries) > 0 {
		die := w.dice.of("append").nth(int(b.Entries[0].Sequence))
		took := die.between(20*time.Microsecond, 300*time.Microsecond)
		if slow := w.active(coreSlow, anywhere); slow != nil {
			took += die.of("slow").between(0, slow.amount)
		}
		time.Sleep(took)
	}
	select {
	case <-j.life.dead:
		return errCrashed
	default:
	}
	if err := j.MemoryBook.Append(b); err != nil {
		return err
	}
	for i := range b.Settings {
		s := &b.Settings[i]
		w.audit.Opened(string(s.Account.AppendDigits(nil)), s.Balance)
	}
	for i := range b.Entries {
		e := &b.Entries[i]
		w.trace.add("core", e.TranID, "%s %s %s", e.MTI, e.Effect, e.ResponseCode)
		w.audit.Core(audit.Entry{
			Sequence: e.Sequence, MTI: e.MTI, ID: e.TranID, Account: string(e.Account.AppendDigits(nil)), Amount: e.Amount,
			Effect: e.Effect.String(), Code: e.ResponseCode,
		})
	}
	return nil
}

// confused is a connection of a core that says another's answer now and then.
type confused struct {
	net.Conn
	core *core
	die  dice
	said int
}

func (c *confused) Write(b []byte) (int, error) {
	if len(b) != telegram.AnswerLength {
		return c.Conn.Write(b)
	}
	c.said++
	mti := telegram.MTI(b)
	c.core.mu.Lock()
	other := c.core.said[mti]
	if done(b) {
		c.core.said[mti] = append([]byte(nil), b...)
	}
	c.core.mu.Unlock()
	confusion := c.core.w.active(confusion, anywhere)
	if confusion != nil && other != nil && c.die.nth(c.said).chance(2*confusion.odds) {
		f := audit.FrameOf(b)
		c.core.w.trace.add("core", f.ID, "answers with the %s of %s", mti, audit.FrameOf(other).ID)
		b = other
	}
	return c.Conn.Write(b)
}

// done reports whether an answer says 0000.
func done(b []byte) bool {
	at := map[string]int{"0110": 26, "0210": 41, "0410": 32, "0430": 32}[telegram.MTI(b)]
	return at > 0 && string(b[at:at+4]) == "0000"
}
