package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"                      //nolint:depguard // the load generator is a client
	"google.golang.org/grpc/credentials/insecure" //nolint:depguard // the load generator is a client

	"github.com/gwanmun/gwanmun/bench/wire"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

// callTimeout is how long a caller waits.
const callTimeout = 10 * time.Second

// client makes one caller's calls, one at a time, and gives up after callTimeout.
type client interface {
	createPayment(ctx context.Context, req *paymentv1.CreatePaymentRequest) (*paymentv1.CreatePaymentResponse, error)
	getBalance(ctx context.Context, req *paymentv1.GetBalanceRequest) (*paymentv1.GetBalanceResponse, error)
}

// connection is one that many callers share.
type connection interface {
	caller() client
	hangUp() error
}

// wired is a connection of package wire, which costs the callers little beside what
// they call.
type wired struct{ conn *wire.Conn }

func (w wired) caller() client { return wireClient{w.conn.Caller()} }

func (w wired) hangUp() error {
	w.conn.Close()
	return nil
}

// wireClient has no use for a context: a call has its time, and a run waits for the
// last.
type wireClient struct{ caller *wire.Caller }

func (c wireClient) createPayment(_ context.Context, req *paymentv1.CreatePaymentRequest) (*paymentv1.CreatePaymentResponse, error) {
	res := &paymentv1.CreatePaymentResponse{}
	return res, c.caller.Call(paymentv1.PaymentService_CreatePayment_FullMethodName, req, res)
}

func (c wireClient) getBalance(_ context.Context, req *paymentv1.GetBalanceRequest) (*paymentv1.GetBalanceResponse, error) {
	res := &paymentv1.GetBalanceResponse{}
	return res, c.caller.Call(paymentv1.AccountService_GetBalance_FullMethodName, req, res)
}

// stubbed is a connection of grpc-go's client, which the generated stubs call on: as
// anyone's callers would.
type stubbed struct{ conn *grpc.ClientConn }

// window is that of a connection and of a call: with one that is given, gRPC does not
// estimate the bandwidth, for which it sends a ping with about every call.
const window = 1 << 20

func dialStubbed(addr string) (stubbed, error) {
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialConnWindowSize(window), grpc.WithInitialWindowSize(window))
	return stubbed{conn}, err
}

func (s stubbed) caller() client {
	return stubClient{payments: paymentv1.NewPaymentServiceClient(s.conn), accounts: paymentv1.NewAccountServiceClient(s.conn)}
}

func (s stubbed) hangUp() error { return s.conn.Close() }

type stubClient struct {
	payments paymentv1.PaymentServiceClient
	accounts paymentv1.AccountServiceClient
}

func (c stubClient) createPayment(ctx context.Context, req *paymentv1.CreatePaymentRequest) (*paymentv1.CreatePaymentResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.payments.CreatePayment(ctx, req)
}

func (c stubClient) getBalance(ctx context.Context, req *paymentv1.GetBalanceRequest) (*paymentv1.GetBalanceResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.accounts.GetBalance(ctx, req)
}

// dial opens so many connections to a service: for the generated stubs, or of
// package wire.
func (s *side) dial(ctx context.Context, addr string, connections int, stubs bool) error {
	for range connections {
		var conn connection
		var err error
		if stubs {
			conn, err = dialStubbed(addr)
		} else {
			conn, err = dialWired(ctx, addr)
		}
		if err != nil {
			return fmt.Errorf("dial %s: %w", s.name, err)
		}
		s.conns = append(s.conns, conn)
	}
	return nil
}

func dialWired(ctx context.Context, addr string) (wired, error) {
	conn, err := wire.Dial(ctx, addr, callTimeout)
	return wired{conn}, err
}

// hangUp closes the connections.
func (s *side) hangUp() error {
	var errs []error
	for _, conn := range s.conns {
		errs = append(errs, conn.hangUp())
	}
	return errors.Join(errs...)
}
