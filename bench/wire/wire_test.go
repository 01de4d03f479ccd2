package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"        //nolint:depguard // what the client is for
	"google.golang.org/grpc/codes"  //nolint:depguard // what the client is for
	"google.golang.org/grpc/status" //nolint:depguard // what the client is for

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	getBalance    = paymentv1.AccountService_GetBalance_FullMethodName
	createPayment = paymentv1.PaymentService_CreatePayment_FullMethodName
	// patience is a time-out that is not to be reached.
	patience = time.Minute
)

// service answers with what it was asked, unless answer is set.
type service struct {
	paymentv1.UnimplementedPaymentServiceServer
	paymentv1.UnimplementedAccountServiceServer

	answer func(ctx context.Context, account string) (*paymentv1.GetBalanceResponse, error)
}

// GetBalance says which account it was asked for.
func (s *service) GetBalance(ctx context.Context, req *paymentv1.GetBalanceRequest) (*paymentv1.GetBalanceResponse, error) {
	if s.answer != nil {
		return s.answer(ctx, req.GetAccountNumber())
	}
	return balance(req.GetAccountNumber()), nil
}

// CreatePayment says which key it was given.
func (s *service) CreatePayment(_ context.Context, req *paymentv1.CreatePaymentRequest) (*paymentv1.CreatePaymentResponse, error) {
	return &paymentv1.CreatePaymentResponse{Transaction: &ledgerv1.Transaction{IdempotencyKey: req.GetIdempotencyKey()}}, nil
}

func balance(id string) *paymentv1.GetBalanceResponse {
	return &paymentv1.GetBalanceResponse{Transaction: &ledgerv1.Transaction{TransactionId: id}}
}

// serve serves with grpc-go.
func serve(t *testing.T, s *service, options ...grpc.ServerOption) (addr string, server *grpc.Server) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server = grpc.NewServer(append(options, grpc.WaitForHandlers(true))...)
	paymentv1.RegisterPaymentServiceServer(server, s)
	paymentv1.RegisterAccountServiceServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return listener.Addr().String(), server
}

