// Command demo starts the three services as a user would and plays the story
// that README tells: against real binaries, over real sockets, into a real
// ledger. It exits with 0 only if every row of the ledger, and every entry of
// the core's journal, is as it should be. With --up it keeps the three running
// on their fixed ports instead.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/gwanmun/gwanmun/pkg/cmdline"
	"github.com/gwanmun/gwanmun/pkg/telemetry"
)

type config struct {
	Bin    string `default:"bin" help:"Where the binaries are."`
	Up     bool   `help:"Keep the services running on their fixed ports until Ctrl-C, instead of playing the story."`
	Readme string `help:"Compare what the story prints with its block in this file, but for times and numbers that differ from run to run."`
	Write  bool   `help:"Write the block into the file named by --readme instead of comparing it."`
}

// The children are told to die with the thread that started them, so the main
// goroutine must keep the main thread.
func init() { runtime.LockOSThread() }

func main() { cmdline.Main(run) }

func run(ctx context.Context, args []string) error {
	var cfg config
	err := cmdline.Parse("demo", telemetry.Version(), "Plays the story of README against the real binaries, and checks it.", args, &cfg, nil, os.Stdout)
	if err != nil {
		return err
	}
	if cfg.Up {
		return up(ctx, cfg.Bin, os.Stdout)
	}
	dir, err := os.MkdirTemp("", "gwanmun-demo-")
	if err != nil {
		return fmt.Errorf("make a folder for the databases: %w", err)
	}
	var told strings.Builder
	err = play(ctx, cfg.Bin, dir, io.MultiWriter(os.Stdout, &told))
	if err != nil {
		return fmt.Errorf("%w (the services' logs are in %s)", err, dir)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the databases: %w", err)
	}
	if cfg.Readme == "" {
		return nil
	}
	return readme(cfg.Readme, told.String(), cfg.Write)
}

// play starts the services on free ports and fresh databases, tells the story,
// and stops them, whatever came of it.
func play(ctx context.Context, bin, dir string, out io.Writer) error {
	s, err := start(ctx, bin, dir, freePorts(dir))
	if err == nil {
		err = tell(ctx, s, out)
	}
	return errors.Join(err, s.stop())
}

// up starts the services on their fixed ports, on databases that stay.
func up(ctx context.Context, bin string, out io.Writer) error {
	dir := "var"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make a folder for the databases: %w", err)
	}
	s, err := start(ctx, bin, dir, fixedPorts(dir))
	if err == nil {
		_, err = fmt.Fprintf(out, invitation, filepath.Join(dir, "*.log"))
	}
	if err == nil {
		err = s.wait(ctx)
	}
	return errors.Join(err, s.stop())
}

// invitation is what `make up` prints: lines to try.
const invitation = `gwanmun is up. Ctrl-C stops it; the services log to %s.

  payment     gRPC 127.0.0.1:9090   http://127.0.0.1:8090/readyz
  corebank    gRPC 127.0.0.1:9091   http://127.0.0.1:8091/readyz   telegrams 127.0.0.1:9099
  reconciler  gRPC 127.0.0.1:9092   http://127.0.0.1:8092/readyz

Lines to try (make tools builds bin/grpcurl):

  bin/grpcurl -plaintext 127.0.0.1:9090 list
  bin/grpcurl -plaintext -d '{"idempotency_key":"order-1","account_number":"12345678901234","amount":50000}' 127.0.0.1:9090 gwanmun.payment.v1.PaymentService/CreatePayment
  bin/grpcurl -plaintext -d '{"account_number":"12345678901234"}' 127.0.0.1:9090 gwanmun.payment.v1.AccountService/GetBalance
  bin/grpcurl -plaintext -d '{"idempotency_key":"order-2","account_number":"99999999999999","amount":50000}' 127.0.0.1:9090 gwanmun.payment.v1.PaymentService/CreatePayment
  bin/grpcurl -plaintext -d '{"idempotency_key":"order-2"}' 127.0.0.1:9090 gwanmun.payment.v1.PaymentService/GetPayment
  bin/grpcurl -plaintext -d '{"page_size":5}' 127.0.0.1:9090 gwanmun.ledger.v1.LedgerService/ListTransactions
  bin/grpcurl -plaintext 127.0.0.1:9090 gwanmun.circuit.v1.CircuitService/ListCircuits
  bin/grpcurl -plaintext -d '{"page_size":5}' 127.0.0.1:9091 gwanmun.simulator.v1.SimulatorService/ListJournal
`
