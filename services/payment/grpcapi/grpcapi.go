// Package grpcapi puts the use cases of the payment service on gRPC. It turns
// messages into values and back, and decides nothing.
package grpcapi

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledgerpb"
	"github.com/gwanmun/gwanmun/pkg/rpcserver"
	"github.com/gwanmun/gwanmun/pkg/telemetry"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/payment/payment"
)

// Register puts PaymentService and AccountService on a server.
func Register(r grpc.ServiceRegistrar, service *payment.Service) {
	paymentv1.RegisterPaymentServiceServer(r, &paymentServer{service: service})
	paymentv1.RegisterAccountServiceServer(r, &accountServer{service: service})
}

type paymentServer struct {
	paymentv1.UnimplementedPaymentServiceServer
	service *payment.Service
}

// CreatePayment implements paymentv1.PaymentServiceServer.
func (p *paymentServer) CreatePayment(ctx context.Context, req *paymentv1.CreatePaymentRequest) (*paymentv1.CreatePaymentResponse, error) {
	number, err := account.Parse(req.GetAccountNumber())
	if err != nil {
		return nil, invalid("account_number", err)
	}
	policy := ledger.PolicyNetCancel
	if req.GetResolutionPolicy() == ledgerv1.ResolutionPolicy_RESOLUTION_POLICY_CONFIRM {
		policy = ledger.PolicyConfirm
	}
	reply, err := p.service.Create(ctx, payment.Request{
		Client:        rpcserver.ClientID(ctx),
		Key:           ledger.IdempotencyKey(req.GetIdempotencyKey()),
		Account:       number,
		Amount:        account.Won(req.GetAmount()),
		Order:         ledger.OrderID(req.GetOrderId()),
		Policy:        policy,
		CorrelationID: telemetry.CorrelationID(ctx),
	})
	if err != nil {
		return nil, err
	}
	return &paymentv1.CreatePaymentResponse{
		Transaction: ledgerpb.Transaction(&reply.Transaction), Replayed: reply.Replayed,
	}, nil
}

// GetPayment implements paymentv1.PaymentServiceServer.
func (p *paymentServer) GetPayment(ctx context.Context, req *paymentv1.GetPaymentRequest) (*paymentv1.GetPaymentResponse, error) {
	var (
		t   ledger.Transaction
		err error
	)
	switch key := req.GetKey().(type) {
	case *paymentv1.GetPaymentRequest_TransactionId:
		t, err = p.get(ctx, key.TransactionId)
	case *paymentv1.GetPaymentRequest_IdempotencyKey:
		t, err = p.service.GetByKey(ctx, rpcserver.ClientID(ctx), ledger.IdempotencyKey(key.IdempotencyKey))
	}
	if err != nil {
		return nil, err
	}
	return &paymentv1.GetPaymentResponse{Transaction: ledgerpb.Transaction(&t)}, nil
}

func (p *paymentServer) get(ctx context.Context, text string) (ledger.Transaction, error) {
	id, err := tranid.Parse(text)
	if err != nil { // well formed, but of a day that does not exist
		return ledger.Transaction{}, invalid("transaction_id", err)
	}
	return p.service.Get(ctx, rpcserver.ClientID(ctx), id)
}

// WatchPayment implements paymentv1.PaymentServiceServer.
func (p *paymentServer) WatchPayment(req *paymentv1.WatchPaymentRequest, stream grpc.ServerStreamingServer[paymentv1.WatchPaymentResponse]) error {
	id, err := tranid.Parse(req.GetTransactionId())
	if err != nil {
		return invalid("transaction_id", err)
	}
	ctx, stopped, done := untilStopping(stream.Context())
	defer done()
	err = p.service.Watch(ctx, rpcserver.ClientID(ctx), id, func(t ledger.Transaction) error {
		return stream.Send(&paymentv1.WatchPaymentResponse{Transaction: ledgerpb.Transaction(&t)})
	})
	if err != nil && stopped() {
		return errStopping
	}
	return err
}

// errStopping ends a watch whose server stops: its client should watch again,
// elsewhere.
var errStopping = status.Error(codes.Unavailable, "the server is stopping")

// untilStopping is a context of a stream that ends when the server begins to
// stop, too, and whether it did.
func untilStopping(ctx context.Context) (_ context.Context, stopped func() bool, done context.CancelFunc) {
	stopping := rpcserver.Stopping(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-stopping:
			cancel(errStopping)
		case <-ctx.Done():
		}
	}()
	stopped = func() bool { return context.Cause(ctx) == errStopping } //nolint:errorlint // the very value
	return ctx, stopped, func() { cancel(nil); <-ended }
}

type accountServer struct {
	paymentv1.UnimplementedAccountServiceServer
	service *payment.Service
}

// GetBalance implements paymentv1.AccountServiceServer.
func (a *accountServer) GetBalance(ctx context.Context, req *paymentv1.GetBalanceRequest) (*paymentv1.GetBalanceResponse, error) {
	number, err := account.Parse(req.GetAccountNumber())
	if err != nil {
		return nil, invalid("account_number", err)
	}
	reply, err := a.service.Balance(ctx, payment.BalanceRequest{
		Client: rpcserver.ClientID(ctx), Account: number, CorrelationID: telemetry.CorrelationID(ctx),
	})
	if err != nil {
		return nil, err
	}
	return &paymentv1.GetBalanceResponse{
		Balance: int64(reply.Balance), Transaction: ledgerpb.Transaction(&reply.Transaction),
	}, nil
}

func invalid(field string, err error) error {
	return &ledger.Refusal{Reason: ledger.ReasonInvalidRequest, Fields: []ledger.FieldViolation{
		{Field: field, Description: err.Error()},
	}}
}
