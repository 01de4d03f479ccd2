// Package edge is what the reference services have in common: a gRPC server with
// the product's limits and none of its interceptors, the product's way to the
// core, and how a process says where it listens.
//
// They thereby do less for a call than the product, which validates it, gives it
// a correlation ID, counts it and logs it. A comparison errs on their side.
package edge

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"           //nolint:depguard // a reference service is an edge
	"google.golang.org/grpc/keepalive" //nolint:depguard // a reference service is an edge
)

// Serve serves gRPC until ctx ends, and then lets what runs come to an end. It
// logs where it listens, as the product does.
func Serve(ctx context.Context, addr string, logger *slog.Logger, register func(grpc.ServiceRegistrar)) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listen for grpc: %w", err)
	}
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(64<<10), grpc.MaxHeaderListSize(16<<10), grpc.MaxConcurrentStreams(1024),
		grpc.ConnectionTimeout(10*time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: 30 * time.Minute, MaxConnectionAgeGrace: time.Minute,
			Time: time.Minute, Timeout: 20 * time.Second,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
	)
	register(server)
	logger.InfoContext(ctx, "listening", "name", "grpc", "address", listener.Addr().String())
	stop := context.AfterFunc(ctx, server.GracefulStop)
	defer stop()
	if err := server.Serve(listener); err != nil {
		return fmt.Errorf("serve grpc: %w", err)
	}
	return nil
}
