package rpcserver

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gwanmun/gwanmun/pkg/rpcerr"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
)

// unary is all that a unary rpc passes, in the order that the package names. It
// is one interceptor: in a chain each would cost a call a closure and the stack
// of its frame.
func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	defer func() {
		if value := recover(); value != nil {
			resp, err = nil, s.lastResort(ctx, value)
		}
	}()
	m := s.method(info.FullMethod)
	m.running.Add(1)
	defer m.running.Add(-1)
	named, c := s.begin(ctx, m, func(md metadata.MD) error { return grpc.SetHeader(ctx, md) })
	began := time.Now()
	m.series.begun()
	resp, err = s.answer(named, c, req, handler)
	code, elapsed := status.Code(err), time.Since(began)
	s.logCall(named, c, code, elapsed)
	m.series.ended(code, elapsed)
	return resp, err
}

// answer makes the status of what a use case returns, and keeps the error itself
// for the log.
func (s *Server) answer(ctx context.Context, c *call, req any, handler grpc.UnaryHandler) (any, error) {
	resp, err := s.handle(ctx, c, req, handler)
	if err != nil {
		return nil, failed(ctx, c, err)
	}
	if about, ok := resp.(interface{ GetTransaction() *ledgerv1.Transaction }); ok {
		c.transactionID = about.GetTransaction().GetTransactionId()
	}
	return resp, nil
}

// handle lets the call in, if it may come in and its request is valid, and
// handles it. A panic is an error.
func (s *Server) handle(ctx context.Context, c *call, req any, handler grpc.UnaryHandler) (resp any, err error) {
	defer func() {
		if value := recover(); value != nil {
			resp, err = nil, s.recovered(ctx, value)
		}
	}()
	leave, err := s.door.enter(ctx, c)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := s.rules.check(req); err != nil {
		return nil, err
	}
	return handler(ctx, req)
}

// lastResort is how a call ends that found a fault in the edge itself.
func (s *Server) lastResort(ctx context.Context, value any) error {
	return rpcerr.ToStatus(ctx, s.recovered(ctx, value)).Err()
}
