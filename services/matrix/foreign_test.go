package matrix

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// plot is a way to give a request an answer that is not its own. What it says is
// made of the honest answer to the first request, and of the forged one to the
// request after it.
type plot struct {
	// first is said when the first request is there.
	first said
	// idle is said on the same connection when the first call has ended.
	idle said
	// second is said on it when the second request is there, on another one.
	second said
	// gaveUp is set where the first exchange ends by its time-out.
	gaveUp bool
}

type said func(own, next []byte) []byte

func own(own, _ []byte) []byte   { return own }
func next(_, next []byte) []byte { return next }

var plots = map[string]plot{
	"the next one's, late":          {second: next, gaveUp: true},
	"its own, late":                 {second: own, gaveUp: true},
	"the next one's, behind":        {first: func(own, next []byte) []byte { return slices.Concat(own, next) }},
	"its own once more, behind":     {first: func(own, _ []byte) []byte { return slices.Concat(own, own) }},
	"the next one's, while idle":    {first: own, idle: next},
	"its own once more, while idle": {first: own, idle: own},
	"the next one's, in its place":  {first: next},
	"one byte too many, then the rest": {
		first: func(own, next []byte) []byte { return slices.Concat(own, next[:1]) },
		idle:  func(_, next []byte) []byte { return next[1:] },
	},
	"one byte too few, then more": {
		first:  func(own, _ []byte) []byte { return own[:len(own)-1] },
		idle:   func(own, next []byte) []byte { return slices.Concat(own[len(own)-1:], next) },
		gaveUp: true,
	},
	"one byte too many, while idle": {first: own, idle: func(_, next []byte) []byte { return next[:1] }},
}

// Whatever a core says beside the answer that is due, no request takes it: the
// next one, of the same kind, about the same account, over a pool of one
// connection, gets its own.
func TestForeignAnswer_IsNeverAccepted(t *testing.T) {
	for name, p := range plots {
		for _, mti := range mtis {
			t.Run(name+"/"+mti, func(t *testing.T) {
				t.Parallel()
				p.play(t, mti)
			})
		}
	}
}

func (p *plot) play(t *testing.T, mti string) {
	l := openLiar(t)
	defer l.close()
	h := build(t, l.listener.Addr().String(), 1)
	defer h.close()
	first, second := h.lostAt(mti), h.lostAt(mti)
	s := &stage{plot: p, liar: l, way: h.way(circuitOf(mti)), mti: mti, follower: second}
	l.will(s.treat)

	h.gets(l, mti, first)
	if p.idle != nil {
		s.say(p.idle)
		if last := s.way.latest(); h.pool(circuitOf(mti)).idle == 1 && s.isFirst(last) {
			if err := arrived(last.TCPConn); err != nil {
				t.Fatal(err)
			}
		}
	}
	row := h.gets(l, mti, second)
	if row.ID != s.follower || !row.Status.Final() {
		t.Errorf("the second is %s, %s; want %s, answered", row.ID, row.Status, s.follower)
	}
}

// stage is where a plot is played.
type stage struct {
	*plot
	liar *liar
	way  *way
	mti  string

	mu sync.Mutex
	// conn is where the first request came, own and forged what there is to say.
	conn        *net.TCPConn
	own, forged []byte
	// follower is the transaction of the second request.
	follower tranid.ID
}

func (s *stage) treat(r request) {
	if r.mti != s.mti { // the inquiry before a net cancel
		s.liar.honest(r)
		return
	}
	if s.opens(r) {
		if s.first != nil {
			s.say(s.first)
		}
		if s.gaveUp {
			s.way.giveUp(r.conn.RemoteAddr())
		}
		return
	}
	if s.second != nil && s.isFollower(r.id) {
		s.say(s.second)
	}
	s.liar.honest(r)
}

// opens reports whether a request is the first, and prepares what is to be said.
func (s *stage) opens(r request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		return false
	}
	if s.follower == "" {
		s.follower = following(r.id)
	}
	s.conn, s.own, s.forged = r.conn, answer(r.mti, r.id, s.liar.mark(r.id)), answer(r.mti, s.follower, forged)
	return true
}

func (s *stage) say(what said) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.liar.say(s.conn, what(s.own, s.forged))
}

func (s *stage) isFollower(id tranid.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return id == s.follower
}

func (s *stage) isFirst(ours *socket) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ours.LocalAddr().String() == s.conn.RemoteAddr().String()
}

// lostAt is a payment for a frame of this type to be about; empty if it needs
// none.
func (h *house) lostAt(mti string) tranid.ID {
	policy := ledger.PolicyConfirm
	switch mti {
	case telegram.PaymentRequestMTI, telegram.BalanceRequestMTI:
		return ""
	case telegram.CancelRequestMTI:
		policy = ledger.PolicyNetCancel
	}
	return h.pay(subject, lostAmount, policy).ID
}

