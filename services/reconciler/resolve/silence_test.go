package resolve

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/resilience"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// ignores is a core that lets one row's inquiry go unanswered, after as long as
// an exchange takes, and answers every other at once.
func ignores(ignored func(tranid.ID) bool) answering {
	return func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
		if ignored(id) {
			return silent(ctx, call, mti, id)
		}
		return says("02", "02")(ctx, call, mti, id)
	}
}

// A row that alone is ignored spends its attempts, backs off and needs review;
// a row that is answered with garbage does too.
func TestSweep_ARowThatAloneGetsNoAnswerNeedsReview(t *testing.T) {
	for name, bad := range map[string]answering{
		"ignored": silent,
		"closed":  closed,
		"garbled": func(_ context.Context, call corelink.Call, _ string, id tranid.ID) corelink.Result {
			return delivered(call, answer0410(tranid.New(id.Date(), 999_999), "02", "0000"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(nil, testFlags(), time.Now)
				poison := put(t, h.store, time.Now, unknown{number: 0})
				h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
					if id == poison {
						return bad(ctx, call, mti, id)
					}
					return says("02", "02")(ctx, call, mti, id)
				})
				defer h.running(t)()
				for i := range 2000 { // others are answered all the while
					put(t, h.store, time.Now, unknown{number: int64(i + 1)})
					time.Sleep(time.Second)
				}
				row := get(t, h.store, poison)
				if row.Status != ledger.StatusUnknown || !row.NeedsReview || row.ResolveAttempts < 10 {
					t.Errorf("%s, review %t, %d attempts", row.Status, row.NeedsReview, row.ResolveAttempts)
				}
				if n := h.core.count("0400", poison); n > 80 { // of 400 sweeps
					t.Errorf("asked about %d times in 2,000 s: it does not back off", n)
				}
			})
		})
	}
}

// A core that answers nobody spends nobody's attempts, and needs no human.
func TestSweep_ACoreThatHangsAltogetherSpendsNoAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		ids := make([]tranid.ID, 30)
		for i := range ids {
			ids[i] = put(t, h.store, time.Now, unknown{number: int64(i)})
		}
		h.core.answers(silent)
		defer h.running(t)()
		time.Sleep(10 * time.Minute)
		for _, id := range ids {
			if row := get(t, h.store, id); row.ResolveAttempts != 0 || row.NeedsReview {
				t.Fatalf("%d attempts, review %t", row.ResolveAttempts, row.NeedsReview)
			}
		}
		h.core.answers(says("01", "01"))
		settledWithin(t, h.store, 2*testFlags().SweepInterval+10*time.Second, ids...)
	})
}

// What could not be sent was not asked: the row stays due, and goes first when
// there is a way again.
func TestSweep_WhatCouldNotBeSentWasNotAsked(t *testing.T) {
	for name, err := range map[string]error{
		"circuit open": &resilience.OpenError{Name: resilience.CoreQuery, State: resilience.Open, RetryAfter: time.Second},
		"saturated":    corelink.ErrSaturated,
		"unreachable":  corelink.ErrConnect,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(nil, testFlags(), time.Now)
				ids := make([]tranid.ID, 100)
				for i := range ids {
					ids[i] = put(t, h.store, time.Now, unknown{number: int64(i)})
				}
				due := get(t, h.store, ids[0]).NextResolveAt
				h.core.answers(func(context.Context, corelink.Call, string, tranid.ID) corelink.Result {
					return corelink.Result{Sent: corelink.SentNone, Err: err}
				})
				h.sweep(t.Context())
				for _, id := range ids {
					if row := get(t, h.store, id); row.Asked || row.ResolveAttempts != 0 || row.NextResolveAt.After(due.Add(time.Minute)) {
						t.Fatalf("asked %t, %d attempts, due %s", row.Asked, row.ResolveAttempts, row.NextResolveAt)
					}
				}
				if n := h.core.count("0400", ""); n > silenceLimit+workers {
					t.Errorf("%d inquiries into the void in one pass", n)
				}
				h.core.answers(says("01", "01"))
				h.sweep(t.Context())
				for _, id := range ids {
					if row := get(t, h.store, id); row.Status != ledger.StatusCanceled {
						t.Fatalf("%s after the way was there again", row.Status)
					}
				}
			})
		})
	}
}

// A net cancel that could not be sent spends nothing, though the inquiry before
// it was answered.
func TestSweep_ANetCancelThatCouldNotBeSentSpendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		id := put(t, h.store, time.Now, unknown{number: 1})
		h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
			if mti == "0420" {
				return corelink.Result{Sent: corelink.SentNone, Err: resilience.ErrOpen}
			}
			return says("01", "")(ctx, call, mti, id)
		})
		h.sweep(t.Context())
		if row := get(t, h.store, id); row.ResolveAttempts != 0 || row.Decision != ledger.DecisionCancel {
			t.Errorf("%d attempts, decision %s", row.ResolveAttempts, row.Decision)
		}
	})
}

// A fresh row is asked about before those that were ignored before.
func TestSweep_IgnoredRowsDoNotHoldUpAFreshOne(t *testing.T) {
	for _, interval := range []time.Duration{200 * time.Millisecond, time.Second, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			flags := testFlags()
			flags.SweepInterval = interval
			h := newHouse(nil, flags, time.Now)
			poison := map[tranid.ID]bool{}
			for i := range 100 {
				poison[put(t, h.store, time.Now, unknown{number: int64(i)})] = true
			}
			h.core.answers(ignores(func(id tranid.ID) bool { return poison[id] }))
			defer h.running(t)()
			time.Sleep(5 * time.Minute)
			for i := range 20 {
				fresh := put(t, h.store, time.Now, unknown{number: int64(1000 + i)})
				settledWithin(t, h.store, 2*interval+10*time.Second, fresh)
				time.Sleep(1700 * time.Millisecond)
			}
		})
	}
}
