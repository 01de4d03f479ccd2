package rpcserver

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errStopping is how a stream ends that was cut short by the stop: its client
// should look for another server.
var errStopping = status.Error(codes.Unavailable, "the server is stopping")

// endForeign ends the streams of health and reflection when the server stops.
// Their handlers wait for their client alone, and would hold up the stop for as
// long as the client likes.
func (s *Server) endForeign(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if !s.method(info.FullMethod).foreign {
		return next(srv, stream)
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(s.streamsEnd, cancel)()
	err := next(srv, &endingStream{callStream{ServerStream: stream, ctx: ctx}})
	if s.streamsEnd.Err() != nil && stream.Context().Err() == nil {
		return errStopping
	}
	return err
}

// endingStream is a stream whose context may end before its client does.
type endingStream struct {
	callStream
}

// RecvMsg receives one message, or ends with the stream. What is received by
// then is dropped: gRPC ends the inner call when the handler has returned.
func (s *endingStream) RecvMsg(m any) error {
	received := make(chan error, 1)
	go func() { received <- s.ServerStream.RecvMsg(m) }()
	select {
	case err := <-received:
		return err
	case <-s.ctx.Done():
		return errStopping
	}
}
