package payment_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/payment/payment"
)

// downFor makes the write of outcomes fail for so long.
func (h *house) downFor(d time.Duration) { h.store.downUntil.Store(time.Now().Add(d).UnixNano()) }

func TestCreate_IntentNotStored(t *testing.T) {
	cases := map[string]struct {
		breaks func(h *house)
		took   time.Duration
	}{
		"ledger down": {func(h *house) {
			h.store.createIntent = func(context.Context, ledger.Intent) (ledger.Admission, error) { return ledger.Admission{}, errDown }
		}, 0},
		"ledger hangs": {func(h *house) {
			h.store.createIntent = func(ctx context.Context, _ ledger.Intent) (ledger.Admission, error) {
				return ledger.Admission{}, hang(ctx)
			}
		}, 2 * time.Second},
		"no numbers": {func(h *house) {
			h.store.nextBlock = func(context.Context, tranid.Date, int64, int64) (tranid.Block, error) { return tranid.Block{}, errDown }
		}, 0},
		"numbers used up": {func(h *house) {
			h.store.nextBlock = func(context.Context, tranid.Date, int64, int64) (tranid.Block, error) {
				return tranid.Block{}, tranid.ErrDayExhausted
			}
		}, 0},
		"numbers hang": {func(h *house) {
			h.store.nextBlock = func(ctx context.Context, _ tranid.Date, _, _ int64) (tranid.Block, error) {
				return tranid.Block{}, hang(ctx)
			}
		}, 2 * time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
				c.breaks(h)
				start := time.Now()
				r := refusalOf(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonLedgerUnavailable)
				if r.Transaction != nil || time.Since(start) != c.took {
					t.Errorf("refusal %+v after %v", r, time.Since(start))
				}
				h.drain()
				h.unbound()
				if len(h.core.asked) != 0 {
					t.Error("the core was asked")
				}
			})
		})
	}
}

// What the ledger stored without saying so in time is withdrawn, whenever it
// turns up, and its key is free again.
func TestCreate_UnconfirmedIntentIsWithdrawn(t *testing.T) {
	for name, commit := range map[string]time.Duration{
		"stored at once":       0,
		"stored in a moment":   2500 * time.Millisecond,
		"stored after a while": 9 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
				committed := make(chan struct{})
				h.store.createIntent = func(_ context.Context, in ledger.Intent) (ledger.Admission, error) {
					time.AfterFunc(commit, func() {
						defer close(committed)
						if _, err := h.store.Store.CreateIntent(context.Background(), in); err != nil {
							t.Error(err)
						}
					})
					return ledger.Admission{}, errDown
				}
				refused(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonLedgerUnavailable)
				<-committed
				time.Sleep(1100 * time.Millisecond)
				withdrawn := h.bound()
				if !withdrawn.NeverSent() || len(h.core.asked) != 0 {
					t.Errorf("row is %s by %s, asked %v", withdrawn.Status, withdrawn.Evidence, h.core.asked)
				}
				h.store.createIntent = nil
				if reply, err := h.service.Create(t.Context(), h.pay()); err != nil || reply.Replayed || reply.Transaction.ID == withdrawn.ID {
					t.Errorf("the key does not run again: %+v, %v", reply, err)
				}
			})
		})
	}
}

// The client tries again while the row of its first try is still REQUESTED: it
// waits for the withdrawal, and then sends once.
func TestCreate_RetryBeforeTheWithdrawal(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		h.downFor(2 * time.Second)
		h.store.createIntent = func(ctx context.Context, in ledger.Intent) (ledger.Admission, error) {
			h.store.createIntent = nil
			_, err := h.store.Store.CreateIntent(ctx, in)
			return ledger.Admission{}, errors.Join(err, errDown)
		}
		refused(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonLedgerUnavailable)
		reply, err := h.service.Create(t.Context(), h.pay())
		if err != nil || reply.Replayed || len(h.core.frames()) != 1 {
			t.Errorf("reply %+v, %v, frames %v", reply, err, h.core.frames())
		}
	})
}

