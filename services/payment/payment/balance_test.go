package payment_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/payment/payment"
)

func (h *house) ask(ctx context.Context) (payment.BalanceReply, error) {
	return h.service.Balance(ctx, payment.BalanceRequest{
		Client: client, Account: number(h.t, "12345678901234"), CorrelationID: "corr-1",
	})
}

// inquiry is the only row of the book, once what is written behind the answers
// is written.
func (h *house) inquiry() ledger.Transaction {
	h.t.Helper()
	synctest.Wait()
	page, err := h.store.List(context.Background(), ledger.Filter{Limit: 10})
	if err != nil || len(page.Transactions) != 1 {
		h.t.Fatalf("%d rows, %v; want one", len(page.Transactions), err)
	}
	return page.Transactions[0]
}

func TestBalance_Outcomes(t *testing.T) {
	cases := map[string]struct {
		do       exchange
		status   ledger.Status
		evidence ledger.Evidence
		reason   ledger.Reason
	}{
		"answered":        {answers("0000"), ledger.StatusSuccess, ledger.EvidenceAnswered, 0},
		"no such account": {answers("0001"), ledger.StatusFailed, ledger.EvidenceAnswered, ledger.ReasonAccountNotFound},
		"declined":        {answers("0094"), ledger.StatusFailed, ledger.EvidenceAnswered, ledger.ReasonDeclined},
		"time-out":        {ends(corelink.SentAll, corelink.ErrTimeout), ledger.StatusUnknown, 0, ledger.ReasonOutcomeUnknown},
		"partial write":   {ends(corelink.SentSome, corelink.ErrWrite), ledger.StatusUnknown, 0, ledger.ReasonOutcomeUnknown},
		"wrong echo":      {bent(4, "GWMNU20200101000000001"), ledger.StatusUnknown, 0, ledger.ReasonOutcomeUnknown},
		"wrong MTI":       {bent(0, "0110"), ledger.StatusUnknown, 0, ledger.ReasonOutcomeUnknown},
		"letters":         {bent(26, "abc"), ledger.StatusUnknown, 0, ledger.ReasonOutcomeUnknown},
		"no connection":   {ends(corelink.SentNone, corelink.ErrConnect), ledger.StatusFailed, ledger.EvidenceNotSent, ledger.ReasonCoreUnreachable},
		"no time":         {ends(corelink.SentNone, corelink.ErrNoTime), ledger.StatusFailed, ledger.EvidenceNotSent, ledger.ReasonDeadlineTooShort},
		"caller gone":     {ends(corelink.SentNone, corelink.ErrAbandoned), ledger.StatusFailed, ledger.EvidenceNotSent, ledger.ReasonDeadlineTooShort},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inHouse(t, c.do, nil, func(t *testing.T, h *house) {
				reply, err := h.ask(t.Context())
				told := reply.Transaction
				if c.reason != 0 {
					told = *refusalOf(t, err, c.reason).Transaction
				} else if err != nil || reply.Balance != 5000 {
					t.Fatalf("balance %d, %v", reply.Balance, err)
				}
				row := h.inquiry()
				if row.Status != c.status || row.Evidence != c.evidence || told.ID != row.ID || told.Status != row.Status || told.Answer != row.Answer {
					t.Errorf("told %+v, row %+v", told, row)
				}
				if row.Kind != ledger.KindBalanceInquiry || row.Client != client || row.AccountMasked != "123456****1234" ||
					row.CorrelationID != "corr-1" || row.Key != "" || row.Reason == "" {
					t.Errorf("row %+v", row)
				}
				if len(h.core.asked) != 1 || h.count("gwanmun_ledger_transactions_total", c.status.String()) != 1 {
					t.Errorf("asked %v times, counted %v", len(h.core.asked), h.count("gwanmun_ledger_transactions_total", c.status.String()))
				}
			})
		})
	}
}

// An account that no telegram can carry is a fault of ours, and leaves nothing.
func TestBalance_NoAccount(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		_, err := h.service.Balance(t.Context(), payment.BalanceRequest{Client: client, Account: account.Number{}})
		refused(t, err, ledger.ReasonInternal)
		if len(h.core.asked) != 0 {
			t.Error("the core was asked")
		}
	})
}

func TestBalance_NoNumbers(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		h.store.nextBlock = func(ctx context.Context, _ tranid.Date, _, _ int64) (tranid.Block, error) {
			return tranid.Block{}, hang(ctx)
		}
		start := time.Now()
		_, err := h.ask(t.Context())
		refused(t, err, ledger.ReasonLedgerUnavailable)
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("took %v, want 2 s", took)
		}
	})
}

// An inquiry is its caller's: it has the caller's time where that is shorter
// than a transaction's, and ends with the caller.
func TestBalance_CallersDeadline(t *testing.T) {
	for name, c := range map[string]struct{ patience, left time.Duration }{
		"none":    {0, 5 * time.Second},
		"shorter": {700 * time.Millisecond, 700 * time.Millisecond},
		"longer":  {time.Minute, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, func(ctx context.Context, call corelink.Call, id tranid.ID) corelink.Result {
				if left := time.Until(call.Deadline); left != c.left {
					t.Errorf("%v left, want %v", left, c.left)
				}
				return answers("0000")(ctx, call, id)
			}, nil, func(t *testing.T, h *house) {
				ctx := t.Context()
				if c.patience > 0 {
					bounded, cancel := context.WithTimeout(ctx, c.patience)
					defer cancel()
					ctx = bounded
				}
				if _, err := h.ask(ctx); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestBalance_CallerHangsUpAndTheRowIsKept(t *testing.T) {
	inHouse(t, func(ctx context.Context, call corelink.Call, id tranid.ID) corelink.Result {
		<-ctx.Done()
		return ends(corelink.SentAll, corelink.ErrAbandoned)(ctx, call, id)
	}, nil, func(t *testing.T, h *house) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := h.ask(ctx)
		refused(t, err, ledger.ReasonOutcomeUnknown)
		if row := h.inquiry(); row.Status != ledger.StatusUnknown || row.Elapsed != time.Second {
			t.Errorf("row %+v", row)
		}
	})
}

func TestBalance_MinDeadline(t *testing.T) {
	inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
		ctx, cancel := context.WithTimeout(t.Context(), 99*time.Millisecond)
		defer cancel()
		_, err := h.ask(ctx)
		refused(t, err, ledger.ReasonDeadlineTooShort)
		if len(h.core.asked) != 0 {
			t.Error("the core was asked")
		}
	})
}
