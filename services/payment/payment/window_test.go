package payment_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/payment/payment"
)

// The send window starts with the write of the intent and is looked at when the
// connection is there: what passes in between counts, whichever it was.
func TestCreate_SendWindow(t *testing.T) {
	cases := map[string]struct {
		storing, connecting time.Duration
		sent                bool
	}{
		"at once":              {0, 0, true},
		"slow ledger":          {1900 * time.Millisecond, 0, true},
		"slow connection":      {0, 1900 * time.Millisecond, true},
		"both, just in time":   {time.Second, time.Second - 1, true},
		"both, just too late":  {time.Second, time.Second, false},
		"connection too slow":  {0, 2 * time.Second, false},
		"the ledger, just not": {2*time.Second - 1, 1, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inHouse(t, after(c.connecting, answers("0000")), nil, func(t *testing.T, h *house) {
				h.store.createIntent = func(ctx context.Context, in ledger.Intent) (ledger.Admission, error) {
					time.Sleep(c.storing)
					return h.store.Store.CreateIntent(context.WithoutCancel(ctx), in)
				}
				_, err := h.service.Create(t.Context(), h.pay())
				row := h.bound()
				if c.sent {
					if err != nil || row.Status != ledger.StatusSuccess {
						t.Errorf("row is %s, %v", row.Status, err)
					}
					return
				}
				refused(t, err, ledger.ReasonSendWindowMissed)
				if !row.NeverSent() || len(h.core.frames()) != 0 {
					t.Errorf("row is %s by %s, frames %v", row.Status, row.Evidence, h.core.frames())
				}
			})
		})
	}
}

// A window that is missed frees the key.
func TestCreate_AfterAMissedWindowTheKeyRunsAgain(t *testing.T) {
	slow := after(3*time.Second, answers("0000"))
	inHouse(t, inTurn(slow, answers("0000")), nil, func(t *testing.T, h *house) {
		refused(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonSendWindowMissed)
		if reply, err := h.service.Create(t.Context(), h.pay()); err != nil || reply.Replayed {
			t.Errorf("reply %+v, %v", reply, err)
		}
	})
}

// A machine that slept, or whose clock was set forward, between intent and
// write: by the wall clock the window has passed.
func TestCreate_SendWindowByTheWallClock(t *testing.T) {
	var jump atomic.Int64
	wall := func(o *payment.Options) {
		o.Now = func() time.Time { return time.Now().Round(0).Add(time.Duration(jump.Load())) }
	}
	inHouse(t, answers("0000"), wall, func(t *testing.T, h *house) {
		h.store.createIntent = func(ctx context.Context, in ledger.Intent) (ledger.Admission, error) {
			defer jump.Store(int64(time.Hour))
			return h.store.Store.CreateIntent(ctx, in)
		}
		refused(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonSendWindowMissed)
		if row := h.bound(); !row.NeverSent() || len(h.core.frames()) != 0 {
			t.Errorf("row is %s by %s, frames %v", row.Status, row.Evidence, h.core.frames())
		}
	})
}

// An intent under a second ID has a window of its own.
func TestCreate_TakenIDIsNotSent(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		var taken []ledger.Intent
		h.store.createIntent = func(ctx context.Context, in ledger.Intent) (ledger.Admission, error) {
			if len(taken) < 2 {
				time.Sleep(1500 * time.Millisecond)
				taken = append(taken, in)
				return ledger.Admission{}, ledger.ErrDuplicateID
			}
			return h.store.Store.CreateIntent(ctx, in)
		}
		reply, err := h.service.Create(t.Context(), h.pay())
		if err != nil || taken[0].ID == taken[1].ID {
			t.Fatalf("error %v, tried %v", err, taken)
		}
		if frames := h.core.frames(); len(frames) != 1 || frames[0] != reply.Transaction.ID ||
			frames[0] == taken[0].ID || frames[0] == taken[1].ID {
			t.Errorf("frames %v, taken %s and %s", frames, taken[0].ID, taken[1].ID)
		}
		if n := h.log.times("ERROR transaction id is taken"); n != 2 {
			t.Errorf("said %d times, want 2", n)
		}
	})
}

func TestCreate_OnlyTakenIDs(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		tries := 0
		h.store.createIntent = func(context.Context, ledger.Intent) (ledger.Admission, error) {
			tries++
			return ledger.Admission{}, ledger.ErrDuplicateID
		}
		_, err := h.service.Create(t.Context(), h.pay())
		refused(t, err, ledger.ReasonLedgerUnavailable)
		if tries != 3 || len(h.core.frames()) != 0 {
			t.Errorf("%d tries, frames %v", tries, h.core.frames())
		}
	})
}

func TestFlags_Validate(t *testing.T) {
	cases := map[string]struct {
		change func(*payment.Flags)
		valid  bool
	}{
		"as they are":                    {func(*payment.Flags) {}, true},
		"no least deadline":              {func(f *payment.Flags) { f.MinDeadline = 0 }, true},
		"no deadline":                    {func(f *payment.Flags) { f.Deadline = 0 }, false},
		"no window":                      {func(f *payment.Flags) { f.SendWindow = 0 }, false},
		"no margin":                      {func(f *payment.Flags) { f.AdoptMargin = 0 }, false},
		"a least deadline below nothing": {func(f *payment.Flags) { f.MinDeadline = -1 }, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := flags
			c.change(&f)
			if err := f.Validate(); (err == nil) != c.valid {
				t.Error(err)
			}
		})
	}
}

// A transaction whose deadline is over before its exchange begins was not sent.
func TestCreate_DeadlineShorterThanTheWindow(t *testing.T) {
	short := func(o *payment.Options) { o.Flags.Deadline = time.Second }
	link := func(_ context.Context, call corelink.Call, _ tranid.ID) corelink.Result {
		if time.Until(call.Deadline) > 0 {
			return corelink.Result{Err: errors.New("time is left")}
		}
		return corelink.Result{Sent: corelink.SentNone, Err: corelink.ErrNoTime}
	}
	inHouse(t, link, short, func(t *testing.T, h *house) {
		h.store.createIntent = func(ctx context.Context, in ledger.Intent) (ledger.Admission, error) {
			time.Sleep(1500 * time.Millisecond)
			return h.store.Store.CreateIntent(ctx, in)
		}
		refused(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonDeadlineTooShort)
	})
}
