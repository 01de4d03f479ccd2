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
// another process. There are two comparisons, of which the first has a core that
// answers at once: what is then compared is what each side costs the processor. The
// second has one that takes 5 ms to answer, like a host: then it is how well the
// time at the core is used. Each drain stands between two bursts of the base.
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
	Rows       int           `default:"10000" help:"How many payments are UNKNOWN."`
	Rounds     int           `default:"3" help:"How often they drain on each ledger before each core; 8 and more on a machine that is not idle."`
	Burst      time.Duration `default:"1s" help:"How long each burst of the base takes."`
	Only       string        `default:"" help:"postgres or sqlite: the other ledger is left out."`
	Takes      time.Duration `default:"5ms" help:"How long the second core takes to answer; 0 leaves it out."`
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
	case c.Takes < 0 || c.Takes > maxTakes:
		return fmt.Errorf("--takes must be 0 to %v", maxTakes)
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
	for _, takes := range slices.Compact([]time.Duration{0, cfg.Takes}) {
		core, err := startCore(ctx, takes)
		if err != nil {
			return fmt.Errorf("start the core: %w", err)
		}
		n, err := compare(ctx, cfg, core, filepath.Join(dir, takes.String()))
		if err = errors.Join(err, core.stop()); err != nil {
			return err
		}
		missed += n
	}
	if missed > 0 {
		return fmt.Errorf("%w: %d", errMissed, missed)
	}
	return nil
}

// compare measures each ledger and prints what came of it. It returns how many have
// missed the goal.
func compare(ctx context.Context, cfg config, core *core, dir string) (missed int, err error) {
	if err := os.Mkdir(dir, 0o711); err != nil { //nolint:gosec // the server's user must get through it
		return 0, fmt.Errorf("make a folder: %w", err)
	}
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
		line, met := r.line(kind, core.takes)
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
