package grpcapi_test

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
	"github.com/gwanmun/gwanmun/proto/reason"
)

func TestCreatePayment_Success(t *testing.T) {
	g := openGate(t, "0000")
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-correlation-id", "corr-7")
	for _, replayed := range []bool{false, true} {
		resp, err := g.CreatePayment(ctx, good())
		if err != nil {
			t.Fatal(err)
		}
		row, tx := g.row(t, "order-1"), resp.GetTransaction()
		if resp.GetReplayed() != replayed || tx.GetTransactionId() != string(row.ID) ||
			tx.GetStatus() != ledgerv1.TransactionStatus_TRANSACTION_STATUS_SUCCESS || tx.GetApprovalNumber() != "00000000042" {
			t.Errorf("response %v", resp)
		}
		if row.Client != "local" || row.Amount != 1000 || row.AccountMasked != "123456****1234" || row.CorrelationID != "corr-7" {
			t.Errorf("row %+v", row)
		}
	}
	if n := g.core.frames.Load(); n != 1 {
		t.Errorf("%d frames", n)
	}
}

func TestCreatePayment_Policy(t *testing.T) {
	g := openGate(t, "0000")
	for key, c := range map[string]struct {
		asked  ledgerv1.ResolutionPolicy
		stored ledger.Policy
	}{
		"unset":   {ledgerv1.ResolutionPolicy_RESOLUTION_POLICY_UNSPECIFIED, ledger.PolicyNetCancel},
		"cancel":  {ledgerv1.ResolutionPolicy_RESOLUTION_POLICY_NET_CANCEL, ledger.PolicyNetCancel},
		"confirm": {ledgerv1.ResolutionPolicy_RESOLUTION_POLICY_CONFIRM, ledger.PolicyConfirm},
	} {
		req := good()
		req.IdempotencyKey, req.ResolutionPolicy = key, c.asked
		if _, err := g.CreatePayment(t.Context(), req); err != nil {
			t.Errorf("%s: %v", key, err)
			continue
		}
		if row := g.row(t, key); row.Policy != c.stored {
			t.Errorf("%s is stored as %s", key, row.Policy)
		}
	}
}

func TestCreatePayment_Refusals(t *testing.T) {
	g := openGate(t, "")
	for key, c := range map[string]struct {
		answer string
		code   codes.Code
		reason ledgerv1.ErrorReason
		status ledgerv1.TransactionStatus
	}{
		"declined":   {"0051", codes.FailedPrecondition, ledgerv1.ErrorReason_ERROR_REASON_DECLINED, ledgerv1.TransactionStatus_TRANSACTION_STATUS_FAILED},
		"no-account": {"0001", codes.NotFound, ledgerv1.ErrorReason_ERROR_REASON_ACCOUNT_NOT_FOUND, ledgerv1.TransactionStatus_TRANSACTION_STATUS_FAILED},
		"lost":       {"", codes.DeadlineExceeded, ledgerv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN, ledgerv1.TransactionStatus_TRANSACTION_STATUS_UNKNOWN},
		"used-id":    {"0094", codes.DeadlineExceeded, ledgerv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN, ledgerv1.TransactionStatus_TRANSACTION_STATUS_UNKNOWN},
	} {
		g.core.code.Store(c.answer)
		req := good()
		req.IdempotencyKey = key
		_, err := g.CreatePayment(t.Context(), req)
		if status.Code(err) != c.code || reason.Of(err) != c.reason || reason.NothingLeft(err) {
			t.Errorf("%s: %v, reason %s", key, err, reason.Of(err))
		}
		if tx := reason.Transaction(err); tx.GetStatus() != c.status || tx.GetTransactionId() != string(g.row(t, key).ID) {
			t.Errorf("%s: transaction %v", key, tx)
		}
	}
	req := good()
	req.IdempotencyKey, req.Amount = "declined", 1
	if _, err := g.CreatePayment(t.Context(), req); reason.Of(err) != ledgerv1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED {
		t.Errorf("another amount under the key: %v", err)
	}
}

