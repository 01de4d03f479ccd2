package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

const (
	confirm   = ledgerv1.ResolutionPolicy_RESOLUTION_POLICY_CONFIRM
	netCancel = ledgerv1.ResolutionPolicy_RESOLUTION_POLICY_NET_CANCEL

	// callFor is how long a caller waits who is in no hurry.
	callFor = 40 * time.Second
	// ordinary is an account without a habit, and its mask.
	ordinary, ordinaryMasked = "12345678901234", "123456****1234"

	correlationHeader = "x-correlation-id"
)

// told is all that a caller learns from one call.
type told struct {
	err      error
	code     codes.Code
	message  string
	info     *errdetails.ErrorInfo // nil where there is none of ours
	fields   []string              // of the BadRequest
	row      *ledgerv1.Transaction // in the answer or attached to the error
	replayed bool
	balance  int64
	// correlation is what the header of the answer has of it.
	correlation []string
}

// reason is that of the ErrorInfo; empty where there is none.
func (a told) reason() string { return a.info.GetReason() }

// id is that of the transaction.
func (a told) id() string { return a.row.GetTransactionId() }

// String is what it is about, for a failed test.
func (a told) String() string {
	return fmt.Sprintf("%s %s %v, transaction %v, replayed %t, message %q", a.code, a.reason(), a.fields, a.row, a.replayed, a.message)
}

// hear reads a status and its details.
func hear(t testing.TB, err error, header metadata.MD) told {
	t.Helper()
	st := status.Convert(err)
	a := told{err: err, code: st.Code(), message: st.Message(), correlation: header.Get(correlationHeader)}
	for _, detail := range st.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			a.info = d
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				a.fields = append(a.fields, v.GetField())
			}
		case *ledgerv1.Transaction:
			a.row = d
		case *errdetails.RetryInfo:
		default:
			t.Errorf("a status has a detail of type %T", detail)
		}
	}
	a.replayed = a.info.GetMetadata()["replayed"] == "true"
	return a
}

// pay makes a payment for a caller in no hurry.
func (p *payment) pay(t testing.TB, key, number string, amount int64, policy ledgerv1.ResolutionPolicy) told {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callFor)
	defer cancel()
	return p.payWith(ctx, t, &paymentv1.CreatePaymentRequest{
		IdempotencyKey: key, AccountNumber: number, Amount: amount, ResolutionPolicy: policy,
	})
}

// begin makes a payment in the background; what the caller is told comes when
// it is there.
func (p *payment) begin(t testing.TB, key, number string, amount int64, policy ledgerv1.ResolutionPolicy) <-chan told {
	t.Helper()
	answer := make(chan told, 1)
	var call sync.WaitGroup
	call.Go(func() { answer <- p.pay(t, key, number, amount, policy) })
	t.Cleanup(call.Wait)
	return answer
}

// payWith makes a payment.
func (p *payment) payWith(ctx context.Context, t testing.TB, req *paymentv1.CreatePaymentRequest) told {
	t.Helper()
	var header metadata.MD
	resp, err := p.CreatePayment(ctx, req, grpc.Header(&header))
	a := hear(t, err, header)
	if err == nil {
		a.row, a.replayed = resp.GetTransaction(), resp.GetReplayed()
	}
	return a
}

// ask asks for a balance.
func (p *payment) ask(t testing.TB, number string) told {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callFor)
	defer cancel()
	var header metadata.MD
	resp, err := p.GetBalance(ctx, &paymentv1.GetBalanceRequest{AccountNumber: number}, grpc.Header(&header))
	a := hear(t, err, header)
	if err == nil {
		a.row, a.balance = resp.GetTransaction(), resp.GetBalance()
	}
	return a
}

// row reads a transaction of any kind from the ledger.
func (p *payment) row(t testing.TB, id string) *ledgerv1.Transaction {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callFor)
	defer cancel()
	resp, err := p.GetTransaction(ctx, &ledgerv1.GetTransactionRequest{TransactionId: id})
	if err != nil {
		t.Fatalf("read %s: %v", id, err)
	}
	return resp.GetTransaction()
}

// byKey waits until there is a payment of a key, and returns it.
func (p *payment) byKey(t testing.TB, key string) *ledgerv1.Transaction {
	t.Helper()
	var row *ledgerv1.Transaction
	eventually(t, "a payment of key "+key, func(ctx context.Context) error {
		resp, err := p.GetPayment(ctx, &paymentv1.GetPaymentRequest{Key: &paymentv1.GetPaymentRequest_IdempotencyKey{IdempotencyKey: key}})
		row = resp.GetTransaction()
		return err
	})
	return row
}

// isFinal reports whether a status is left no more.
func isFinal(s ledgerv1.TransactionStatus) bool {
	return s == success || s == failed || s == canceled
}

// follow watches a payment until it is final, and returns it.
func (p *payment) follow(t testing.TB, id string) *ledgerv1.Transaction {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream, err := p.WatchPayment(ctx, &paymentv1.WatchPaymentRequest{TransactionId: id})
	if err != nil {
		t.Fatalf("watch %s: %v", id, err)
	}
	var last *ledgerv1.Transaction
	for {
		state, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("watch %s: %v; last seen %v", id, err, last)
		}
		if isFinal(last.GetStatus()) {
			t.Errorf("watch %s: a state after the final one", id)
		}
		last = state.GetTransaction()
	}
	if !isFinal(last.GetStatus()) {
		t.Fatalf("watch %s: the stream ended with %v", id, last)
	}
	return last
}

// settled waits until every transaction is final, but for so many.
func (p *payment) settled(t testing.TB, open int) {
	t.Helper()
	eventually(t, "everything is final", func(ctx context.Context) error {
		sum, err := p.SummarizeTransactions(ctx, &ledgerv1.SummarizeTransactionsRequest{})
		if err != nil {
			return err
		}
		for _, total := range sum.GetTotals() {
			if !isFinal(total.GetStatus()) && total.GetCount() > int64(open) {
				return fmt.Errorf("%d are %s", total.GetCount(), total.GetStatus())
			}
		}
		return nil
	})
}

// short is the name of an enum's value without that of the enum.
func short(value fmt.Stringer, prefix string) string {
	return strings.TrimPrefix(strings.TrimPrefix(value.String(), prefix), "UNSPECIFIED")
}
