package resolve

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/frame"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// fixed is a clock that stands still.
func fixed() time.Time { return time.Date(2026, 1, 5, 3, 0, 0, 0, time.UTC) }

// attemptAt claims a row and makes one attempt at it.
func (h *house) attemptAt(t *testing.T, id tranid.ID) (*attempt, error) {
	t.Helper()
	claim, err := h.store.ClaimOne(t.Context(), id, 30*time.Second, h.sweeper())
	must(t, err)
	return h.attempt(t.Context(), h.operator.turn(), claim, h.sweeper())
}

func TestAttempt_AnInquiryWithoutAnswerHadNoEffectAndCostsNoFrame(t *testing.T) {
	h := newHouse(nil, testFlags(), fixed)
	id := tranid.New(tranid.DateOf(fixed()), 7)
	must(t, h.store.Record(t.Context(), []ledger.Transaction{{
		ID: id, Kind: ledger.KindBalanceInquiry, Status: ledger.StatusUnknown, Client: "local",
		AccountMasked: "****", RequestedAt: fixed(), SentAt: fixed(), Reason: "no answer in time",
	}}, payment))
	_, err := h.attemptAt(t, id)
	must(t, err)
	row := get(t, h.store, id)
	if row.Status != ledger.StatusFailed || row.Evidence != ledger.EvidenceNoEffect || row.Method != ledger.MethodNone {
		t.Errorf("%s %s by %s, want FAILED NO_EFFECT by NONE", row.Status, row.Evidence, row.Method)
	}
	if frames := h.core.all(); len(frames) != 0 {
		t.Errorf("frames left: %v", frames)
	}
}

// putUsedID stores a payment that the core refused with 0094.
func putUsedID(t *testing.T, store ledger.Store) tranid.ID {
	t.Helper()
	id := request(t, store, fixed, unknown{number: 94})
	_, err := store.Transition(t.Context(), usedID(id, ledger.StatusRequested))
	must(t, err)
	return id
}

func usedID(id tranid.ID, from ledger.Status) ledger.Change {
	return ledger.Change{
		ID: id, From: from, To: ledger.StatusUnknown, Answer: ledger.Answer{Code: ledger.CodeIDUsed},
		SentAt: fixed(), By: payment, Reason: "the ID is used",
	}
}

// A ledger that hands such a row out all the same must not make the resolver
// ask, cancel or postpone it.
func TestAttempt_AUsedIDIsLeftToOperators(t *testing.T) {
	h := newHouse(nil, testFlags(), fixed)
	id := putUsedID(t, h.store)
	before := get(t, h.store, id)
	a, err := h.attempt(t.Context(), h.operator.turn(), ledger.Claim{Transaction: before, Token: "someone's", At: fixed()}, h.sweeper())
	must(t, err)
	if after := get(t, h.store, id); after != before {
		t.Errorf("the row changed: %+v", after)
	}
	if frames := h.core.all(); len(frames) != 0 || a.reply != 0 {
		t.Errorf("frames left: %v", frames)
	}
	if len(a.steps) != 1 || !strings.Contains(a.steps[0].Outcome, "operator") {
		t.Errorf("steps %+v, want one that names the operator", a.steps)
	}
}

// lateAnswer is the exchange's own answer, after the row was adopted.
func lateAnswer(id tranid.ID, to ledger.Status, code string) ledger.Change {
	return ledger.Change{
		ID: id, From: ledger.StatusUnknown, To: to, Evidence: ledger.EvidenceAnswered,
		Answer: ledger.Answer{Code: code}, RespondedAt: fixed(), By: payment, Reason: "answered late",
	}
}

func resolvedBy(id tranid.ID, to ledger.Status, evidence ledger.Evidence, method ledger.Method) ledger.Change {
	return ledger.Change{
		ID: id, From: ledger.StatusUnknown, To: to, Evidence: evidence, Method: method,
		By: ledger.Actor{Name: ledger.ActorReconciler, Instance: "another"}, Reason: "another was faster",
	}
}