// An order is in the row and in the answer, and is paid once.
func TestCreatePayment_Order(t *testing.T) {
	g := openGate(t, "0000")
	req := good()
	req.OrderId = "an order of 2026"
	resp, err := g.CreatePayment(t.Context(), req)
	if err != nil || resp.GetTransaction().GetOrderId() != req.GetOrderId() || g.row(t, "order-1").Order != "an order of 2026" {
		t.Fatalf("response %v, %v", resp, err)
	}
	req.IdempotencyKey = "another"
	_, err = g.CreatePayment(t.Context(), req)
	if status.Code(err) != codes.FailedPrecondition || reason.Of(err) != ledgerv1.ErrorReason_ERROR_REASON_ORDER_ALREADY_PAID ||
		reason.Transaction(err).GetTransactionId() != resp.GetTransaction().GetTransactionId() {
		t.Errorf("the order again: %v, about %v", err, reason.Transaction(err))
	}
	if n := g.core.frames.Load(); n != 1 {
		t.Errorf("%d frames", n)
	}
}

// What is wrong with a request is said by the field, and leaves no row and no
// frame.
func TestCreatePayment_InvalidRequests(t *testing.T) {
	g := openGate(t, "0000")
	cases := map[string]struct {
		change func(*paymentv1.CreatePaymentRequest)
		field  string
	}{
		"no key":             {func(r *paymentv1.CreatePaymentRequest) { r.IdempotencyKey = "" }, "idempotency_key"},
		"long key":           {func(r *paymentv1.CreatePaymentRequest) { r.IdempotencyKey = strings.Repeat("k", 65) }, "idempotency_key"},
		"odd key":            {func(r *paymentv1.CreatePaymentRequest) { r.IdempotencyKey = "a b" }, "idempotency_key"},
		"no account":         {func(r *paymentv1.CreatePaymentRequest) { r.AccountNumber = "" }, "account_number"},
		"15 digits":          {func(r *paymentv1.CreatePaymentRequest) { r.AccountNumber = "123456789012345" }, "account_number"},
		"letters":            {func(r *paymentv1.CreatePaymentRequest) { r.AccountNumber = "1234567890123x" }, "account_number"},
		"full-width digits":  {func(r *paymentv1.CreatePaymentRequest) { r.AccountNumber = "\uff11\uff12\uff13" }, "account_number"},
		"spaces":             {func(r *paymentv1.CreatePaymentRequest) { r.AccountNumber = " 12345" }, "account_number"},
		"amount 0":           {func(r *paymentv1.CreatePaymentRequest) { r.Amount = 0 }, "amount"},
		"amount below":       {func(r *paymentv1.CreatePaymentRequest) { r.Amount = -1 }, "amount"},
		"amount of 13":       {func(r *paymentv1.CreatePaymentRequest) { r.Amount = 1_000_000_000_000 }, "amount"},
		"amount of all bits": {func(r *paymentv1.CreatePaymentRequest) { r.Amount = math.MaxInt64 }, "amount"},
		"unknown policy":     {func(r *paymentv1.CreatePaymentRequest) { r.ResolutionPolicy = 99 }, "resolution_policy"},
		"long order":         {func(r *paymentv1.CreatePaymentRequest) { r.OrderId = strings.Repeat("o", 65) }, "order_id"},
		"order of two lines": {func(r *paymentv1.CreatePaymentRequest) { r.OrderId = "a\nb" }, "order_id"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			req := good()
			c.change(req)
			_, err := g.CreatePayment(t.Context(), req)
			wantField(t, err, c.field)
		})
	}
	if _, err := g.GetBalance(t.Context(), &paymentv1.GetBalanceRequest{AccountNumber: "x"}); err == nil {
		t.Error("a balance of no account")
	} else {
		wantField(t, err, "account_number")
	}
	page, err := g.store.List(t.Context(), ledger.Filter{Limit: 10})
	if err != nil || len(page.Transactions) != 0 || g.core.frames.Load() != 0 {
		t.Errorf("%d rows, %d frames, %v", len(page.Transactions), g.core.frames.Load(), err)
	}
}

