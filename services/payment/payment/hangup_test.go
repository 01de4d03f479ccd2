package payment_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/payment/payment"
)

// From the intent on, the caller's leaving changes nothing: the payment is sent,
// answered and recorded.
func TestCreate_CallerHangsUp(t *testing.T) {
	cases := map[string]func(h *house, hangUp func()){
		"while a number is fetched": func(h *house, hangUp func()) {
			h.store.nextBlock = func(ctx context.Context, day tranid.Date, count, floor int64) (tranid.Block, error) {
				hangUp()
				return h.store.Store.NextBlock(ctx, day, count, floor)
			}
		},
		"while the intent is stored": func(h *house, hangUp func()) {
			h.store.createIntent = func(ctx context.Context, in ledger.Intent) (ledger.Admission, error) {
				hangUp()
				return h.store.Store.CreateIntent(ctx, in)
			}
		},
		"when the intent is stored": func(h *house, hangUp func()) {
			h.store.createIntent = func(ctx context.Context, in ledger.Intent) (ledger.Admission, error) {
				defer hangUp()
				return h.store.Store.CreateIntent(ctx, in)
			}
		},
		"before the exchange": func(h *house, hangUp func()) {
			do := h.core.do
			h.core.do = func(ctx context.Context, call corelink.Call, id tranid.ID) corelink.Result {
				hangUp()
				return do(ctx, call, id)
			}
		},
		"during the exchange": func(h *house, hangUp func()) {
			h.core.do = late(time.Second, "0000", func(tranid.ID) { hangUp() })
		},
		"after the exchange": func(h *house, hangUp func()) {
			h.store.transition = func(ctx context.Context, c ledger.Change) (ledger.Transaction, error) {
				hangUp()
				return h.store.Store.Transition(ctx, c)
			}
		},
	}
	for name, arrange := range cases {
		t.Run(name, func(t *testing.T) {
			inHouse(t, untilGone(answers("0000")), nil, func(t *testing.T, h *house) {
				ctx, cancel := context.WithCancel(t.Context())
				arrange(h, cancel)
				if _, err := h.service.Create(ctx, h.pay()); err != nil || ctx.Err() == nil {
					t.Errorf("ended with %v, caller %v", err, ctx.Err())
				}
				if row := h.bound(); row.Status != ledger.StatusSuccess || len(h.core.frames()) != 1 {
					t.Errorf("row is %s, frames %v", row.Status, h.core.frames())
				}
			})
		})
	}
}

// untilGone is a core whose exchange ends with its context, as that of the link
// does.
func untilGone(do exchange) exchange {
	return func(ctx context.Context, call corelink.Call, id tranid.ID) corelink.Result {
		if ctx.Err() != nil {
			return ends(corelink.SentNone, corelink.ErrAbandoned)(ctx, call, id)
		}
		return do(ctx, call, id)
	}
}

func TestCreate_CallerWhoHasGoneBeginsNothing(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		refused(t, errorOf(h.service.Create(ctx, h.pay())), ledger.ReasonDeadlineTooShort)
		h.unbound()
	})
}

func TestCreate_MinDeadline(t *testing.T) {
	for left, enough := range map[time.Duration]bool{
		-time.Second: false, 1: false, 100*time.Millisecond - 1: false, 100 * time.Millisecond: true, time.Hour: true,
	} {
		t.Run(left.String(), func(t *testing.T) {
			inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
				ctx, cancel := context.WithTimeout(t.Context(), left)
				defer cancel()
				_, err := h.service.Create(ctx, h.pay())
				if enough {
					if err != nil {
						t.Error(err)
					}
					return
				}
				if r := refusalOf(t, err, ledger.ReasonDeadlineTooShort); r.Transaction != nil {
					t.Errorf("refusal %+v", r)
				}
				h.unbound()
				if len(h.core.frames()) != 0 {
					t.Error("a frame left")
				}
			})
		})
	}
}

// A waiting call ends with its caller; what it waits for goes on.
func TestCreate_WaiterHangsUp(t *testing.T) {
	inHouse(t, late(3*time.Second, "0000", nil), nil, func(t *testing.T, h *house) {
		var first sync.WaitGroup
		first.Go(func() {
			if _, err := h.service.Create(context.Background(), h.pay()); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		_, err := h.service.Create(ctx, h.pay())
		if !errors.Is(err, context.Canceled) || time.Since(start) != time.Second {
			t.Errorf("ended with %v after %v", err, time.Since(start))
		}
		first.Wait()
	})
}

// Drain waits for what callers have left behind, and for what is written
// belatedly.
func TestDrain_WaitsForExchangesAndBelatedWrites(t *testing.T) {
	inHouse(t, late(3*time.Second, "0000", nil), nil, func(t *testing.T, h *house) {
		start := time.Now()
		h.store.transition = func(ctx context.Context, c ledger.Change) (ledger.Transaction, error) {
			if time.Since(start) < 5*time.Second {
				return ledger.Transaction{}, errDown
			}
			return h.store.Store.Transition(ctx, c)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = h.service.Create(ctx, h.pay()) }()
		time.Sleep(time.Second)
		cancel()
		h.drain()
		if waited := time.Since(start); waited < 5*time.Second || waited > 6100*time.Millisecond {
			t.Errorf("drained after %v, want 5 s and at most one try more", waited)
		}
		if row := h.bound(); row.Status != ledger.StatusSuccess {
			t.Errorf("row is %s", row.Status)
		}
	})
}

func TestDrain_GivesUpWithItsContext(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		h.store.transition = func(context.Context, ledger.Change) (ledger.Transaction, error) {
			return ledger.Transaction{}, errDown
		}
		refused(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonOutcomeUnknown)
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := h.service.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 2*time.Second {
			t.Errorf("drain: %v after %v", err, time.Since(start))
		}
		// The second one finds that the first gave the writes up.
		h.drain()
		if time.Since(start) != 2*time.Second || h.count("gwanmun_ledger_dropped_total", "outcome") != 1 {
			t.Errorf("still writing after %v, %v outcomes dropped", time.Since(start), h.count("gwanmun_ledger_dropped_total", "outcome"))
		}
	})
}

// An intent of which nobody knows whether it was stored may turn up for longer
// than a stop takes. Nothing of it was sent: it is no loss.
func TestDrain_AWithdrawalIsNoLoss(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		h.store.createIntent = func(context.Context, ledger.Intent) (ledger.Admission, error) { return ledger.Admission{}, errDown }
		refused(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonLedgerUnavailable)
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := h.service.Drain(ctx); err != nil || time.Since(start) != 2*time.Second {
			t.Errorf("drain: %v after %v, want 2 s", err, time.Since(start))
		}
		if h.count("gwanmun_ledger_dropped_total", "outcome") != 0 {
			t.Error("an outcome was counted as lost")
		}
	})
}

func TestDrain_LetsNothingNewBegin(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		h.drain()
		refused(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonLedgerUnavailable)
		_, err := h.service.Balance(t.Context(), payment.BalanceRequest{Client: client, Account: h.pay().Account})
		refused(t, err, ledger.ReasonLedgerUnavailable)
		h.unbound()
	})
}
