// Command resolve measures how fast a backlog of UNKNOWN payments drains after an
// outage: exchanges a second that the reconciler makes while it drains, against
// the exchanges a second of nothing but sockets.
//
// What drains are --rows payments, UNKNOWN and due, with the policy NET_CANCEL. A
// row costs a status inquiry and a net cancel (two exchanges), and a claim, a
// durable decision between them and a durable outcome after them. The reconciler
// is the real binary with its default settings, started anew for each round on
// the real ledger: PostgreSQL with its default durability, or SQLite. After each
// drain every row of it must be final, as what this core's answers make of it;
// otherwise the run fails.
//
// The base is as many connections as the reconciler may have to the core for
// inquiries (16), each in the hands of one caller that does what a row needs, over
// and over: a status inquiry, and then a net cancel of the same payment. Each
// payment of the base is one that the core has never seen, like each row. Each
// drain stands between two bursts of the base.
//
// Both sides have the same core, in another process. There are three comparisons,
// of which --cores selects:
//
//   - instant answers at once: what is compared is what each side costs the
//     processor.
//   - slow takes 5 ms to answer, like a host: then it is how well the time at the
//     core is used.
//   - corebank is the product's own core simulator, the real binary with its book
//     on disk: it makes each answer durable before it gives it, and fences each
//     payment. What is compared is the throughput of the two together.
//
// The first two are this program. They say of a payment that it stands, and then
// that it is canceled: a row becomes CANCELED. corebank says that it never saw it,
// and then that there is nothing to cancel: a row becomes FAILED, fenced.
//
// A drain's time begins with the first request at the core and ends with the last
// one's. The first two cores note when requests come. For corebank its journal
// tells, which has the time of each decision, to the nanosecond; what waits for
// the end of the drain reads two of its rows by their keys, fifty times a second.
// The ledger is read when all requests have come, and not before.
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
	"slices"
	"time"

	"github.com/gwanmun/gwanmun/bench/cluster"
	"github.com/gwanmun/gwanmun/bench/machine"
	"github.com/gwanmun/gwanmun/pkg/cmdline"
	"github.com/gwanmun/gwanmun/pkg/telemetry"
)

// config is every flag of the command.
type config struct {
	Reconciler string        `default:"bin/reconciler" help:"The reconciler's binary."`
	Corebank   string        `default:"bin/corebank" help:"The core simulator's binary."`
	Rows       int           `default:"10000" help:"How many payments are UNKNOWN."`
	Rounds     int           `default:"3" help:"How often they drain on each ledger before each core; 8 and more on a machine that is not idle."`
	Burst      time.Duration `default:"1s" help:"How long each burst of the base takes."`
	Only       string        `default:"" help:"postgres or sqlite: the other ledger is left out."`
	Cores      []string      `default:"instant,slow,corebank" help:"The cores: instant, slow and corebank, or some of them."`
	Takes      time.Duration `default:"5ms" help:"How long the slow core takes to answer."`
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
	case c.Takes <= 0 || c.Takes > maxTakes:
		return fmt.Errorf("--takes must be positive, and %v at most", maxTakes)
	case c.Only != "" && c.Only != onPostgres && c.Only != onSQLite:
		return errors.New("--only must be postgres or sqlite")
	default:
		return c.validateCores()
	}
}

func (c *config) validateCores() error {
	for i, name := range c.Cores {
		if !slices.Contains([]string{instantCore, slowCore, bankCore}, name) || slices.Contains(c.Cores[:i], name) {
			return fmt.Errorf("--cores must be of %s, %s and %s, each once", instantCore, slowCore, bankCore)
		}
	}
	return nil
}

// The ledgers.
const (
	onPostgres = "postgres"
	onSQLite   = "sqlite"
)

// maxTakes bounds --takes: the reconciler gives a row that long at first.
const maxTakes = 200 * time.Millisecond

// errMissed: what was measured is not what is wanted, or says nothing.
var errMissed = errors.New("goals missed, or comparisons rejected")

func main() {
	if len(os.Args) == 3 && os.Args[1] == coreArg {
		cmdline.Main(func(ctx context.Context, args []string) error {
			takes, err := time.ParseDuration(args[1])
			if err != nil {
				return fmt.Errorf("read how long the core takes: %w", err)
			}
			return serveCore(ctx, takes, os.Stdin, os.Stdout)
		})
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
	_, _ = fmt.Fprintf(os.Stdout, "%s, load average %s; %d rounds of base, %d rows and base; base %v each\n\n%s",
		machine.Name(), machine.Load(), cfg.Rounds, cfg.Rows, cfg.Burst, heading)
	return compareAll(ctx, cfg, dir)
}

// compareAll measures before each core.
func compareAll(ctx context.Context, cfg config, dir string) error {
	missed := 0
	for _, name := range cfg.Cores {
		n, err := compare(ctx, cfg, name, filepath.Join(dir, name))
		if err != nil {
			return err
		}
		missed += n
	}
	if missed > 0 {
		return fmt.Errorf("%w: %d", errMissed, missed)
	}
	return nil
}

// compare measures before one core. It returns how many ledgers have missed the goal.
func compare(ctx context.Context, cfg config, name, dir string) (missed int, err error) {
	if err := os.Mkdir(dir, 0o711); err != nil { //nolint:gosec // the server's user must get through it
		return 0, fmt.Errorf("make a folder: %w", err)
	}
	core, err := startCore(ctx, &cfg, name, dir)
	if err != nil {
		return 0, fmt.Errorf("start the core: %w", err)
	}
	missed, err = compareOn(ctx, cfg, core, dir)
	return missed, errors.Join(err, core.stop())
}

// compareOn measures each ledger and prints what came of it.
func compareOn(ctx context.Context, cfg config, core *core, dir string) (missed int, err error) {
	for _, kind := range []string{onPostgres, onSQLite} {
		if cfg.Only != "" && cfg.Only != kind {
			continue
		}
		book, err := open(ctx, kind, filepath.Join(dir, kind))
		if err != nil {
			return 0, fmt.Errorf("make the ledger on %s: %w", kind, err)
		}
		d := drain{cfg: cfg, core: core, book: book, log: filepath.Join(dir, kind+".log")}
		r, err := d.rounds(ctx)
		if err = errors.Join(err, book.stop()); err != nil {
			return 0, fmt.Errorf("drain the ledger on %s: %w", kind, err)
		}
		line, met := r.line(kind, core.answers)
		if !met {
			missed++
		}
		_, _ = io.WriteString(os.Stdout, line)
	}
	return missed, nil
}

// book is where a ledger is.
type book struct {
	dsn string
	// cpu is what its server has used; a ledger without one uses the reconciler's.
	cpu  func() (time.Duration, error)
	stop func() error
}

// open makes a ledger in dir.
func open(ctx context.Context, kind, dir string) (book, error) {
	if kind == onPostgres {
		server, err := cluster.Start(ctx, dir)
		if err != nil {
			return book{}, err
		}
		stop := func() error { return server.Stop(context.WithoutCancel(ctx)) }
		return book{dsn: server.DSN("postgres"), cpu: server.CPU, stop: stop}, nil
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return book{}, err
	}
	return book{
		dsn: "sqlite:" + filepath.Join(dir, "ledger.db"),
		cpu: func() (time.Duration, error) { return 0, nil }, stop: func() error { return nil },
	}, nil
}
