package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	simulatorv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/simulator/v1"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/corebank/simulator"
)

const aliceDigits = "12345678901234"

func newServer(t *testing.T) *server {
	t.Helper()
	bank, err := simulator.Open(t.Context(), simulator.NewMemoryBook(), simulator.Rules{}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return &server{bank: bank, faults: simulator.NewFaults()}
}

func id(n int64) tranid.ID { return tranid.New(tranid.DateOf(time.Unix(0, 0)), n) }

// frames sends frames over one connection and drops the answers.
func frames(t *testing.T, bank *simulator.Bank, requests ...interface {
	AppendTo(dst []byte) ([]byte, error)
},
) {
	t.Helper()
	near, far := net.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() { simulator.NewServer(bank, simulator.Options{}).ServeConn(t.Context(), far) })
	defer serving.Wait()
	defer func() { _ = near.Close() }()
	for _, r := range requests {
		b, err := r.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := near.Write(b); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(near, make([]byte, telegram.AnswerLength)); err != nil {
			t.Fatal(err)
		}
	}
}

// wantInvalid fails unless the error is an INVALID_REQUEST about the field.
func wantInvalid(t *testing.T, err error, field string) {
	t.Helper()
	var refusal *ledger.Refusal
	switch {
	case !errors.As(err, &refusal) || refusal.Reason != ledger.ReasonInvalidRequest:
		t.Errorf("got %v, want INVALID_REQUEST", err)
	case len(refusal.Fields) != 1 || refusal.Fields[0].Field != field:
		t.Errorf("got fields %v, want %s", refusal.Fields, field)
	}
}

func TestPutAccount_SetsTheBalanceThatGetAccountShows(t *testing.T) {
	s := newServer(t)
	put, err := s.PutAccount(t.Context(), &simulatorv1.PutAccountRequest{AccountNumber: aliceDigits, Balance: 500})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.GetAccount(t.Context(), &simulatorv1.GetAccountRequest{AccountNumber: aliceDigits})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []*simulatorv1.Account{put.GetAccount(), got.GetAccount()} {
		if a.GetBalance() != 500 || !a.GetExists() || a.GetAccountMasked() != "123456****1234" {
			t.Errorf("got %v", a)
		}
	}
}

func TestGetAccount_SaysThatTheAllZeroAccountDoesNotExist(t *testing.T) {
	got, err := newServer(t).GetAccount(t.Context(), &simulatorv1.GetAccountRequest{AccountNumber: "0"})
	if err != nil || got.GetAccount().GetExists() {
		t.Errorf("got %v and %v", got, err)
	}
}

func TestSimulatorService_NamesTheFieldThatIsWrong(t *testing.T) {
	s := newServer(t)
	put := func(number string, balance int64) error {
		_, err := s.PutAccount(t.Context(), &simulatorv1.PutAccountRequest{AccountNumber: number, Balance: balance})
		return err
	}
	wantInvalid(t, put("", 1), "account_number")
	wantInvalid(t, put("123456789012345", 1), "account_number")
	wantInvalid(t, put("１２３", 1), "account_number")
	wantInvalid(t, put("00", 1), "account_number")
	wantInvalid(t, put(aliceDigits, -1), "balance")
	wantInvalid(t, put(aliceDigits, 1_000_000_000_000_000), "balance")
	_, err := s.GetAccount(t.Context(), &simulatorv1.GetAccountRequest{AccountNumber: "12a"})
	wantInvalid(t, err, "account_number")
	if strings.Contains(fmt.Sprint(err), "12a") {
		t.Errorf("the error repeats the input: %v", err)
	}
}