// The ledger failed before it could say that the ID is another payment's, which
// is being sent: that one is left alone, whether or not the key was used before.
func TestCreate_WithdrawsNoOtherPayment(t *testing.T) {
	unsent, slow := ends(corelink.SentNone, corelink.ErrConnect), late(1900*time.Millisecond, "0000", nil)
	for name, core := range map[string]exchange{"new key": slow, "key of an unsent payment": inTurn(unsent, slow)} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, core, nil, func(t *testing.T, h *house) {
				r := h.pay()
				r.Key = "order-2"
				if name != "new key" {
					refused(t, errorOf(h.service.Create(t.Context(), r)), ledger.ReasonCoreUnreachable)
				}
				var first sync.WaitGroup
				first.Go(func() {
					if _, err := h.service.Create(context.Background(), h.pay()); err != nil {
						t.Errorf("the other payment: %v", err)
					}
				})
				time.Sleep(time.Millisecond)
				twin := h.givingOut(h.bound().ID)
				refused(t, errorOf(twin.Create(t.Context(), r)), ledger.ReasonLedgerUnavailable)
				if err := twin.Drain(t.Context()); err != nil {
					t.Error(err)
				}
				first.Wait()
				if row := h.bound(); row.Status != ledger.StatusSuccess {
					t.Errorf("the other payment is %s by %s", row.Status, row.Evidence)
				}
			})
		})
	}
}

// givingOut is a second service on the same ledger, which is told that the
// number of id is free and then loses the ledger.
func (h *house) givingOut(id tranid.ID) *payment.Service {
	h.t.Helper()
	taken, err := strconv.ParseInt(string(id[tranid.Length-9:]), 10, 64)
	if err != nil {
		h.t.Fatal(err)
	}
	o := h.options()
	o.Registry = prometheus.NewRegistry()
	o.Store = &faultyStore{
		Store: h.store.Store,
		nextBlock: func(context.Context, tranid.Date, int64, int64) (tranid.Block, error) {
			return tranid.Block{Day: id.Date(), First: taken, Count: 1}, nil
		},
		createIntent: func(_ context.Context, in ledger.Intent) (ledger.Admission, error) {
			if in.ID != id {
				h.t.Errorf("took %s, want %s", in.ID, id)
			}
			return ledger.Admission{}, errDown
		},
	}
	return payment.New(o)
}

func TestCreate_OutcomeNotStored(t *testing.T) {
	cases := map[string]struct {
		do     exchange
		reason ledger.Reason
		status ledger.Status
	}{
		"approved": {answers("0000"), ledger.ReasonOutcomeUnknown, ledger.StatusSuccess},
		"declined": {answers("0051"), ledger.ReasonOutcomeUnknown, ledger.StatusFailed},
		"unknown":  {ends(corelink.SentAll, corelink.ErrTimeout), ledger.ReasonOutcomeUnknown, ledger.StatusUnknown},
		// Nothing left, whatever the ledger can store of it.
		"not sent": {ends(corelink.SentNone, corelink.ErrConnect), ledger.ReasonCoreUnreachable, ledger.StatusFailed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inHouse(t, c.do, nil, func(t *testing.T, h *house) {
				h.downFor(3 * time.Second)
				r := refusalOf(t, errorOf(h.service.Create(t.Context(), h.pay())), c.reason)
				if r.Transaction == nil || r.Transaction.ID != h.bound().ID || !errors.Is(r.Err, errDown) {
					t.Errorf("refusal %+v", r)
				}
				if row := h.bound(); row.Status != ledger.StatusRequested {
					t.Errorf("row is %s before the ledger is back", row.Status)
				}
				h.drain()
				if row := h.bound(); row.Status != c.status {
					t.Errorf("row is %s after the ledger is back, want %s", row.Status, c.status)
				}
				if dropped := h.count("gwanmun_ledger_dropped_total", "outcome"); dropped != 0 || h.log.times("ERROR outcome not stored") != 1 {
					t.Errorf("%v dropped, said %d times", dropped, h.log.times("ERROR outcome not stored"))
				}
			})
		})
	}
}

