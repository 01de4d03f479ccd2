package integration

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
	reconciliationv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/reconciliation/v1"
	simulatorv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/simulator/v1"
)

// badCall is a request that is to be refused.
type badCall struct {
	// method is that of the full name, and to whom it goes.
	method  string
	request proto.Message
	// field is what the BadRequest names.
	field string
}

const (
	createPayment   = "/gwanmun.payment.v1.PaymentService/CreatePayment"
	getPayment      = "/gwanmun.payment.v1.PaymentService/GetPayment"
	watchPayment    = "/gwanmun.payment.v1.PaymentService/WatchPayment"
	getBalance      = "/gwanmun.payment.v1.AccountService/GetBalance"
	getTransaction  = "/gwanmun.ledger.v1.LedgerService/GetTransaction"
	listEntries     = "/gwanmun.ledger.v1.LedgerService/ListTransactions"
	summarize       = "/gwanmun.ledger.v1.LedgerService/SummarizeTransactions"
	resolveRow      = "/gwanmun.reconciliation.v1.ReconciliationService/ResolveTransaction"
	getAccount      = "/gwanmun.simulator.v1.SimulatorService/GetAccount"
	putAccount      = "/gwanmun.simulator.v1.SimulatorService/PutAccount"
	listJournal     = "/gwanmun.simulator.v1.SimulatorService/ListJournal"
	unknownID       = "GWMNU20260102000000001"
	impossibleDayID = "GWMNU20260230000000001"
)

var badKeys = []string{
	"", strings.Repeat("k", 65), "order 1", " order", "order ", "order\x00", "order\r\n", "order\n", "order/1", "주문", "a%", "\x1b[31m", "'; --",
}

var badAccounts = []string{
	"", "123456789012345", "1234567890123a", "１２３４５６７８９０１２３４", "123456 7890123", " 12345678901234", "12345678901234 ",
	"12345678901234\n", "-1234567890123", "+1234567890123", "12345678901234\x00", "1_234_567_890", "0x1234567890ab", "١٢٣٤٥٦٧٨٩٠١٢٣٤",
}

var badAmounts = []int64{0, -1, 1_000_000_000_000, math.MaxInt64, math.MinInt64}

var badIDs = []string{
	"", "x", "%", "GWMNU2026010200000000", "GWMNU202601020000000012", "gwmnu20260102000000001", "GWMNU20260102 00000001",
	"GWMNU20260102000000001\n", "GWMNU2026010200000000１", " " + unknownID, unknownID + "%", "' OR 1=1 --", impossibleDayID,
}

// badPayments are requests for payments that are to be refused.
func badPayments() []badCall {
	good := func() *paymentv1.CreatePaymentRequest {
		return &paymentv1.CreatePaymentRequest{IdempotencyKey: "never-bound", AccountNumber: ordinary, Amount: 1}
	}
	var calls []badCall
	add := func(field string, change func(r *paymentv1.CreatePaymentRequest)) {
		r := good()
		change(r)
		calls = append(calls, badCall{createPayment, r, field})
	}
	for _, key := range badKeys {
		add("idempotency_key", func(r *paymentv1.CreatePaymentRequest) { r.IdempotencyKey = key })
	}
	for _, number := range badAccounts {
		add("account_number", func(r *paymentv1.CreatePaymentRequest) { r.AccountNumber = number })
	}
	for _, amount := range badAmounts {
		add("amount", func(r *paymentv1.CreatePaymentRequest) { r.Amount = amount })
	}
	for _, policy := range []ledgerv1.ResolutionPolicy{-1, 3, 99, math.MaxInt32} {
		add("resolution_policy", func(r *paymentv1.CreatePaymentRequest) { r.ResolutionPolicy = policy })
	}
	for _, order := range []string{strings.Repeat("o", 65), "order\n", "주문"} {
		add("order_id", func(r *paymentv1.CreatePaymentRequest) { r.OrderId = order })
	}
	return calls
}

// badReads are requests to look something up that are to be refused.
func badReads() []badCall {
	var calls []badCall
	for _, number := range badAccounts {
		calls = append(calls, badCall{getBalance, &paymentv1.GetBalanceRequest{AccountNumber: number}, "account_number"},
			badCall{getAccount, &simulatorv1.GetAccountRequest{AccountNumber: number}, "account_number"})
	}
	for _, id := range badIDs {
		calls = append(calls,
			badCall{getPayment, &paymentv1.GetPaymentRequest{Key: &paymentv1.GetPaymentRequest_TransactionId{TransactionId: id}}, "transaction_id"},
			badCall{watchPayment, &paymentv1.WatchPaymentRequest{TransactionId: id}, "transaction_id"},
			badCall{getTransaction, &ledgerv1.GetTransactionRequest{TransactionId: id}, "transaction_id"},
			badCall{resolveRow, &reconciliationv1.ResolveTransactionRequest{TransactionId: id}, "transaction_id"})
	}
	for _, key := range badKeys {
		calls = append(calls, badCall{
			getPayment, &paymentv1.GetPaymentRequest{Key: &paymentv1.GetPaymentRequest_IdempotencyKey{IdempotencyKey: key}}, "idempotency_key",
		})
	}
	return append(calls, badCall{getPayment, &paymentv1.GetPaymentRequest{}, "key"})
}

