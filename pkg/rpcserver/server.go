// Package rpcserver is the edge at which every binary meets its callers: one
// gRPC server with its interceptors, limits, health and reflection, and one
// admin port beside it. What a service does is registered from outside; what
// happens to a call before and after that happens here, the same in every
// binary.
//
// An rpc passes, in this order: correlation ID, metrics, one log line, the
// error's status (rpcerr), recovery, key, role and limits, validation, handler. Recovery stands
// around validation too, so that a fault in the rules' engine ends one call and
// not the process; a second one around everything is for faults in the edge
// itself.
package rpcserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	metrics "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/gwanmun/gwanmun/pkg/access"
)

// What one connection and one request may be. A caller of the contract meets
// none of these.
const (
	maxMessage           = 64 << 10
	maxHeaders           = 16 << 10
	maxConcurrentStreams = 1024
	handshakeTimeout     = 10 * time.Second

	// connectionWindow is how many bytes of requests may be on their way on one
	// connection. It does not adapt: gRPC would measure the way with a ping for
	// about every request, and requests are small.
	connectionWindow = 256 << 10
	// streamWorkers are goroutines that serve one call after the other, so that
	// their stacks need not grow for each. Calls beyond them have their own.
	streamWorkers = 256

	// A connection is closed after its age, so that load spreads over new
	// instances; the grace is for what is still running on it. Whoever watches
	// for longer has to watch again.
	connectionAge   = 30 * time.Minute
	connectionGrace = time.Minute

	// A connection on which nothing came for so long is pinged, and closed if
	// no answer comes.
	pingAfter   = time.Minute
	pingTimeout = 20 * time.Second

	// A client may ping this often, with or without calls running; one that
	// pings more often is sent away (ENHANCE_YOUR_CALM), which ends its calls.
	minClientPing = 10 * time.Second
)

// Options are what a Server is made of. All but Tracer and Listen are required.
type Options struct {
	Flags    Flags
	Logger   *slog.Logger
	Registry *prometheus.Registry
	// Ready reports whether the service can do its work; its error is logged
	// and not shown. It is asked every second, and by each probe.
	Ready func(context.Context) error
	// Register registers the services. It is called once, by New.
	Register func(grpc.ServiceRegistrar)
	// Services are all that Register registers, each with the roles of which a
	// caller must have one. Their health is reported by these names, besides the
	// empty one.
	Services map[string]access.Roles
	// Tracer makes the spans of calls; nil means that nothing is traced, and
	// costs nothing.
	Tracer trace.TracerProvider
	// Listen opens a listener; nil means TCP. The network is always tcp.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
}

// Server is the gRPC server and the admin port of one binary. Use it as New,
// Listen, Serve, Stop, each once. It has goroutines from New to Stop.
type Server struct {
	flags    Flags
	logger   *slog.Logger
	registry *prometheus.Registry
	ready    func(context.Context) error
	listen   func(ctx context.Context, network, address string) (net.Listener, error)
	services []string
	roles    map[string]access.Roles
	door     *door
	rules    validator

	grpc   *grpc.Server
	health *health.Server
	admin  *http.Server
	panics prometheus.Counter
	turned *prometheus.CounterVec // connections that were turned away, by port

	methods map[string]*method
	unknown *method

	grpcListener  net.Listener
	adminListener net.Listener

	// stopping is closed when the stop begins; streamsEnd ends a little later.
	stopping    chan struct{}
	streamsEnd  context.Context // ends with the server, not with a call
	endStreams  context.CancelFunc
	stopOnce    sync.Once
	stopErr     error
	polling     context.Context // ends with the server, not with a call
	stopPolling context.CancelFunc

	// starting keeps Serve from starting anything once Stop waits for running.
	starting sync.Mutex
	running  sync.WaitGroup
}

// New builds the server and registers the services. It listens on nothing yet.
func New(o Options) (*Server, error) {
	s := &Server{
		flags: o.Flags, logger: o.Logger, registry: o.Registry, ready: o.Ready, listen: o.Listen,
		services: append([]string{""}, slices.Sorted(maps.Keys(o.Services))...),
		roles:    o.Services,
		health:   health.NewServer(),
		unknown:  &method{name: "unknown"},
		stopping: make(chan struct{}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gwanmun_panics_total",
			Help: "Panics in handlers, each answered INTERNAL.",
		}),
		turned: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gwanmun_connections_refused_total",
			Help: "Connections that were closed at once because the port had as many as it may have.",
		}, []string{"port"}),
	}
	s.streamsEnd, s.endStreams = context.WithCancel(context.Background())
	s.polling, s.stopPolling = context.WithCancel(context.Background())
	if s.listen == nil {
		s.listen = new(net.ListenConfig).Listen
	}
	var err error
	if s.door, err = newDoor(&o); err != nil {
		return nil, err
	}
	transport, err := o.Flags.transport(o.Logger)
	if err != nil {
		return nil, err
	}
	counts := metrics.NewServerMetrics(metrics.WithServerHandlingTimeHistogram(
		metrics.WithHistogramBuckets([]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}),
	))
	options := s.serverOptions(counts)
	if transport != nil {
		options = append(options, grpc.Creds(transport))
	}
	if o.Tracer != nil {
		options = append(options, s.traced(o.Tracer))
	}
	s.grpc = grpc.NewServer(options...)
	if err := s.furnish(&o, counts); err != nil {
		s.grpc.Stop() // its workers
		return nil, err
	}
	return s, nil
}

