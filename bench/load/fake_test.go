package main

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc" //nolint:depguard // a service in this process stands for those that are measured

	"github.com/gwanmun/gwanmun/bench/instant"
	"github.com/gwanmun/gwanmun/bench/paired"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a service whose book is in memory. It does what it should, but for what
// its fields change.
type fake struct {
	paymentv1.UnimplementedPaymentServiceServer
	paymentv1.UnimplementedAccountServiceServer

	// spoil changes the n-th reply, from 1 on; keep says whether it has a row.
	spoil func(n int, t *ledgerv1.Transaction)
	keep  func(n int) bool
	// fails is the answer to every call, if set.
	fails error

	mu    sync.Mutex
	calls int
	book  tally
}

// CreatePayment keeps a payment.
func (f *fake) CreatePayment(_ context.Context, req *paymentv1.CreatePaymentRequest) (*paymentv1.CreatePaymentResponse, error) {
	t := &ledgerv1.Transaction{IdempotencyKey: req.GetIdempotencyKey(), Amount: req.GetAmount()}
	if err := f.do(t, &f.book.payments); err != nil {
		return nil, err
	}
	return &paymentv1.CreatePaymentResponse{Transaction: t}, nil
}

// GetBalance keeps an inquiry.
func (f *fake) GetBalance(context.Context, *paymentv1.GetBalanceRequest) (*paymentv1.GetBalanceResponse, error) {
	t := &ledgerv1.Transaction{}
	if err := f.do(t, &f.book.inquiries); err != nil {
		return nil, err
	}
	return &paymentv1.GetBalanceResponse{Balance: instant.Balance, Transaction: t}, nil
}

func (f *fake) do(t *ledgerv1.Transaction, rows *int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.keep == nil || f.keep(f.calls) {
		*rows++
	}
	t.TransactionId, t.Status = "GWMNU20260101000000001", ledgerv1.TransactionStatus_TRANSACTION_STATUS_SUCCESS
	if f.spoil != nil {
		f.spoil(f.calls, t)
	}
	return f.fails
}

func (f *fake) read(context.Context) (tally, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.book, nil
}

// serve is the side of a service in this process.
func serve(t *testing.T, name string, f *fake) *side {
	t.Helper()
	return serveWith(t, name, f, false)
}

// serveWith is such a side, called with the generated stubs or with package wire.
func serveWith(t *testing.T, name string, f *fake, stubs bool) *side {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.WaitForHandlers(true))
	paymentv1.RegisterPaymentServiceServer(server, f)
	paymentv1.RegisterAccountServiceServer(server, f)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	s := &side{name: name, cpu: paired.OwnCPU, read: f.read, run: "test", patience: time.Second / 2}
	if err := s.dial(t.Context(), listener.Addr().String(), 2, stubs); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.hangUp(); err != nil {
			t.Error(err)
		}
		server.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return s
}

// brief is a run that says nothing of speed.
func brief(only ...string) config {
	return config{Only: only, Rounds: paired.MinRounds, Burst: 2 * time.Millisecond, Tries: 1, Connections: 2, most: 2}
}
