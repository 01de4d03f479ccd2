package integration

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

// madeID is what a correlation ID looks like that the service made.
var madeID = regexp.MustCompile(`^[0-7][0-9A-HJKMNP-TV-Z]{25}$`)

// payAs makes a payment with these correlation IDs in the header.
func (p *payment) payAs(t testing.TB, key, number string, ids ...string) told {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callFor)
	defer cancel()
	ctx = metadata.NewOutgoingContext(ctx, metadata.MD{correlationHeader: ids})
	return p.payWith(ctx, t, &paymentv1.CreatePaymentRequest{IdempotencyKey: key, AccountNumber: number, Amount: 10})
}

// TestCorrelationID_GoesEverywhere follows the caller's own ID: back to him, into
// the row, and onto every log line about his payment, in both services.
func TestCorrelationID_GoesEverywhere(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		const id = "Shop-1.order_0042"
		s := newStack(t, db)
		p := s.startPayment(t, "--log-level=debug")
		r := s.startReconciler(t, "--log-level=debug")
		a := p.payAs(t, "mine", unansweredAccount, id)
		a.expect(t, "a payment with an ID of the caller's", netCanceled)
		if !slices.Equal(a.correlation, []string{id}) {
			t.Errorf("the header has %q", a.correlation)
		}
		p.follow(t, a.id())
		// Another call about it has an ID of its own.
		other := p.payAs(t, "mine", unansweredAccount, "other")
		if !slices.Equal(other.correlation, []string{"other"}) || other.row.GetCorrelationId() != id {
			t.Errorf("the replay's header has %q, its row %q", other.correlation, other.row.GetCorrelationId())
		}

		b := s.audit(t, p)
		b.expect(t, a.id(), netCanceled)
		list, err := p.ListTransactions(context.Background(), &ledgerv1.ListTransactionsRequest{CorrelationId: proto.String(id)})
		if err != nil || len(list.GetTransactions()) != 1 || list.GetTransactions()[0].GetTransactionId() != a.id() {
			t.Errorf("by its correlation ID one finds %v, %v", list, err)
		}
		if lines := p.log.with("correlation_id", id); len(lines) < 2 {
			t.Errorf("the payment service has %d lines with it: %v", len(lines), lines)
		}
		for _, log := range []*logBook{&p.log, &r.log} {
			about := log.with("transaction_id", a.id())
			if len(about) == 0 {
				t.Error("a service has no line about the transaction")
			}
			for _, line := range about {
				reader := line.field("method") != "" && !strings.HasSuffix(createPayment, line.field("method"))
				if got := line.field("correlation_id"); !reader && got != id && got != "other" {
					t.Errorf("a line about the transaction has the correlation ID %q: %v", got, line)
				}
			}
		}
		for _, line := range p.log.with("msg", "rpc") {
			if line.field("correlation_id") == "" {
				t.Errorf("the line of an rpc has no correlation ID: %v", line)
			}
		}
	})
}

// TestCorrelationID_IsMadeWhereNoneIsValid sends none, and what is none.
func TestCorrelationID_IsMadeWhereNoneIsValid(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		p := s.startPayment(t)
		seen := map[string]bool{}
		for i, ids := range [][]string{
			nil, {""}, {strings.Repeat("x", 65)}, {"with space"}, {strings.Repeat("y", 4096)}, {"one", "two"}, {"same", "same"}, {"a/b"}, {"a%0d%0a"}, {"{}"},
		} {
			a := p.payAs(t, "key-"+string(rune('a'+i)), ordinary, ids...)
			a.expect(t, "with "+strings.Join(ids, ","), done)
			if len(a.correlation) != 1 || !madeID.MatchString(a.correlation[0]) || seen[a.correlation[0]] {
				t.Errorf("with %.20q the header has %q", ids, a.correlation)
				continue
			}
			seen[a.correlation[0]] = true
		}
		s.audit(t, p)
	})
}

// TestCorrelationID_CannotBreakALogLine sends bytes that no gRPC library would,
// over plain HTTP/2. The call is cut off or has an ID of the service's making;
// the service goes on, and its log stays whole.
func TestCorrelationID_CannotBreakALogLine(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		p := s.startPayment(t, "--log-level=debug")
		for _, id := range []string{
			"a\r\n{\"level\":\"ERROR\"}", "a\nb", "\x1b[31mred", "a\x00b", "\xff\xfe", "\u202Eabc", "\t", strings.Repeat("z", 10_000), strings.Repeat("z", 40_000),
		} {
			h := p.sendHeaders(t, createPayment, hpack.HeaderField{Name: correlationHeader, Value: id})
			ids := h.fields[correlationHeader]
			if h.cut == "" && (len(ids) != 1 || !madeID.MatchString(ids[0])) {
				t.Errorf("with %.20q the answer is %.300v", id, h)
			}
			if h.cut == "" && h.fields["grpc-status"][0] != "3" && h.fields[":status"][0] == "200" {
				t.Errorf("with %.20q an empty request is answered %.300v", id, h)
			}
		}
		if n := s.wire.requests(); n != 0 {
			t.Errorf("%d frames left", n)
		}
		a := p.payAs(t, "after", ordinary, "after-all-that")
		if a.code != codes.OK || !slices.Equal(a.correlation, []string{"after-all-that"}) {
			t.Errorf("after all that: %s, header %q", a, a.correlation)
		}
		if b := s.audit(t, p); len(b.rows) != 1 {
			t.Errorf("the ledger has %d rows", len(b.rows))
		}
	})
}

// TestCanary_SeesAnAccountNumber checks the look for account numbers that every
// stack and every process ends with.
func TestCanary_SeesAnAccountNumber(t *testing.T) {
	c := &canary{}
	c.learn(ordinary)
	c.learn("00000000000000")
	c.learn("1234")
	for text, want := range map[string]string{
		"":                                  "",
		"account 123456****1234":            "",
		"account 1234":                      "",
		"account 00000000000000":            "",
		`{"error":"no 12345678901234"}`:     ordinary,
		"3132333435363738393031323334":      ordinary,
		"frame 303130303132" + "3132333435": "",
	} {
		if got := c.find(text); got != want {
			t.Errorf("in %q it finds %q", text, got)
		}
	}
	wire, err := proto.Marshal(&ledgerv1.Transaction{Reason: "of " + ordinary})
	if err != nil || c.find(string(wire)) != ordinary {
		t.Errorf("in a message it finds %q", c.find(string(wire)))
	}
}
