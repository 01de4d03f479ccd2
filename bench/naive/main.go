// Command naive is a payment service as anyone would write it first, and write
// well: one row is created before a payment is made and updated with what became
// of it, by GORM, in a statement and a commit each. The benches compare the
// product with it.
//
// It is no straw man: it has the product's limits on connections, its codec and
// its pooled connections to the core, a pool of database connections as large as
// the product's, and fewer indexes. GORM is as it comes, with a transaction around
// each statement; with --tuned it has none.
//
// What it leaves out, and thereby saves: the history of a payment (events),
// constraints, whatever else a caller may ask (lists, watching, replays: a key
// that was used is refused), the send window, circuits, adopting what a crash
// left and finding out what is UNKNOWN, validation by rules, correlation IDs,
// metrics, and a log line for each call. And it does not batch.
package main

import (
	"context"
	"errors"
	"os"

	"google.golang.org/grpc" //nolint:depguard // this service is one layer

	"github.com/gwanmun/gwanmun/bench/edge"
	"github.com/gwanmun/gwanmun/pkg/cmdline"
	"github.com/gwanmun/gwanmun/pkg/telemetry"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

// config is every flag of the command.
type config struct {
	GRPCAddr string `default:"127.0.0.1:0" help:"Where to serve gRPC; port 0 takes a free one." name:"grpc-addr" type:"hostport"`
	CoreAddr string `required:"" help:"Where the core listens for telegrams." name:"core-addr" type:"hostport"`
	DSN      string `required:"" help:"The database: sqlite:PATH or postgres://..." name:"dsn"`
	Tuned    bool   `help:"No transaction around a single statement." name:"tuned"`
	MaxConns int    `default:"16" help:"Connections to the database at most." name:"max-conns"`
}

func main() { cmdline.Main(run) }

func run(ctx context.Context, args []string) error {
	var cfg config
	err := cmdline.Parse("naive", telemetry.Version(), "A payment service as anyone would write it first, to compare with.",
		args, &cfg, nil, os.Stdout)
	if err != nil {
		return err
	}
	logger := telemetry.NewLogger(os.Stderr, 0, "naive")
	b, err := openBook(ctx, cfg.DSN, cfg.MaxConns, cfg.Tuned)
	if err != nil {
		return err
	}
	core := edge.Dial(cfg.CoreAddr)
	err = edge.Serve(ctx, cfg.GRPCAddr, logger, func(r grpc.ServiceRegistrar) {
		paymentv1.RegisterPaymentServiceServer(r, &service{book: b, core: core, logger: logger})
	})
	return errors.Join(err, core.Close(), b.Close())
}
