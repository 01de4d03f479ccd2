package grpcapi

import (
	"context"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	reconciliationv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/reconciliation/v1"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledgerpb"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// settlements are what an operator may say of a transaction.
var settlements = map[ledgerv1.TransactionStatus]ledger.Status{
	ledgerv1.TransactionStatus_TRANSACTION_STATUS_SUCCESS:  ledger.StatusSuccess,
	ledgerv1.TransactionStatus_TRANSACTION_STATUS_FAILED:   ledger.StatusFailed,
	ledgerv1.TransactionStatus_TRANSACTION_STATUS_CANCELED: ledger.StatusCanceled,
}

// SettleTransaction implements reconciliationv1.ReconciliationServiceServer.
func (s *server) SettleTransaction(ctx context.Context, req *reconciliationv1.SettleTransactionRequest) (*reconciliationv1.SettleTransactionResponse, error) {
	id, err := tranid.Parse(req.GetTransactionId())
	if err != nil {
		return nil, invalid("transaction_id", err)
	}
	t, err := s.operator.Settle(ctx, id, settlements[req.GetStatus()], req.GetReason(), s.caller(ctx))
	if err != nil {
		return nil, refusalOf(err)
	}
	return &reconciliationv1.SettleTransactionResponse{Transaction: ledgerpb.Transaction(&t)}, nil
}
