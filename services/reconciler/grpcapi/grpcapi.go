// Package grpcapi puts the reconciler's use cases on gRPC. It turns messages
// into values and back, and decides nothing.
package grpcapi

import (
	"context"
	"encoding/hex"
	"errors"

	"google.golang.org/grpc"

	reconciliationv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/reconciliation/v1"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledgerpb"
	"github.com/gwanmun/gwanmun/pkg/rpcserver"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/reconciler/resolve"
)

// Resolver makes one attempt at one transaction, in somebody's name.
type Resolver interface {
	ResolveOne(ctx context.Context, id tranid.ID, by ledger.Actor) (resolve.Report, error)
}

// UseCases are what the service puts on gRPC. Every field is required.
type UseCases struct {
	Resolver    Resolver
	Settler     Settler
	Settlements SettlementBook
	// Instance names the process in the history.
	Instance string
}

// Register puts ReconciliationService on a server.
func Register(r grpc.ServiceRegistrar, u UseCases) {
	reconciliationv1.RegisterReconciliationServiceServer(r, &server{
		resolver: u.Resolver, settler: u.Settler, settlements: u.Settlements, instance: u.Instance,
	})
}

type server struct {
	reconciliationv1.UnimplementedReconciliationServiceServer
	resolver    Resolver
	settler     Settler
	settlements SettlementBook
	instance    string
}

// ResolveTransaction implements reconciliationv1.ReconciliationServiceServer.
func (s *server) ResolveTransaction(ctx context.Context, req *reconciliationv1.ResolveTransactionRequest) (*reconciliationv1.ResolveTransactionResponse, error) {
	id, err := tranid.Parse(req.GetTransactionId())
	if err != nil { // well formed, but of a day that does not exist
		return nil, &ledger.Refusal{Reason: ledger.ReasonInvalidRequest, Err: err, Fields: []ledger.FieldViolation{
			{Field: "transaction_id", Description: err.Error()},
		}}
	}
	by := ledger.Actor{Name: "operator:" + string(rpcserver.ClientID(ctx)), Instance: s.instance}
	report, err := s.resolver.ResolveOne(ctx, id, by)
	if err != nil {
		return nil, refusalOf(err)
	}
	return &reconciliationv1.ResolveTransactionResponse{
		Before:      ledgerpb.Status(report.Before),
		After:       ledgerpb.Status(report.Transaction.Status),
		Steps:       steps(report.Steps),
		Transaction: ledgerpb.Transaction(&report.Transaction),
	}, nil
}

// refusalOf names the reasons that a caller is told; what is left is INTERNAL.
func refusalOf(err error) error {
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return &ledger.Refusal{Reason: ledger.ReasonTransactionNotFound, Err: err}
	case errors.Is(err, ledger.ErrRunNotFound), errors.Is(err, ledger.ErrDiscrepancyNotFound):
		return &ledger.Refusal{Reason: ledger.ReasonRunNotFound, Err: err}
	case errors.Is(err, ledger.ErrUnavailable):
		return &ledger.Refusal{Reason: ledger.ReasonLedgerUnavailable, Err: err}
	default:
		return &ledger.Refusal{Reason: ledger.ReasonInternal, Err: err}
	}
}

func steps(in []resolve.Step) []*reconciliationv1.ResolutionStep {
	out := make([]*reconciliationv1.ResolutionStep, 0, len(in))
	for _, s := range in {
		out = append(out, &reconciliationv1.ResolutionStep{
			Mti:          s.MTI,
			RequestHex:   hex.EncodeToString(s.Request),
			ResponseHex:  hex.EncodeToString(s.Response),
			Processed:    s.Processed,
			CancelResult: s.CancelResult,
			ResponseCode: s.ResponseCode,
			CoreMessage:  s.CoreMessage,
			Outcome:      s.Outcome,
		})
	}
	return out
}