// gets makes a call, and checks that what it was told, if it was told anything,
// is its own.
func (h *house) gets(l *liar, mti string, id tranid.ID) ledger.Transaction {
	h.t.Helper()
	var (
		balance account.Won
		row     ledger.Transaction
	)
	if mti == telegram.BalanceRequestMTI {
		balance, row = h.balance(subject)
	} else {
		row = h.call(mti, id)
	}
	if row.Status == ledger.StatusUnknown {
		return row
	}
	status, mark := ledger.StatusSuccess, l.mark(row.ID)
	if mti == telegram.CancelRequestMTI {
		status = ledger.StatusCanceled
	}
	if row.Status != status ||
		mti == telegram.BalanceRequestMTI && balance != account.Won(mark) ||
		mti == telegram.PaymentRequestMTI && row.Answer.Approval != fmt.Sprintf("%011d", mark) {
		h.t.Errorf("%s is %s with balance %d, approval %q; its own answer is %d", row.ID, row.Status, balance, row.Answer.Approval, mark)
	}
	return row
}

// Two at once, about the same account, get each other's answers: neither takes
// what it got. An inquiry asks again, and then gets its own.
func TestForeignAnswer_SwappedIsTakenByNeither(t *testing.T) {
	for _, mti := range mtis {
		t.Run(mti, func(t *testing.T) {
			t.Parallel()
			l := openLiar(t)
			defer l.close()
			h := build(t, l.listener.Addr().String(), 2)
			defer h.close()
			subjects := []tranid.ID{h.lostAt(mti), h.lostAt(mti)}
			l.will(swapping(l, mti))
			each(subjects, func(id tranid.ID) {
				row := h.gets(l, mti, id)
				if asksAgain := inquiry(mti); row.Status.Final() != asksAgain {
					t.Errorf("%s is %s", row.ID, row.Status)
				}
			})
			if c := h.circuit(circuitOf(mti)); c.failure < 2 {
				t.Errorf("the circuit counted %+v", c)
			}
		})
	}
}

// swapping gives each of the first two requests of a type the other's answer.
func swapping(l *liar, mti string) func(request) {
	var (
		mu   sync.Mutex
		both []request
	)
	return func(r request) {
		mu.Lock()
		defer mu.Unlock()
		if r.mti != mti || len(both) == 2 {
			l.honest(r)
			return
		}
		both = append(both, r)
		if len(both) < 2 {
			return
		}
		for i, r := range both {
			other := both[1-i]
			l.say(r.conn, answer(mti, other.id, l.mark(other.id)))
		}
	}
}

// Two callers share a pool of one connection before a core that answers as it
// likes: who is told that it was done is told of its own.
func TestPoolOfOne_TwoCallersNeverGetEachOthersAnswers(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			tn := buildTown(t, 1)
			defer tn.close()
			tn.core.moody(seed)
			var callers sync.WaitGroup
			for caller := range 2 {
				callers.Go(func() { tn.mixed(rand.New(rand.NewPCG(seed, uint64(caller))), caller) })
			}
			callers.Wait()
			tn.core.faults.Clear("")
			tn.settle()
			tn.audit()
		})
	}
}

// moody sets faults that strike now and then, and that no one waits for.
func (c *core) moody(seed uint64) {
	for i, l := range lines {
		if l.trait == silent || l.trait == stalls || l.trait == lies {
			continue
		}
		f := l.fault
		f.Probability, f.Seed = new(0.02), seed*100+uint64(i)
		c.strike(f)
	}
}

// mixed makes payments and balance inquiries, each account's balance its own.
func (tn *town) mixed(random *rand.Rand, caller int) {
	const calls = 150
	payer, asked := fmt.Sprintf("1111111111000%d", caller), fmt.Sprintf("1111111111100%d", caller)
	balance := account.Won(5_000 + caller)
	if _, err := tn.core.PutAccount(number(tn.t, asked), balance); err != nil {
		tn.t.Error(err)
		return
	}
	for range calls {
		if random.IntN(2) == 0 {
			if got, row := tn.balance(asked); row.Status == ledger.StatusSuccess && got != balance {
				tn.t.Errorf("balance %s is %d, want %d", row.ID, got, balance)
			}
			continue
		}
		amount := account.Won(1 + random.IntN(1000))
		if row := tn.pay(payer, amount, ledger.PolicyNetCancel); row.Status == ledger.StatusSuccess {
			tn.paid(row, amount)
		}
	}
}
