package payment_test

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/payment/payment"
)

// bent answers 0000 with some bytes of the frame replaced.
func bent(at int, with string) exchange {
	return func(_ context.Context, call corelink.Call, id tranid.ID) corelink.Result {
		b := bytes.Clone(answerOf(call, id, "0000"))
		copy(b[at:], with)
		return answer(call, b)
	}
}

// outcomes is the table of DESIGN §5, as the caller and the ledger see it.
var outcomes = map[string]struct {
	do       exchange
	status   ledger.Status
	evidence ledger.Evidence
	// reason is what the caller is told; zero for a success.
	reason ledger.Reason
	code   string
}{
	"approved":        {answers("0000"), ledger.StatusSuccess, ledger.EvidenceAnswered, 0, "0000"},
	"no such account": {answers("0001"), ledger.StatusFailed, ledger.EvidenceAnswered, ledger.ReasonAccountNotFound, "0001"},
	"declined":        {answers("0051"), ledger.StatusFailed, ledger.EvidenceAnswered, ledger.ReasonDeclined, "0051"},
	"fenced":          {answers("0096"), ledger.StatusFailed, ledger.EvidenceAnswered, ledger.ReasonDeclined, "0096"},
	"unknown decline": {answers("7777"), ledger.StatusFailed, ledger.EvidenceAnswered, ledger.ReasonDeclined, "7777"},
	"ID already used": {answers("0094"), ledger.StatusUnknown, 0, ledger.ReasonOutcomeUnknown, "0094"},

	"not sent, no connection": {
		ends(corelink.SentNone, corelink.ErrConnect), ledger.StatusFailed, ledger.EvidenceNotSent, ledger.ReasonCoreUnreachable, "",
	},
	"not sent, no place in the pool": {
		ends(corelink.SentNone, corelink.ErrSaturated), ledger.StatusFailed, ledger.EvidenceNotSent, ledger.ReasonLinkSaturated, "",
	},
	"not sent, no byte taken": {
		ends(corelink.SentNone, corelink.ErrWrite), ledger.StatusFailed, ledger.EvidenceNotSent, ledger.ReasonCoreUnreachable, "",
	},
	"not sent, no time": {
		ends(corelink.SentNone, corelink.ErrNoTime), ledger.StatusFailed, ledger.EvidenceNotSent, ledger.ReasonDeadlineTooShort, "",
	},
	"not sent, window missed": {
		ends(corelink.SentNone, corelink.ErrNotReady), ledger.StatusFailed, ledger.EvidenceNotSent, ledger.ReasonSendWindowMissed, "",
	},

	"time-out":         {ends(corelink.SentAll, corelink.ErrTimeout), ledger.StatusUnknown, 0, ledger.ReasonOutcomeUnknown, ""},
	"closed":           {ends(corelink.SentAll, corelink.ErrClosed), ledger.StatusUnknown, 0, ledger.ReasonOutcomeUnknown, ""},
	"partial write":    {ends(corelink.SentSome, corelink.ErrWrite), ledger.StatusUnknown, 0, ledger.ReasonOutcomeUnknown, ""},
	"what left is not": {ends(0, corelink.ErrConnect), ledger.StatusUnknown, 0, ledger.ReasonOutcomeUnknown, ""},
	"wrong MTI":        {bent(0, "0210"), ledger.StatusUnknown, 0, ledger.ReasonOutcomeUnknown, ""},
	"wrong echo":       {bent(4, "GWMNU20200101000000001"), ledger.StatusUnknown, 0, ledger.ReasonOutcomeUnknown, ""},
	"wrong code":       {bent(26, "00 0"), ledger.StatusUnknown, 0, ledger.ReasonOutcomeUnknown, ""},
	"wrong approval":   {bent(50, "letters"), ledger.StatusUnknown, 0, ledger.ReasonOutcomeUnknown, ""},
}

