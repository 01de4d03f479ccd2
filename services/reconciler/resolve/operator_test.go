package resolve

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/frame"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

var operatorKim = ledger.Actor{Name: "operator:kim", Instance: "reconciler-test"}

// inReview stores an UNKNOWN payment that needs review.
func inReview(t *testing.T, h *house, u unknown) tranid.ID {
	t.Helper()
	id := put(t, h.store, h.opts.Now, u)
	review(t, h, id)
	return id
}

func review(t *testing.T, h *house, id tranid.ID) {
	t.Helper()
	claim, err := h.store.ClaimOne(t.Context(), id, time.Minute, payment)
	must(t, err)
	must(t, h.store.Postpone(t.Context(), ledger.Postponement{
		ID: id, Token: claim.Token, Answered: true, NeedsReview: true, Delay: 5 * time.Minute, By: payment,
	}))
}

func (h *house) settleAs(t *testing.T, id tranid.ID, to ledger.Status) ledger.Transaction {
	t.Helper()
	row, err := h.Settle(t.Context(), id, to, "the bank was called", operatorKim)
	must(t, err)
	return row
}

func lastEvent(t *testing.T, store ledger.Store, id tranid.ID) ledger.Event {
	t.Helper()
	events, err := store.Events(t.Context(), id)
	must(t, err)
	return events[len(events)-1]
}

func TestSettle_KeepsWhoAndWhyAndHidesAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		id := inReview(t, h, unknown{number: 1})
		row, err := h.Settle(t.Context(), id, ledger.StatusSuccess, "통화함: 123-456789-01234 입금 확인\n", operatorKim)
		must(t, err)
		event := lastEvent(t, h.store, id)
		if row.Status != ledger.StatusSuccess || row.Evidence != ledger.EvidenceOperator || row.Method != ledger.MethodOperator ||
			event.By != operatorKim || event.Evidence != ledger.EvidenceOperator || event.Detail != row.Reason {
			t.Errorf("%+v, %+v", row, event)
		}
		if !strings.HasPrefix(event.Detail, "통화함: ***-******-***** 입금 확인") || strings.ContainsAny(event.Detail, "0123456789\n") {
			t.Errorf("the reason is %q", event.Detail)
		}
		if h.metric(t, "gwanmun_resolutions_total") != 1 || h.logs.count(slog.LevelWarn, "transaction settled by an operator") != 1 {
			t.Error("not counted, or not told")
		}
	})
}

func TestSettle_TheSameAgainIsAnsweredAndAnotherRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		id := inReview(t, h, unknown{number: 1})
		row := h.settleAs(t, id, ledger.StatusFailed)
		again := h.settleAs(t, id, ledger.StatusFailed)
		if again != row || h.metric(t, "gwanmun_resolutions_total") != 1 {
			t.Errorf("again: %+v", again)
		}
		for _, other := range []struct {
			to     ledger.Status
			reason string
		}{{ledger.StatusFailed, "something else"}, {ledger.StatusCanceled, "the bank was called"}, {ledger.StatusSuccess, "the bank was called"}} {
			_, err := h.Settle(t.Context(), id, other.to, other.reason, operatorKim)
			if !errors.Is(err, ledger.ErrLost) {
				t.Errorf("%s, %s: %v", other.to, other.reason, err)
			}
		}
		if get(t, h.store, id) != row {
			t.Error("the row changed")
		}
	})
}

func TestSettle_OnlyWhatNeedsReviewAndNoSuccessOnceDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		fresh := put(t, h.store, time.Now, unknown{number: 1})
		decided := inReview(t, h, unknown{number: 2, decided: true})
		for id, to := range map[tranid.ID]ledger.Status{fresh: ledger.StatusFailed, decided: ledger.StatusSuccess} {
			if _, err := h.Settle(t.Context(), id, to, "why", operatorKim); !errors.Is(err, ledger.ErrLost) {
				t.Errorf("%s: %v", to, err)
			}
		}
		if _, err := h.Settle(t.Context(), "GWMNU20260105000000999", ledger.StatusFailed, "why", operatorKim); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("no such row: %v", err)
		}
		h.settleAs(t, decided, ledger.StatusCanceled)
		if n := h.core.count("", ""); n != 0 {
			t.Errorf("%d frames left", n)
		}
	})
}

// silentFor answers 0420 with garbage, then with nothing, and then as the flag says.
func silentFor(bad int, flag string) answering {
	asked := 0
	return func(_ context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
		if mti != telegram.CancelRequestMTI {
			return delivered(call, answer0410(id, "02", "0096"))
		}
		asked++
		switch {
		case asked > bad:
			return delivered(call, answer0430(id, flag, frame.Done))
		case asked%2 == 0:
			return delivered(call, answer0430(id, "01", "0096"))
		default:
			return corelink.Result{Sent: corelink.SentAll, Err: corelink.ErrTimeout}
		}
	}
}