func wantField(t *testing.T, err error, field string) {
	t.Helper()
	if status.Code(err) != codes.InvalidArgument || reason.Of(err) != ledgerv1.ErrorReason_ERROR_REASON_INVALID_REQUEST {
		t.Fatalf("error %v", err)
	}
	for _, d := range status.Convert(err).Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok {
			for _, v := range bad.GetFieldViolations() {
				if v.GetField() == field && v.GetDescription() != "" {
					return
				}
			}
		}
	}
	t.Errorf("error %v does not name %s", status.Convert(err).Details(), field)
}

func TestGetPayment(t *testing.T) {
	g := openGate(t, "")
	if _, err := g.CreatePayment(t.Context(), good()); reason.Of(err) != ledgerv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN {
		t.Fatal(err)
	}
	id := g.row(t, "order-1").ID
	for name, req := range map[string]*paymentv1.GetPaymentRequest{"by ID": byID(string(id)), "by key": byKey("order-1")} {
		resp, err := g.GetPayment(t.Context(), req)
		if tx := resp.GetTransaction(); err != nil || tx.GetTransactionId() != string(id) ||
			tx.GetStatus() != ledgerv1.TransactionStatus_TRANSACTION_STATUS_UNKNOWN {
			t.Errorf("%s: %v, %v", name, resp, err)
		}
	}
	inquiry := g.inquiry(t)
	for name, req := range map[string]*paymentv1.GetPaymentRequest{
		"no such ID":  byID("GWMNU20260301999999999"),
		"no such key": byKey("order-2"),
		"an inquiry":  byID(inquiry),
	} {
		_, err := g.GetPayment(t.Context(), req)
		if status.Code(err) != codes.NotFound || reason.Of(err) != ledgerv1.ErrorReason_ERROR_REASON_TRANSACTION_NOT_FOUND {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, req := range map[string]*paymentv1.GetPaymentRequest{"neither": {}, "no ID": byID("x"), "no key": byKey("")} {
		if _, err := g.GetPayment(t.Context(), req); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := g.GetPayment(t.Context(), byID(noSuchDay))
	wantField(t, err, "transaction_id")
}

// noSuchDay has the form of a transaction ID.
const noSuchDay = "GWMNU20261332000000001"

func byID(id string) *paymentv1.GetPaymentRequest {
	return &paymentv1.GetPaymentRequest{Key: &paymentv1.GetPaymentRequest_TransactionId{TransactionId: id}}
}

func byKey(key string) *paymentv1.GetPaymentRequest {
	return &paymentv1.GetPaymentRequest{Key: &paymentv1.GetPaymentRequest_IdempotencyKey{IdempotencyKey: key}}
}

// inquiry asks for a balance and returns the transaction ID.
func (g *gate) inquiry(t *testing.T) string {
	t.Helper()
	g.core.code.Store("0000")
	resp, err := g.GetBalance(t.Context(), &paymentv1.GetBalanceRequest{AccountNumber: "12345678901234"})
	if err != nil || resp.GetBalance() != 5000 ||
		resp.GetTransaction().GetKind() != ledgerv1.TransactionKind_TRANSACTION_KIND_BALANCE_INQUIRY {
		t.Fatalf("balance %v, %v", resp, err)
	}
	return resp.GetTransaction().GetTransactionId()
}

func TestGetBalance_Refused(t *testing.T) {
	g := openGate(t, "0001")
	_, err := g.GetBalance(t.Context(), &paymentv1.GetBalanceRequest{AccountNumber: "0"})
	if reason.Of(err) != ledgerv1.ErrorReason_ERROR_REASON_ACCOUNT_NOT_FOUND || reason.Transaction(err) == nil {
		t.Error(err)
	}
}

// watch opens a watch and receives its first state.
func (g *gate) watch(t *testing.T, id tranid.ID) (grpc.ServerStreamingClient[paymentv1.WatchPaymentResponse], ledgerv1.TransactionStatus) {
	t.Helper()
	stream, err := g.WatchPayment(t.Context(), &paymentv1.WatchPaymentRequest{TransactionId: string(id)})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return stream, resp.GetTransaction().GetStatus()
}

func TestWatchPayment_UntilFinal(t *testing.T) {
	g := openGate(t, "")
	_, _ = g.CreatePayment(t.Context(), good())
	id := g.row(t, "order-1").ID
	stream, first := g.watch(t, id)
	if _, err := g.store.Transition(t.Context(), ledger.Change{
		ID: id, From: ledger.StatusUnknown, To: ledger.StatusCanceled, Evidence: ledger.EvidenceCancelConfirmed,
		Method: ledger.MethodNetCancel, Reason: "net-canceled", By: ledger.Actor{Name: ledger.ActorReconciler},
	}); err != nil {
		t.Fatal(err)
	}
	states := []ledgerv1.TransactionStatus{first}
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, resp.GetTransaction().GetStatus())
	}
	if !slices.Equal(states, []ledgerv1.TransactionStatus{
		ledgerv1.TransactionStatus_TRANSACTION_STATUS_UNKNOWN, ledgerv1.TransactionStatus_TRANSACTION_STATUS_CANCELED,
	}) {
		t.Errorf("saw %v", states)
	}
}

func TestWatchPayment_NotFound(t *testing.T) {
	g := openGate(t, "0000")
	for _, id := range []string{"GWMNU20260301999999999", g.inquiry(t)} {
		stream, err := g.WatchPayment(t.Context(), &paymentv1.WatchPaymentRequest{TransactionId: id})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); reason.Of(err) != ledgerv1.ErrorReason_ERROR_REASON_TRANSACTION_NOT_FOUND {
			t.Errorf("%s: %v", id, err)
		}
	}
	stream, err := g.WatchPayment(t.Context(), &paymentv1.WatchPaymentRequest{TransactionId: noSuchDay})
	if err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	wantField(t, err, "transaction_id")
}