func dial(t *testing.T, addr string, timeout time.Duration) *Conn {
	t.Helper()
	c, err := Dial(t.Context(), addr, timeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// ask asks for a balance, and returns the ID in the reply.
func ask(c *Caller, account string) (string, error) {
	res := &paymentv1.GetBalanceResponse{}
	err := c.Call(getBalance, &paymentv1.GetBalanceRequest{AccountNumber: account}, res)
	return res.GetTransaction().GetTransactionId(), err
}

// waiting returns once so many calls wait.
func waiting(t *testing.T, c *Conn, n int) {
	t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for {
		c.mu.Lock()
		calls := len(c.calls)
		c.mu.Unlock()
		if calls == n {
			return
		}
		select {
		case <-look.C:
		case <-t.Context().Done():
			t.Fatal("the calls were not made")
		}
	}
}

// asked is what becomes of so many callers who ask at once.
func asked(c *Conn, n int) <-chan error {
	ended := make(chan error, n)
	for range n {
		go func() {
			_, err := ask(c.Caller(), "1")
			ended <- err
		}()
	}
	return ended
}

func TestCall_EachCallerGetsItsOwnAnswers(t *testing.T) {
	const callers, each = 64, 50
	addr, _ := serve(t, &service{})
	c := dial(t, addr, patience)
	var work sync.WaitGroup
	for n := range callers {
		work.Go(func() {
			caller := c.Caller()
			for i := range each {
				id := fmt.Sprintf("%d-%d", n, i)
				if got, err := ask(caller, id); err != nil || got != id {
					t.Errorf("%q, error %v; want %q", got, err, id)
				}
				res := &paymentv1.CreatePaymentResponse{}
				err := caller.Call(createPayment, &paymentv1.CreatePaymentRequest{IdempotencyKey: id}, res)
				if got := res.GetTransaction().GetIdempotencyKey(); err != nil || got != id {
					t.Errorf("%q, error %v; want %q", got, err, id)
				}
			}
		})
	}
	work.Wait()
}

func TestCall_RefusalHasItsCodeAndMessage(t *testing.T) {
	for _, want := range []error{
		status.Error(codes.Unavailable, "쉬는 시간 | 100%\nlater"),
		status.Error(codes.FailedPrecondition, ""),
		status.Error(codes.Code(99), "new"),
	} {
		addr, _ := serve(t, &service{answer: func(context.Context, string) (*paymentv1.GetBalanceResponse, error) { return nil, want }})
		caller := dial(t, addr, patience).Caller()
		for range 2 { // the second time from the table of headers
			if _, err := ask(caller, "1"); status.Code(err) != status.Code(want) || status.Convert(err).Message() != status.Convert(want).Message() {
				t.Errorf("%v, want %v", err, want)
			}
		}
	}
}

// A refusal must leave nothing behind in what a caller keeps.
func TestCall_CallerGoesOnAfterARefusal(t *testing.T) {
	addr, _ := serve(t, &service{answer: func(_ context.Context, account string) (*paymentv1.GetBalanceResponse, error) {
		if account == "bad" {
			return nil, status.Error(codes.InvalidArgument, "no")
		}
		return balance(account), nil
	}})
	caller := dial(t, addr, patience).Caller()
	for _, account := range []string{"long enough to be told from others", "bad", "1", "bad", "2"} {
		got, err := ask(caller, account)
		if (account == "bad") != (err != nil) || (err == nil && got != account) {
			t.Errorf("%s: %q, error %v", account, got, err)
		}
	}
}

func TestCall_ServerKnowsTheDeadline(t *testing.T) {
	left := make(chan time.Duration, 1)
	addr, _ := serve(t, &service{answer: func(ctx context.Context, account string) (*paymentv1.GetBalanceResponse, error) {
		deadline, _ := ctx.Deadline()
		left <- time.Until(deadline)
		return balance(account), nil
	}})
	if _, err := ask(dial(t, addr, patience).Caller(), "1"); err != nil {
		t.Fatal(err)
	}
	if got := <-left; got > patience || got < patience/2 {
		t.Errorf("%v, want %v", got, patience)
	}
}

func TestCall_BigMessagesGoInManyFrames(t *testing.T) {
	big := strings.Repeat("0123456789", 300_000)
	addr, _ := serve(t, &service{}, grpc.InitialWindowSize(maxReply), grpc.InitialConnWindowSize(maxReply))
	caller := dial(t, addr, patience).Caller()
	// More than the connection's first window, and enough to be replenished.
	for range 2*replenishAt/len(big) + 1 {
		if got, err := ask(caller, big); err != nil || got != big {
			t.Fatalf("%d bytes, error %v", len(got), err)
		}
	}
	if caller.conn.in.taken >= replenishAt {
		t.Errorf("%d bytes were not given back", caller.conn.in.taken)
	}
}

func TestCall_ReplyThatIsTooBigFails(t *testing.T) {
	addr, _ := serve(t, &service{answer: func(_ context.Context, account string) (*paymentv1.GetBalanceResponse, error) {
		if account == "big" {
			return balance(strings.Repeat("x", maxReply)), nil
		}
		return balance(account), nil
	}})
	caller := dial(t, addr, patience).Caller()
	if _, err := ask(caller, "big"); !errors.Is(err, ErrAnswer) {
		t.Errorf("error %v", err)
	}
	if got, err := ask(caller, "1"); err != nil || got != "1" {
		t.Errorf("%q, error %v", got, err)
	}
}

func TestCall_RequestLargerThanTheWindowIsRefused(t *testing.T) {
	addr, _ := serve(t, &service{}, grpc.InitialWindowSize(1<<16), grpc.InitialConnWindowSize(1<<17))
	caller := dial(t, addr, patience).Caller()
	if _, err := ask(caller, strings.Repeat("1", 1<<16)); !errors.Is(err, ErrRefused) {
		t.Errorf("error %v", err)
	}
	if got, err := ask(caller, "1"); err != nil || got != "1" {
		t.Errorf("%q, error %v", got, err)
	}
}

func TestCall_MoreThanTheServerTakesAtOnceAreRefused(t *testing.T) {
	release := make(chan struct{})
	addr, _ := serve(t, &service{answer: func(_ context.Context, account string) (*paymentv1.GetBalanceResponse, error) {
		<-release
		return balance(account), nil
	}}, grpc.MaxConcurrentStreams(2))
	c := dial(t, addr, patience)
	ended := asked(c, 2)
	waiting(t, c, 2)
	if _, err := ask(c.Caller(), "1"); !errors.Is(err, ErrRefused) {
		t.Errorf("error %v", err)
	}
	close(release)
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestCall_WithoutAnAnswerInTimeFails(t *testing.T) {
	given := make(chan struct{})
	addr, _ := serve(t, &service{answer: func(ctx context.Context, account string) (*paymentv1.GetBalanceResponse, error) {
		if account != "slow" {
			return balance(account), nil
		}
		<-ctx.Done()
		close(given)
		return nil, status.FromContextError(ctx.Err()).Err()
	}})
	const timeout = 400 * time.Millisecond
	caller := dial(t, addr, timeout).Caller()
	// The server's own clock may be first: either is an end in time.
	began := time.Now()
	if _, err := ask(caller, "slow"); !errors.Is(err, ErrTimeout) && status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("error %v", err)
	}
	if took := time.Since(began); took < timeout*9/10 {
		t.Errorf("it failed after %v", took)
	}
	<-given
	if got, err := ask(caller, "1"); err != nil || got != "1" {
		t.Errorf("%q, error %v", got, err)
	}
}

func TestCall_ServerThatStopsFailsAllWhoWait(t *testing.T) {
	const callers = 16
	addr, server := serve(t, &service{answer: func(ctx context.Context, _ string) (*paymentv1.GetBalanceResponse, error) {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}})
	c := dial(t, addr, patience)
	ended := asked(c, callers)
	waiting(t, c, callers)
	server.Stop()
	for range callers {
		if err := <-ended; !errors.Is(err, ErrLost) {
			t.Errorf("error %v", err)
		}
	}
	if _, err := ask(c.Caller(), "1"); !errors.Is(err, ErrLost) && !errors.Is(err, ErrGoAway) {
		t.Errorf("error %v", err)
	}
}

// A server that leaves in good order answers what it took.
func TestCall_ServerThatLeavesAnswersFirst(t *testing.T) {
	release := make(chan struct{})
	addr, server := serve(t, &service{answer: func(_ context.Context, account string) (*paymentv1.GetBalanceResponse, error) {
		<-release
		return balance(account), nil
	}})
	c := dial(t, addr, patience)
	ended := asked(c, 4)
	waiting(t, c, 4)
	left := make(chan struct{})
	go func() { defer close(left); server.GracefulStop() }()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for err := error(nil); !errors.Is(err, ErrGoAway); <-look.C {
		c.mu.Lock()
		err = c.leaving
		c.mu.Unlock()
	}
	if _, err := ask(c.Caller(), "1"); !errors.Is(err, ErrGoAway) {
		t.Errorf("error %v", err)
	}
	close(release)
	for range 4 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	<-left
}

func TestClose_FailsAllWhoWait(t *testing.T) {
	addr, _ := serve(t, &service{answer: func(ctx context.Context, _ string) (*paymentv1.GetBalanceResponse, error) {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}})
	c := dial(t, addr, patience)
	ended := asked(c, 4)
	waiting(t, c, 4)
	c.Close()
	for range 4 {
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Errorf("error %v", err)
		}
	}
	if _, err := ask(c.Caller(), "1"); !errors.Is(err, ErrClosed) {
		t.Errorf("error %v", err)
	}
}

func TestCall_StreamsRunOut(t *testing.T) {
	addr, _ := serve(t, &service{})
	c := dial(t, addr, patience)
	c.next = lastStream
	caller := c.Caller()
	if got, err := ask(caller, "1"); err != nil || got != "1" {
		t.Errorf("%q, error %v", got, err)
	}
	if _, err := ask(caller, "2"); !errors.Is(err, ErrRefused) {
		t.Errorf("error %v", err)
	}
}

func TestDial_WhatIsNoServerFails(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// It takes the connection and says nothing.
	if c, err := Dial(t.Context(), listener.Addr().String(), 50*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, error %v", c, err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if c, err := Dial(t.Context(), listener.Addr().String(), patience); err == nil {
		t.Errorf("%v", c)
	}
}
