package payment_test

import (
	"context"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/corebank/simulator"
	"github.com/gwanmun/gwanmun/services/payment/payment"
)

// bank is the simulated core at the other end of pipes.
type bank struct {
	*simulator.Bank
	server *simulator.Server
	conns  sync.WaitGroup
	end    context.CancelFunc
	ctx    context.Context
}

func openBank(t *testing.T) *bank {
	t.Helper()
	b := &bank{}
	b.ctx, b.end = context.WithCancel(context.Background())
	var err error
	if b.Bank, err = simulator.Open(b.ctx, simulator.NewMemoryBook(), simulator.Rules{}, time.Now); err != nil {
		t.Fatal(err)
	}
	b.server = simulator.NewServer(b.Bank, simulator.Options{LateAnswer: 5 * time.Second})
	return b
}

// dial is a corelink.Dialer.
func (b *bank) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	b.conns.Go(func() { b.server.ServeConn(b.ctx, far) })
	return near, nil
}

// effects are what the journal says of an ID.
func (b *bank) effects(t *testing.T, id tranid.ID) []simulator.Effect {
	t.Helper()
	page, err := b.Journal(context.Background(), simulator.Filter{TranID: id, Limit: simulator.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	effects := make([]simulator.Effect, len(page.Entries))
	for i, e := range page.Entries {
		effects[i] = e.Effect
	}
	return effects
}

// atBank runs a test with the real link between the service and the simulated
// core, under virtual time. refuse makes every dial fail.
func atBank(t *testing.T, refuse bool, test func(*testing.T, *house, *bank)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := openBank(t)
		dial := b.dial
		if refuse {
			dial = func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
		}
		h := &house{t: t, registry: prometheus.NewRegistry(), log: &logged{}}
		h.store = &faultyStore{Store: memstore.New(time.Now)}
		link := corelink.New(corelink.Options{
			Flags: corelink.Flags{
				CoreAddr: []string{"core"}, ReadTimeout: 3 * time.Second, ConnectTimeout: 2 * time.Second, PoolSize: 16,
			},
			Name: "test", Dial: dial, Now: time.Now, Metrics: corelink.NewMetrics(h.registry),
		})
		h.core = &scriptedCore{t: t, book: h.store.Store, do: func(ctx context.Context, call corelink.Call, _ tranid.ID) corelink.Result {
			return link.Exchange(ctx, call)
		}}
		h.service = payment.New(h.options())
		test(t, h, b)
		h.drain()
		time.Sleep(time.Minute) // what the core holds is done, and late answers find nobody
		b.end()
		b.conns.Wait()
	})
}

// habits are the story of DESIGN §14, as far as the payment service tells it.
var habits = map[string]struct {
	account string
	status  ledger.Status
	took    time.Duration
	// effect is what the core has done in the end; zero for nothing at all.
	effect simulator.Effect
}{
	"approves":         {"12345678901234", ledger.StatusSuccess, 0, simulator.EffectDebit},
	"no such account":  {"0", ledger.StatusFailed, 0, simulator.EffectNone},
	"declines":         {"22222222222222", ledger.StatusFailed, 0, simulator.EffectNone},
	"trickles":         {"33333333333333", ledger.StatusSuccess, 60 * 20 * time.Millisecond, simulator.EffectDebit},
	"does and closes":  {"44444444444444", ledger.StatusUnknown, 0, simulator.EffectDebit},
	"holds, then does": {"55555555555555", ledger.StatusUnknown, 3 * time.Second, simulator.EffectDebit},
	"letters":          {"66666666666666", ledger.StatusUnknown, 0, simulator.EffectDebit},
	"garbage":          {"77777777777777", ledger.StatusUnknown, 0, simulator.EffectDebit},
	"closes":           {"88888888888888", ledger.StatusUnknown, 0, simulator.EffectNone},
	"late":             {"99999999999999", ledger.StatusUnknown, 3 * time.Second, simulator.EffectDebit},
}

func TestCreate_AtTheSimulatedCore(t *testing.T) {
	for name, c := range habits {
		t.Run(name, func(t *testing.T) {
			atBank(t, false, func(t *testing.T, h *house, b *bank) {
				r := h.pay()
				r.Account = number(t, c.account)
				start := time.Now()
				_, err := h.service.Create(t.Context(), r)
				row := h.bound()
				if took := time.Since(start); row.Status != c.status || !roughly(took, c.took) || row.Elapsed != took {
					t.Errorf("%s after %v (row: %v), %v; want %s after %v", row.Status, took, row.Elapsed, err, c.status, c.took)
				}
				if (err == nil) != (c.status == ledger.StatusSuccess) {
					t.Errorf("told %v of %s", err, row.Status)
				}
				time.Sleep(10 * time.Second)
				if got := b.effects(t, row.ID); len(got) != 1 || got[0] != c.effect {
					t.Errorf("the core did %v, want %s, once", got, c.effect)
				}
				// Whatever came of it, the same call again sends nothing.
				_ = errorOf(h.service.Create(t.Context(), r))
				if len(h.core.frames()) != 1 {
					t.Errorf("frames %v", h.core.frames())
				}
			})
		})
	}
}

// roughly allows for a core that needs a moment of its own.
func roughly(took, want time.Duration) bool {
	return took >= want && took <= want+30*time.Millisecond
}

func TestBalance_AtTheSimulatedCore(t *testing.T) {
	for name, c := range habits {
		t.Run(name, func(t *testing.T) {
			atBank(t, false, func(t *testing.T, h *house, _ *bank) {
				reply, err := h.service.Balance(t.Context(), payment.BalanceRequest{Client: client, Account: number(t, c.account)})
				row := h.inquiry()
				if row.Status != c.status || (err == nil) != (c.status == ledger.StatusSuccess) {
					t.Errorf("%s, %v; want %s", row.Status, err, c.status)
				}
				if err == nil && reply.Balance <= 0 {
					t.Errorf("balance %d", reply.Balance)
				}
			})
		})
	}
}

func TestCreate_CoreUnreachable(t *testing.T) {
	atBank(t, true, func(t *testing.T, h *house, b *bank) {
		refused(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonCoreUnreachable)
		row := h.bound()
		if !row.NeverSent() || len(b.effects(t, row.ID)) != 0 {
			t.Errorf("row is %s by %s, the core did %v", row.Status, row.Evidence, b.effects(t, row.ID))
		}
	})
}

// 50 calls with one key at once: one debit.
func TestCreate_ConcurrentCallsAtTheSimulatedCore(t *testing.T) {
	atBank(t, false, func(t *testing.T, h *house, b *bank) {
		for _, e := range h.atOnce(50) {
			if e.id != h.bound().ID || e.reason != 0 {
				t.Errorf("ended with %s %s", e.id, e.reason)
			}
		}
		if got := b.effects(t, h.bound().ID); len(got) != 1 || got[0] != simulator.EffectDebit {
			t.Errorf("the core did %v", got)
		}
	})
}