func TestWatchPayment_EndsWhenTheServerStops(t *testing.T) {
	g := openGate(t, "")
	_, _ = g.CreatePayment(t.Context(), good())
	stream, _ := g.watch(t, g.row(t, "order-1").ID)
	if err := g.server.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable || reason.Of(err) != 0 {
		t.Errorf("the watch ended with %v", err)
	}
}

// A caller that cancels its rpc while the frame is out: the payment is recorded.
func TestCreatePayment_CallerCancels(t *testing.T) {
	g := openGate(t, "0000")
	g.core.hold = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := g.CreatePayment(ctx, good())
		ended <- err
	}()
	stream := g.watchWhenThere(t, "order-1")
	cancel()
	if err := <-ended; status.Code(err) != codes.Canceled || reason.NothingLeft(err) {
		t.Errorf("the caller is told %v", err)
	}
	close(g.core.hold)
	resp, err := stream.Recv()
	if err != nil || resp.GetTransaction().GetStatus() != ledgerv1.TransactionStatus_TRANSACTION_STATUS_SUCCESS {
		t.Errorf("the payment became %v, %v", resp, err)
	}
}

// watchWhenThere watches the payment of a key, as soon as there is one.
func (g *gate) watchWhenThere(t *testing.T, key string) grpc.ServerStreamingClient[paymentv1.WatchPaymentResponse] {
	t.Helper()
	for t.Context().Err() == nil {
		resp, err := g.GetPayment(t.Context(), byKey(key))
		if err == nil {
			stream, _ := g.watch(t, tranid.ID(resp.GetTransaction().GetTransactionId()))
			return stream
		}
		if status.Code(err) != codes.NotFound {
			t.Fatal(err)
		}
	}
	t.Fatal("no payment came")
	return nil
}