// What another does to the row while the core is being asked decides; this
// attempt follows, and what contradicts is alarmed on and kept, never applied.
func TestAttempt_AnotherIsFaster(t *testing.T) {
	apply := func(change func(id tranid.ID) ledger.Change) func(*testing.T, ledger.Store, tranid.ID) {
		return func(t *testing.T, store ledger.Store, id tranid.ID) {
			_, err := store.Transition(t.Context(), change(id))
			must(t, err)
		}
	}
	decide := func(t *testing.T, store ledger.Store, id tranid.ID) {
		_, err := store.Decide(t.Context(), id, payment, "another decides")
		must(t, err)
	}
	answered := apply(func(id tranid.ID) ledger.Change { return lateAnswer(id, ledger.StatusSuccess, "0000") })
	declined := apply(func(id tranid.ID) ledger.Change { return lateAnswer(id, ledger.StatusFailed, "0051") })
	used := apply(func(id tranid.ID) ledger.Change { return usedID(id, ledger.StatusUnknown) })
	canceled := apply(func(id tranid.ID) ledger.Change {
		return resolvedBy(id, ledger.StatusCanceled, ledger.EvidenceCancelConfirmed, ledger.MethodNetCancel)
	})
	fenced := apply(func(id tranid.ID) ledger.Change {
		return resolvedBy(id, ledger.StatusFailed, ledger.EvidenceFenced, ledger.MethodStatusInquiry)
	})
	confirmed := apply(func(id tranid.ID) ledger.Change {
		return resolvedBy(id, ledger.StatusSuccess, ledger.EvidenceProcessed, ledger.MethodStatusInquiry)
	})
	for _, tc := range []struct {
		name      string
		policy    ledger.Policy
		processed string
		cancel    string
		during    string // the MTI whose exchange the other is faster than
		other     func(*testing.T, ledger.Store, tranid.ID)

		want    ledger.Status
		cancels int
		ghost   ledger.Evidence
	}{
		{"01, decided meanwhile, CONFIRM", ledger.PolicyConfirm, "01", "01", "0400", decide, ledger.StatusCanceled, 1, 0},
		{"01, decided meanwhile, NET_CANCEL", 0, "01", "01", "0400", decide, ledger.StatusCanceled, 1, 0},
		{"01, answered meanwhile", 0, "01", "", "0400", answered, ledger.StatusSuccess, 0, 0},
		{"01, answered meanwhile, CONFIRM", ledger.PolicyConfirm, "01", "", "0400", answered, ledger.StatusSuccess, 0, 0},
		{"01, confirmed meanwhile", ledger.PolicyConfirm, "01", "", "0400", confirmed, ledger.StatusSuccess, 0, 0},
		{"01, canceled meanwhile", 0, "01", "", "0400", canceled, ledger.StatusCanceled, 0, 0},
		{"02, answered meanwhile", 0, "02", "", "0400", answered, ledger.StatusSuccess, 0, 0},
		{"02, declined meanwhile", 0, "02", "", "0400", declined, ledger.StatusFailed, 0, 0},
		{"02, used ID meanwhile", 0, "02", "", "0400", used, ledger.StatusUnknown, 0, 0},
		{"01, used ID meanwhile, CONFIRM", ledger.PolicyConfirm, "01", "", "0400", used, ledger.StatusUnknown, 0, 0},
		{"03, used ID meanwhile", 0, "03", "", "0400", used, ledger.StatusUnknown, 0, 0},
		{"03, declined meanwhile", 0, "03", "", "0400", declined, ledger.StatusFailed, 0, 0},
		{"nothing, answered meanwhile", 0, "99", "", "0400", answered, ledger.StatusSuccess, 0, 0},
		{"cancel 02, canceled meanwhile", 0, "02", "02", "0420", canceled, ledger.StatusCanceled, 1, 0},
		{"cancel 01, canceled meanwhile", 0, "01", "01", "0420", canceled, ledger.StatusCanceled, 1, 0},
		{"cancel 02, fenced meanwhile", 0, "02", "02", "0420", fenced, ledger.StatusFailed, 1, 0},

		{"ghost: 01, declined meanwhile", 0, "01", "", "0400", declined, ledger.StatusFailed, 0, ledger.EvidenceProcessed},
		{"ghost: 01, declined meanwhile, CONFIRM", ledger.PolicyConfirm, "01", "", "0400", declined, ledger.StatusFailed, 0, ledger.EvidenceProcessed},
		{"ghost: 03, answered meanwhile", 0, "03", "", "0400", answered, ledger.StatusSuccess, 0, ledger.EvidenceCancelConfirmed},
		{"ghost: cancel 01, fenced meanwhile", 0, "02", "01", "0420", fenced, ledger.StatusFailed, 1, ledger.EvidenceCancelConfirmed},
		{"ghost: 01 and nothing, fenced meanwhile", 0, "01", "99", "0420", fenced, ledger.StatusFailed, 1, ledger.EvidenceProcessed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHouse(nil, testFlags(), fixed)
			id := put(t, h.store, fixed, unknown{number: 1, policy: tc.policy})
			h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
				if mti == tc.during {
					tc.other(t, h.store, id)
				}
				return says(tc.processed, tc.cancel)(ctx, call, mti, id)
			})
			_, err := h.attemptAt(t, id)
			must(t, err)
			checkOvertaken(t, h, id, tc.want, tc.cancels, tc.ghost)
		})
	}
}

