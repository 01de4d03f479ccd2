package payment_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// seen is a state that a watcher was sent, and when.
type seen struct {
	status ledger.Status
	after  time.Duration
}

// watch watches until it ends and returns what was sent.
func (h *house) watch(ctx context.Context, id tranid.ID) ([]seen, error) {
	var states []seen
	start := time.Now()
	err := h.service.Watch(ctx, client, id, func(t ledger.Transaction) error {
		states = append(states, seen{t.Status, time.Since(start)})
		return nil
	})
	return states, err
}

func TestWatch_FinalStateIsAllThereIs(t *testing.T) {
	inHouse(t, answers("0051"), nil, func(t *testing.T, h *house) {
		refused(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonDeclined)
		states, err := h.watch(t.Context(), h.bound().ID)
		if err != nil || !slices.Equal(states, []seen{{ledger.StatusFailed, 0}}) {
			t.Errorf("saw %v, %v", states, err)
		}
	})
}

// The first state comes at once, each change soon after it is made, nothing in
// between, and the end with the final one.
func TestWatch_EachChange(t *testing.T) {
	inHouse(t, late(1900*time.Millisecond, "0000", nil), nil, func(t *testing.T, h *house) {
		h.core.do = after(time.Second, ends(corelink.SentAll, corelink.ErrTimeout))
		var first sync.WaitGroup
		first.Go(func() { _ = errorOf(h.service.Create(context.Background(), h.pay())) })
		time.Sleep(time.Millisecond)
		id := h.bound().ID
		time.AfterFunc(10*time.Second, func() { h.decide(id) })
		time.AfterFunc(20*time.Second, func() { h.cancel(id) })
		states, err := h.watch(t.Context(), id)
		first.Wait()
		want := []seen{
			{ledger.StatusRequested, 0},
			{ledger.StatusUnknown, time.Second},
			{ledger.StatusUnknown, 10 * time.Second},
			{ledger.StatusCanceled, 20 * time.Second},
		}
		if err != nil || len(states) != len(want) {
			t.Fatalf("saw %v, %v; want %v", states, err, want)
		}
		for i, s := range states {
			if s.status != want[i].status || s.after < want[i].after-time.Millisecond || s.after > want[i].after+100*time.Millisecond {
				t.Errorf("saw %v, want %v and at most 100 ms later", s, want[i])
			}
		}
	})
}

func TestWatch_EndsWithItsCaller(t *testing.T) {
	inHouse(t, ends(corelink.SentAll, corelink.ErrTimeout), nil, func(t *testing.T, h *house) {
		_ = errorOf(h.service.Create(t.Context(), h.pay()))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		start := time.Now()
		states, err := h.watch(ctx, h.bound().ID)
		if !errors.Is(err, context.Canceled) || len(states) != 1 || time.Since(start) != time.Minute {
			t.Errorf("saw %v, %v after %v", states, err, time.Since(start))
		}
	})
}

func TestWatch_EndsWhenItCannotSend(t *testing.T) {
	errGone := errors.New("stream is gone")
	inHouse(t, ends(corelink.SentAll, corelink.ErrTimeout), nil, func(t *testing.T, h *house) {
		_ = errorOf(h.service.Create(t.Context(), h.pay()))
		err := h.service.Watch(t.Context(), client, h.bound().ID, func(ledger.Transaction) error { return errGone })
		if !errors.Is(err, errGone) {
			t.Error(err)
		}
	})
}

func TestWatch_LedgerGoesDown(t *testing.T) {
	inHouse(t, ends(corelink.SentAll, corelink.ErrTimeout), nil, func(t *testing.T, h *house) {
		_ = errorOf(h.service.Create(t.Context(), h.pay()))
		id, reads := h.bound().ID, 0
		h.store.get = func(ctx context.Context, id tranid.ID) (ledger.Transaction, error) {
			if reads++; reads > 3 {
				return ledger.Transaction{}, errDown
			}
			return h.store.Store.Get(ctx, id)
		}
		states, err := h.watch(t.Context(), id)
		refused(t, err, ledger.ReasonLedgerUnavailable)
		if len(states) != 1 {
			t.Errorf("saw %v", states)
		}
	})
}

// A client sees its own payments, and neither another's nor an inquiry.
func TestReads_OwnPaymentsAlone(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		reply, err := h.service.Create(t.Context(), h.pay())
		if err != nil {
			t.Fatal(err)
		}
		balance, err := h.ask(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		own := reply.Transaction
		if got, err := h.service.Get(t.Context(), client, own.ID); err != nil || got != own {
			t.Errorf("got %+v, %v", got, err)
		}
		if got, err := h.service.GetByKey(t.Context(), client, key); err != nil || got != own {
			t.Errorf("got %+v by key, %v", got, err)
		}
		for name, c := range map[string]struct {
			client ledger.ClientID
			id     tranid.ID
		}{
			"another client's": {"shop", own.ID},
			"an inquiry":       {client, balance.Transaction.ID},
			"none":             {client, "GWMNU20260301999999999"},
		} {
			_, err := h.service.Get(t.Context(), c.client, c.id)
			r := refusalOf(t, err, ledger.ReasonTransactionNotFound)
			err = h.service.Watch(t.Context(), c.client, c.id, func(ledger.Transaction) error {
				t.Errorf("%s: a state was sent", name)
				return nil
			})
			if watched := refusalOf(t, err, ledger.ReasonTransactionNotFound); r.Transaction != nil || watched.Transaction != nil {
				t.Errorf("%s: the refusal shows the transaction", name)
			}
		}
		_, err = h.service.GetByKey(t.Context(), "shop", key)
		refused(t, err, ledger.ReasonTransactionNotFound)
	})
}

func TestReads_LedgerDown(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		h.store.get = func(context.Context, tranid.ID) (ledger.Transaction, error) { return ledger.Transaction{}, errDown }
		_, err := h.service.Get(t.Context(), client, "GWMNU20260301000000001")
		refused(t, err, ledger.ReasonLedgerUnavailable)
	})
}
