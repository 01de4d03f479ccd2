package main

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc/codes"  //nolint:depguard // what the service answers with is tested
	"google.golang.org/grpc/status" //nolint:depguard // what the service answers with is tested

	"github.com/gwanmun/gwanmun/bench/edge"
	"github.com/gwanmun/gwanmun/bench/instant"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

// core is the way to a core that answers until the test ends.
func core(t *testing.T) *edge.Core {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- instant.Serve(ctx, listener) }()
	c := edge.Dial(listener.Addr().String())
	t.Cleanup(func() {
		cancel()
		for _, err := range []error{<-served, c.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return c
}

func TestBridge_PassesOnWhatTheCoreSays(t *testing.T) {
	c := core(t)
	payments, accounts := &payments{core: c}, &accounts{core: c}
	paid, err := payments.CreatePayment(t.Context(), &paymentv1.CreatePaymentRequest{
		IdempotencyKey: "key", AccountNumber: "123", Amount: 1000,
	})
	if err != nil || paid.GetTransaction().GetStatus() != ledgerv1.TransactionStatus_TRANSACTION_STATUS_SUCCESS {
		t.Errorf("%v, error %v", paid, err)
	}
	balance, err := accounts.GetBalance(t.Context(), &paymentv1.GetBalanceRequest{AccountNumber: "123"})
	if err != nil || balance.GetBalance() != instant.Balance {
		t.Errorf("%v, error %v", balance, err)
	}
	for _, number := range []string{"", "x"} {
		if _, err := payments.CreatePayment(t.Context(), &paymentv1.CreatePaymentRequest{AccountNumber: number}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("error %v", err)
		}
		if _, err := accounts.GetBalance(t.Context(), &paymentv1.GetBalanceRequest{AccountNumber: number}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("error %v", err)
		}
	}
}

func TestDeclined(t *testing.T) {
	if err := declined("0000"); err != nil {
		t.Error(err)
	}
	if err := declined("0051"); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("error %v", err)
	}
}