func TestOwed_TheNetCancelIsSentUntilItIsAnswered(t *testing.T) {
	for _, tc := range []struct {
		to                  ledger.Status
		flag                string
		evidence            ledger.Evidence
		ghosts, differences int
	}{
		{ledger.StatusFailed, "02", ledger.EvidenceFenced, 0, 0},
		{ledger.StatusFailed, "01", ledger.EvidenceCancelConfirmed, 1, 1},
		{ledger.StatusCanceled, "01", ledger.EvidenceCancelConfirmed, 0, 0},
		{ledger.StatusCanceled, "02", ledger.EvidenceFenced, 0, 0},
	} {
		t.Run(tc.to.String()+" "+tc.flag, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const unanswered = 6
				h := newHouse(nil, testFlags(), time.Now)
				h.core.answers(silentFor(unanswered, tc.flag))
				id := inReview(t, h, unknown{number: 1})
				before := h.settleAs(t, id, tc.to)
				defer h.running(t)()
				time.Sleep(10 * time.Minute)
				row := get(t, h.store, id)
				before.NextResolveAt, before.Asked = time.Time{}, true
				if row != before {
					t.Errorf("%+v, want %+v", row, before)
				}
				if n := h.core.count("0420", id); n != unanswered+1 {
					t.Errorf("%d net cancels, want %d", n, unanswered+1)
				}
				if event := lastEvent(t, h.store, id); event.Evidence != tc.evidence || event.From != tc.to || event.To != tc.to || event.By != h.sweeper() {
					t.Errorf("event %+v", event)
				}
				page, err := h.store.ListDiscrepancies(t.Context(), ledger.DiscrepancyFilter{Limit: 10})
				must(t, err)
				if len(page.Discrepancies) != tc.differences || int(h.metric(t, "gwanmun_ghost_total")) != tc.ghosts ||
					h.logs.count(slog.LevelError, "ghost") != tc.ghosts {
					t.Errorf("%d discrepancies, %v ghosts", len(page.Discrepancies), h.metric(t, "gwanmun_ghost_total"))
				}
			})
		})
	}
}

func TestOwed_NothingLeavesAfterSuccessNorAboutAUsedID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		h.settleAs(t, inReview(t, h, unknown{number: 1}), ledger.StatusSuccess)
		used := request(t, h.store, time.Now, unknown{number: 2})
		_, err := h.store.Transition(t.Context(), ledger.Change{
			ID: used, From: ledger.StatusRequested, To: ledger.StatusUnknown, Answer: ledger.Answer{Code: ledger.CodeIDUsed},
			SentAt: time.Now(), By: payment,
		})
		must(t, err)
		h.settleAs(t, used, ledger.StatusFailed)
		defer h.running(t)()
		time.Sleep(time.Hour)
		for _, id := range []tranid.ID{used, tranid.New(tranid.DateOf(time.Now()), 1)} {
			report, err := h.ResolveOne(t.Context(), id, operatorKim)
			if err != nil || len(report.Steps) != 0 || report.Before != report.Transaction.Status {
				t.Errorf("%+v, %v", report, err)
			}
		}
		if n := h.core.count("", ""); n != 0 {
			t.Errorf("%d frames left", n)
		}
	})
}

// An unreachable core is tried at every sweep; one that takes the net cancel and
// never answers less and less often.
func TestOwed_BacksOffWhileTheCoreIsSilentAndNotWhileItIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		h.core.answers(silent)
		id := inReview(t, h, unknown{number: 1})
		h.settleAs(t, id, ledger.StatusFailed)
		defer h.running(t)()
		time.Sleep(4 * time.Hour)
		if n := h.core.count("0420", id); n < 4*12 || n > 4*24+20 {
			t.Errorf("%d net cancels in four hours, want one in 2.5 to 5 minutes at last", n)
		}
		events, err := h.store.Events(t.Context(), id)
		must(t, err)
		if len(events) > 20 {
			t.Errorf("%d events", len(events))
		}
		h.core.answers(refused)
		time.Sleep(time.Hour)
		h.core.answers(says("02", "02"))
		time.Sleep(5*time.Second + time.Second)
		if row := get(t, h.store, id); row.Owed() {
			t.Errorf("owed still, due at %s", row.NextResolveAt)
		}
	})
}

