package simulator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Options are the optional knobs of a Server. What is zero is the default.
type Options struct {
	// LateAnswer is how late the accounts 9999... and 5555... are. Default 5 s.
	LateAnswer time.Duration
	// MaxConnections is the most that a port keeps open; further ones are closed
	// at once. Default 1024.
	MaxConnections int
	// IdleTimeout is how long a connection may stay without a frame. Default
	// 10 minutes.
	IdleTimeout time.Duration
	// FrameTimeout is how long the rest of a frame may take once its first byte
	// is there. Default 30 s.
	FrameTimeout time.Duration
	// WriteTimeout is how long a peer may take to accept an answer. Default
	// 10 s.
	WriteTimeout time.Duration
	// Faults may strike any frame, before its account's habit is looked at.
	// Default: there are none.
	Faults *Faults
	// Logger is told what happens to connections. Default: nobody is told.
	Logger *slog.Logger
	// Tracer begins a span for each telegram. Default: there are none.
	Tracer trace.Tracer
	// Late is told of payments that are late. Default: nobody is.
	Late Late
}

// Late hears of payments that the core is late with, be it in doing them or in
// answering: they are what a core calls back about. Its methods return at once.
type Late interface {
	// Begins tells of one that has come and will be late.
	Begins(id tranid.ID)
	// Ends tells of one that is decided, durably, and about to be answered, whether
	// or not anybody still waits for the answer.
	Ends(id tranid.ID, code string)
}

type unheard struct{}

func (unheard) Begins(tranid.ID)       {}
func (unheard) Ends(tranid.ID, string) {}

func (o Options) withDefaults() Options {
	setDefault(&o.LateAnswer, 5*time.Second)
	setDefault(&o.MaxConnections, 1024)
	setDefault(&o.IdleTimeout, 10*time.Minute)
	setDefault(&o.FrameTimeout, 30*time.Second)
	setDefault(&o.WriteTimeout, 10*time.Second)
	if o.Faults == nil {
		o.Faults = NewFaults()
	}
	if o.Late == nil {
		o.Late = unheard{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func setDefault[T comparable](knob *T, value T) {
	var zero T
	if *knob == zero {
		*knob = value
	}
}

// Server speaks the link port for a Bank: 52 bytes in, 61 bytes out, one request
// in flight on each connection; and the listing port, where a prefix tells the
// length of what follows it. It is safe for concurrent use.
type Server struct {
	bank        *Bank
	plan        planner
	planListing planner
	opts        Options

	connections atomic.Int64 // the number of the latest
}

// NewServer returns a Server of a bank.
func NewServer(bank *Bank, o Options) *Server {
	o = o.withDefaults()
	return &Server{
		bank: bank, opts: o,
		plan:        o.Faults.over(habits(o.LateAnswer), bank.accountOf),
		planListing: o.Faults.over(func(request) plan { return plan{} }, bank.accountOf),
	}
}

// errShutdown is the cause with which connections end when the server does.
var errShutdown = errors.New("the core is shutting down")

// Serve accepts connections until ctx is done, the listener fails or the bank is
// out of use. It then closes the listener, lets what is being answered be
// answered, ends what is held or late, and returns when every connection has
// ended: at the latest one WriteTimeout after the last commit. The error is nil
// after ctx.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return s.serve(ctx, l, s.ServeConn)
}

// serve has each connection served by each.
func (s *Server) serve(ctx context.Context, l net.Listener, each func(context.Context, net.Conn)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errShutdown)
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()

	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(errShutdown)
	running.Go(func() {
		select {
		case <-s.bank.Failed():
			cancel(s.bank.Err())
		case <-ctx.Done():
		}
	})
	err := s.accept(ctx, l, &running, each)
	if bankErr := s.bank.Err(); bankErr != nil {
		return bankErr
	}
	return err
}

const (
	firstAcceptPause = 5 * time.Millisecond
	maxAcceptPause   = time.Second
)

// accept starts a goroutine for each connection until ctx is done (nil) or the
// listener is of no use any more.
func (s *Server) accept(ctx context.Context, l net.Listener, running *sync.WaitGroup, each func(context.Context, net.Conn)) error {
	places := make(chan struct{}, s.opts.MaxConnections)
	pauseFor := firstAcceptPause
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept connections: %w", err)
		case err != nil: // out of descriptors, or a peer that left again
			s.opts.Logger.WarnContext(ctx, "accept failed", "error", err, "pause", pauseFor)
			_ = wait(ctx, pauseFor) // if ctx ends it, so does Accept
			pauseFor = min(2*pauseFor, maxAcceptPause)
			continue
		}
		pauseFor = firstAcceptPause
		select {
		case places <- struct{}{}:
			running.Go(func() {
				defer func() { <-places }()
				each(ctx, conn)
			})
		default:
			s.opts.Logger.WarnContext(ctx, "connection refused: too many are open",
				"remote", conn.RemoteAddr().String(), "max_connections", s.opts.MaxConnections)
			_ = conn.Close()
		}
	}
}
