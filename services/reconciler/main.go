// Command reconciler finds out what the payment service could not: it asks the
// core about UNKNOWN transactions until they are final, on its own and when an
// operator asks it to.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	circuitv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/circuit/v1"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	reconciliationv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/reconciliation/v1"

	"github.com/gwanmun/gwanmun/pkg/access"
	"github.com/gwanmun/gwanmun/pkg/cmdline"
	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/corelink/listing"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/gormstore"
	"github.com/gwanmun/gwanmun/pkg/opsapi"
	"github.com/gwanmun/gwanmun/pkg/resilience"
	"github.com/gwanmun/gwanmun/pkg/rpcserver"
	"github.com/gwanmun/gwanmun/pkg/telemetry"
	"github.com/gwanmun/gwanmun/pkg/telemetry/tracing"
	"github.com/gwanmun/gwanmun/services/reconciler/grpcapi"
	"github.com/gwanmun/gwanmun/services/reconciler/keep"
	"github.com/gwanmun/gwanmun/services/reconciler/resolve"
	"github.com/gwanmun/gwanmun/services/reconciler/settlement"
)

// config is every flag of the command.
type config struct {
	Server  rpcserver.Flags `embed:""`
	Ledger  gormstore.Flags `embed:""`
	Core    corelink.Flags  `embed:""`
	Resolve resolve.Flags   `embed:""`
	Keep    keep.Flags      `embed:""`
	Listing listing.Flags   `embed:""`

	Settlement settlement.Flags `embed:""`

	Resilience resilience.Flags `embed:""`
	Tracing    tracing.Flags    `embed:""`
}

// Validate is called when the flags are read.
func (c *config) Validate() error {
	return errors.Join(c.Server.Validate(), c.Ledger.Validate(), c.Core.Validate(), c.Resolve.Validate(), c.Keep.Validate(), c.Resilience.Validate(),
		c.Listing.Validate(), c.Settlement.Validate(), c.Tracing.Validate())
}

func (c *config) exchangeTime() time.Duration { return c.Core.ConnectTimeout + c.Core.ReadTimeout }

// roles are those of which a caller of each service must have one.
var roles = map[string]access.Roles{
	reconciliationv1.ReconciliationService_ServiceDesc.ServiceName: access.Of(access.RoleOps),
	reconciliationv1.CallbackService_ServiceDesc.ServiceName:       access.Of(access.RoleCore),
	ledgerv1.LedgerService_ServiceDesc.ServiceName:                 access.Of(access.RolePayment, access.RoleOps),
	circuitv1.CircuitService_ServiceDesc.ServiceName:               access.Of(access.RoleOps),
}

func main() {
	cmdline.RoomForGarbage(os.LookupEnv)
	cmdline.Main(run)
}

