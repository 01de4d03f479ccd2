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
	"github.com/gwanmun/gwanmun/pkg/telemetry/span"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/reconciler/resolve"
)

// Resolver makes one attempt at one transaction, in somebody's name.
type Resolver interface {
	ResolveOne(ctx context.Context, id tranid.ID, by ledger.Actor) (resolve.Report, error)
}

// Operator settles what nobody can find out by asking the core.
type Operator interface {
	Settle(ctx context.Context, id tranid.ID, to ledger.Status, reason string, by ledger.Actor) (ledger.Transaction, error)
}

// Hinter takes what the core hints at. It waits for nothing.
type Hinter interface{ Hint(transactionID string) }

// UseCases are what the service puts on gRPC. Every field is required.
type UseCases struct {
	Resolver    Resolver
	Operator    Operator
	Hinter      Hinter
	Settler     Settler
	Settlements SettlementBook
	// Instance names the process in the history.
	Instance string
}

// Register puts ReconciliationService and CallbackService on a server.
func Register(r grpc.ServiceRegistrar, u UseCases) {
	reconciliationv1.RegisterReconciliationServiceServer(r, &server{
		resolver: u.Resolver, operator: u.Operator, settler: u.Settler, settlements: u.Settlements, instance: u.Instance,
	})
	reconciliationv1.RegisterCallbackServiceServer(r, &callbackServer{hinter: u.Hinter})
}

type server struct {
	reconciliationv1.UnimplementedReconciliationServiceServer
	resolver    Resolver
	operator    Operator
	settler     Settler
	settlements SettlementBook
	instance    string
}

// ResolveTransaction implements reconciliationv1.ReconciliationServiceServer.
func (s *server) ResolveTransaction(ctx context.Context, req *reconciliationv1.ResolveTransactionRequest) (*reconciliationv1.ResolveTransactionResponse, error) {
	id, err := tranid.Parse(req.GetTransactionId())
	if err != nil { // well formed, but of a day that does not exist
		return nil, invalid("transaction_id", err)
	}
	report, err := s.resolver.ResolveOne(ctx, id, s.caller(ctx))
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

// caller is who calls, in the history.
func (s *server) caller(ctx context.Context) ledger.Actor {
	return ledger.Actor{Name: "operator:" + string(rpcserver.ClientID(ctx)), Instance: s.instance, TraceID: span.TraceID(ctx)}
}

// refusalOf names the reasons that a caller is told; what is left is INTERNAL.
func refusalOf(err error) error {
	var lost *ledger.LostError
	switch {
	case errors.As(err, &lost):
		return &ledger.Refusal{Reason: ledger.ReasonIllegalState, Transaction: &lost.Current, Err: err}
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
