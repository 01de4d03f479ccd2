// Command corebank is the simulated core: a bank that speaks the telegrams of
// the link port, keeps a journal of all it does, and fails in the ways that real
// ones do.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"google.golang.org/grpc"

	simulatorv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/simulator/v1"

	"github.com/gwanmun/gwanmun/pkg/access"
	"github.com/gwanmun/gwanmun/pkg/cmdline"
	"github.com/gwanmun/gwanmun/pkg/rpcserver"
	"github.com/gwanmun/gwanmun/pkg/telemetry"
	"github.com/gwanmun/gwanmun/pkg/telemetry/tracing"
	"github.com/gwanmun/gwanmun/services/corebank/grpcapi"
	"github.com/gwanmun/gwanmun/services/corebank/simulator"
)

// config is every flag of the command.
type config struct {
	Server  rpcserver.Flags `embed:""`
	Tracing tracing.Flags   `embed:""`

	FrameAddr   string                `default:"127.0.0.1:9099" help:"Where to speak telegrams; port 0 takes a free one." name:"frame-addr" type:"hostport"`
	ListingAddr string                `default:"127.0.0.1:9097" help:"Where to answer listings; port 0 takes a free one." name:"listing-addr" type:"hostport"`
	BookDSN     string                `default:"sqlite:var/book.db" help:"The bank's own book, sqlite:PATH; made if there is none." name:"book-dsn" shown:"dsn"`
	CoreFences  bool                  `default:"true" help:"Refuse for ever a payment that was net-canceled before it came." name:"core-fences" negatable:""`
	Dedupe      bool                  `default:"true" help:"Refuse a payment under an ID that was used; off, it debits again." name:"dedupe" negatable:""`
	CoreTLS     bool                  `help:"Speak TLS on the ports of telegrams and listings too, with --tls-cert and --tls-key." name:"core-tls"`
	Callback    grpcapi.CallbackFlags `embed:"" prefix:"callback-"`

	LateAnswer time.Duration `default:"5s" help:"How late the accounts 99999999999999 and 55555555555555 are." name:"late-answer" type:"positive"`
}

// Validate is called when the flags are read.
func (c *config) Validate() error {
	if _, err := simulator.ParseDSN(c.BookDSN); err != nil {
		return fmt.Errorf("--book-dsn: %w", err)
	}
	if c.CoreTLS && c.Server.TLSCert == "" {
		return errors.New("--core-tls needs --tls-cert and --tls-key")
	}
	return errors.Join(c.Server.Validate(), c.Tracing.Validate(), c.Callback.Validate())
}

func main() { cmdline.Main(run) }

func run(ctx context.Context, args []string) error {
	var cfg config
	err := cmdline.Parse("corebank", telemetry.Version(), "Simulates a bank's core that speaks telegrams.",
		args, &cfg, map[string]string{"grpc_addr": "127.0.0.1:9091", "admin_addr": "127.0.0.1:8091", "trace_ratio": "1"}, os.Stdout)
	if err != nil {
		return err
	}
	logger := telemetry.NewLogger(os.Stderr, cfg.Server.Level(), "corebank")
	slog.SetDefault(logger)
	path, err := simulator.ParseDSN(cfg.BookDSN)
	if err != nil {
		return err
	}
	book, err := simulator.OpenSQLite(ctx, path)
	if err != nil {
		return err
	}
	return errors.Join(serve(ctx, cfg, logger, book), book.Close())
}

// serve opens the bank and serves it until ctx is done or something fails.
func serve(ctx context.Context, cfg config, logger *slog.Logger, book simulator.Book) error {
	bank, err := openBank(ctx, cfg, logger, book)
	if err != nil {
		return err
	}
	registry := telemetry.NewRegistry()
	traces, err := tracing.New(ctx, tracing.Options{
		Flags: cfg.Tracing, Service: "corebank", Instance: telemetry.NewInstance("corebank"), Logger: logger, Registry: registry, Now: time.Now,
	})
	if err != nil {
		return err
	}
	callback, err := grpcapi.NewCallback(cfg.Callback, logger)
	if err != nil {
		return err
	}
	faults := simulator.NewFaults()
	server, err := rpcserver.New(rpcserver.Options{
		Flags: cfg.Server, Logger: logger, Registry: registry, Tracer: traces.Provider(),
		Ready:    func(context.Context) error { return bank.Err() },
		Services: map[string]access.Roles{simulatorv1.SimulatorService_ServiceDesc.ServiceName: access.Of(access.RoleOps)},
		Register: func(r grpc.ServiceRegistrar) { grpcapi.Register(r, bank, faults) },
	})
	if err != nil {
		return fmt.Errorf("build server: %w", err)
	}
	ports, err := listen(ctx, cfg, logger)
	if err != nil {
		return err
	}
	if err := server.Listen(ctx); err != nil {
		return errors.Join(err, ports.Close())
	}
	cmdline.Starting(ctx, logger, telemetry.Version(), &cfg)
	logger.InfoContext(ctx, "listening", "name", "frame", "address", ports.frames.Addr().String())
	logger.InfoContext(ctx, "listening", "name", "listing", "address", ports.listings.Addr().String())

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	link := simulator.NewServer(bank, simulator.Options{
		LateAnswer: cfg.LateAnswer, Faults: faults, Logger: logger, Tracer: traces.Tracer(), Late: callback,
	})
	calling := make(chan struct{})
	go func() { defer close(calling); callback.Run(ctx) }()
	linkEnded := make(chan error, 1)
	go func() {
		defer cancel()
		linkEnded <- ports.serve(ctx, link)
	}()
	served := server.Serve(ctx)
	cancel()
	// ctx is done; what is left has a budget of its own.
	stopping, done := context.WithTimeout(context.WithoutCancel(ctx), cfg.Server.ShutdownTimeout)
	defer done()
	err = errors.Join(served, shutdown(stopping, server, linkEnded))
	<-calling // a call is given up when ctx is done
	traces.Shutdown(stopping)
	return cmdline.Stopped(ctx, logger, err)
}

// openBank makes the bank of what its book holds, and says how much that is.
func openBank(ctx context.Context, cfg config, logger *slog.Logger, book simulator.Book) (*simulator.Bank, error) {
	rules := simulator.Rules{NoFences: !cfg.CoreFences, NoDedupe: !cfg.Dedupe}
	start := time.Now()
	bank, err := simulator.Open(ctx, book, rules, time.Now)
	if err != nil {
		return nil, err
	}
	logger.InfoContext(ctx, "book opened", "entries", bank.Sequence(), "took", time.Since(start).String(),
		"core_fences", cfg.CoreFences, "dedupe", cfg.Dedupe)
	return bank, nil
}

// shutdown lets running rpcs and the frames that are being answered come to an
// end, until ctx is done. Both ports of telegrams have been told to stop already.
func shutdown(ctx context.Context, server *rpcserver.Server, linkEnded <-chan error) error {
	err := server.Stop(ctx)
	select {
	case linkErr := <-linkEnded:
		err = errors.Join(err, linkErr)
	case <-ctx.Done():
		err = errors.Join(err, errors.New("connections of the link port or the listing port did not end in time"))
	}
	return err
}
