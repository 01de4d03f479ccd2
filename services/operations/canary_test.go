package operations

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	circuitv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/circuit/v1"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
	reconciliationv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/reconciliation/v1"

	"github.com/gwanmun/gwanmun/pkg/telemetry/otlptest"
)

// The secrets of a ledger in PostgreSQL.
const (
	hashKey  = "6e6f626f64792d69732d746f2d7365652d746869732d6b65792d616e79776865"
	password = "pass/word+of?the&ledger=7c"
)

// forms are the ways in which a secret may be written down: as it is, in hex, in
// base64 wherever it begins in what was encoded, and URL-encoded.
func forms(secret string) []string {
	all := []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret),
		hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))),
	}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			encoded := encoding.EncodeToString(append(make([]byte, before), secret...))
			// The first and the last characters hold bits of the neighbours.
			all = append(all, encoded[(8*before+5)/6:len(encoded)-1])
		}
	}
	return all
}

// canary looks for secrets where none may be.
type canary struct {
	secrets map[string]string // by what they are
	looks   int
}

func (c *canary) look(t testing.TB, where, text string) {
	t.Helper()
	c.looks++
	for what, secret := range c.secrets {
		for _, form := range forms(secret) {
			if strings.Contains(text, form) {
				t.Errorf("%s: the %s is in it, as %s", where, what, form)
			}
		}
	}
}

// TestCanary_SeesEveryForm checks the look itself.
func TestCanary_SeesEveryForm(t *testing.T) {
	t.Parallel()
	for before := range 4 {
		text := strings.Repeat("x", before) + password + "tail"
		for _, written := range []string{
			text, url.QueryEscape(text), hex.EncodeToString([]byte(text)), fmt.Sprintf("%X", text),
			base64.StdEncoding.EncodeToString([]byte(text)), base64.URLEncoding.EncodeToString([]byte(text)),
		} {
			found := false
			for _, form := range forms(password) {
				found = found || strings.Contains(written, form)
			}
			if !found {
				t.Errorf("it is not found in %s", written)
			}
		}
	}
}

// TestCanary_NothingTellsASecret plays a story of successes and failures with
// keys, a DSN with a password and accounts, and looks for them in every log, page
// of metrics, span, answer and error, and in every column of the ledger.
func TestCanary_NothingTellsASecret(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sqlite", "postgresql"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newBook(t, kind)
			collector := otlptest.Start(t)
			s := startTrio(t, append(b.flags(t, password), "--log-level=debug", "--otlp-endpoint="+collector.Addr(), "--trace-ratio=1")...)
			c := &canary{secrets: map[string]string{
				"password": password, "hash key": b.hashKey(t), "account": account1, "late account": "99999999999999",
				"silent account": "88888888888888", "garbled account": "77777777777777", "poor account": "22222222222222",
				"account of nobody": account2, "wrong key": wrongKey,
			}}
			raw, err := hex.DecodeString(b.hashKey(t))
			if err != nil {
				t.Fatal(err)
			}
			c.secrets["hash key in binary"] = string(raw)
			for role, key := range keys {
				c.secrets["key for "+role] = key
			}
			(&story{t: t, trio: s, canary: c}).play()
			for name, p := range s.all() {
				code, page := fetch(t, "http://"+p.address(t, "admin")+"/metrics")
				if code != 200 || !strings.Contains(page, "gwanmun_") {
					t.Errorf("%s shows no metrics", name)
				}
				c.look(t, "the metrics of "+name, page)
				if code := p.terminate(t); code != 0 {
					t.Errorf("%s ends with %d", name, code)
				}
				c.look(t, "the log of "+name, p.text(t))
			}
			dump := b.dump(t)
			if !strings.Contains(dump, "123409****8765") {
				t.Error("the ledger does not have the payments of the story")
			}
			c.look(t, "the ledger", dump)
			if len(collector.Raw()) == 0 {
				t.Error("nothing was traced")
			}
			c.look(t, "the spans", string(collector.Raw()))
			t.Logf("looked %d times", c.looks)
		})
	}
}

const (
	account1 = "12340956788765"
	account2 = "31415926535897"
	wrongKey = "key-that-nobody-has-5150"
)

// story is calls that go well and calls that do not.
type story struct {
	t      testing.TB
	trio   *trio
	canary *canary
}