// badLists are requests for pages that are to be refused.
func badLists() []badCall {
	calls := append(make([]badCall, 0, 32), []badCall{
		{listEntries, &ledgerv1.ListTransactionsRequest{Statuses: []ledgerv1.TransactionStatus{0}}, "statuses[0]"},
		{listEntries, &ledgerv1.ListTransactionsRequest{Statuses: []ledgerv1.TransactionStatus{success, 99}}, "statuses[1]"},
		{listEntries, &ledgerv1.ListTransactionsRequest{Kinds: []ledgerv1.TransactionKind{99}}, "kinds[0]"},
		{listEntries, &ledgerv1.ListTransactionsRequest{CorrelationId: proto.String("")}, "correlation_id"},
		{listEntries, &ledgerv1.ListTransactionsRequest{CorrelationId: proto.String("a b")}, "correlation_id"},
		{listEntries, &ledgerv1.ListTransactionsRequest{AccountNumber: proto.String("12345678901234%")}, "account_number"},
		{listEntries, &ledgerv1.ListTransactionsRequest{OrderId: proto.String("")}, "order_id"},
		{listEntries, &ledgerv1.ListTransactionsRequest{
			RequestedFrom: &timestamppb.Timestamp{Seconds: 2}, RequestedTo: &timestamppb.Timestamp{Seconds: 1},
		}, "requested_from"},
		{summarize, &ledgerv1.SummarizeTransactionsRequest{RequestedTo: &timestamppb.Timestamp{Seconds: math.MaxInt64}}, "requested_to"},
		{listJournal, &simulatorv1.ListJournalRequest{Mti: "01"}, "mti"},
		{putAccount, &simulatorv1.PutAccountRequest{AccountNumber: "00000000000000", Balance: 1}, "account_number"},
	}...)
	for _, size := range []int32{-1, 501, math.MaxInt32, math.MinInt32} {
		calls = append(calls, badCall{listEntries, &ledgerv1.ListTransactionsRequest{PageSize: size}, "page_size"},
			badCall{listJournal, &simulatorv1.ListJournalRequest{PageSize: size}, "page_size"})
	}
	for _, token := range []string{"x", "%", strings.Repeat("A", 513), "' OR 1=1 --", "AAAA"} {
		calls = append(calls, badCall{listEntries, &ledgerv1.ListTransactionsRequest{PageToken: token}, "page_token"},
			badCall{listJournal, &simulatorv1.ListJournalRequest{PageToken: token}, "page_token"})
	}
	return calls
}

// strangers are requests for what is not there.
var strangers = []badCall{
	{getPayment, &paymentv1.GetPaymentRequest{Key: &paymentv1.GetPaymentRequest_TransactionId{TransactionId: unknownID}}, ""},
	{getPayment, &paymentv1.GetPaymentRequest{Key: &paymentv1.GetPaymentRequest_IdempotencyKey{IdempotencyKey: unknownID}}, ""},
	{watchPayment, &paymentv1.WatchPaymentRequest{TransactionId: unknownID}, ""},
	{getTransaction, &ledgerv1.GetTransactionRequest{TransactionId: unknownID}, ""},
	{resolveRow, &reconciliationv1.ResolveTransactionRequest{TransactionId: unknownID}, ""},
}

// TestBadInput_IsRefusedAndLeavesNothing sends every request that a careless or
// hostile caller may send. None leaves a row, binds a key or sends a frame.
func TestBadInput_IsRefusedAndLeavesNothing(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		p, r := s.startPayment(t), s.startReconciler(t)
		conns := map[string]*grpc.ClientConn{"payment": p.dial(t), "reconciliation": r.dial(t), "simulator": s.core.dial(t)}
		conns["ledger"] = conns["payment"]
		before := db.dump(t)
		for _, c := range slices.Concat(badPayments(), badReads(), badLists()) {
			a := c.send(t, conns)
			if a.code != codes.InvalidArgument || a.reason() != "INVALID_REQUEST" || !slices.Contains(a.fields, c.field) || a.row != nil {
				t.Errorf("%s with %v: %s", c.method, c.request, a)
			}
			if len(a.correlation) != 1 || a.info.GetMetadata()["correlation_id"] != a.correlation[0] {
				t.Errorf("%s with %v: correlation ID %q, metadata %v", c.method, c.request, a.correlation, a.info.GetMetadata())
			}
		}
		for _, c := range strangers {
			if a := c.send(t, conns); a.code != codes.NotFound || a.reason() != "TRANSACTION_NOT_FOUND" || len(a.fields) != 0 {
				t.Errorf("%s with %v: %s", c.method, c.request, a)
			}
		}
		s.wrecked(t, p)
		if after := db.dump(t); after != before {
			t.Errorf("the ledger was\n%s\nand is\n%s", before, after)
		}
		if n := s.wire.requests(); n != 0 {
			t.Errorf("%d frames left", n)
		}
	})
}

