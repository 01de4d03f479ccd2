package rpcserver

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"
)

const (
	// readyTimeout is how long one look at readiness may take.
	readyTimeout = 2 * time.Second
	// readyInterval is how often grpc.health.v1 follows readiness.
	readyInterval = time.Second
	// readyMisses is how many looks in a row must fail before a service that
	// was ready is called NOT_SERVING. One that succeeds makes it SERVING.
	readyMisses = 2
)

// readiness is what was seen of it so far. The zero value has seen nothing.
type readiness struct {
	serving bool
	told    bool // what serving says has been told
	misses  int
}

// look takes in one answer and reports whether there is something to tell.
func (r *readiness) look(err error) bool {
	if err == nil {
		r.misses = 0
		news := !r.serving || !r.told
		r.serving, r.told = true, true
		return news
	}
	r.misses++
	if r.serving && r.misses < readyMisses {
		return false
	}
	news := r.serving || !r.told
	r.serving, r.told = false, true
	return news
}

// followReadiness keeps grpc.health.v1 at what Ready says, until the server
// stops. Every change is logged once, with its cause.
func (s *Server) followReadiness(ctx context.Context) {
	tick := time.NewTicker(readyInterval)
	defer tick.Stop()
	var seen readiness
	for {
		err := s.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		if seen.look(err) {
			s.setServing(seen.serving)
			s.logReadiness(ctx, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *Server) logReadiness(ctx context.Context, err error) {
	if err == nil {
		s.logger.LogAttrs(ctx, slog.LevelInfo, "ready")
		return
	}
	s.logger.LogAttrs(ctx, slog.LevelWarn, "not ready", slog.String("error", err.Error()))
}

// setServing sets the status of the server as a whole and of each service.
func (s *Server) setServing(serving bool) {
	status := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if serving {
		status = grpc_health_v1.HealthCheckResponse_SERVING
	}
	for _, name := range s.services {
		s.health.SetServingStatus(name, status)
	}
}
