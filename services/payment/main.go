// Command payment takes payments and inquiries over gRPC, sends them to the
// core, and keeps the ledger.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"

	"github.com/gwanmun/gwanmun/pkg/cmdline"
	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger/gormstore"
	"github.com/gwanmun/gwanmun/pkg/opsapi"
	"github.com/gwanmun/gwanmun/pkg/rpcserver"
	"github.com/gwanmun/gwanmun/pkg/telemetry"
	"github.com/gwanmun/gwanmun/services/payment/grpcapi"
	"github.com/gwanmun/gwanmun/services/payment/payment"
)

// config is every flag of the command.
type config struct {
	Server  rpcserver.Flags `embed:""`
	Ledger  gormstore.Flags `embed:""`
	Core    corelink.Flags  `embed:""`
	Payment payment.Flags   `embed:""`
}

// Validate is called when the flags are read.
func (c *config) Validate() error {
	return errors.Join(c.Core.Validate(), c.Payment.Validate())
}

func main() { cmdline.Main(run) }

func run(ctx context.Context, args []string) error {
	var cfg config
	err := cmdline.Parse("payment", telemetry.Version(), "Takes payments and inquiries over gRPC and sends them to the core.",
		args, &cfg, map[string]string{"grpc_addr": "127.0.0.1:9090", "admin_addr": "127.0.0.1:8090"}, os.Stdout)
	if err != nil {
		return err
	}
	logger := telemetry.NewLogger(os.Stderr, cfg.Server.Level(), "payment")
	slog.SetDefault(logger)
	registry := telemetry.NewRegistry()
	store, hashKey, err := gormstore.Open(ctx, gormstore.Options{Flags: cfg.Ledger, Logger: logger})
	if err != nil {
		return fmt.Errorf("open ledger: %w", err)
	}
	link := corelink.New(corelink.Options{
		Flags: cfg.Core, Name: "core", Dial: (&net.Dialer{}).DialContext, Now: time.Now, Metrics: corelink.NewMetrics(registry),
	})
	service := payment.New(payment.Options{
		Flags: cfg.Payment, Store: store, HashKey: hashKey, Core: link,
		Now:  time.Now, Logger: logger, Registry: registry, Instance: telemetry.NewInstance("payment"),
	})
	server, err := rpcserver.New(rpcserver.Options{
		Flags: cfg.Server, Logger: logger, Registry: registry, Ready: store.Ping,
		Services: []string{
			paymentv1.PaymentService_ServiceDesc.ServiceName,
			paymentv1.AccountService_ServiceDesc.ServiceName,
			ledgerv1.LedgerService_ServiceDesc.ServiceName,
		},
		Register: func(r grpc.ServiceRegistrar) {
			grpcapi.Register(r, service)
			ledgerv1.RegisterLedgerServiceServer(r, opsapi.NewLedgerServer(store, hashKey, time.Now))
		},
	})
	if err != nil {
		return errors.Join(fmt.Errorf("build server: %w", err), store.Close())
	}
	if err := server.Listen(ctx); err != nil {
		return errors.Join(err, store.Close())
	}
	served := server.Serve(ctx)
	return errors.Join(served, shutdown(cfg.Server.ShutdownTimeout, logger, server, service, store))
}

// shutdown stops taking calls, lets what was sent be answered and recorded, and
// closes the ledger last, all in one budget.
func shutdown(budget time.Duration, logger *slog.Logger, server *rpcserver.Server, service *payment.Service, store *gormstore.Store) error {
	ctx, cancel := context.WithTimeout(context.Background(), budget)
	defer cancel()
	stopped := server.Stop(ctx)
	drained := service.Drain(ctx)
	closed := store.Close()
	err := errors.Join(stopped, drained, closed)
	logger.Info("stopped", "clean", err == nil)
	return err
}