// send sends the request to whom it is for.
func (c badCall) send(t testing.TB, conns map[string]*grpc.ClientConn) told {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callFor)
	defer cancel()
	conn := conns[strings.Split(c.method, ".")[1]]
	if c.method != watchPayment {
		var header metadata.MD
		err := conn.Invoke(ctx, c.method, c.request, &ledgerv1.Transaction{}, grpc.Header(&header))
		return hear(t, err, header)
	}
	req, ok := c.request.(*paymentv1.WatchPaymentRequest)
	if !ok {
		t.Fatalf("watch with a %T", c.request)
	}
	stream, err := paymentv1.NewPaymentServiceClient(conn).WatchPayment(ctx, req)
	if err != nil {
		return hear(t, err, nil)
	}
	_, err = stream.Recv()
	header, headerErr := stream.Header()
	if headerErr != nil {
		t.Errorf("the header of a stream: %v", headerErr)
	}
	return hear(t, err, header)
}

// wrecked sends what is no message of its type.
func (s *stack) wrecked(t testing.TB, p *payment) {
	t.Helper()
	valid, err := proto.Marshal(&paymentv1.CreatePaymentRequest{IdempotencyKey: "never-bound", AccountNumber: ordinary, Amount: 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, request := range map[string][]byte{
		"a key that is not UTF-8":         append(slices.Clone(valid), 0x0a, 2, 0xff, 0xfe),
		"an account that is not UTF-8":    append(slices.Clone(valid), 0x12, 2, 0xc3, 0x28),
		"a field that is cut":             append(slices.Clone(valid), 0x0a, 200),
		"an endless number":               append(slices.Clone(valid), 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
		"a group that never ends":         append(slices.Clone(valid), 0x7b),
		"a text that is a telegram":       []byte("0100" + unknownID + ordinary + "000000050000"),
		"a key as a number, in its place": {0x08, 1},
	} {
		a := p.sendBytes(t, createPayment, request, &paymentv1.CreatePaymentResponse{})
		if a.code != codes.InvalidArgument || a.reason() != "INVALID_REQUEST" || a.row != nil {
			t.Errorf("%s: %s", name, a)
		}
	}
	const limit = 64 << 10
	for _, size := range []int{limit - 100, limit + 1, 4 << 20} {
		request := proto.Clone(&paymentv1.CreatePaymentRequest{
			IdempotencyKey: strings.Repeat("k", size), AccountNumber: ordinary, Amount: 1,
		})
		wire, err := proto.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		a := p.sendBytes(t, createPayment, wire, &paymentv1.CreatePaymentResponse{})
		want := codes.InvalidArgument
		if size > limit {
			want = codes.ResourceExhausted
		}
		if a.code != want {
			t.Errorf("a key of %d bytes: %s", size, a)
		}
	}
}

// TestDeadline_TooShortIsRefused calls with less time than the service wants.
func TestDeadline_TooShortIsRefused(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		p := s.startPayment(t, "--min-deadline=1h")
		before := db.dump(t)
		for name, a := range map[string]told{
			"a payment": p.pay(t, "hasty", ordinary, 1, netCancel),
			"a balance": p.ask(t, ordinary),
		} {
			if a.code != codes.DeadlineExceeded || a.reason() != "DEADLINE_TOO_SHORT" || a.row != nil {
				t.Errorf("%s: %s", name, a)
			}
		}
		if after := db.dump(t); after != before || s.wire.requests() != 0 {
			t.Errorf("the ledger was\n%s\nand is\n%s; %d frames left", before, after, s.wire.requests())
		}
		// Whoever sets no deadline waits for as long as it takes.
		var header metadata.MD
		resp, err := p.CreatePayment(context.Background(), &paymentv1.CreatePaymentRequest{
			IdempotencyKey: "patient", AccountNumber: ordinary, Amount: 1,
		}, grpc.Header(&header))
		if err != nil || resp.GetTransaction().GetStatus() != success {
			t.Errorf("without a deadline: %v, %s", resp, fmt.Sprint(err))
		}
		s.audit(t, p)
	})
}