func TestListJournal_ShowsEachFrameOldestFirstAndMasked(t *testing.T) {
	s := newServer(t)
	alice, err := account.Parse(aliceDigits)
	if err != nil {
		t.Fatal(err)
	}
	frames(t, s.bank,
		telegram.PaymentRequest{TranID: id(1), Account: alice, Amount: 1000},
		telegram.BalanceRequest{TranID: id(2), Account: alice},
		telegram.StatusRequest{TranID: id(3)},
		telegram.CancelRequest{TranID: id(1)},
		telegram.CancelRequest{TranID: id(4)},
	)
	resp, err := s.ListJournal(t.Context(), &simulatorv1.ListJournalRequest{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"1 0100 " + string(id(1)) + " 123456****1234 1000 JOURNAL_EFFECT_DEBIT 0000 1",
		"2 0200 " + string(id(2)) + " 123456****1234 0 JOURNAL_EFFECT_NONE 0000 1",
		"3 0400 " + string(id(3)) + "  0 JOURNAL_EFFECT_NONE 0000 1",
		"4 0420 " + string(id(1)) + " 123456****1234 1000 JOURNAL_EFFECT_CANCEL 0000 1",
		"5 0420 " + string(id(4)) + "  0 JOURNAL_EFFECT_FENCE 0000 1",
	}
	if len(resp.GetEntries()) != len(want) || resp.GetNextPageToken() != "" {
		t.Fatalf("got %v", resp)
	}
	for i, e := range resp.GetEntries() {
		got := fmt.Sprintf("%d %s %s %s %d %s %s %d", e.GetSequence(), e.GetMti(), e.GetTransactionId(),
			e.GetAccountMasked(), e.GetAmount(), e.GetEffect(), e.GetResponseCode(), e.GetConnection())
		if got != want[i] {
			t.Errorf("got  %s\nwant %s", got, want[i])
		}
		if time.Since(e.GetAt().AsTime()) > time.Hour {
			t.Errorf("entry %d is of %v", i, e.GetAt().AsTime())
		}
	}
}

func TestListJournal_PagesUnderItsFilters(t *testing.T) {
	s := newServer(t)
	for n := range int64(7) {
		frames(t, s.bank, telegram.StatusRequest{TranID: id(n % 2)})
	}
	list := func(ctx context.Context, req *simulatorv1.ListJournalRequest) (sequences []int64) {
		for pages := 0; pages < 10; pages++ {
			resp, err := s.ListJournal(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range resp.GetEntries() {
				sequences = append(sequences, e.GetSequence())
			}
			if req.PageToken = resp.GetNextPageToken(); req.PageToken == "" {
				return sequences
			}
		}
		t.Fatal("the pages do not end")
		return nil
	}
	for _, tt := range []struct {
		req  *simulatorv1.ListJournalRequest
		want string
	}{
		{&simulatorv1.ListJournalRequest{PageSize: 3}, "[1 2 3 4 5 6 7]"},
		{&simulatorv1.ListJournalRequest{PageSize: 2, TransactionId: string(id(0))}, "[1 3 5 7]"},
		{&simulatorv1.ListJournalRequest{PageSize: 500, Mti: "0400"}, "[1 2 3 4 5 6 7]"},
		{&simulatorv1.ListJournalRequest{Mti: "0100"}, "[]"},
	} {
		if got := fmt.Sprint(list(t.Context(), tt.req)); got != tt.want {
			t.Errorf("%v: got %s, want %s", tt.req, got, tt.want)
		}
	}
}

func TestListJournal_RefusesATokenThatIsNotIts(t *testing.T) {
	s := newServer(t)
	for range 3 {
		frames(t, s.bank, telegram.StatusRequest{TranID: id(1)})
	}
	first, err := s.ListJournal(t.Context(), &simulatorv1.ListJournalRequest{PageSize: 1})
	if err != nil || first.GetNextPageToken() == "" {
		t.Fatalf("got %v and %v", first, err)
	}
	for _, req := range []*simulatorv1.ListJournalRequest{
		{PageToken: first.GetNextPageToken(), Mti: "0400"},
		{PageToken: first.GetNextPageToken(), TransactionId: string(id(1))},
		{PageToken: first.GetNextPageToken() + "A"},
		{PageToken: "1"},
		{PageToken: "not base64!"},
	} {
		_, err := s.ListJournal(t.Context(), req)
		wantInvalid(t, err, "page_token")
	}
}