// Without a fence, that the core has no such debit is no end of it before the late
// window is: the original may still come, and is then canceled.
func TestOwed_WithoutAFenceALateOriginalIsCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flags := testFlags()
		flags.CoreFences = false
		h := newHouse(nil, flags, time.Now)
		h.core.answers(says("02", "02"))
		late, never := inReview(t, h, unknown{number: 1}), inReview(t, h, unknown{number: 2})
		h.settleAs(t, late, ledger.StatusCanceled)
		h.settleAs(t, never, ledger.StatusFailed)
		defer h.running(t)()
		time.Sleep(flags.LateWindow - time.Minute)
		for _, id := range []tranid.ID{late, never} {
			if row := get(t, h.store, id); !row.Owed() || h.core.count("0420", id) < 2 {
				t.Fatalf("owed %t after %d net cancels", row.Owed(), h.core.count("0420", id))
			}
		}
		h.core.answers(func(_ context.Context, call corelink.Call, _ string, id tranid.ID) corelink.Result {
			if id == late {
				return delivered(call, answer0430(id, "01", frame.Done))
			}
			return delivered(call, answer0430(id, "02", frame.Done))
		})
		time.Sleep(2 * time.Minute)
		if row := get(t, h.store, late); row.Owed() || lastEvent(t, h.store, late).Evidence != ledger.EvidenceCancelConfirmed {
			t.Errorf("the late one: owed %t", row.Owed())
		}
		if row := get(t, h.store, never); row.Owed() || lastEvent(t, h.store, never).Evidence != 0 {
			t.Errorf("the other one: owed %t", row.Owed())
		}
	})
}

func TestOwed_AnOperatorMayHaveItSentNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(nil, testFlags(), time.Now)
		h.core.answers(says("01", "01"))
		id := inReview(t, h, unknown{number: 1})
		h.settleAs(t, id, ledger.StatusCanceled)
		report, err := h.ResolveOne(t.Context(), id, operatorKim)
		must(t, err)
		if len(report.Steps) != 1 || report.Steps[0].MTI != "0420" || report.Steps[0].CancelResult != "01" ||
			report.Before != ledger.StatusCanceled || report.Transaction.Status != ledger.StatusCanceled || report.Transaction.Owed() {
			t.Errorf("%+v", report)
		}
		report, err = h.ResolveOne(t.Context(), id, operatorKim)
		if err != nil || len(report.Steps) != 0 || h.core.count("", id) != 1 {
			t.Errorf("again: %+v, %v", report, err)
		}
	})
}

// Of two that send it, the one whose lease ended says nothing twice, and keeps what
// the other has not heard.
func TestOwed_OfTwoThatSendItEachAnswerIsKeptOnce(t *testing.T) {
	for _, tc := range []struct {
		first  string
		ghosts int
	}{{"01", 1}, {"02", 1}} {
		synctest.Test(t, func(t *testing.T) {
			h := newHouse(nil, testFlags(), time.Now)
			id := inReview(t, h, unknown{number: 1})
			h.settleAs(t, id, ledger.StatusFailed)
			old, err := h.store.ClaimOne(t.Context(), id, time.Minute, payment)
			must(t, err)
			h.core.answers(says("01", tc.first))
			_, err = h.ResolveOne(t.Context(), id, operatorKim)
			must(t, err)
			h.core.answers(says("01", "01"))
			_, err = h.attempt(t.Context(), h.operator.turn(), old, h.sweeper())
			must(t, err)
			events, err := h.store.Events(t.Context(), id)
			must(t, err)
			confirmed := 0
			for _, e := range events {
				confirmed += count(e.Evidence == ledger.EvidenceCancelConfirmed)
			}
			if confirmed != 1 || int(h.metric(t, "gwanmun_ghost_total")) != tc.ghosts {
				t.Errorf("first %s: %d events, %v ghosts", tc.first, confirmed, h.metric(t, "gwanmun_ghost_total"))
			}
		})
	}
}

// The host that sent it may have any clock: the window is the database's matter.
func TestWindow_IsNotOfTheClockOfTheHostThatSent(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, 0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			flags := testFlags()
			flags.CoreFences = false
			h := newHouse(nil, flags, time.Now)
			h.core.answers(says("02", "02"))
			id := request(t, h.store, time.Now, unknown{number: 1})
			_, err := h.store.Transition(t.Context(), ledger.Change{
				ID: id, From: ledger.StatusRequested, To: ledger.StatusUnknown, SentAt: time.Now().Add(skew), By: payment,
			})
			must(t, err)
			defer h.running(t)()
			time.Sleep(flags.LateWindow)
			if row := get(t, h.store, id); row.Status != ledger.StatusUnknown {
				t.Fatalf("skew %s: %s within the window", skew, row.Status)
			}
			settledWithin(t, h.store, promise, id)
			if row := get(t, h.store, id); row.Evidence != ledger.EvidenceWindowElapsed {
				t.Errorf("skew %s: %s on %s", skew, row.Status, row.Evidence)
			}
		})
	}
}
