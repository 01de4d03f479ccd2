// Command load compares the product's payment service over gRPC with a naive one
// and with a bare bridge, in paired bursts: all are up at once, on one throwaway
// PostgreSQL with its default durability, before one core that answers at once
// (package instant says why).
//
// The callers use package wire, so that what they cost is little beside what is
// measured; with --stubs they use the generated stubs and grpc-go's client, as
// anyone would. All sides are called alike.
//
// Every reply is checked, and after each comparison every book must have as many
// rows that say SUCCESS as replies said it: a side that is fast because it does
// not do the work fails.
//
// `make bench` runs it; docs/performance.md has results. It exits with 1 if what
// is acceptable at first is missed, if a comparison failed, or if the machine was
// too restless to tell.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gwanmun/gwanmun/bench/instant"
	"github.com/gwanmun/gwanmun/bench/machine"
	"github.com/gwanmun/gwanmun/bench/paired"
	"github.com/gwanmun/gwanmun/pkg/cmdline"
	"github.com/gwanmun/gwanmun/pkg/telemetry"
)

// coreArg makes this program the core.
const coreArg = "core"

// config is every flag of the command.
type config struct {
	Bin         string        `default:"bin" help:"Folder of the product's binaries." name:"bin"`
	Reference   string        `default:"bin/bench" help:"Folder of the reference binaries." name:"reference"`
	Only        []string      `help:"Names of the comparisons to make, or how they begin; all by default." name:"only"`
	Rounds      int           `default:"8" help:"How often the two sides of a comparison take turns, at least 8." name:"rounds"`
	Burst       time.Duration `default:"1s" help:"How long each turn takes." name:"burst" type:"positive"`
	Tries       int           `default:"3" help:"How often a comparison is made at most, until it is sound." name:"tries"`
	Within      time.Duration `default:"10m" help:"The most that all of it may take." name:"within" type:"positive"`
	Connections int           `default:"8" help:"HTTP/2 connections to each service." name:"connections"`
	Stubs       bool          `help:"Make the calls with the generated stubs and grpc-go's client, which cost several times the CPU time." name:"stubs"`
	Dir         string        `help:"Where to make the throwaway folder, on a real disk; the system's folder for such by default." name:"dir"`
	Keep        bool          `help:"Leave the throwaway folder, with the logs." name:"keep"`

	// most is how many callers there are at most; zero for no limit.
	most int
}

// Validate is called when the flags are read.
func (c *config) Validate() error {
	switch {
	case c.Rounds < paired.MinRounds:
		return fmt.Errorf("--rounds must be at least %d", paired.MinRounds)
	case c.Tries < 1:
		return errors.New("--tries must be at least 1")
	case c.Connections < 1 || c.Connections > 256:
		return errors.New("--connections must be 1 to 256")
	case len(c.selected()) == 0:
		return fmt.Errorf("--only: nothing is named like that; there are %s", strings.Join(names(comparisons), ", "))
	}
	return nil
}

// selected are the comparisons to make.
func (c *config) selected() []comparison {
	if len(c.Only) == 0 {
		return comparisons
	}
	var chosen []comparison
	for _, each := range comparisons {
		if slices.ContainsFunc(c.Only, func(name string) bool { return strings.HasPrefix(each.name, name) }) {
			chosen = append(chosen, each)
		}
	}
	return chosen
}

func (c *config) plan(callers int) paired.Plan {
	if c.most > 0 {
		callers = min(callers, c.most)
	}
	return paired.Plan{Callers: callers, Rounds: c.Rounds, Burst: c.Burst, Latencies: true}
}

// client says what the callers call with.
func (c *config) client() string {
	if c.Stubs {
		return "called with the generated stubs and grpc-go's client"
	}
	return "called with the lean client of bench/wire"
}

// errMissed: what was measured is not acceptable, or says nothing.
var errMissed = errors.New("not acceptable, failed or rejected")

func main() {
	if len(os.Args) == 2 && os.Args[1] == coreArg {
		cmdline.Main(func(ctx context.Context, _ []string) error { return serveCore(ctx, os.Stderr) })
	}
	cmdline.RoomForGarbage(os.LookupEnv) // callers should cost little beside what they call
	cmdline.Main(run)
}

// serveCore is the core: it says where it listens, and ends with ctx.
func serveCore(ctx context.Context, log io.Writer) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for frame: %w", err)
	}
	telemetry.NewLogger(log, 0, coreArg).InfoContext(ctx, "listening", "name", "frame", "address", listener.Addr().String())
	return instant.Serve(ctx, listener)
}

func run(ctx context.Context, args []string) error {
	var cfg config
	err := cmdline.Parse("load", telemetry.Version(), "Compares the payment service with a naive one and a bare bridge, in paired bursts.",
		args, &cfg, nil, os.Stdout)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Within)
	defer cancel()
	h, err := raise(ctx, cfg)
	if err != nil {
		return errors.Join(fmt.Errorf("start the services: %w", err), h.end(context.WithoutCancel(ctx)))
	}
	_, _ = fmt.Fprintf(os.Stdout, "%s, load %s; %s\n", machine.Name(), machine.Load(), h.database)
	if !cfg.Stubs {
		// Callers that cost so little need one thread, and then none is woken for
		// each reply to look for work that there is not.
		runtime.GOMAXPROCS(1)
	}
	err = compare(ctx, cfg, h.sides, os.Stdout)
	_, _ = fmt.Fprintf(os.Stdout, "\nload %s at the end\n", machine.Load())
	return errors.Join(err, h.end(context.WithoutCancel(ctx)))
}

// compare makes each comparison and prints what came of it.
func compare(ctx context.Context, cfg config, sides map[string]*side, out io.Writer) error {
	_, _ = fmt.Fprintf(out, "%d rounds of base, subject and base, %v each; one load generator, %d HTTP/2 connections to each service, %s\n\n%s",
		cfg.Rounds, cfg.Burst, cfg.Connections, cfg.client(), heading)
	bad := 0
	var judged strings.Builder
	for _, c := range cfg.selected() {
		r, err := c.try(ctx, cfg, sides)
		_, _ = io.WriteString(out, c.row(r, err))
		verdicts, met := c.judge(r, err)
		judged.WriteString(verdicts)
		if !met {
			bad++
		}
	}
	_, _ = fmt.Fprintf(out, "\n%s%s", goalsHeading, judged.String())
	if bad > 0 {
		return fmt.Errorf("%w: %d of %d comparisons", errMissed, bad, len(cfg.selected()))
	}
	return nil
}

func names(all []comparison) []string {
	var names []string
	for _, c := range all {
		names = append(names, c.name)
	}
	return names
}
