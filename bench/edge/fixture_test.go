package edge_test

import (
	"log/slog"

	"google.golang.org/grpc" //nolint:depguard // the edge is what is tested
)

var discard = slog.New(slog.DiscardHandler)

func nothing(grpc.ServiceRegistrar) {}