func checkOvertaken(t *testing.T, h *house, id tranid.ID, want ledger.Status, cancels int, ghost ledger.Evidence) {
	t.Helper()
	row := get(t, h.store, id)
	if row.Status != want || h.core.count("0420", id) != cancels {
		t.Errorf("%s after %d net cancels, want %s after %d", row.Status, h.core.count("0420", id), want, cancels)
	}
	events, err := h.store.Events(t.Context(), id)
	must(t, err)
	kept := 0
	for _, e := range events {
		if e.From == want && e.To == want && want.Final() {
			kept++
			if e.Evidence != ghost || !strings.HasPrefix(e.Detail, "ghost") {
				t.Errorf("kept %+v, want evidence %s", e, ghost)
			}
		}
	}
	alarms := count(ghost != 0)
	if kept != alarms || h.logs.count(slog.LevelError, "ghost") != alarms || int(h.metric(t, "gwanmun_ghost_total")) != alarms {
		t.Errorf("%d kept, %d logged, %v counted; want %d of each", kept,
			h.logs.count(slog.LevelError, "ghost"), h.metric(t, "gwanmun_ghost_total"), alarms)
	}
}

func TestAttempt_NoNetCancelLeavesUnlessTheDecisionIsSurelyStored(t *testing.T) {
	for name, decide := range map[string]func(context.Context, tranid.ID, ledger.Actor, string) (ledger.Transaction, error){
		"unavailable": func(context.Context, tranid.ID, ledger.Actor, string) (ledger.Transaction, error) {
			return ledger.Transaction{}, ledger.ErrUnavailable
		},
		"a row that is not decided": func(_ context.Context, id tranid.ID, _ ledger.Actor, _ string) (ledger.Transaction, error) {
			return ledger.Transaction{ID: id, Kind: ledger.KindPayment, Status: ledger.StatusUnknown}, nil
		},
		"a row of a used ID": func(_ context.Context, id tranid.ID, _ ledger.Actor, _ string) (ledger.Transaction, error) {
			return ledger.Transaction{
				ID: id, Kind: ledger.KindPayment, Status: ledger.StatusUnknown, Decision: ledger.DecisionCancel,
				Answer: ledger.Answer{Code: ledger.CodeIDUsed},
			}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(&faultyStore{Store: memstore.New(fixed), decide: decide}, testFlags(), fixed)
			id := put(t, h.store, fixed, unknown{number: 1})
			if _, err := h.attemptAt(t, id); err == nil {
				t.Error("no error")
			}
			if n := h.core.count("0420", id); n != 0 {
				t.Errorf("%d net cancels left", n)
			}
		})
	}
}