// tell makes a call and looks at all that comes back.
func (s *story) tell(conn *grpc.ClientConn, role, method string, request, reply proto.Message) error {
	s.t.Helper()
	key := keys[role]
	if role == "wrong" {
		key = wrongKey
	}
	ctx, cancel := context.WithTimeout(withKey(context.Background(), key), patience)
	defer cancel()
	var header, trailer metadata.MD
	err := conn.Invoke(ctx, method, request, reply, grpc.Header(&header), grpc.Trailer(&trailer))
	var all bytes.Buffer
	for _, m := range []proto.Message{reply, status.Convert(err).Proto()} {
		wire, marshal := proto.Marshal(m)
		if marshal != nil {
			s.t.Fatal(marshal)
		}
		all.Write(wire)
	}
	fmt.Fprintf(&all, "%v\n%v\n%v", err, header, trailer)
	s.canary.look(s.t, "what "+role+" is told by "+method, all.String())
	return err
}

func (s *story) play() {
	s.t.Helper()
	payments, reconciler := dialGRPC(s.t, s.trio.payment), dialGRPC(s.t, s.trio.reconciler)
	for i, number := range []string{account1, account1, "99999999999999", "88888888888888", "77777777777777", "22222222222222", "0", account2 + "0", "x" + account2} {
		request := &paymentv1.CreatePaymentRequest{IdempotencyKey: fmt.Sprintf("key-%d", max(1, i)), AccountNumber: number, Amount: 1_000}
		err := s.tell(payments, "payment", paymentv1.PaymentService_CreatePayment_FullMethodName, request, &paymentv1.CreatePaymentResponse{})
		if (err == nil) != (i < 2) {
			s.t.Errorf("payment %d is told %v", i, err)
		}
	}
	again := &paymentv1.CreatePaymentRequest{IdempotencyKey: "key-1", AccountNumber: account2, Amount: 1_000}
	for _, role := range []string{"payment", "ops", "wrong", "nobody"} {
		if s.tell(payments, role, paymentv1.PaymentService_CreatePayment_FullMethodName, again, &paymentv1.CreatePaymentResponse{}) == nil {
			s.t.Errorf("%s may pay again under a key that is bound", role)
		}
	}
	for _, number := range []string{account1, "88888888888888", account2 + "%"} {
		_ = s.tell(payments, "payment", paymentv1.AccountService_GetBalance_FullMethodName,
			&paymentv1.GetBalanceRequest{AccountNumber: number}, &paymentv1.GetBalanceResponse{})
	}
	_ = s.tell(payments, "payment", paymentv1.AccountService_ListAccountEntries_FullMethodName,
		&paymentv1.ListAccountEntriesRequest{AccountNumber: account1}, &paymentv1.ListAccountEntriesResponse{})
	s.resolve(reconciler)
	for _, conn := range []*grpc.ClientConn{payments, reconciler} {
		if err := s.tell(conn, "ops", circuitv1.CircuitService_ListCircuits_FullMethodName, &circuitv1.ListCircuitsRequest{}, &circuitv1.ListCircuitsResponse{}); err != nil {
			s.t.Error(err)
		}
	}
}

// resolve waits until nothing is unknown, and has everything shown.
func (s *story) resolve(reconciler *grpc.ClientConn) {
	s.t.Helper()
	await(s.t, "nothing is unknown", func() bool {
		var totals ledgerv1.SummarizeTransactionsResponse
		err := s.tell(reconciler, "ops", ledgerv1.LedgerService_SummarizeTransactions_FullMethodName, &ledgerv1.SummarizeTransactionsRequest{}, &totals)
		return err == nil && totals.GetUnknownCount() == 0
	})
	for _, role := range []string{"payment", "ops"} {
		var list ledgerv1.ListTransactionsResponse
		request := &ledgerv1.ListTransactionsRequest{AccountNumber: proto.String(account1)}
		if err := s.tell(reconciler, role, ledgerv1.LedgerService_ListTransactions_FullMethodName, request, &list); err != nil || len(list.GetTransactions()) == 0 {
			s.t.Errorf("%s finds %d transactions of the account: %v", role, len(list.GetTransactions()), err)
		}
	}
	var all ledgerv1.ListTransactionsResponse
	if err := s.tell(reconciler, "ops", ledgerv1.LedgerService_ListTransactions_FullMethodName, &ledgerv1.ListTransactionsRequest{}, &all); err != nil {
		s.t.Error(err)
	}
	for _, row := range all.GetTransactions() {
		_ = s.tell(reconciler, "ops", ledgerv1.LedgerService_GetTransaction_FullMethodName,
			&ledgerv1.GetTransactionRequest{TransactionId: row.GetTransactionId()}, &ledgerv1.GetTransactionResponse{})
		_ = s.tell(reconciler, "ops", reconciliationv1.ReconciliationService_ResolveTransaction_FullMethodName,
			&reconciliationv1.ResolveTransactionRequest{TransactionId: row.GetTransactionId()}, &reconciliationv1.ResolveTransactionResponse{})
	}
}