func TestCreate_Outcomes(t *testing.T) {
	for name, c := range outcomes {
		t.Run(name, func(t *testing.T) {
			inHouse(t, c.do, nil, func(t *testing.T, h *house) {
				reply, err := h.service.Create(t.Context(), h.pay())
				told := reply.Transaction
				if c.reason == 0 {
					if err != nil || reply.Replayed {
						t.Fatalf("reply %+v, %v; want a success", reply, err)
					}
				} else {
					r := refusalOf(t, err, c.reason)
					if r.Transaction == nil || r.Replayed {
						t.Fatalf("refusal %+v", r)
					}
					told = *r.Transaction
				}
				row := h.bound()
				if told != row {
					t.Errorf("the caller is told\n%+v, the row is\n%+v", told, row)
				}
				if row.Status != c.status || row.Evidence != c.evidence || row.Answer.Code != c.code || row.Reason == "" {
					t.Errorf("row is %s by %q with code %q, reason %q", row.Status, row.Evidence, row.Answer.Code, row.Reason)
				}
				checkTail(t, h, &row)
				if n := h.count("gwanmun_ledger_transactions_total", c.status.String()); n != 1 {
					t.Errorf("%v transactions %s are counted, want 1", n, c.status)
				}
			})
		})
	}
}

// checkTail checks what follows from the status of a row that just ended.
func checkTail(t *testing.T, h *house, row *ledger.Transaction) {
	t.Helper()
	review := row.Answer.Code == ledger.CodeIDUsed
	if row.NeedsReview != review || row.OperatorOnly() != review {
		t.Errorf("needs review: %t, want %t", row.NeedsReview, review)
	}
	if due := !row.NextResolveAt.IsZero(); due != (row.Status == ledger.StatusUnknown && !review) {
		t.Errorf("%s, due at %v", row.Status, row.NextResolveAt)
	}
	if sent := !row.SentAt.IsZero(); sent != (row.Evidence != ledger.EvidenceNotSent) {
		t.Errorf("%s by %q, sent at %v", row.Status, row.Evidence, row.SentAt)
	}
	if row.Answer.Code != "" && row.RespondedAt.IsZero() {
		t.Error("answered, and no moment of it")
	}
	if approved := row.Answer.Approval == "00000000042"; approved != (row.Status == ledger.StatusSuccess) {
		t.Errorf("%s with approval number %q", row.Status, row.Answer.Approval)
	}
	events, err := h.store.Events(context.Background(), row.ID)
	if err != nil || len(events) != 2 || events[1].From != ledger.StatusRequested || events[1].To != row.Status {
		t.Errorf("events %+v, %v", events, err)
	}
}

func TestCreate_StoresWhatWasAsked(t *testing.T) {
	inHouse(t, late(1500*time.Millisecond, "0000", nil), nil, func(t *testing.T, h *house) {
		arrived := time.Now().UTC().Truncate(time.Microsecond)
		r := h.pay()
		r.Policy = ledger.PolicyConfirm
		if _, err := h.service.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		row := h.bound()
		want := ledger.Transaction{
			ID: row.ID, Kind: ledger.KindPayment, Status: ledger.StatusSuccess, Evidence: ledger.EvidenceAnswered,
			Policy: ledger.PolicyConfirm, Client: client, Key: key,
			AccountMasked: "123456****1234", AccountHash: hashKey(t).Account(r.Account), Amount: 1000,
			Answer: ledger.Answer{Code: "0000", Message: "코어의 말", Approval: "00000000042"},
			Reason: row.Reason, Elapsed: 1500 * time.Millisecond, RequestedAt: arrived, SentAt: arrived,
			RespondedAt: arrived.Add(1500 * time.Millisecond), AdoptAt: arrived.Add(12 * time.Second), CorrelationID: "corr-1",
		}
		if row != want {
			t.Errorf("row\n%+v\nwant\n%+v", row, want)
		}
	})
}

