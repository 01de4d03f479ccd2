package opsapi_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
	"github.com/gwanmun/gwanmun/pkg/opsapi"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
)

const (
	requested = ledgerv1.TransactionStatus_TRANSACTION_STATUS_REQUESTED
	success   = ledgerv1.TransactionStatus_TRANSACTION_STATUS_SUCCESS
	unknown   = ledgerv1.TransactionStatus_TRANSACTION_STATUS_UNKNOWN
)

// noon is when the first row is requested; the others follow by the second.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, tranid.Seoul)

// book is a ledger with rows in it.
type book struct {
	*memstore.Store

	key  ledger.HashKey
	rows int64
}

func newBook(t *testing.T) *book {
	t.Helper()
	key, err := ledger.ParseHashKey("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff")
	if err != nil {
		t.Fatal(err)
	}
	return &book{Store: memstore.New(func() time.Time { return noon.Add(time.Hour) }), key: key}
}

// server serves the book an hour after noon.
func (b *book) server() ledgerv1.LedgerServiceServer {
	return opsapi.NewLedgerServer(b, b.key, func() time.Time { return noon.Add(time.Hour) })
}

// pay adds a payment of 100 won more than the one before, and moves it.
func (b *book) pay(t *testing.T, client ledger.ClientID, number string, moves ...ledger.Change) string {
	t.Helper()
	parsed, err := account.Parse(number)
	if err != nil {
		t.Fatal(err)
	}
	b.rows++
	id := tranid.New(tranid.DateOf(noon), b.rows)
	by := ledger.Actor{Name: ledger.ActorPayment, Instance: "payment-test-1-0000"}
	_, err = b.CreateIntent(t.Context(), ledger.Intent{
		ID: id, Client: client, Key: ledger.IdempotencyKey(fmt.Sprintf("key-%d", b.rows)),
		AccountMasked: parsed.Masked(), AccountHash: b.key.Account(parsed), Amount: account.Won(100 * b.rows),
		Policy: ledger.PolicyNetCancel, RequestedAt: noon.Add(time.Duration(b.rows) * time.Second),
		CorrelationID: fmt.Sprintf("corr-%d", b.rows), AdoptAfter: time.Minute, KeyLife: time.Hour, By: by,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, move := range moves {
		move.ID, move.By = id, by
		if _, err := b.Transition(t.Context(), move); err != nil {
			t.Fatal(err)
		}
	}
	return string(id)
}

func answered(code string) ledger.Change {
	c := ledger.Change{
		From: ledger.StatusRequested, To: ledger.StatusSuccess, Evidence: ledger.EvidenceAnswered,
		Answer: ledger.Answer{Code: code, Approval: "00000000001"}, Reason: "answered",
	}
	if code != "0000" {
		c.To, c.Answer.Approval = ledger.StatusFailed, ""
	}
	return c
}

func timedOut() ledger.Change {
	return ledger.Change{From: ledger.StatusRequested, To: ledger.StatusUnknown, Reason: "no answer in time"}
}

// wantRefusal checks the reason, and the field for an invalid request.
func wantRefusal(t *testing.T, err error, reason ledger.Reason, field string) {
	t.Helper()
	var refusal *ledger.Refusal
	if !errors.As(err, &refusal) || refusal.Reason != reason {
		t.Fatalf("error is %v, want %s", err, reason)
	}
	if field != "" && (len(refusal.Fields) != 1 || refusal.Fields[0].Field != field || refusal.Fields[0].Description == "") {
		t.Errorf("fields are %v, want %s", refusal.Fields, field)
	}
}

func TestGetTransaction_ReturnsTheRowAndItsHistory(t *testing.T) {
	b := newBook(t)
	id := b.pay(t, "local", "12345678901234", timedOut())
	resp, err := b.server().GetTransaction(t.Context(), &ledgerv1.GetTransactionRequest{TransactionId: id})
	if err != nil {
		t.Fatal(err)
	}
	row, events := resp.GetTransaction(), resp.GetEvents()
	if row.GetTransactionId() != id || row.GetStatus() != unknown || row.GetAccountMasked() != "123456****1234" {
		t.Errorf("row is %v", row)
	}
	if len(events) != 2 || events[0].GetToStatus() != requested || events[1].GetFromStatus() != requested || events[1].GetToStatus() != unknown {
		t.Errorf("events are %v", events)
	}
}

func TestGetTransaction_RefusesWhatIsNotThere(t *testing.T) {
	server := newBook(t).server()
	for id, reason := range map[string]ledger.Reason{
		"GWMNU20260102000000123":  ledger.ReasonTransactionNotFound,
		"GWMNU20261345000000123":  ledger.ReasonInvalidRequest, // there is no such day
		"":                        ledger.ReasonInvalidRequest,
		"GWMNU2026010200000012":   ledger.ReasonInvalidRequest,
		"GWMNU202601020000001234": ledger.ReasonInvalidRequest,
	} {
		_, err := server.GetTransaction(t.Context(), &ledgerv1.GetTransactionRequest{TransactionId: id})
		wantRefusal(t, err, reason, map[bool]string{true: "transaction_id"}[reason == ledger.ReasonInvalidRequest])
	}
}

// ids are those of a page, in its order.
func ids(resp *ledgerv1.ListTransactionsResponse) []string {
	found := make([]string, 0, len(resp.GetTransactions()))
	for _, row := range resp.GetTransactions() {
		found = append(found, row.GetTransactionId())
	}
	return found
}

func TestListTransactions_FiltersAndShowsTheNewestFirst(t *testing.T) {
	b := newBook(t)
	a := b.pay(t, "local", "11111111111111", answered("0000"))
	c := b.pay(t, "local", "123", timedOut())
	d := b.pay(t, "another", "123", answered("0051"))
	review, no := true, false
	all := []string{d, c, a}
	at := func(seconds int) *timestamppb.Timestamp {
		return timestamppb.New(noon.Add(time.Duration(seconds) * time.Second))
	}
	payment := ledgerv1.TransactionKind_TRANSACTION_KIND_PAYMENT
	inquiry := ledgerv1.TransactionKind_TRANSACTION_KIND_BALANCE_INQUIRY
	account, corr := "00000000000123", "corr-2"
	for _, x := range []struct {
		name string
		req  *ledgerv1.ListTransactionsRequest
		want []string
	}{
		{"nothing", &ledgerv1.ListTransactionsRequest{}, all},
		{"a status", &ledgerv1.ListTransactionsRequest{Statuses: []ledgerv1.TransactionStatus{unknown}}, []string{c}},
		{"statuses", &ledgerv1.ListTransactionsRequest{Statuses: []ledgerv1.TransactionStatus{unknown, success, unknown}}, []string{c, a}},
		{"a kind", &ledgerv1.ListTransactionsRequest{Kinds: []ledgerv1.TransactionKind{payment}}, all},
		{"another kind", &ledgerv1.ListTransactionsRequest{Kinds: []ledgerv1.TransactionKind{inquiry}}, []string{}},
		{"an account, padded", &ledgerv1.ListTransactionsRequest{AccountNumber: &account}, []string{d, c}},
		{"a correlation ID", &ledgerv1.ListTransactionsRequest{CorrelationId: &corr}, []string{c}},
		{"review", &ledgerv1.ListTransactionsRequest{NeedsReview: &review}, []string{}},
		{"no review", &ledgerv1.ListTransactionsRequest{NeedsReview: &no}, all},
		{"from, inclusive", &ledgerv1.ListTransactionsRequest{RequestedFrom: at(2)}, []string{d, c}},
		{"to, exclusive", &ledgerv1.ListTransactionsRequest{RequestedTo: at(2)}, []string{a}},
		{"an empty period", &ledgerv1.ListTransactionsRequest{RequestedFrom: at(2), RequestedTo: at(2)}, []string{}},
		{"filters together", &ledgerv1.ListTransactionsRequest{AccountNumber: &account, Statuses: []ledgerv1.TransactionStatus{unknown}}, []string{c}},
	} {
		t.Run(x.name, func(t *testing.T) {
			resp, err := b.server().ListTransactions(t.Context(), x.req)
			if err != nil || !slices.Equal(ids(resp), x.want) || resp.GetNextPageToken() != "" {
				t.Errorf("got %q, %v, want %q", ids(resp), err, x.want)
			}
		})
	}
}

func TestListTransactions_PagesJoinUpWhateverIsInsertedMeanwhile(t *testing.T) {
	b := newBook(t)
	want := make([]string, 0, 7)
	for range 7 {
		want = append([]string{b.pay(t, "local", "1")}, want...)
	}
	var got []string
	req := &ledgerv1.ListTransactionsRequest{PageSize: 3, Statuses: []ledgerv1.TransactionStatus{requested, success}}
	for range 4 { // three pages, and one too many if they do not end
		resp, err := b.server().ListTransactions(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, ids(resp)...)
		b.pay(t, "local", "1") // newer than all pages
		req.PageToken = resp.GetNextPageToken()
		if req.GetPageToken() == "" {
			break
		}
		// Another size and another order of the same filter are the same query.
		req.PageSize, req.Statuses = 2, []ledgerv1.TransactionStatus{success, requested, success}
	}
	if !slices.Equal(got, want) {
		t.Errorf("pages are %q, want %q", got, want)
	}
}

func TestListTransactions_PageSizeIsBounded(t *testing.T) {
	for size, want := range map[int32]int{-1: 50, 0: 50, 1: 1, 500: 500, 1 << 30: 500} {
		reader := &limitReader{}
		server := opsapi.NewLedgerServer(reader, ledger.HashKey{}, time.Now)
		if _, err := server.ListTransactions(t.Context(), &ledgerv1.ListTransactionsRequest{PageSize: size}); err != nil || reader.limit != want {
			t.Errorf("page_size %d asks for %d (%v), want %d", size, reader.limit, err, want)
		}
	}
}

type limitReader struct {
	ledger.Reader
	limit int
}

func (r *limitReader) List(_ context.Context, f ledger.Filter) (ledger.Page, error) {
	r.limit = f.Limit
	return ledger.Page{}, nil
}

func TestRequests_ThatAreWrongNameTheField(t *testing.T) {
	server := newBook(t).server()
	late, early := timestamppb.New(noon.Add(1)), timestamppb.New(noon)
	impossible := &timestamppb.Timestamp{Seconds: 1 << 60}
	first := &timestamppb.Timestamp{Seconds: -62135596800} // 0001-01-01, Go's zero time
	bad, empty := "12a", ""
	for field, requests := range map[string][]*ledgerv1.ListTransactionsRequest{
		"requested_from": {{RequestedFrom: late, RequestedTo: early}, {RequestedFrom: impossible}, {RequestedFrom: first}},
		"requested_to":   {{RequestedTo: impossible}, {RequestedTo: first}},
		"statuses":       {{Statuses: []ledgerv1.TransactionStatus{0}}, {Statuses: []ledgerv1.TransactionStatus{99}}},
		"kinds":          {{Kinds: []ledgerv1.TransactionKind{0}}, {Kinds: []ledgerv1.TransactionKind{-1}}},
		"account_number": {{AccountNumber: &bad}, {AccountNumber: &empty}},
		"page_token":     {{PageToken: "garbage"}},
	} {
		for _, req := range requests {
			_, err := server.ListTransactions(t.Context(), req)
			wantRefusal(t, err, ledger.ReasonInvalidRequest, field)
		}
	}
	_, err := server.SummarizeTransactions(t.Context(), &ledgerv1.SummarizeTransactionsRequest{RequestedFrom: late, RequestedTo: early})
	wantRefusal(t, err, ledger.ReasonInvalidRequest, "requested_from")
}

func TestSummarizeTransactions_CountsTheWholeBook(t *testing.T) {
	b := newBook(t)
	b.pay(t, "local", "1", answered("0000"))
	b.pay(t, "another", "1", answered("0000"))
	b.pay(t, "local", "1", timedOut())
	b.pay(t, "local", "1", timedOut())
	resp, err := b.server().SummarizeTransactions(t.Context(), &ledgerv1.SummarizeTransactionsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	totals := map[ledgerv1.TransactionStatus][2]int64{}
	for _, total := range resp.GetTotals() {
		totals[total.GetStatus()] = [2]int64{total.GetCount(), total.GetAmount()}
	}
	if len(totals) != 2 || totals[success] != [2]int64{2, 300} || totals[unknown] != [2]int64{2, 700} {
		t.Errorf("totals are %v", totals)
	}
	if resp.GetUnknownCount() != 2 || resp.GetNeedsReviewCount() != 0 {
		t.Errorf("counts are %v", resp)
	}
	if age := resp.GetOldestUnknownAge().AsDuration(); age != time.Hour-3*time.Second {
		t.Errorf("the oldest is %s old", age)
	}
}

func TestSummarizeTransactions_NoUnknownHasNoAgeAndNoAgeIsNegative(t *testing.T) {
	b := newBook(t)
	resp, err := b.server().SummarizeTransactions(t.Context(), &ledgerv1.SummarizeTransactionsRequest{})
	if err != nil || resp.GetOldestUnknownAge() != nil || len(resp.GetTotals()) != 0 {
		t.Errorf("an empty book is %v, %v", resp, err)
	}
	b.pay(t, "local", "1", timedOut())
	slow := opsapi.NewLedgerServer(b, b.key, func() time.Time { return noon.Add(-time.Hour) })
	resp, err = slow.SummarizeTransactions(t.Context(), &ledgerv1.SummarizeTransactionsRequest{})
	if err != nil || resp.GetOldestUnknownAge() == nil || resp.GetOldestUnknownAge().AsDuration() != 0 {
		t.Errorf("by a slow clock it is %v, %v", resp, err)
	}
}

// brokenReader fails every read.
type brokenReader struct {
	ledger.Reader
	err error
}

func (r *brokenReader) Get(context.Context, tranid.ID) (ledger.Transaction, error) {
	return ledger.Transaction{}, r.err
}

func (r *brokenReader) List(context.Context, ledger.Filter) (ledger.Page, error) {
	return ledger.Page{}, r.err
}

func (r *brokenReader) Summarize(context.Context, ledger.ClientID, time.Time, time.Time) (ledger.Summary, error) {
	return ledger.Summary{}, r.err
}

// reads are the errors of the three rpcs over a reader that fails.
func reads(ctx context.Context, err error) []error {
	server := opsapi.NewLedgerServer(&brokenReader{err: err}, ledger.HashKey{}, time.Now)
	_, get := server.GetTransaction(ctx, &ledgerv1.GetTransactionRequest{TransactionId: "GWMNU20260102000000123"})
	_, list := server.ListTransactions(ctx, &ledgerv1.ListTransactionsRequest{})
	_, sum := server.SummarizeTransactions(ctx, &ledgerv1.SummarizeTransactionsRequest{})
	return []error{get, list, sum}
}

func TestReads_ALedgerThatIsDownIsUnavailable(t *testing.T) {
	for _, cause := range []error{fmt.Errorf("query: %w", ledger.ErrUnavailable), context.DeadlineExceeded} {
		for _, err := range reads(t.Context(), cause) {
			wantRefusal(t, err, ledger.ReasonLedgerUnavailable, "")
			if !errors.Is(err, cause) {
				t.Errorf("%v hides its cause from the log", err)
			}
		}
	}
}

func TestReads_AFaultIsNoRefusal(t *testing.T) {
	fault := errors.New("unknown status in the book")
	for _, err := range reads(t.Context(), fault) {
		var refusal *ledger.Refusal
		if errors.As(err, &refusal) || !errors.Is(err, fault) {
			t.Errorf("error is %v", err)
		}
	}
}

func TestReads_ACallerWhoHasLeftIsNoOutage(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range reads(ctx, fmt.Errorf("query: %w", ledger.ErrUnavailable)) {
		var refusal *ledger.Refusal
		if errors.As(err, &refusal) || !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v", err)
		}
	}
}
