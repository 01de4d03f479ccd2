package payment_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// meanwhile has the row adopted, and more, before an exchange ends.
func meanwhile(h *house, change func(h *house, id tranid.ID), do exchange) exchange {
	return func(ctx context.Context, call corelink.Call, id tranid.ID) corelink.Result {
		h.adopt(id)
		if change != nil {
			change(h, id)
		}
		return do(ctx, call, id)
	}
}

// The exchange outlived the adoption of its row, and nothing is decided yet: its
// own answer is evidence still, and no answer adds nothing.
func TestCreate_AnswerAfterAdoption(t *testing.T) {
	cases := map[string]struct {
		do     exchange
		status ledger.Status
		reason ledger.Reason
		review bool
	}{
		"approved":   {answers("0000"), ledger.StatusSuccess, 0, false},
		"declined":   {answers("0051"), ledger.StatusFailed, ledger.ReasonDeclined, false},
		"ID is used": {answers("0094"), ledger.StatusUnknown, ledger.ReasonOutcomeUnknown, true},
		"no answer":  {ends(corelink.SentAll, corelink.ErrTimeout), ledger.StatusUnknown, ledger.ReasonOutcomeUnknown, false},
		"not sent":   {ends(corelink.SentNone, corelink.ErrConnect), ledger.StatusUnknown, ledger.ReasonOutcomeUnknown, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inHouse(t, nil, nil, func(t *testing.T, h *house) {
				h.core.do = meanwhile(h, nil, c.do)
				reply, err := h.service.Create(t.Context(), h.pay())
				told := reply.Transaction
				if c.reason != 0 {
					told = *refusalOf(t, err, c.reason).Transaction
				} else if err != nil {
					t.Fatal(err)
				}
				row := h.bound()
				if told != row || row.Status != c.status || row.NeedsReview != c.review {
					t.Errorf("told %s, the row is %s, review %t", told.Status, row.Status, row.NeedsReview)
				}
				if row.Status == ledger.StatusUnknown && !c.review && (row.Reason != "adopted" || row.NextResolveAt.IsZero()) {
					t.Errorf("the adopted row says %q, due %v", row.Reason, row.NextResolveAt)
				}
				if n := h.count("gwanmun_ghost_total", ""); n != 0 {
					t.Errorf("%v ghosts", n)
				}
			})
		})
	}
}

// Once something is decided the row stays as it is, the reply says what the row
// says, and what cannot be true beside it is an alarm.
func TestCreate_AnswerAfterADecision(t *testing.T) {
	type end struct {
		do    exchange
		ghost []ledger.Status // the final statuses that it contradicts
	}
	ways := map[string]end{
		"approved":  {answers("0000"), []ledger.Status{ledger.StatusFailed}},
		"declined":  {answers("0051"), []ledger.Status{ledger.StatusSuccess}},
		"fenced":    {answers("0096"), []ledger.Status{ledger.StatusSuccess}},
		"not sent":  {ends(corelink.SentNone, corelink.ErrConnect), []ledger.Status{ledger.StatusSuccess}},
		"used ID":   {answers("0094"), nil},
		"no answer": {ends(corelink.SentAll, corelink.ErrTimeout), nil},
	}
	rows := map[string]struct {
		change func(h *house, id tranid.ID)
		status ledger.Status
		reason ledger.Reason
	}{
		"decided":   {(*house).decide, ledger.StatusUnknown, ledger.ReasonOutcomeUnknown},
		"fenced":    {(*house).fence, ledger.StatusFailed, ledger.ReasonNotExecuted},
		"canceled":  {(*house).cancel, ledger.StatusCanceled, ledger.ReasonPaymentCanceled},
		"confirmed": {(*house).confirm, ledger.StatusSuccess, 0},
	}
	for rowName, row := range rows {
		for wayName, way := range ways {
			t.Run("row "+rowName+", "+wayName, func(t *testing.T) {
				ghost := 0
				for _, status := range way.ghost {
					if status == row.status {
						ghost = 1
					}
				}
				inHouse(t, nil, nil, func(t *testing.T, h *house) {
					var before ledger.Transaction
					h.core.do = meanwhile(h, func(h *house, id tranid.ID) {
						row.change(h, id)
						before = h.bound()
					}, way.do)
					reply, err := h.service.Create(t.Context(), h.pay())
					told := reply.Transaction
					if row.reason != 0 {
						told = *refusalOf(t, err, row.reason).Transaction
					} else if err != nil {
						t.Fatal(err)
					}
					if now := h.bound(); now != before || told != before {
						t.Errorf("the row was\n%+v, is\n%+v, told\n%+v", before, now, told)
					}
					checkGhost(t, h, before.ID, ghost)
				})
			})
		}
	}
}

func checkGhost(t *testing.T, h *house, id tranid.ID, want int) {
	t.Helper()
	events, err := h.store.Events(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, e := range events {
		if strings.HasPrefix(e.Detail, "ghost: ") && e.From == e.To && e.By.Name == ledger.ActorPayment {
			found++
		}
	}
	if counted := h.count("gwanmun_ghost_total", ""); found != want || counted != float64(want) || h.log.times("ERROR ghost") != want {
		t.Errorf("%d ghost events, %v counted, said %d times; want %d", found, counted, h.log.times("ERROR ghost"), want)
	}
}

// A ghost is told of though the ledger does not take the event, and within
// bounds.
func TestCreate_GhostEventThatCannotBeStored(t *testing.T) {
	for name, c := range map[string]struct {
		fails func(context.Context) error
		took  time.Duration
	}{
		"ledger down":  {func(context.Context) error { return errDown }, 0},
		"ledger hangs": {hang, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, nil, nil, func(t *testing.T, h *house) {
				h.core.do = meanwhile(h, (*house).fence, answers("0000"))
				h.store.appendEvent = c.fails
				start := time.Now()
				r := refusalOf(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonNotExecuted)
				if errors.Is(r.Err, errDown) || time.Since(start) != c.took {
					t.Errorf("refusal %+v after %v", r, time.Since(start))
				}
				if h.count("gwanmun_ghost_total", "") != 1 || h.log.times("ERROR ghost event not stored") != 1 {
					t.Error("the ghost is not told of")
				}
			})
		})
	}
}