// What a ledger outage makes forgotten is asked again: the core still knows.
func TestAttempt_EvidenceThatCouldNotBeStoredIsFoundAgain(t *testing.T) {
	store := &faultyStore{Store: memstore.New(fixed)}
	h := newHouse(store, testFlags(), fixed)
	id := put(t, store, fixed, unknown{number: 1})
	store.transition = func(context.Context, ledger.Change) (ledger.Transaction, error) {
		return ledger.Transaction{}, ledger.ErrUnavailable
	}
	if _, err := h.attemptAt(t, id); !errors.Is(err, ledger.ErrUnavailable) {
		t.Fatalf("error %v, want the outage", err)
	}
	store.transition = nil
	h.core.answers(says("03", ""))
	_, err := h.attemptAt(t, id)
	must(t, err)
	if row := get(t, store, id); row.Status != ledger.StatusCanceled {
		t.Errorf("%s, want CANCELED", row.Status)
	}
}

func TestAttempt_AGhostThatCannotBeKeptIsAnError(t *testing.T) {
	store := &faultyStore{Store: memstore.New(fixed)}
	store.appendEvent = func(context.Context, tranid.ID, ledger.Evidence, ledger.Actor, string) error { return errTest }
	h := newHouse(store, testFlags(), fixed)
	id := put(t, store, fixed, unknown{number: 1})
	h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
		_, err := store.Transition(ctx, lateAnswer(id, ledger.StatusFailed, "0051"))
		must(t, err)
		return says("01", "")(ctx, call, mti, id)
	})
	if _, err := h.attemptAt(t, id); !errors.Is(err, errTest) {
		t.Errorf("error %v", err)
	}
	if h.logs.count(slog.LevelError, "ghost") != 1 || h.metric(t, "gwanmun_ghost_total") != 1 {
		t.Error("the alarm must not wait for the ledger")
	}
}

func TestAttempt_AnswersThatAreNotThisTransactionsAreNone(t *testing.T) {
	other := tranid.New(tranid.DateOf(fixed()), 999)
	for name, bytes := range map[string]func(id tranid.ID, mti string) []byte{
		"another transaction's": func(_ tranid.ID, mti string) []byte {
			if mti == telegram.StatusRequestMTI {
				return answer0410(other, "03", frame.Done)
			}
			return answer0430(other, "01", frame.Done)
		},
		"the other telegram's": func(id tranid.ID, mti string) []byte {
			if mti == telegram.StatusRequestMTI {
				return answer0430(id, "01", frame.Done)
			}
			return answer0410(id, "03", frame.Done)
		},
		"cut":     func(id tranid.ID, _ string) []byte { return answer0410(id, "03", frame.Done)[:40] },
		"garbage": func(tranid.ID, string) []byte { return []byte(strings.Repeat("7", telegram.AnswerLength)) },
	} {
		for _, bad := range []string{"0400", "0420"} {
			t.Run(name+" to "+bad, func(t *testing.T) {
				h := newHouse(nil, testFlags(), fixed)
				id := put(t, h.store, fixed, unknown{number: 1})
				h.core.answers(func(ctx context.Context, call corelink.Call, mti string, id tranid.ID) corelink.Result {
					if mti == bad {
						return delivered(call, bytes(id, mti))
					}
					return says("01", "01")(ctx, call, mti, id)
				})
				a, err := h.attemptAt(t, id)
				must(t, err)
				row := get(t, h.store, id)
				if row.Status != ledger.StatusUnknown || row.ResolveAttempts != 1 {
					t.Errorf("%s with %d attempts, want UNKNOWN with 1: something was answered", row.Status, row.ResolveAttempts)
				}
				last := a.steps[len(a.steps)-1]
				if last.MTI != bad || len(last.Response) == 0 || last.ResponseCode != "" || !strings.Contains(last.Outcome, "no answer") {
					t.Errorf("step %+v", last)
				}
				if strings.Contains(string(last.Response), "7777777") {
					t.Errorf("digits that may be an account are shown: %q", last.Response)
				}
			})
		}
	}
}
