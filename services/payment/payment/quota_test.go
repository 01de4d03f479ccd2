package payment_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/payment/payment"
)

func atMost(n int) func(*payment.Options) {
	return func(o *payment.Options) { o.Flags.MaxUnknown = n }
}

// under is the payment under another key.
func (h *house) under(n int) payment.Request {
	r := h.pay()
	r.Key = ledger.IdempotencyKey(fmt.Sprintf("key-%d", n))
	return r
}

// farm has so many payments end UNKNOWN.
func (h *house) farm(n int) {
	h.t.Helper()
	for i := range n {
		refused(h.t, errorOf(h.service.Create(h.t.Context(), h.under(i))), ledger.ReasonOutcomeUnknown)
		synctest.Wait() // the count that the first one has taken
	}
}

func TestMaxUnknown_RefusesFurtherPaymentsAndBindsNothing(t *testing.T) {
	inHouse(t, lostAnswer, atMost(3), func(t *testing.T, h *house) {
		h.farm(3)
		frames := len(h.core.frames())
		r := refusalOf(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonRateLimited)
		if r.RetryAfter <= 0 || r.Transaction != nil || len(h.core.frames()) != frames {
			t.Errorf("retry after %s, transaction %v", r.RetryAfter, r.Transaction)
		}
		h.unbound()
		if h.count("gwanmun_unknown_quota_rejected_total", "") != 1 {
			t.Error("not counted")
		}
		// What a key is bound to is told all the same.
		refused(t, errorOf(h.service.Create(t.Context(), h.under(0))), ledger.ReasonOutcomeUnknown)
		another := h.pay()
		another.Client = "another"
		h.core.do = answers("0000")
		if _, err := h.service.Create(t.Context(), another); err != nil {
			t.Errorf("another client: %v", err)
		}
	})
}

func TestMaxUnknown_LetsInAgainWhatBecameFinal(t *testing.T) {
	inHouse(t, lostAnswer, atMost(2), func(t *testing.T, h *house) {
		h.farm(2)
		refused(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonRateLimited)
		page, err := h.store.List(t.Context(), ledger.Filter{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.store.Transition(t.Context(), ledger.Change{
			ID: page.Transactions[0].ID, From: ledger.StatusUnknown, To: ledger.StatusCanceled,
			Evidence: ledger.EvidenceCancelConfirmed, Method: ledger.MethodNetCancel, By: ledger.Actor{Name: ledger.ActorReconciler},
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		// This call is refused by the old count, or finds the new one.
		_, _ = h.service.Create(t.Context(), h.pay())
		synctest.Wait()
		h.core.do = answers("0000")
		if _, err := h.service.Create(t.Context(), h.pay()); err != nil {
			t.Errorf("after one of them became final: %v", err)
		}
	})
}

// Instances share the count: what another has left UNKNOWN counts.
func TestMaxUnknown_CountsWhatOtherInstancesLeft(t *testing.T) {
	inHouse(t, lostAnswer, nil, func(t *testing.T, h *house) {
		h.farm(2)
		o := h.options()
		atMost(2)(&o)
		o.Registry = prometheus.NewRegistry()
		other := payment.New(o)
		_, _ = other.Create(t.Context(), h.under(0)) // has the count taken
		synctest.Wait()
		refused(t, errorOf(other.Create(t.Context(), h.pay())), ledger.ReasonRateLimited)
		if err := other.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestMaxUnknown_FailsOpenWhileTheLedgerDoesNotCount(t *testing.T) {
	inHouse(t, lostAnswer, atMost(2), func(t *testing.T, h *house) {
		h.farm(2)
		refused(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonRateLimited)
		h.store.unknownOfClients = func(ctx context.Context) (map[ledger.ClientID]int64, error) {
			<-ctx.Done()
			return nil, errors.Join(ledger.ErrUnavailable, ctx.Err())
		}
		time.Sleep(10 * time.Second)
		h.core.do = answers("0000")
		start := time.Now()
		if _, err := h.service.Create(t.Context(), h.pay()); err != nil || time.Since(start) > 0 {
			t.Errorf("%v after %s", err, time.Since(start))
		}
	})
}

func TestMaxUnknown_IsOffByDefault(t *testing.T) {
	inHouse(t, lostAnswer, nil, func(t *testing.T, h *house) {
		h.store.unknownOfClients = func(context.Context) (map[ledger.ClientID]int64, error) {
			t.Error("the ledger is asked")
			return nil, nil
		}
		h.farm(20)
	})
	bad := flags
	if bad.MaxUnknown = -1; bad.Validate() == nil {
		t.Error("a negative bound is taken")
	}
}

// lostAnswer takes what is sent and never answers.
func lostAnswer(context.Context, corelink.Call, tranid.ID) corelink.Result {
	return corelink.Result{Sent: corelink.SentAll, SentAt: time.Now(), Err: corelink.ErrTimeout}
}
