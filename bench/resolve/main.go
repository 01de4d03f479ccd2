// Command resolve measures how fast a backlog of UNKNOWN payments drains after an
// outage: exchanges a second that the reconciler makes while it drains, against
// the exchanges a second of nothing but sockets.
//
// What drains are --rows payments, UNKNOWN and due, with the policy NET_CANCEL. A
// row costs a status inquiry and a net cancel (two exchanges), and a claim, a
// durable decision between them and a durable outcome after them. The reconciler
// is the real binary with its default settings, started anew for each round on
// the real ledger: PostgreSQL with its default durability, or SQLite. Its time
// begins with the first request at the core and ends with the last one's.
//
// The base is as many connections as the reconciler may have to the core for
// inquiries (16), each in the hands of one caller that writes a request and reads
// the answer, over and over. Both sides have the same core: this program in
// another process, which answers at once. Each drain stands between two bursts of
// the base.
//
// `make bench-resolve` runs it; docs/performance.md has results. It exits with 1
// if the goal is missed or the machine was too restless to tell.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gwanmun/gwanmun/bench/machine"
	"github.com/gwanmun/gwanmun/pkg/cmdline"
	"github.com/gwanmun/gwanmun/pkg/telemetry"
)

// config is every flag of the command.
type config struct {
	Reconciler string        `default:"bin/reconciler" help:"The reconciler's binary."`
	Rows       int           `default:"10000" help:"How many payments are UNKNOWN."`
	Rounds     int           `default:"8" help:"How often they drain, at least 8 for a result that says something."`
	Burst      time.Duration `default:"1s" help:"How long each burst of the base takes."`
	Only       string        `default:"" help:"postgres or sqlite: the other ledger is left out."`
	Dir        string        `default:"" help:"Where the ledgers are made; a temporary folder if unset."`
}

// Validate is called when the flags are read.
func (c *config) Validate() error {
	switch {
	case c.Rows < 1 || c.Rows > maxRows:
		return fmt.Errorf("--rows must be 1 to %d", maxRows)
	case c.Rounds < 1:
		return errors.New("--rounds must be at least 1")
	case c.Burst <= 0:
		return errors.New("--burst must be positive")
	case c.Only != "" && c.Only != onPostgres && c.Only != onSQLite:
		return errors.New("--only must be postgres or sqlite")
	default:
		return nil
	}
}

// The ledgers.
const (
	onPostgres = "postgres"
	onSQLite   = "sqlite"
)

// errMissed: what was measured is not what is wanted, or says nothing.
var errMissed = errors.New("goals missed, or comparisons rejected")

func main() {
	if len(os.Args) == 2 && os.Args[1] == coreArg {
		cmdline.Main(func(ctx context.Context, _ []string) error { return serveCore(ctx, os.Stdin, os.Stdout) })
	}
	cmdline.Main(run)
}

func run(ctx context.Context, args []string) (err error) {
	var cfg config
	err = cmdline.Parse("resolve", telemetry.Version(), "Measures how fast a backlog of UNKNOWN payments drains.",
		args, &cfg, nil, os.Stdout)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(cfg.Dir, "gwanmun-bench-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o711); err != nil { // the server's user must get through it
		return fmt.Errorf("open the folder: %w", err)
	}
	core, err := startCore(ctx)
	if err != nil {
		return fmt.Errorf("start the core: %w", err)
	}
	defer func() { err = errors.Join(err, core.stop()) }()
	_, _ = fmt.Fprintf(os.Stdout, "%s; %d rounds of base, %d rows and base; base %v each\n\n%s",
		machine.Name(), cfg.Rounds, cfg.Rows, cfg.Burst, heading)
	return compare(ctx, cfg, core, dir)
}

// compare measures each ledger and prints what came of it.
func compare(ctx context.Context, cfg config, core *core, dir string) error {
	missed := 0
	for _, kind := range []string{onPostgres, onSQLite} {
		if cfg.Only != "" && cfg.Only != kind {
			continue
		}
		dsn, stop, err := open(ctx, kind, filepath.Join(dir, kind))
		if err != nil {
			return fmt.Errorf("make the ledger on %s: %w", kind, err)
		}
		d := drain{cfg: cfg, core: core, dsn: dsn, log: filepath.Join(dir, kind+".log")}
		r, err := d.rounds(ctx)
		if err = errors.Join(err, stop()); err != nil {
			return fmt.Errorf("drain the ledger on %s: %w", kind, err)
		}
		line, met := r.line(kind)
		if !met {
			missed++
		}
		_, _ = io.WriteString(os.Stdout, line)
	}
	if missed > 0 {
		return fmt.Errorf("%w: %d", errMissed, missed)
	}
	return nil
}

// open makes a ledger in dir and returns what ends it.
func open(ctx context.Context, kind, dir string) (dsn string, stop func() error, err error) {
	if kind == onPostgres {
		return startPostgres(ctx, dir)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", nil, err
	}
	return "sqlite:" + filepath.Join(dir, "ledger.db"), func() error { return nil }, nil
}
