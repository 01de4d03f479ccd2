package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"  //nolint:depguard // this service is one layer
	"google.golang.org/grpc/status" //nolint:depguard // this service is one layer
	"google.golang.org/protobuf/types/known/timestamppb"
	"gorm.io/gorm" //nolint:depguard // this service is one layer

	"github.com/gwanmun/gwanmun/bench/edge"
	"github.com/gwanmun/gwanmun/pkg/account"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

const (
	// client is the one that there is without authentication.
	client = "local"
	// settleTimeout is how long an outcome may take to be stored.
	settleTimeout = 5 * time.Second
	// maxAmount is the most that a telegram carries, in won.
	maxAmount = 999_999_999_999
)

// service is PaymentService, of which it has CreatePayment.
type service struct {
	paymentv1.UnimplementedPaymentServiceServer
	book   *book
	core   *edge.Core
	logger *slog.Logger
}

// CreatePayment stores the payment, makes it, and stores what became of it.
func (s *service) CreatePayment(ctx context.Context, req *paymentv1.CreatePaymentRequest) (*paymentv1.CreatePaymentResponse, error) {
	number, err := account.Parse(req.GetAccountNumber())
	if err != nil || req.GetAmount() < 1 || req.GetAmount() > maxAmount ||
		req.GetIdempotencyKey() == "" || len(req.GetIdempotencyKey()) > 64 {
		return nil, status.Error(codes.InvalidArgument, "account_number, amount or idempotency_key is out of bounds")
	}
	id := s.core.NextID()
	p := &payment{
		TransactionID: string(id), ClientID: client, IdempotencyKey: req.GetIdempotencyKey(),
		AccountMasked: number.Masked(), Amount: req.GetAmount(), Status: requested, RequestedAt: time.Now().UTC(),
	}
	switch err := s.book.insert(ctx, p); {
	case errors.Is(err, gorm.ErrDuplicatedKey):
		return nil, status.Error(codes.AlreadyExists, "idempotency_key was used")
	case err != nil:
		return nil, s.failed(ctx, codes.Unavailable, "store the payment", err)
	}

	// The payment is made and settled whether or not its caller waits.
	ctx = context.WithoutCancel(ctx)
	answer, err := s.core.Pay(ctx, telegram.PaymentRequest{TranID: id, Account: number, Amount: account.Won(req.GetAmount())})
	switch {
	case err != nil:
		p.Status = unknown
		s.logger.WarnContext(ctx, "outcome unknown", "transaction_id", id, "error", err)
	case answer.ResponseCode == "0000":
		p.Status, p.ApprovalNumber = success, fmt.Sprintf("%011d", answer.ApprovalNo)
	default:
		p.Status = failed
	}
	now := time.Now().UTC()
	p.ResponseCode, p.ResponseMessage, p.RespondedAt = answer.ResponseCode, answer.Message.Value, &now
	settling, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if err := s.book.settle(settling, p); err != nil {
		return nil, s.failed(ctx, codes.DeadlineExceeded, "settle the payment", err)
	}
	switch p.Status {
	case success:
		return &paymentv1.CreatePaymentResponse{Transaction: message(p)}, nil
	case failed:
		return nil, status.Error(codes.FailedPrecondition, "declined: "+p.ResponseCode)
	default:
		return nil, status.Error(codes.DeadlineExceeded, "outcome unknown")
	}
}

// failed logs what went wrong and tells the caller as much as it may know.
func (s *service) failed(ctx context.Context, code codes.Code, what string, err error) error {
	s.logger.ErrorContext(ctx, "payment failed", "at", what, "error", err)
	return status.Error(code, what)
}

func message(p *payment) *ledgerv1.Transaction {
	return &ledgerv1.Transaction{
		TransactionId: p.TransactionID, Kind: ledgerv1.TransactionKind_TRANSACTION_KIND_PAYMENT,
		Status: ledgerv1.TransactionStatus_TRANSACTION_STATUS_SUCCESS, ClientId: p.ClientID, IdempotencyKey: p.IdempotencyKey,
		AccountMasked: p.AccountMasked, Amount: p.Amount, Currency: "KRW",
		ResponseCode: p.ResponseCode, ResponseMessage: p.ResponseMessage, ApprovalNumber: p.ApprovalNumber,
		RequestedAt: timestamppb.New(p.RequestedAt), RespondedAt: timestamppb.New(*p.RespondedAt),
	}
}
