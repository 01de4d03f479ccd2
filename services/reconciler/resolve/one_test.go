package resolve

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

var operator = ledger.Actor{Name: "operator:local", Instance: "reconciler-test"}

func TestResolveOne_TellsEveryStep(t *testing.T) {
	h := newHouse(nil, testFlags(), fixed)
	id := put(t, h.store, fixed, unknown{number: 1})
	report, err := h.ResolveOne(t.Context(), id, operator)
	must(t, err)
	if report.Before != ledger.StatusUnknown || report.Transaction.Status != ledger.StatusCanceled || len(report.Steps) != 2 {
		t.Fatalf("report %+v", report)
	}
	inquiry, cancel := report.Steps[0], report.Steps[1]
	if inquiry.MTI != "0400" || string(inquiry.Request[4:26]) != string(id) || len(inquiry.Response) != telegram.AnswerLength ||
		inquiry.Processed != "01" || inquiry.CancelResult != "" || inquiry.ResponseCode != "0000" || inquiry.CoreMessage != "조회" {
		t.Errorf("inquiry %+v", inquiry)
	}
	if cancel.MTI != "0420" || cancel.CancelResult != "01" || cancel.Processed != "" || cancel.CoreMessage != "취소" || cancel.Outcome == "" {
		t.Errorf("cancel %+v", cancel)
	}
	events, err := h.store.Events(t.Context(), id)
	must(t, err)
	for _, e := range events[len(events)-2:] { // the decision and the move
		if e.By.Name != "operator:local" {
			t.Errorf("event by %s", e.By.Name)
		}
	}
}

func TestResolveOne_ChangesNothingThatIsFinal(t *testing.T) {
	for _, status := range []ledger.Status{ledger.StatusSuccess, ledger.StatusFailed, ledger.StatusCanceled} {
		h := newHouse(nil, testFlags(), fixed)
		id := put(t, h.store, fixed, unknown{number: 1})
		change := resolvedBy(id, ledger.StatusCanceled, ledger.EvidenceCancelConfirmed, ledger.MethodNetCancel)
		if status != ledger.StatusCanceled {
			change = lateAnswer(id, status, map[bool]string{true: "0000", false: "0051"}[status == ledger.StatusSuccess])
		}
		before, err := h.store.Transition(t.Context(), change)
		must(t, err)
		report, err := h.ResolveOne(t.Context(), id, operator)
		must(t, err)
		if report.Before != status || report.Transaction != before || len(report.Steps) != 0 || len(h.core.all()) != 0 {
			t.Errorf("%s: %+v", status, report)
		}
	}
}

func TestResolveOne_LeavesAPaymentInFlightAloneUntilItIsAbandoned(t *testing.T) {
	clock := fixed()
	now := func() time.Time { return clock }
	h := newHouse(nil, testFlags(), now)
	id := request(t, h.store, now, unknown{number: 1})
	report, err := h.ResolveOne(t.Context(), id, operator)
	must(t, err)
	if report.Before != ledger.StatusRequested || report.Transaction.Status != ledger.StatusRequested || len(report.Steps) != 1 {
		t.Fatalf("in flight: %+v", report)
	}
	step := report.Steps[0]
	if step.MTI != "" || !strings.Contains(step.Outcome, "in flight") || !strings.Contains(step.Outcome, "2026-01-05T03:00:12Z") {
		t.Errorf("step %+v, want when it is taken over", step)
	}
	if frames := h.core.all(); len(frames) != 0 {
		t.Errorf("frames left: %v", frames)
	}
	clock = clock.Add(12 * time.Second)
	report, err = h.ResolveOne(t.Context(), id, operator)
	must(t, err)
	if report.Transaction.Status != ledger.StatusCanceled {
		t.Errorf("abandoned: %s, want CANCELED", report.Transaction.Status)
	}
}

func TestResolveOne_LeavesAUsedIDToSettlement(t *testing.T) {
	h := newHouse(nil, testFlags(), fixed)
	id := putUsedID(t, h.store)
	before := get(t, h.store, id)
	report, err := h.ResolveOne(t.Context(), id, operator)
	must(t, err)
	if report.Before != ledger.StatusUnknown || report.Transaction != before || len(h.core.all()) != 0 {
		t.Errorf("report %+v", report)
	}
	if len(report.Steps) != 1 || report.Steps[0].MTI != "" || !strings.Contains(report.Steps[0].Outcome, "operator") {
		t.Errorf("steps %+v", report.Steps)
	}
}

