// Command link measures what the way to the core costs: an exchange over the
// pool against one on a bare socket, a call through the circuits against none,
// and a refusal by an open circuit against a healthy call. The core is another
// process of this program, the same for both sides, which answers at once.
//
// `make bench-link` runs it; docs/performance.md has results. It exits with 1 if
// a goal is missed or the machine was too restless to tell.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gwanmun/gwanmun/bench/machine"
	"github.com/gwanmun/gwanmun/bench/paired"
	"github.com/gwanmun/gwanmun/pkg/cmdline"
	"github.com/gwanmun/gwanmun/pkg/telemetry"
)

// config is every flag of the command.
type config struct {
	Rounds int           `default:"12" help:"How often the two sides of a comparison take turns, at least 8."`
	Burst  time.Duration `default:"500ms" help:"How long each turn takes."`
	Tries  int           `default:"3" help:"How often a comparison is made at most, until it is sound."`
}

// errMissed: what was measured is not what is wanted, or says nothing.
var errMissed = errors.New("goals missed, or comparisons rejected")

func main() {
	if len(os.Args) == 2 && os.Args[1] == peerArg {
		cmdline.Main(func(ctx context.Context, _ []string) error { return servePeer(ctx, os.Stdin, os.Stdout) })
	}
	cmdline.Main(run)
}

func run(ctx context.Context, args []string) error {
	var cfg config
	err := cmdline.Parse("link", telemetry.Version(), "Measures what the way to the core costs, in paired bursts.",
		args, &cfg, nil, os.Stdout)
	if err != nil {
		return err
	}
	addr, stop, err := startPeer(ctx)
	if err != nil {
		return fmt.Errorf("start the core: %w", err)
	}
	return errors.Join(compare(ctx, cfg, comparisons(addr), os.Stdout), stop())
}

// compare makes each comparison and prints what came of it.
func compare(ctx context.Context, cfg config, comparisons []comparison, out io.Writer) error {
	_, _ = fmt.Fprintf(out, "%s; %d rounds of base, subject and base, %v each\n\n%s", machine.Name(), cfg.Rounds, cfg.Burst, heading)
	bad := 0
	for _, c := range comparisons {
		plan := paired.Plan{Callers: c.callers, Rounds: cfg.Rounds, Burst: cfg.Burst}
		r, err := c.run(ctx, plan)
		for n := 1; n < cfg.Tries && err == nil && !r.Sound(); n++ {
			r, err = c.run(ctx, plan)
		}
		if err != nil {
			return fmt.Errorf("%s, %d callers: %w", c.what, c.callers, err)
		}
		line, met := c.line(r)
		if !met {
			bad++
		}
		_, _ = io.WriteString(out, line)
	}
	if bad > 0 {
		return fmt.Errorf("%w: %d", errMissed, bad)
	}
	return nil
}
