package payment_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/payment/payment"
)

const (
	client = ledger.ClientID("local")
	key    = ledger.IdempotencyKey("order-1")
)

// flags are those that the binary starts with.
var flags = payment.Flags{
	Deadline: 5 * time.Second, SendWindow: 2 * time.Second, MinDeadline: 100 * time.Millisecond, AdoptMargin: 5 * time.Second, KeyLife: 24 * time.Hour,
}

// house is a Service on a ledger in memory and a scripted core, in a bubble of
// virtual time.
type house struct {
	t        *testing.T
	store    *faultyStore
	core     *scriptedCore
	registry *prometheus.Registry
	log      *logged
	service  *payment.Service
}

// inHouse runs a test in a bubble with a house whose core does as given. change
// may be nil; it is called before the service is built.
func inHouse(t *testing.T, do exchange, change func(*payment.Options), test func(*testing.T, *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &house{t: t, registry: prometheus.NewRegistry(), log: &logged{}}
		h.store = &faultyStore{Store: memstore.New(time.Now)}
		h.core = &scriptedCore{t: t, book: h.store.Store, do: do}
		options := h.options()
		if change != nil {
			change(&options)
		}
		h.service = payment.New(options)
		test(t, h)
		h.drain()
	})
}

func (h *house) options() payment.Options {
	return payment.Options{
		Flags: flags, Store: h.store, HashKey: hashKey(h.t), Core: h.core, Now: time.Now,
		Logger: slog.New(h.log), Registry: h.registry, Instance: "payment-test",
	}
}

// drain waits until the service has nothing under way.
func (h *house) drain() {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := h.service.Drain(ctx); err != nil {
		h.t.Errorf("drain: %v", err)
	}
}

func hashKey(t *testing.T) ledger.HashKey {
	t.Helper()
	k, err := ledger.ParseHashKey("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func number(t *testing.T, digits string) account.Number {
	t.Helper()
	n, err := account.Parse(digits)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// pay is a payment of 1,000 won.
func (h *house) pay() payment.Request {
	return payment.Request{
		Client: client, Key: key, Account: number(h.t, "12345678901234"), Amount: 1000,
		Policy: ledger.PolicyNetCancel, CorrelationID: "corr-1",
	}
}

// bound is the row that the key is bound to.
func (h *house) bound() ledger.Transaction {
	h.t.Helper()
	row, err := h.store.GetByKey(context.Background(), client, key)
	if err != nil {
		h.t.Fatalf("row of the key: %v", err)
	}
	return row
}

// unbound fails the test if the key is bound.
func (h *house) unbound() {
	h.t.Helper()
	if row, err := h.store.GetByKey(context.Background(), client, key); !errors.Is(err, ledger.ErrNotFound) {
		h.t.Errorf("the key is bound to %s, %v", row.ID, err)
	}
}

// move changes a row as the reconciler does.
func (h *house) move(c ledger.Change) {
	h.t.Helper()
	c.By = ledger.Actor{Name: ledger.ActorReconciler, Instance: "reconciler-test"}
	if _, err := h.store.Store.Transition(context.Background(), c); err != nil {
		h.t.Fatalf("%s to %s: %v", c.From, c.To, err)
	}
}

// adopt takes a row for abandoned.
func (h *house) adopt(id tranid.ID) {
	h.t.Helper()
	h.move(ledger.Change{ID: id, From: ledger.StatusRequested, To: ledger.StatusUnknown, Reason: "adopted"})
}

// decide sets the decision on an adopted row.
func (h *house) decide(id tranid.ID) {
	h.t.Helper()
	by := ledger.Actor{Name: ledger.ActorReconciler}
	if _, err := h.store.Decide(context.Background(), id, by, "net cancel decided"); err != nil {
		h.t.Fatalf("decide %s: %v", id, err)
	}
}

// fence makes an UNKNOWN row FAILED, as the reconciler does when the core had
// not done it and never will.
func (h *house) fence(id tranid.ID) {
	h.t.Helper()
	h.decide(id)
	h.move(ledger.Change{
		ID: id, From: ledger.StatusUnknown, To: ledger.StatusFailed,
		Evidence: ledger.EvidenceFenced, Method: ledger.MethodStatusInquiry, Reason: "fenced",
	})
}

// elapse makes an UNKNOWN row FAILED, as the reconciler does with a core that does
// not fence.
func (h *house) elapse(id tranid.ID) {
	h.t.Helper()
	h.decide(id)
	h.move(ledger.Change{
		ID: id, From: ledger.StatusUnknown, To: ledger.StatusFailed,
		Evidence: ledger.EvidenceWindowElapsed, Method: ledger.MethodStatusInquiry, Reason: "not done, and too late",
	})
}

// cancel makes an UNKNOWN row CANCELED.
func (h *house) cancel(id tranid.ID) {
	h.t.Helper()
	h.decide(id)
	h.move(ledger.Change{
		ID: id, From: ledger.StatusUnknown, To: ledger.StatusCanceled,
		Evidence: ledger.EvidenceCancelConfirmed, Method: ledger.MethodNetCancel, Reason: "net-canceled",
	})
}

// confirm makes an UNKNOWN row SUCCESS.
func (h *house) confirm(id tranid.ID) {
	h.t.Helper()
	h.move(ledger.Change{
		ID: id, From: ledger.StatusUnknown, To: ledger.StatusSuccess,
		Evidence: ledger.EvidenceProcessed, Method: ledger.MethodStatusInquiry, Reason: "the core has done it",
	})
}

// count is the value of a counter; label may be empty.
func (h *house) count(name, label string) float64 {
	h.t.Helper()
	families, err := h.registry.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// gauge is the value of a gauge.
func (h *house) gauge(name string) float64 {
	h.t.Helper()
	families, err := h.registry.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	h.t.Fatalf("no gauge %s", name)
	return 0
}

// refusalOf checks that err is a refusal for this reason, and returns it.
func refusalOf(t *testing.T, err error, reason ledger.Reason) *ledger.Refusal {
	t.Helper()
	var r *ledger.Refusal
	if !errors.As(err, &r) || r.Reason != reason {
		t.Fatalf("error %v, want a refusal %s", err, reason)
	}
	return r
}

// refused checks that err is a refusal for this reason.
func refused(t *testing.T, err error, reason ledger.Reason) {
	t.Helper()
	_ = refusalOf(t, err, reason)
}

// errorOf is the error of a call whose reply is of no interest.
func errorOf(_ payment.Reply, err error) error { return err }
