// Command mutants checks the checks: it takes the guards of the product away,
// one at a time, and finds out whether a test notices (DESIGN P10).
//
// It works on a copy of the work tree. Each mutation in the table names the
// guard that it removes, the text that it replaces, and the tests that must
// fail. One that survives, that does not compile or whose text is not there is
// an error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	root    string
	only    *regexp.Regexp
	list    bool
	timeout time.Duration
}

func parse(args []string) (options, error) {
	var (
		o    options
		only string
	)
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", "../..", "the work tree")
	flags.StringVar(&only, "only", "", "a regular expression: try only mutations with such a name")
	flags.BoolVar(&o.list, "list", false, "say what there is, and try nothing")
	flags.DurationVar(&o.timeout, "timeout", 2*time.Minute, "how long the tests of one mutation may run")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	var err error
	if o.only, err = regexp.Compile(only); err != nil {
		return options{}, fmt.Errorf("-only: %w", err)
	}
	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	chosen := choose(table, o.only)
	if o.list {
		for _, m := range chosen {
			say(out, "%-58s %s\n", m.name, m.guard)
		}
		return nil
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	tree := tree{dir: dir, timeout: o.timeout, postgres: hasPostgres()}
	if err := tree.copy(ctx, o.root); err != nil {
		return fmt.Errorf("copy the work tree: %w", err)
	}
	return tree.tryAll(ctx, chosen, out)
}

// say writes a line for whoever looks on; should that fail, the exit code tells.
func say(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }

func choose(all []mutation, only *regexp.Regexp) []mutation {
	var chosen []mutation
	for _, m := range all {
		if only.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	return chosen
}

// errNotCaught says that the tests are not what they should be.
var errNotCaught = errors.New("not every mutation was caught")

// tryAll finds out first whether the tests pass as they are: one that fails
// anyway catches nothing.
func (t *tree) tryAll(ctx context.Context, chosen []mutation, out io.Writer) error {
	start := time.Now()
	for _, target := range targets(chosen) {
		res := t.test(ctx, target)
		if res.verdict != survived {
			return fmt.Errorf("without any mutation, the tests of %s %s:\n%s", target.pkg, res.verdict, res.detail)
		}
	}
	say(out, "the tests pass without mutations (%s)\n", time.Since(start).Round(time.Second))
	counts := map[verdict]int{}
	for _, m := range chosen {
		begun := time.Now()
		res := t.try(ctx, &m)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		counts[res.verdict]++
		say(out, "%-16s %-58s %3.0fs  %s\n", res.verdict, m.name, time.Since(begun).Seconds(), res.detail)
	}
	say(out, "%d mutations: %d caught, %d survived, %d broken, %d not tried (%s)\n", len(chosen),
		counts[caught], counts[survived], counts[broken], counts[untried], time.Since(start).Round(time.Second))
	if counts[caught]+counts[untried] != len(chosen) || counts[untried] > 0 && os.Getenv("CI") != "" {
		return errNotCaught
	}
	return nil
}
