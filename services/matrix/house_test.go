package matrix

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
	"github.com/gwanmun/gwanmun/pkg/resilience"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/payment/payment"
	"github.com/gwanmun/gwanmun/services/reconciler/resolve"
)

const client = ledger.ClientID("local")

// operator is who asks the resolver.
var operator = ledger.Actor{Name: "operator:matrix", Instance: "matrix"}

// house is the payment service and the reconciler on one ledger, before a core.
// They share their links, so that a payment can follow a net cancel on one pool.
type house struct {
	t        testing.TB
	store    ledger.Store
	gate     *resilience.Gate
	service  *payment.Service
	resolver *resolve.Resolver
	metrics  *prometheus.Registry

	request, query *way
	links          []*corelink.Link
	keys           atomic.Int64
}

// build returns a house before the core at this address, with so many
// connections to each of its pools, whose circuits never open. The caller closes
// it.
func build(t testing.TB, address string, poolSize int) *house {
	return buildOn(t, memstore.New(time.Now), address, poolSize)
}

// buildOn is build on this ledger, which stays the caller's.
func buildOn(t testing.TB, store ledger.Store, address string, poolSize int) *house {
	h := &house{
		t: t, store: store, metrics: prometheus.NewRegistry(), request: &way{}, query: &way{},
	}
	links, logger := corelink.NewMetrics(h.metrics), slog.New(slog.DiscardHandler)
	link := func(name string, w *way) *corelink.Link {
		l := corelink.New(corelink.Options{
			Flags: corelink.Flags{
				CoreAddr: []string{address}, ReadTimeout: readTimeout, ConnectTimeout: readTimeout,
				PoolSize: poolSize, PoolWait: readTimeout, PoolIdleTTL: time.Minute,
			},
			Name: name, Dial: w.dial, Now: time.Now, Metrics: links,
		})
		h.links = append(h.links, l)
		return l
	}
	h.gate = resilience.New(resilience.Options{
		Flags: resilience.Flags{
			CircuitMode: resilience.ModeRate, CircuitWindow: 10_000, CircuitMinCalls: 10_000,
			CircuitRequestThreshold: 100, CircuitQueryThreshold: 100, CircuitFailures: 1, CircuitProbes: 1,
			CircuitOpenWait: time.Hour, HalfopenCalls: 1, HalfopenMinCalls: 1,
			Retries: retries, RetryBackoff: time.Millisecond,
		},
		Request: link(resilience.CoreRequest, h.request), Query: link(resilience.CoreQuery, h.query),
		Now: time.Now, Logger: logger, Registry: h.metrics,
	})
	h.service = payment.New(payment.Options{
		Flags: payment.Flags{Deadline: 4 * readTimeout, SendWindow: readTimeout, AdoptMargin: time.Minute, KeyLife: 24 * time.Hour},
		Store: h.store, HashKey: hashKey(t), Core: h.gate, Now: time.Now,
		Logger: logger, Registry: h.metrics, Instance: "payment-matrix",
	})
	h.resolver = resolve.New(h.store, h.gate, resolve.Options{
		Flags: resolve.Flags{
			SweepInterval: 50 * time.Millisecond, MaxAttempts: 10, CoreFences: true, LateWindow: time.Minute, Lease: time.Minute,
		},
		ExchangeTime: 2 * readTimeout, ReadTimeout: readTimeout, Connections: poolSize, StopGrace: readTimeout, Instance: "reconciler-matrix",
		Logger: logger, Registry: prometheus.NewRegistry(), Now: time.Now, Random: rand.Float64,
	})
	return h
}

// retries is how often an inquiry is tried again, as the binaries do.
const retries = 2

// close ends the house, and finds nothing left of it.
func (h *house) close() {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := h.service.Drain(ctx)
	for _, l := range h.links {
		err = errors.Join(err, l.Close())
	}
	if err != nil {
		h.t.Errorf("close: %v", err)
	}
	if n := h.sockets(); n != 0 {
		h.t.Errorf("%d connections are left open", n)
	}
}

// sockets is how many connections are open.
func (h *house) sockets() int { return h.request.sockets() + h.query.sockets() }

// pay makes a payment under a new key, and returns its row.
func (h *house) pay(digits string, amount account.Won, policy ledger.Policy) ledger.Transaction {
	h.t.Helper()
	key := ledger.IdempotencyKey(fmt.Sprintf("key-%d", h.keys.Add(1)))
	_, told := h.service.Create(context.Background(), payment.Request{
		Client: client, Key: key, Account: number(h.t, digits), Amount: amount, Policy: policy,
	})
	row, err := h.store.GetByKey(context.Background(), client, key)
	if err != nil {
		h.t.Errorf("row of a payment: %v", err)
	}
	h.agree(told, row)
	return row
}

