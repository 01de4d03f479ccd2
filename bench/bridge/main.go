// Command bridge takes a call, sends a frame to the core, and replies with what
// came back: the least that a gateway can do, and what no ledger can be faster
// than. It keeps nothing. The benches compare the product with it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"google.golang.org/grpc"        //nolint:depguard // this service is one layer
	"google.golang.org/grpc/codes"  //nolint:depguard // this service is one layer
	"google.golang.org/grpc/status" //nolint:depguard // this service is one layer

	"github.com/gwanmun/gwanmun/bench/edge"
	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/cmdline"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/telemetry"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

// config is every flag of the command.
type config struct {
	GRPCAddr string `default:"127.0.0.1:0" help:"Where to serve gRPC; port 0 takes a free one." name:"grpc-addr" type:"hostport"`
	CoreAddr string `required:"" help:"Where the core listens for telegrams." name:"core-addr" type:"hostport"`
}

func main() { cmdline.Main(run) }

func run(ctx context.Context, args []string) error {
	var cfg config
	err := cmdline.Parse("bridge", telemetry.Version(), "Passes calls on to the core and keeps nothing, to compare with.",
		args, &cfg, nil, os.Stdout)
	if err != nil {
		return err
	}
	core := edge.Dial(cfg.CoreAddr)
	err = edge.Serve(ctx, cfg.GRPCAddr, telemetry.NewLogger(os.Stderr, 0, "bridge"), func(r grpc.ServiceRegistrar) {
		register(r, core)
	})
	return errors.Join(err, core.Close())
}

func register(r grpc.ServiceRegistrar, core *edge.Core) {
	paymentv1.RegisterPaymentServiceServer(r, &payments{core: core})
	paymentv1.RegisterAccountServiceServer(r, &accounts{core: core})
}

type payments struct {
	paymentv1.UnimplementedPaymentServiceServer
	core *edge.Core
}

// CreatePayment is a frame and its answer.
func (p *payments) CreatePayment(ctx context.Context, req *paymentv1.CreatePaymentRequest) (*paymentv1.CreatePaymentResponse, error) {
	number, err := account.Parse(req.GetAccountNumber())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	m := telegram.PaymentRequest{TranID: p.core.NextID(), Account: number, Amount: account.Won(req.GetAmount())}
	answer, err := p.core.Pay(context.WithoutCancel(ctx), m)
	if err != nil {
		return nil, status.Error(codes.DeadlineExceeded, err.Error())
	}
	if err := declined(answer.ResponseCode); err != nil {
		return nil, err
	}
	return &paymentv1.CreatePaymentResponse{Transaction: &ledgerv1.Transaction{
		TransactionId: string(m.TranID), Status: ledgerv1.TransactionStatus_TRANSACTION_STATUS_SUCCESS,
		IdempotencyKey: req.GetIdempotencyKey(), Amount: req.GetAmount(),
		ResponseCode: answer.ResponseCode, ApprovalNumber: fmt.Sprintf("%011d", answer.ApprovalNo),
	}}, nil
}

type accounts struct {
	paymentv1.UnimplementedAccountServiceServer
	core *edge.Core
}

// GetBalance is a frame and its answer.
func (a *accounts) GetBalance(ctx context.Context, req *paymentv1.GetBalanceRequest) (*paymentv1.GetBalanceResponse, error) {
	number, err := account.Parse(req.GetAccountNumber())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	id := a.core.NextID()
	answer, err := a.core.Balance(ctx, id, number)
	if err != nil {
		return nil, status.Error(codes.DeadlineExceeded, err.Error())
	}
	if err := declined(answer.ResponseCode); err != nil {
		return nil, err
	}
	return &paymentv1.GetBalanceResponse{Balance: int64(answer.Balance), Transaction: &ledgerv1.Transaction{
		TransactionId: string(id), Status: ledgerv1.TransactionStatus_TRANSACTION_STATUS_SUCCESS, ResponseCode: answer.ResponseCode,
	}}, nil
}

// declined is nil if the core says that it was done.
func declined(code string) error {
	if code == "0000" {
		return nil
	}
	return status.Error(codes.FailedPrecondition, "declined: "+code)
}