// furnish registers the services, and what there is to know of them.
func (s *Server) furnish(o *Options, counts *metrics.ServerMetrics) error {
	o.Register(s.grpc)
	if err := s.checkRoles(); err != nil {
		return err
	}
	if err := s.rules.compile(s.grpc.GetServiceInfo()); err != nil {
		return err
	}
	grpc_health_v1.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	s.setServing(false)
	counts.InitializeMetrics(s.grpc)
	if err := s.nameMethods(counts); err != nil {
		return err
	}
	for _, c := range []prometheus.Collector{counts, s.panics, s.turned, s.door.consumed, s.door.rejected, s.door.refused} {
		if err := s.registry.Register(c); err != nil {
			return fmt.Errorf("register the rpc metrics: %w", err)
		}
	}
	s.admin = s.newAdmin()
	return nil
}

// serverOptions are the limits and the interceptors.
func (s *Server) serverOptions(counts *metrics.ServerMetrics) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.UnaryInterceptor(s.unary),
		grpc.ChainStreamInterceptor(
			recovery.StreamServerInterceptor(recovery.WithRecoveryHandlerContext(s.lastResort)),
			s.streamBegin, countKnown(s, counts.StreamServerInterceptor()), s.streamLog, streamErrors,
			s.endForeign, recovery.StreamServerInterceptor(recovery.WithRecoveryHandlerContext(s.recovered)),
			s.door.stream, s.rules.stream,
		),
		grpc.UnknownServiceHandler(unknownMethod),
		grpc.ForceServerCodecV2(newRequestCodec()),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.MaxConcurrentStreams(maxConcurrentStreams),
		grpc.StaticConnWindowSize(connectionWindow),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: connectionAge, MaxConnectionAgeGrace: connectionGrace,
			Time: pingAfter, Timeout: pingTimeout,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: minClientPing, PermitWithoutStream: true,
		}),
		grpc.WaitForHandlers(true),
	}
}

// nameMethods lists what is served.
func (s *Server) nameMethods(counts *metrics.ServerMetrics) error {
	held, err := hold(counts)
	if err != nil {
		return err
	}
	s.methods = map[string]*method{}
	for service, info := range s.grpc.GetServiceInfo() {
		foreign := strings.HasPrefix(service, "grpc.")
		for _, m := range info.Methods {
			name := service + "/" + m.Name
			known := held["/"+name]
			if known == nil || !known.complete() {
				return fmt.Errorf("the rpc metrics lack series of %s", name)
			}
			served := &method{
				name: name, foreign: foreign, open: service == openService,
				roles: s.roles[service] | foreignRoles[service], series: known,
			}
			served.good = s.logger.Handler().WithAttrs(methodAndCode(served, codes.OK))
			s.methods["/"+name] = served
		}
	}
	return nil
}

// checkRoles makes sure that a service which nobody may call is noticed at start.
func (s *Server) checkRoles() error {
	for service := range s.grpc.GetServiceInfo() {
		if s.roles[service] == 0 {
			return fmt.Errorf("service %s has no roles", service)
		}
	}
	return nil
}

// method is what is known about a path; s.unknown if it is not served.
func (s *Server) method(path string) *method {
	if m, ok := s.methods[path]; ok {
		return m
	}
	return s.unknown
}

// Listen binds both ports and logs where.
func (s *Server) Listen(ctx context.Context) error {
	var err error
	if s.grpcListener, err = s.bind(ctx, "grpc", s.flags.GRPCAddr, maxConnections); err != nil {
		return err
	}
	if s.adminListener, err = s.bind(ctx, "admin", s.flags.AdminAddr, maxAdminConnections); err != nil {
		return errors.Join(err, s.grpcListener.Close())
	}
	return nil
}

func (s *Server) bind(ctx context.Context, name, address string, most int64) (net.Listener, error) {
	listener, err := s.listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", name, err)
	}
	if err := s.checkReach(ctx, name, listener.Addr()); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s.logger.LogAttrs(ctx, slog.LevelInfo, "listening",
		slog.String("name", name), slog.String("address", listener.Addr().String()))
	return &crowd{Listener: listener, most: most, refused: s.turned.WithLabelValues(name)}, nil
}

// checkReach is that of the flags, for an address that is bound. It warns of a port
// that is open.
func (s *Server) checkReach(ctx context.Context, name string, addr net.Addr) error {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return nil
	}
	open, err := s.flags.checkReach(name, tcp, tcp.String())
	if open {
		s.logger.WarnContext(ctx, "this port is open to whoever reaches it", "name", name)
	}
	return err
}

// GRPCAddr is where gRPC is served, once Listen has returned.
func (s *Server) GRPCAddr() net.Addr { return s.grpcListener.Addr() }

// AdminAddr is where the admin port is, once Listen has returned.
func (s *Server) AdminAddr() net.Addr { return s.adminListener.Addr() }

// Serve serves both ports until ctx is done, which is no error, or until a
// listener fails. It returns without stopping anything: calls go on until Stop.
func (s *Server) Serve(ctx context.Context) error {
	failed := make(chan error, 2)
	s.start(failed)
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// start starts what Stop waits for.
func (s *Server) start(failed chan<- error) {
	s.starting.Lock()
	defer s.starting.Unlock()
	if s.isStopping() {
		return
	}
	s.running.Go(func() {
		if err := s.grpc.Serve(s.grpcListener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			failed <- fmt.Errorf("serve grpc: %w", err)
		}
	})
	s.running.Go(func() {
		if err := s.admin.Serve(s.adminListener); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve admin: %w", err)
		}
	})
	s.running.Go(func() { s.followReadiness(s.polling) })
}
