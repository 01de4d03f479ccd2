// Command payment takes payments and inquiries over gRPC, sends them to the
// core, and keeps the ledger.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"google.golang.org/grpc"

	circuitv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/circuit/v1"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"

	"github.com/gwanmun/gwanmun/pkg/access"
	"github.com/gwanmun/gwanmun/pkg/cmdline"
	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/corelink/listing"
	"github.com/gwanmun/gwanmun/pkg/ledger/gormstore"
	"github.com/gwanmun/gwanmun/pkg/opsapi"
	"github.com/gwanmun/gwanmun/pkg/resilience"
	"github.com/gwanmun/gwanmun/pkg/rpcserver"
	"github.com/gwanmun/gwanmun/pkg/telemetry"
	"github.com/gwanmun/gwanmun/pkg/telemetry/tracing"
	"github.com/gwanmun/gwanmun/services/payment/grpcapi"
	"github.com/gwanmun/gwanmun/services/payment/payment"
)

// config is every flag of the command.
type config struct {
	Server  rpcserver.Flags `embed:""`
	Ledger  gormstore.Flags `embed:""`
	Core    corelink.Flags  `embed:""`
	Listing listing.Flags   `embed:""`
	Payment payment.Flags   `embed:""`

	Resilience resilience.Flags `embed:""`
	Tracing    tracing.Flags    `embed:""`
}

// Validate is called when the flags are read.
func (c *config) Validate() error {
	return errors.Join(c.Server.Validate(), c.Ledger.Validate(), c.Core.Validate(), c.Listing.Validate(), c.Payment.Validate(), c.Resilience.Validate(),
		c.Tracing.Validate())
}

func main() {
	takeSlack()
	cmdline.RoomForGarbage(os.LookupEnv)
	cmdline.Main(run)
}

func run(ctx context.Context, args []string) error {
	var cfg config
	err := cmdline.Parse("payment", telemetry.Version(), "Takes payments and inquiries over gRPC and sends them to the core.",
		args, &cfg, map[string]string{"grpc_addr": "127.0.0.1:9090", "admin_addr": "127.0.0.1:8090", "trace_ratio": "0.1"}, os.Stdout)
	if err != nil {
		return err
	}
	logger := telemetry.NewLogger(os.Stderr, cfg.Server.Level(), "payment")
	slog.SetDefault(logger)
	registry, instance := telemetry.NewRegistry(), telemetry.NewInstance("payment")
	traces, err := tracing.New(ctx, tracing.Options{
		Flags: cfg.Tracing, Service: "payment", Instance: instance, Logger: logger, Registry: registry, Now: time.Now,
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
	listingFlags := cfg.Listing.Over(cfg.Core)
	corelink.TellExposed(ctx, logger, cfg.Core, listingFlags)
	links := corelink.NewMetrics(registry)
	request, badRequest := corelink.NewTCP(cfg.Core, resilience.CoreRequest, links)
	query, badQuery := corelink.NewTCP(cfg.Core, resilience.CoreQuery, links)
	listings, badListing := corelink.NewTCP(listingFlags, listing.Pool, links)
	if err := errors.Join(badRequest, badQuery, badListing); err != nil {
		return errors.Join(fmt.Errorf("reach the core: %w", err), store.Close())
	}
	core := resilience.New(resilience.Options{
		Flags: cfg.Resilience, Request: request, Query: query, Now: time.Now, Logger: logger, Registry: registry,
	})
	service := payment.New(payment.Options{
		Flags: cfg.Payment, Store: store, HashKey: hashKey, Core: core, Listings: listing.New(listings, listingFlags, time.Now),
		Now: time.Now, Logger: logger, Registry: registry, Instance: instance,
	})
	server, err := rpcserver.New(rpcserver.Options{
		Flags: cfg.Server, Logger: logger, Registry: registry, Ready: store.Ping, Tracer: traces.Provider(),
		Services: map[string]access.Roles{
			paymentv1.PaymentService_ServiceDesc.ServiceName: access.Of(access.RolePayment),
			paymentv1.AccountService_ServiceDesc.ServiceName: access.Of(access.RolePayment),
			ledgerv1.LedgerService_ServiceDesc.ServiceName:   access.Of(access.RolePayment, access.RoleOps),
			circuitv1.CircuitService_ServiceDesc.ServiceName: access.Of(access.RoleOps),
		},
		Register: func(r grpc.ServiceRegistrar) {
			grpcapi.Register(r, service)
			ledgerv1.RegisterLedgerServiceServer(r, opsapi.NewLedgerServer(store, hashKey, time.Now))
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
	service.Warm() //nolint:contextcheck // it is for all callers, and Drain ends it
	served := server.Serve(ctx)
	budget, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Server.ShutdownTimeout)
	defer cancel()
	err = errors.Join(served, shutdown(budget, server, service), request.Close(), query.Close(), listings.Close(), store.Close())
	traces.Shutdown(budget)
	return cmdline.Stopped(ctx, logger, err)
}

// drainReserve is what is kept of the shutdown's budget for exchanges whose
// callers were cut off.
const drainReserve = time.Second

// shutdown stops taking calls and lets what was sent be answered and recorded,
// before ctx ends.
func shutdown(ctx context.Context, server *rpcserver.Server, service *payment.Service) error {
	deadline, _ := ctx.Deadline()
	calls, cancel := context.WithDeadline(ctx, deadline.Add(-min(drainReserve, time.Until(deadline)/4)))
	defer cancel()
	stopped := server.Stop(calls)
	return errors.Join(stopped, service.Drain(ctx))
}
