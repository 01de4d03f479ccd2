// Package cmdline reads what a binary is told: flags, environment and a file,
// and runs its main function under signals. Only the mains use Parse and Main;
// the other packages declare their flags as structs with kong tags and may use
// the types of this package in them.
//
// A value is taken from the flag, else from the environment variable, else from
// the file that --config names, else it is the default. The variable of
// --ledger-dsn is GWANMUN_LEDGER_DSN, and so on for every flag. A variable that
// is set to nothing counts as not set: that is how compose files and unit files
// leave one out.
//
// The file is one JSON object whose keys are flag names without the hyphens in
// front, as in {"ledger-dsn": "sqlite:var/ledger.db", "retries": 2}. A key that
// is no flag, or that occurs twice, is refused.
package cmdline

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"
	"unicode"

	"github.com/alecthomas/kong"
)

// ErrHelp says that the help or the version was asked for and has been printed.
var ErrHelp = errors.New("help was printed")

// UsageError says in one line what is wrong with how the binary was called.
type UsageError struct {
	// Err is the fault.
	Err error
}

// Error is one line.
func (e *UsageError) Error() string { return oneLine(e.Err.Error()) }

// Unwrap is the fault.
func (e *UsageError) Unwrap() error { return e.Err }

// Usagef is a UsageError of a formatted text.
func Usagef(format string, args ...any) *UsageError {
	return &UsageError{Err: fmt.Errorf(format, args...)}
}

// IsUsage marks a UsageError.
func (e *UsageError) IsUsage() {}

// ExitCode is the exit code for the end of a main function: 0 for nil and
// ErrHelp, 2 for a UsageError or another error that marks itself as one by an
// IsUsage method, and 1 for anything else.
func ExitCode(err error) int {
	var usage interface{ IsUsage() }
	switch {
	case err == nil, errors.Is(err, ErrHelp):
		return 0
	case errors.As(err, &usage):
		return 2
	default:
		return 1
	}
}

// standard are the flags that every binary has.
type standard struct {
	Help    helpFlag    `help:"Show this help and exit."  name:"help" short:"h"`
	Version versionFlag `help:"Show the version and exit." name:"version"`
	Config  string      `help:"JSON file with values for flags that are given neither here nor in the environment." name:"config" placeholder:"FILE"`
}

// Parse fills cfg, a pointer to a struct with kong tags, from args (without the
// program's name), environment and file. vars are the ${...} in the tags. Help
// and version go to stdout.
//
// It returns ErrHelp when it printed something for a human, a *UsageError for
// anything that the caller got wrong, and another error only for a cfg that is
// itself wrong.
//
// Besides kong's own, these types of value may stand in a `type` tag: hostport
// (a string, see ParseAddr), and positive (a time.Duration above zero).
func Parse(name, version, description string, args []string, cfg any, vars map[string]string, stdout io.Writer) error {
	var std standard
	parser, err := kong.New(cfg,
		kong.Name(name),
		kong.Description(description),
		kong.Vars(vars),
		kong.Vars{"version": version},
		kong.Writers(stdout, io.Discard),
		kong.NoDefaultHelp(),
		kong.Embed(&std),
		kong.PostBuild(nameValues),
		kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: 100}),
		kong.ValueFormatter(describe),
		kong.NamedMapper("hostport", kong.MapperFunc(decodeHostPort)),
		kong.NamedMapper("positive", kong.MapperFunc(decodePositive)),
		kong.WithBeforeResolve(addSources),
	)
	if err != nil {
		return fmt.Errorf("declare the flags of %s: %w", name, err)
	}
	_, err = parser.Parse(args)
	if err == nil {
		err = checkDSNs(reflect.ValueOf(cfg).Elem(), "")
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrHelp):
		return ErrHelp
	default:
		return &UsageError{Err: err}
	}
}

type helpFlag bool

// IgnoreDefault lets the help be shown where a default would be refused.
func (helpFlag) IgnoreDefault() {}

// BeforeReset prints the help, before anything is read that may be wrong.
func (helpFlag) BeforeReset(ctx *kong.Context) error {
	if err := ctx.PrintUsage(false); err != nil {
		return fmt.Errorf("print help: %w", err)
	}
	return ErrHelp
}

type versionFlag bool

// BeforeReset prints the version.
func (versionFlag) BeforeReset(app *kong.Kong, vars kong.Vars) error {
	if _, err := fmt.Fprintf(app.Stdout, "%s %s\n", app.Model.Name, vars["version"]); err != nil {
		return fmt.Errorf("print version: %w", err)
	}
	return ErrHelp
}

// describe is a flag's text in the help, with its variable and its default.
func describe(v *kong.Value) string {
	text := strings.TrimSuffix(v.Help, ".")
	notes := []string{"$" + variable(v.Name)}
	if v.HasDefault && v.Default != "" && !isSecret(v) {
		notes = append(notes, "default "+v.Default)
	}
	switch {
	case v.Name == "help" || v.Name == "version":
		return v.Help
	case v.Enum != "":
		notes = append(notes, "one of "+strings.ReplaceAll(v.Enum, ",", ", "))
	}
	return text + " (" + strings.Join(notes, "; ") + ")."
}

// nameValues gives each flag a word for its value in the help, where kong would
// put the default, which has its place behind.
func nameValues(k *kong.Kong) error {
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok && flag.PlaceHolder == "" {
			flag.PlaceHolder = valueName(flag.Value)
		}
		return next(nil)
	})
}

func valueName(v *kong.Value) string {
	switch {
	case isSecret(v):
		return "SECRET"
	case v.Tag.Type == "hostport":
		return "HOST:PORT"
	case v.Target.Type() == reflect.TypeFor[time.Duration]():
		return "DURATION"
	case v.Enum != "":
		return "NAME"
	case v.Target.CanInt() || v.Target.CanUint() || v.Target.CanFloat():
		return "N"
	default:
		return "TEXT"
	}
}

// oneLine is the text without anything that could break a line or a terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