func TestResolveOne_StaysUnknownWhenTheCoreIsNotThere(t *testing.T) {
	h := newHouse(nil, testFlags(), fixed)
	id := put(t, h.store, fixed, unknown{number: 1})
	h.core.answers(refused)
	report, err := h.ResolveOne(t.Context(), id, operator)
	must(t, err)
	if report.Transaction.Status != ledger.StatusUnknown || report.Transaction.ResolveAttempts != 0 || len(report.Steps) != 1 {
		t.Fatalf("report %+v", report)
	}
	if s := report.Steps[0]; s.MTI != "" || len(s.Request) != 0 || !strings.Contains(s.Outcome, "not sent") {
		t.Errorf("step %+v, want that nothing was sent", s)
	}
}

func TestResolveOne_NotFoundAndUnavailable(t *testing.T) {
	h := newHouse(nil, testFlags(), fixed)
	if _, err := h.ResolveOne(t.Context(), someID, operator); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("unknown ID: %v", err)
	}
	must(t, h.store.Close())
	if _, err := h.ResolveOne(t.Context(), someID, operator); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("closed ledger: %v", err)
	}
}

// A telegram that was sent is not abandoned because an operator hung up.
func TestResolveOne_GoesOnWhenTheCallerLeaves(t *testing.T) {
	h := newHouse(nil, testFlags(), fixed)
	id := put(t, h.store, fixed, unknown{number: 1})
	ctx, leave := context.WithCancel(t.Context())
	h.core.answers(func(inner context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
		leave()
		if inner.Err() != nil {
			t.Errorf("%s is abandoned with its caller", mti)
		}
		return says("01", "01")(inner, call, mti, id)
	})
	report, err := h.ResolveOne(ctx, id, operator)
	must(t, err)
	if report.Transaction.Status != ledger.StatusCanceled {
		t.Errorf("%s, want CANCELED", report.Transaction.Status)
	}
}

func TestResolveOne_APanicIsAnErrorWithoutItsTextAndGivesTheRowBack(t *testing.T) {
	h := newHouse(nil, testFlags(), fixed)
	id := put(t, h.store, fixed, unknown{number: 1})
	h.core.answers(func(context.Context, corelink.Call, string, tranid.ID) corelink.Result { panic("canary") })
	_, err := h.ResolveOne(t.Context(), id, operator)
	var panicked *PanicError
	if !errors.As(err, &panicked) || strings.Contains(err.Error(), "canary") {
		t.Errorf("error %v", err)
	}
	if h.logs.count(slog.LevelError, "transaction not resolved") != 1 {
		t.Error("the panic is not logged")
	}
	claims, err := h.store.Claim(t.Context(), ledger.ClaimOptions{Limit: 1, Lease: time.Second})
	must(t, err)
	if len(claims) != 1 {
		t.Error("the row is still leased")
	}
}

// Sweep and operators at one row at the same instant: one transition; everyone
// is told the result.
func TestResolveOne_TogetherWithOthersMakesOneTransition(t *testing.T) {
	for _, policy := range []ledger.Policy{ledger.PolicyNetCancel, ledger.PolicyConfirm} {
		synctest.Test(t, func(t *testing.T) {
			h := newHouse(memstore.New(time.Now), testFlags(), time.Now)
			id := put(t, h.store, time.Now, unknown{number: 1, policy: policy})
			h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
				time.Sleep(time.Second) // all of them are between their claim and their move
				return says("01", "01")(ctx, call, mti, id)
			})
			var all sync.WaitGroup
			all.Go(func() { h.sweep(t.Context()) })
			for range 7 {
				all.Go(func() {
					report, err := h.ResolveOne(t.Context(), id, operator)
					if err != nil || !report.Transaction.Status.Final() {
						t.Errorf("%s, %v", report.Transaction.Status, err)
					}
				})
			}
			all.Wait()
			events, err := h.store.Events(t.Context(), id)
			must(t, err)
			moves := 0
			for _, e := range events {
				moves += count(e.From == ledger.StatusUnknown && e.To != ledger.StatusUnknown)
			}
			if moves != 1 || h.metric(t, "gwanmun_resolutions_total") != 1 {
				t.Errorf("%s: %d transitions, %v counted", policy, moves, h.metric(t, "gwanmun_resolutions_total"))
			}
			if h.metric(t, "gwanmun_ghost_total") != 0 {
				t.Errorf("%s: a false alarm", policy)
			}
		})
	}
}