func TestCreate_LedgerThatHangsOnTheOutcome(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		h.store.transition = func(ctx context.Context, _ ledger.Change) (ledger.Transaction, error) {
			return ledger.Transaction{}, hang(ctx)
		}
		start := time.Now()
		refused(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonOutcomeUnknown)
		if took := time.Since(start); took != flags.SendWindow {
			t.Errorf("took %v, want %v", took, flags.SendWindow)
		}
	})
}

// An outcome that the ledger does not take until the row is taken for abandoned
// is the reconciler's to find out. It is counted, and said.
func TestCreate_BelatedOutcomeIsGivenUp(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		h.downFor(time.Hour)
		refused(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonOutcomeUnknown)
		start := time.Now()
		h.drain()
		if took := time.Since(start); took != 12*time.Second {
			t.Errorf("given up after %v, want 12 s", took)
		}
		if dropped := h.count("gwanmun_ledger_dropped_total", "outcome"); dropped != 1 || h.log.times("WARN belated write given up") != 1 {
			t.Errorf("%v dropped, said %d times", dropped, h.log.times("WARN belated write given up"))
		}
		if row := h.bound(); row.Status != ledger.StatusRequested {
			t.Errorf("row is %s", row.Status)
		}
	})
}

// So many writes may wait and no more; the others are counted at once. When
// those that wait have ended there is room again.
func TestCreate_BelatedWritesAreBounded(t *testing.T) {
	const bound, more = 1024, 6
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		payOn := func(n int) {
			r := h.pay()
			r.Key = ledger.IdempotencyKey(fmt.Sprintf("order-%d", n))
			refused(t, errorOf(h.service.Create(t.Context(), r)), ledger.ReasonOutcomeUnknown)
		}
		h.downFor(time.Second)
		for n := range bound + more {
			payOn(n)
		}
		h.wantDropped(more)
		time.Sleep(5 * time.Second)
		h.downFor(time.Second)
		payOn(bound + more)
		h.drain()
		h.wantDropped(more)
		page, err := h.store.List(t.Context(), ledger.Filter{Statuses: []ledger.Status{ledger.StatusRequested}, Limit: 500})
		if err != nil || len(page.Transactions) != more {
			t.Errorf("%d rows without outcome, %v", len(page.Transactions), err)
		}
	})
}

// wantDropped checks how many outcomes are given up.
func (h *house) wantDropped(want float64) {
	h.t.Helper()
	if dropped := h.count("gwanmun_ledger_dropped_total", "outcome"); dropped != want {
		h.t.Errorf("%v outcomes dropped, want %v", dropped, want)
	}
}

// An answer that could not be stored in time is applied to the row as it is by
// then, and no more than that.
func TestCreate_BelatedOutcomeMeetsTheReconciler(t *testing.T) {
	cases := map[string]struct {
		code      string
		meanwhile func(h *house, id tranid.ID)
		status    ledger.Status
		ghosts    float64
	}{
		"adopted":             {"0000", func(*house, tranid.ID) {}, ledger.StatusSuccess, 0},
		"adopted, declined":   {"0051", func(*house, tranid.ID) {}, ledger.StatusFailed, 0},
		"decided":             {"0000", (*house).decide, ledger.StatusUnknown, 0},
		"canceled":            {"0000", (*house).cancel, ledger.StatusCanceled, 0},
		"fenced, a ghost":     {"0000", (*house).fence, ledger.StatusFailed, 1},
		"confirmed":           {"0000", (*house).confirm, ledger.StatusSuccess, 0},
		"confirmed, declined": {"0051", (*house).confirm, ledger.StatusSuccess, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inHouse(t, answers(c.code), nil, func(t *testing.T, h *house) {
				h.downFor(2 * time.Second)
				refused(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonOutcomeUnknown)
				id := h.bound().ID
				h.adopt(id)
				c.meanwhile(h, id)
				h.drain()
				if row := h.bound(); row.Status != c.status || h.count("gwanmun_ghost_total", "") != c.ghosts {
					t.Errorf("row is %s, %v ghosts", row.Status, h.count("gwanmun_ghost_total", ""))
				}
			})
		})
	}
}
