package rpcserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

const (
	// streamGrace is how long health and reflection streams may go on when the
	// stop begins: long enough for NOT_SERVING to reach who watches.
	streamGrace = 100 * time.Millisecond
	// cutReserve is the most of Stop's time that is kept back for calls that
	// were cut to notice it.
	cutReserve = 500 * time.Millisecond
)

// isStopping reports whether Stop was called.
func (s *Server) isStopping() bool {
	select {
	case <-s.stopping:
		return true
	default:
		return false
	}
}

// Stop tells probes and watchers that the server is not ready, stops accepting,
// and waits for the calls that run. Shortly before ctx ends it cuts those that
// are left, and the error names them; a handler that does not notice even then
// is left behind. The admin port answers until the end. Stop may be called
// whether or not Serve was, and again: it then reports the same.
func (s *Server) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() { s.stopErr = s.stop(ctx) })
	return s.stopErr
}

func (s *Server) stop(ctx context.Context) error {
	s.starting.Lock()
	close(s.stopping) // /readyz, streams and Serve see it from here on
	s.starting.Unlock()
	s.stopPolling()
	s.health.Shutdown()
	defer time.AfterFunc(streamGrace, s.endStreams).Stop()
	defer s.endStreams()

	cut := s.drain(ctx)
	err := errors.Join(cut, s.closeAdmin(ctx), closeListener(s.grpcListener), closeListener(s.adminListener))
	s.wait(ctx)
	return err
}

// drain waits for the running rpcs, and cuts them when the time is up.
func (s *Server) drain(ctx context.Context) error {
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		s.grpc.GracefulStop()
	}()
	patience, done := beforeEnd(ctx)
	defer done()
	select {
	case <-drained:
		return nil
	case <-patience.Done():
	}
	left := s.stillRunning()
	go s.grpc.Stop() // waits for handlers, which may be for ever
	select {
	case <-drained:
	case <-ctx.Done():
	}
	if left == "" { // connections that would not close, but no call
		return nil
	}
	return fmt.Errorf("stop grpc: cut what was still running: %s", left)
}

// beforeEnd ends before ctx does, by a tenth of what is left of it or by
// cutReserve.
func beforeEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-min(cutReserve, time.Until(deadline)/10)))
}

// stillRunning lists the methods that run and how many calls of each.
func (s *Server) stillRunning() string {
	var left []string
	for _, m := range s.methods {
		if n := m.running.Load(); n > 0 {
			left = append(left, fmt.Sprintf("%s (%d)", m.name, n))
		}
	}
	slices.Sort(left)
	return strings.Join(left, ", ")
}

// closeAdmin closes the admin port, cleanly as long as there is time.
func (s *Server) closeAdmin(ctx context.Context) error {
	if s.admin.Shutdown(ctx) == nil {
		return nil
	}
	if err := s.admin.Close(); err != nil {
		return fmt.Errorf("close the admin port: %w", err)
	}
	return nil
}

// closeListener closes a listener that Listen opened and Serve may never have
// taken over.
func closeListener(l net.Listener) error {
	if l == nil {
		return nil
	}
	if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close a listener: %w", err)
	}
	return nil
}

// wait waits for what Serve started. A handler that was left behind keeps gRPC
// waiting, so it ends with ctx at the latest.
func (s *Server) wait(ctx context.Context) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.running.Wait()
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}
