package grpcapi_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
	"github.com/gwanmun/gwanmun/proto/reason"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/corelink/listing"
	"github.com/gwanmun/gwanmun/pkg/frame"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

// History implements payment.Listings: three movements of the last day, with the
// core's code, or a lost answer when that is empty.
func (c *core) History(_ context.Context, p listing.Period, _ time.Time) (telegram.HistoryAnswer, corelink.Result) {
	c.frames.Add(1)
	res := corelink.Result{Sent: corelink.SentAll, SentAt: time.Now()}
	code, _ := c.code.Load().(string)
	if code == "" {
		res.Err = corelink.ErrTimeout
		return telegram.HistoryAnswer{}, res
	}
	res.AnsweredAt = time.Now()
	m := telegram.HistoryAnswer{Account: p.Account, ResponseCode: code}
	if code != frame.Done {
		return m, res
	}
	for i, word := range []string{"출금", "입금", "이체"} {
		m.Records = append(m.Records, telegram.HistoryRecord{
			Seq: int64(i + 1), Date: p.To, Type: frame.Text{Value: word}, Amount: 1000, BalanceAfter: 999_999_999_999_999,
			Summary: frame.Text{Value: "결제"},
		})
	}
	m.Records = m.Records[:min(int64(len(m.Records)), p.Max)]
	return m, res
}

func period() *paymentv1.ListAccountEntriesRequest {
	return &paymentv1.ListAccountEntriesRequest{
		AccountNumber: "12345678901234", FromDate: "2026-02-01", ToDate: "2026-02-28", MaxCount: 181,
	}
}

func TestListAccountEntries_SaysWhatTheCoreTold(t *testing.T) {
	g := openGate(t, "0000")
	resp, err := g.ListAccountEntries(t.Context(), period())
	if err != nil || len(resp.GetEntries()) != 3 {
		t.Fatalf("entries %v, %v", resp, err)
	}
	directions := []paymentv1.EntryDirection{
		paymentv1.EntryDirection_ENTRY_DIRECTION_OUT,
		paymentv1.EntryDirection_ENTRY_DIRECTION_IN,
		paymentv1.EntryDirection_ENTRY_DIRECTION_UNSPECIFIED, // a word that is neither
	}
	for i, e := range resp.GetEntries() {
		if e.GetSequence() != int32(i+1) || e.GetDate() != "2026-02-28" || e.GetDirection() != directions[i] ||
			e.GetAmount() != 1000 || e.GetBalanceAfter() != 999_999_999_999_999 || e.GetSummary() != "결제" {
			t.Errorf("entry %d is %v", i, e)
		}
	}
	tx := resp.GetTransaction()
	if tx.GetKind() != ledgerv1.TransactionKind_TRANSACTION_KIND_HISTORY_INQUIRY || tx.GetAccountMasked() != "123456****1234" ||
		tx.GetStatus() != ledgerv1.TransactionStatus_TRANSACTION_STATUS_SUCCESS {
		t.Errorf("transaction %v", tx)
	}
	req := period()
	req.MaxCount, req.ToDate = 1, req.FromDate
	if resp, err = g.ListAccountEntries(t.Context(), req); err != nil || len(resp.GetEntries()) != 1 {
		t.Errorf("one entry of one day: %v, %v", resp, err)
	}
}

func TestListAccountEntries_Refused(t *testing.T) {
	for code, want := range map[string]ledgerv1.ErrorReason{
		"0001": ledgerv1.ErrorReason_ERROR_REASON_ACCOUNT_NOT_FOUND,
		"0099": ledgerv1.ErrorReason_ERROR_REASON_DECLINED,
		"":     ledgerv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN,
	} {
		g := openGate(t, code)
		_, err := g.ListAccountEntries(t.Context(), period())
		if reason.Of(err) != want || reason.Transaction(err) == nil {
			t.Errorf("code %q: %v", code, err)
		}
	}
}

func TestListAccountEntries_InvalidRequestsAskNobody(t *testing.T) {
	g := openGate(t, "0000")
	for name, tt := range map[string]struct {
		change func(*paymentv1.ListAccountEntriesRequest)
		field  string
	}{
		"no account":              {func(r *paymentv1.ListAccountEntriesRequest) { r.AccountNumber = "" }, "account_number"},
		"an account of 15 digits": {func(r *paymentv1.ListAccountEntriesRequest) { r.AccountNumber = "123456789012345" }, "account_number"},
		"no first day":            {func(r *paymentv1.ListAccountEntriesRequest) { r.FromDate = "" }, "from_date"},
		"a day without hyphens":   {func(r *paymentv1.ListAccountEntriesRequest) { r.FromDate = "20260201" }, "from_date"},
		"a day that is none":      {func(r *paymentv1.ListAccountEntriesRequest) { r.ToDate = "2026-02-30" }, "to_date"},
		"a day before 2000":       {func(r *paymentv1.ListAccountEntriesRequest) { r.FromDate = "1999-12-31" }, "from_date"},
		"a time of a day":         {func(r *paymentv1.ListAccountEntriesRequest) { r.ToDate = "2026-02-28T00:00:00Z" }, "to_date"},
		"days the wrong way":      {func(r *paymentv1.ListAccountEntriesRequest) { r.FromDate = "2026-03-01" }, "to_date"},
		"no count":                {func(r *paymentv1.ListAccountEntriesRequest) { r.MaxCount = 0 }, "max_count"},
		"a count below zero":      {func(r *paymentv1.ListAccountEntriesRequest) { r.MaxCount = -1 }, "max_count"},
		"a count of 182":          {func(r *paymentv1.ListAccountEntriesRequest) { r.MaxCount = 182 }, "max_count"},
	} {
		req := period()
		tt.change(req)
		_, err := g.ListAccountEntries(t.Context(), req)
		if reason.Of(err) != ledgerv1.ErrorReason_ERROR_REASON_INVALID_REQUEST || !names(err, tt.field) {
			t.Errorf("%s: %v, want one that names %s", name, err, tt.field)
		}
	}
	if n := g.core.frames.Load(); n != 0 {
		t.Errorf("the core was asked %d times", n)
	}
}

// names reports whether an error names a field of the request.
func names(err error, field string) bool {
	for _, detail := range status.Convert(err).Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			for _, v := range bad.GetFieldViolations() {
				if strings.HasPrefix(v.GetField(), field) {
					return true
				}
			}
		}
	}
	return false
}