// balance asks for one, and returns the inquiry's row.
func (h *house) balance(digits string) (account.Won, ledger.Transaction) {
	h.t.Helper()
	reply, told := h.service.Balance(context.Background(), payment.BalanceRequest{Client: client, Account: number(h.t, digits)})
	id := reply.Transaction.ID
	var refusal *ledger.Refusal
	if errors.As(told, &refusal) && refusal.Transaction != nil {
		id = refusal.Transaction.ID
	}
	row := h.row(id)
	h.agree(told, row)
	return reply.Balance, row
}

// agree checks that no error was told of a success, and of nothing else.
func (h *house) agree(told error, row ledger.Transaction) {
	h.t.Helper()
	if (told == nil) != (row.Status == ledger.StatusSuccess) {
		h.t.Errorf("told %v of %s, which is %s", told, row.ID, row.Status)
	}
}

// resolve makes one attempt at a row, and returns it.
func (h *house) resolve(id tranid.ID) ledger.Transaction {
	h.t.Helper()
	if _, err := h.resolver.ResolveOne(context.Background(), id, operator); err != nil {
		h.t.Errorf("resolve %s: %v", id, err)
	}
	return h.row(id)
}

// row waits until there is a row, which is written behind the answer where no
// money moves, and returns it.
func (h *house) row(id tranid.ID) ledger.Transaction {
	h.t.Helper()
	var row ledger.Transaction
	var err error
	if !seen(func() bool {
		row, err = h.store.Get(context.Background(), id)
		return !errors.Is(err, ledger.ErrNotFound)
	}) || err != nil {
		h.t.Errorf("row %q: %v", id, err)
	}
	return row
}

// rows are all there are.
func (h *house) rows() []ledger.Transaction {
	h.t.Helper()
	page, err := h.store.List(context.Background(), ledger.Filter{Limit: ledger.MaxPage})
	if err != nil || page.Next != nil {
		h.t.Fatalf("list the rows: %v, more %t", err, page.Next != nil)
	}
	return page.Transactions
}

// way is the one to the pool of a circuit.
func (h *house) way(circuit string) *way {
	if circuit == resilience.CoreRequest {
		return h.request
	}
	return h.query
}

// counted is what a circuit has counted.
type counted struct{ success, failure, neutral, stale, rejected int }

func (h *house) circuit(name string) counted {
	h.t.Helper()
	for _, s := range h.gate.Circuits() {
		if s.Name == name {
			return counted{s.Buffered - s.Failed, s.Failed, int(s.Neutral), int(s.Stale), int(s.Rejected)}
		}
	}
	h.t.Fatalf("no circuit %s", name)
	return counted{}
}

func (c counted) since(before counted) counted {
	return counted{
		c.success - before.success, c.failure - before.failure, c.neutral - before.neutral,
		c.stale - before.stale, c.rejected - before.rejected,
	}
}

// pool is what a pool has counted.
type pool struct{ active, idle, opened, reused, destroyed, expired int }

func (h *house) pool(name string) pool {
	h.t.Helper()
	families, err := h.metrics.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	values := map[string]int{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if len(m.GetLabel()) == 1 && m.GetLabel()[0].GetName() == "pool" && m.GetLabel()[0].GetValue() == name {
				values[family.GetName()] = int(m.GetCounter().GetValue() + m.GetGauge().GetValue())
			}
		}
	}
	return pool{
		active: values["gwanmun_pool_active"], idle: values["gwanmun_pool_idle"],
		opened: values["gwanmun_pool_opened_total"], reused: values["gwanmun_pool_reused_total"],
		destroyed: values["gwanmun_pool_destroyed_total"], expired: values["gwanmun_pool_expired_total"],
	}
}

// since is what was counted since before, and what is in use and idle now.
func (p pool) since(before pool) pool {
	return pool{
		p.active, p.idle, p.opened - before.opened, p.reused - before.reused,
		p.destroyed - before.destroyed, p.expired - before.expired,
	}
}

func number(t testing.TB, digits string) account.Number {
	t.Helper()
	n, err := account.Parse(digits)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// hashKeyText is the hash key as a flag has it.
const hashKeyText = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

func hashKey(t testing.TB) ledger.HashKey {
	t.Helper()
	k, err := ledger.ParseHashKey(hashKeyText)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func listen(t testing.TB) *net.TCPListener {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	return l
}
