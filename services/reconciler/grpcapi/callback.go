package grpcapi

import (
	"context"

	reconciliationv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/reconciliation/v1"
)

type callbackServer struct {
	reconciliationv1.UnimplementedCallbackServiceServer
	hinter Hinter
}

// NotifyOutcome implements reconciliationv1.CallbackServiceServer. The answer is
// the same, and as fast, whatever becomes of the hint.
func (s *callbackServer) NotifyOutcome(_ context.Context, req *reconciliationv1.NotifyOutcomeRequest) (*reconciliationv1.NotifyOutcomeResponse, error) {
	s.hinter.Hint(req.GetTransactionId())
	return &reconciliationv1.NotifyOutcomeResponse{Accepted: true}, nil
}