func run(ctx context.Context, args []string) error {
	var cfg config
	err := cmdline.Parse("reconciler", telemetry.Version(), "Asks the core about UNKNOWN transactions until they are final.",
		args, &cfg, map[string]string{"grpc_addr": "127.0.0.1:9092", "admin_addr": "127.0.0.1:8092", "trace_ratio": "0.1"}, os.Stdout)
	if err != nil {
		return err
	}
	logger := telemetry.NewLogger(os.Stderr, cfg.Server.Level(), "reconciler")
	slog.SetDefault(logger)
	registry, instance := telemetry.NewRegistry(), telemetry.NewInstance("reconciler")
	traces, err := tracing.New(ctx, tracing.Options{
		Flags: cfg.Tracing, Service: "reconciler", Instance: instance, Logger: logger, Registry: registry, Now: time.Now,
	})
	if err != nil {
		return err
	}
	store, hashKey, err := gormstore.Open(ctx, gormstore.Options{
		Flags: cfg.Ledger, Logger: logger, Registry: registry, Tracer: traces.Provider(),
	})
	if err != nil {
		return cmdline.NotStarted(ctx, logger, fmt.Errorf("open ledger: %w", err))
	}
	lines, err := reach(ctx, &cfg, logger, registry)
	if err != nil {
		return errors.Join(err, store.Close())
	}
	core := newGate(&cfg, lines, logger, registry)
	resolver := resolve.New(store, core, resolve.Options{
		Flags: cfg.Resolve, ExchangeTime: cfg.exchangeTime(),
		ReadTimeout: cfg.Core.ReadTimeout, Connections: cfg.Core.PoolSize,
		// The rest of the budget is for giving back claims and closing.
		StopGrace: cfg.Server.ShutdownTimeout / 2,
		Instance:  instance, Logger: logger, Registry: registry, Now: time.Now, Random: rand.Float64,
		Tracer: traces.Tracer(),
	})
	settler := settlement.New(settlement.Options{
		Flags: cfg.Settlement, Store: store, Resolver: resolver, Ghosts: resolver.Ghosts(), Key: hashKey,
		Book: settlement.CoreBook(listing.New(lines.listings, cfg.Listing.Over(cfg.Core), time.Now)), Instance: instance, Logger: logger, Registry: registry, Now: time.Now,
	})
	keeper := newKeeper(&cfg, store, logger, registry)
	server, err := rpcserver.New(rpcserver.Options{
		Flags: cfg.Server, Logger: logger, Registry: registry, Ready: resolver.Ready, Tracer: traces.Provider(),
		Services: roles,
		Register: func(r grpc.ServiceRegistrar) {
			ledgerv1.RegisterLedgerServiceServer(r, opsapi.NewLedgerServer(store, hashKey, time.Now))
			grpcapi.Register(r, grpcapi.UseCases{Resolver: resolver, Operator: resolver, Hinter: resolver, Settler: settler, Settlements: store, Instance: instance})
			circuitv1.RegisterCircuitServiceServer(r, opsapi.NewCircuitServer(core))
		},
	})
	if err != nil {
		return errors.Join(fmt.Errorf("build server: %w", err), store.Close())
	}
	if err := server.Listen(ctx); err != nil {
		return errors.Join(err, store.Close())
	}
	cmdline.Starting(ctx, logger, telemetry.Version(), &cfg)
	sweeping, stopSweeping := context.WithCancel(ctx)
	defer stopSweeping()
	swept := runAll(sweeping, resolver.Run, keeper.Run, settler.Run)
	served := server.Serve(ctx)
	stopSweeping()
	budget, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Server.ShutdownTimeout)
	defer cancel()
	err = errors.Join(served, shutdown(budget, server, swept), lines.Close(), store.Close())
	traces.Shutdown(budget)
	return cmdline.Stopped(ctx, logger, err)
}

// coreLines are the ways to the core.
type coreLines struct{ request, query, listings *corelink.Link }

// reach makes them, and says which of them are open to others on the way.
func reach(ctx context.Context, cfg *config, logger *slog.Logger, registry prometheus.Registerer) (coreLines, error) {
	listingFlags := cfg.Listing.Over(cfg.Core)
	corelink.TellExposed(ctx, logger, cfg.Core, listingFlags)
	links := corelink.NewMetrics(registry)
	request, badRequest := corelink.NewTCP(cfg.Core, resilience.CoreRequest, links)
	query, badQuery := corelink.NewTCP(cfg.Core, resilience.CoreQuery, links)
	listings, badListing := corelink.NewTCP(listingFlags, listing.Pool, links)
	if err := errors.Join(badRequest, badQuery, badListing); err != nil {
		return coreLines{}, fmt.Errorf("reach the core: %w", err)
	}
	return coreLines{request: request, query: query, listings: listings}, nil
}

// Close ends their connections that are idle.
func (l coreLines) Close() error {
	return errors.Join(l.request.Close(), l.query.Close(), l.listings.Close())
}

func newGate(cfg *config, l coreLines, logger *slog.Logger, registry prometheus.Registerer) *resilience.Gate {
	return resilience.New(resilience.Options{
		Flags: cfg.Resilience, Request: l.request, Query: l.query, Now: time.Now, Logger: logger, Registry: registry,
	})
}

func newKeeper(cfg *config, store ledger.Keeper, logger *slog.Logger, registry prometheus.Registerer) *keep.Keeper {
	start := time.Now()
	return keep.New(store, keep.Options{
		Flags: cfg.Keep, Logger: logger, Registry: registry,
		Now: time.Now, Uptime: func() time.Duration { return time.Since(start) },
	})
}

// runAll starts what runs until ctx is done; the channel is closed when all of it
// has ended.
func runAll(ctx context.Context, works ...func(context.Context)) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var running sync.WaitGroup
		for _, work := range works {
			running.Go(func() { work(ctx) })
		}
		running.Wait()
	}()
	return ended
}

// shutdown stops taking calls and lets the rows at hand come to an end and their
// claims be given back, before ctx ends.
func shutdown(ctx context.Context, server *rpcserver.Server, swept <-chan struct{}) error {
	err := server.Stop(ctx)
	select {
	case <-swept:
		return err
	case <-ctx.Done():
		return errors.Join(err, errors.New("the sweep did not end in time"))
	}
}