// The exchange gets what is left of the transaction's deadline, whatever the
// caller's is, and nothing of the caller's cancellation.
func TestCreate_ExchangeHasItsOwnDeadline(t *testing.T) {
	inHouse(t, func(ctx context.Context, call corelink.Call, id tranid.ID) corelink.Result {
		if _, bounded := ctx.Deadline(); bounded || ctx.Done() != nil {
			t.Error("the exchange obeys the caller's context")
		}
		if left := time.Until(call.Deadline); left != 4*time.Second {
			t.Errorf("%v left, want 4 s of 5", left)
		}
		return answers("0000")(ctx, call, id)
	}, nil, func(t *testing.T, h *house) {
		h.store.createIntent = func(ctx context.Context, in ledger.Intent) (ledger.Admission, error) {
			time.Sleep(time.Second)
			return h.store.Store.CreateIntent(ctx, in)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
		defer cancel()
		if _, err := h.service.Create(ctx, h.pay()); err != nil {
			t.Error(err)
		}
	})
}

// What no row may hold is a fault of ours: nothing was stored, so there is
// nothing to take back.
func TestCreate_WhatNoRowMayHold(t *testing.T) {
	for name, change := range map[string]func(*payment.Request){
		"amount of 0":     func(r *payment.Request) { r.Amount = 0 },
		"13 digits":       func(r *payment.Request) { r.Amount = 1_000_000_000_000 },
		"negative amount": func(r *payment.Request) { r.Amount = -1 },
		"no policy":       func(r *payment.Request) { r.Policy = 0 },
		"no key":          func(r *payment.Request) { r.Key = "" },
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
				r := h.pay()
				change(&r)
				_, err := h.service.Create(t.Context(), r)
				refused(t, err, ledger.ReasonInternal)
				h.unbound()
				h.drain()
				if frames, tries := h.core.frames(), h.log.times("WARN belated write given up"); len(frames) != 0 || tries != 0 {
					t.Errorf("frames %v, %d belated writes", frames, tries)
				}
			})
		})
	}
}

// The row says in a human's words how an answer was lost, and why nothing left.
func TestCreate_RowSaysHow(t *testing.T) {
	cases := map[string]struct {
		do   exchange
		says string
	}{
		"time-out":      {ends(corelink.SentAll, corelink.ErrTimeout), "sent, and then: no answer in time"},
		"closed":        {ends(corelink.SentAll, corelink.ErrClosed), "sent, and then: connection ended before the answer"},
		"partial write": {ends(corelink.SentSome, corelink.ErrWrite), "sent, and then: request not written"},
		"garbage":       {bent(26, "xxxx"), "sent, and then: not an answer to this request"},
		"wrong echo":    {bent(4, "GWMNU20200101000000001"), "sent, and then: not an answer to this request"},
		"no connection": {ends(corelink.SentNone, corelink.ErrConnect), "not sent: no connection to the core"},
		"too late":      {ends(corelink.SentNone, corelink.ErrNotReady), "not sent: the send window had passed"},
		"declined":      {answers("0051"), "declined by the core"},
		"approved":      {answers("0000"), "approved by the core"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inHouse(t, c.do, nil, func(t *testing.T, h *house) {
				_ = errorOf(h.service.Create(t.Context(), h.pay()))
				_, _ = h.ask(t.Context())
				synctest.Wait()
				page, err := h.store.List(t.Context(), ledger.Filter{Limit: 10})
				if err != nil || len(page.Transactions) != 2 {
					t.Fatalf("%d rows, %v; want a payment and an inquiry", len(page.Transactions), err)
				}
				for _, row := range page.Transactions {
					says := c.says
					if name == "approved" && !row.Kind.MovesMoney() {
						says = "answered by the core"
					}
					if row.Reason != says {
						t.Errorf("the row of a %s says %q, want %q", row.Kind, row.Reason, says)
					}
				}
			})
		})
	}
}
