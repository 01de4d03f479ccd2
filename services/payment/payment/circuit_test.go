package payment_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/resilience"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// shut is a circuit that refuses.
var shut = &resilience.OpenError{Name: resilience.CoreRequest, State: resilience.Open, RetryAfter: 7 * time.Second}

// An open circuit refuses a payment before its intent: nothing leaves, the key
// stays free, and the row that tells of it is written behind the answer.
func TestCreate_OpenCircuitRefusesAndBindsNothing(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		h.core.open = shut
		r := refusalOf(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonCircuitOpen)
		if r.RetryAfter != shut.RetryAfter || r.Transaction == nil {
			t.Fatalf("retry after %v, transaction %v", r.RetryAfter, r.Transaction)
		}
		synctest.Wait()
		row, err := h.store.Get(t.Context(), r.Transaction.ID)
		if err != nil || row.Status != ledger.StatusFailed || row.Evidence != ledger.EvidenceNotSent || row.Amount != 1000 {
			t.Errorf("row %+v, %v", row, err)
		}
		h.unbound()
		if h.count("gwanmun_ledger_transactions_total", "FAILED") != 1 || len(h.core.frames()) != 0 {
			t.Error("the refusal is not counted, or something left")
		}

		h.core.open = nil
		other := h.pay()
		other.Amount = 2000 // the key was never bound: any fingerprint will do
		if _, err := h.service.Create(t.Context(), other); err != nil {
			t.Errorf("the key is of no use: %v", err)
		}
	})
}

// What the key is bound to is told while the circuit is open, too.
func TestCreate_OpenCircuitDoesNotHideWhatTheKeyIsBoundTo(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		first, err := h.service.Create(t.Context(), h.pay())
		if err != nil {
			t.Fatal(err)
		}
		h.core.open = shut
		again, err := h.service.Create(t.Context(), h.pay())
		if err != nil || !again.Replayed || again.Transaction.ID != first.Transaction.ID {
			t.Errorf("replay %v, %v", again, err)
		}
		other := h.pay()
		other.Amount++
		refused(t, errorOf(h.service.Create(t.Context(), other)), ledger.ReasonIdempotencyKeyReused)
	})
}

// A key whose payment never left is free, and refused like a new one.
func TestCreate_OpenCircuitAfterNothingLeft(t *testing.T) {
	inHouse(t, ends(corelink.SentNone, corelink.ErrConnect), nil, func(t *testing.T, h *house) {
		refused(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonCoreUnreachable)
		old := h.bound().ID
		h.core.open = shut
		refused(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonCircuitOpen)
		if now := h.bound().ID; now != old {
			t.Errorf("the key moved from %s to %s", old, now)
		}
	})
}

// A circuit that opens between the look and the exchange makes the row FAILED,
// NOT_SENT, and its key may run again.
func TestCreate_CircuitThatOpensAfterTheIntent(t *testing.T) {
	inHouse(t, ends(corelink.SentNone, shut), nil, func(t *testing.T, h *house) {
		r := refusalOf(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonCircuitOpen)
		if row := h.bound(); row.Evidence != ledger.EvidenceNotSent || r.RetryAfter != shut.RetryAfter {
			t.Errorf("evidence %s, retry after %v", row.Evidence, r.RetryAfter)
		}
		h.core.do = answers("0000")
		if _, err := h.service.Create(t.Context(), h.pay()); err != nil {
			t.Error(err)
		}
	})
}

func TestCreate_OpenCircuitAndLedgerDown(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		h.core.open = shut
		h.store.bound = func() error { return errDown }
		refused(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonLedgerUnavailable)
	})
}

// However many watch one payment, its row is read for one of them; one watcher
// too many is refused; and when they have gone nothing is left.
func TestWatch_ManyOfOnePayment(t *testing.T) {
	const most = 2048
	inHouse(t, ends(corelink.SentAll, corelink.ErrTimeout), nil, func(t *testing.T, h *house) {
		_ = errorOf(h.service.Create(t.Context(), h.pay()))
		id := h.bound().ID
		var reads atomic.Int64
		h.store.get = func(ctx context.Context, id tranid.ID) (ledger.Transaction, error) {
			reads.Add(1)
			return h.store.Store.Get(ctx, id)
		}
		ends := make(chan error, most)
		for range most {
			go func() {
				ends <- h.service.Watch(context.Background(), client, id, func(ledger.Transaction) error { return nil })
			}()
		}
		synctest.Wait()
		r := refusalOf(t, h.service.Watch(t.Context(), client, id, nil), ledger.ReasonRateLimited)
		if r.RetryAfter <= 0 {
			t.Error("a refused watcher is not told when to come again")
		}
		reads.Store(0)
		time.Sleep(time.Second)
		if n := reads.Load(); n > 25 {
			t.Errorf("%d reads in a second", n)
		}
		h.decide(id)
		h.cancel(id)
		for range most {
			if err := <-ends; err != nil {
				t.Error(err)
			}
		}
		if _, err := h.watch(t.Context(), id); err != nil {
			t.Errorf("the places are not given back: %v", err)
		}
	})
}
