package cmdline_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/gwanmun/gwanmun/pkg/cmdline"
)

// linkFlags stand for the flags that a package brings along.
type linkFlags struct {
	CoreAddr    string        `default:"${core_addr}" help:"Where the core is." name:"core-addr" type:"hostport"`
	ReadTimeout time.Duration `default:"3s" help:"How long to wait for an answer." name:"read-timeout" type:"positive"`
}

type flags struct {
	Link    linkFlags      `embed:""`
	Retries int            `default:"2" help:"How often to ask again." name:"retries"`
	Mode    string         `default:"rate" enum:"rate,consecutive" help:"How circuits count." name:"circuit-mode"`
	Migrate bool           `default:"true" help:"Bring the ledger up to date." name:"migrate" negatable:""`
	Key     cmdline.Secret `help:"The hash key." name:"hash-key"`
	Pin     cmdline.Secret `default:"4711" help:"A secret with a default." name:"pin"`
}

func parse(t *testing.T, args ...string) (flags, string, error) {
	t.Helper()
	var got flags
	var out bytes.Buffer
	err := cmdline.Parse("payment", "v1.2.3", "Takes payments.", args, &got,
		map[string]string{"core_addr": "127.0.0.1:9099"}, &out)
	return got, out.String(), err
}

// file writes a settings file and returns its path.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestParse_DefaultsComeFromTagsAndVariables(t *testing.T) {
	got, _, err := parse(t)
	if err != nil {
		t.Fatal(err)
	}
	want := linkFlags{CoreAddr: "127.0.0.1:9099", ReadTimeout: 3 * time.Second}
	if got.Link != want || got.Retries != 2 || got.Mode != "rate" || !got.Migrate || got.Key.Reveal() != "" {
		t.Errorf("got %+v", got)
	}
}

// Each step adds a source that must win over those before it.
func TestParse_FlagBeatsEnvironmentBeatsFileBeatsDefault(t *testing.T) {
	path := file(t, `{"retries": 3, "read-timeout": "4s", "circuit-mode": "consecutive", "migrate": false,
		"core-addr": "file:1", "hash-key": "from the file"}`)
	fromFile, _, err := parse(t, "--config", path)
	if err != nil {
		t.Fatal(err)
	}
	if fromFile.Retries != 3 || fromFile.Link.ReadTimeout != 4*time.Second || fromFile.Mode != "consecutive" ||
		fromFile.Migrate || fromFile.Link.CoreAddr != "file:1" || fromFile.Key.Reveal() != "from the file" {
		t.Errorf("from the file: %+v", fromFile)
	}

	for name, value := range map[string]string{
		"RETRIES": "4", "READ_TIMEOUT": "5s", "CIRCUIT_MODE": "rate", "MIGRATE": "true",
		"CORE_ADDR": "environment:2", "HASH_KEY": "from the environment", "CONFIG": path,
	} {
		t.Setenv("GWANMUN_"+name, value)
	}
	fromEnvironment, _, err := parse(t)
	if err != nil {
		t.Fatal(err)
	}
	if fromEnvironment.Retries != 4 || fromEnvironment.Link.ReadTimeout != 5*time.Second || fromEnvironment.Mode != "rate" ||
		!fromEnvironment.Migrate || fromEnvironment.Link.CoreAddr != "environment:2" ||
		fromEnvironment.Key.Reveal() != "from the environment" {
		t.Errorf("from the environment: %+v", fromEnvironment)
	}

	fromFlags, _, err := parse(t, "--retries=5", "--read-timeout=6s", "--circuit-mode=consecutive", "--no-migrate",
		"--core-addr=flag:3", "--hash-key=from the flag")
	if err != nil {
		t.Fatal(err)
	}
	if fromFlags.Retries != 5 || fromFlags.Link.ReadTimeout != 6*time.Second || fromFlags.Mode != "consecutive" ||
		fromFlags.Migrate || fromFlags.Link.CoreAddr != "flag:3" || fromFlags.Key.Reveal() != "from the flag" {
		t.Errorf("from the flags: %+v", fromFlags)
	}
}

func TestParse_AVariableSetToNothingIsNotSet(t *testing.T) {
	t.Setenv("GWANMUN_RETRIES", "")
	t.Setenv("GWANMUN_CORE_ADDR", "")
	t.Setenv("GWANMUN_CONFIG", "")
	got, _, err := parse(t)
	if err != nil || got.Retries != 2 || got.Link.CoreAddr != "127.0.0.1:9099" {
		t.Errorf("got %+v, %v", got, err)
	}
	got, _, err = parse(t, "--config", file(t, `{"retries": 9}`))
	if err != nil || got.Retries != 9 {
		t.Errorf("an empty variable hides the file: %+v, %v", got, err)
	}
}

func TestParse_FaultsAreOneLineThatSaysWhereAndWhat(t *testing.T) {
	for _, c := range []struct {
		name string
		env  [2]string
		args []string
		want []string
	}{
		{"an unknown flag", [2]string{}, []string{"--bogus"}, []string{"--bogus"}},
		{"an argument", [2]string{}, []string{"extra"}, []string{"extra"}},
		{"a bad number", [2]string{}, []string{"--retries=many"}, []string{"--retries", "many"}},
		{"a bad duration", [2]string{}, []string{"--read-timeout=3"}, []string{"--read-timeout", "5s"}},
		{"a negative duration", [2]string{}, []string{"--read-timeout=-3s"}, []string{"--read-timeout", "above zero"}},
		{"no duration at all", [2]string{}, []string{"--read-timeout=0s"}, []string{"--read-timeout", "above zero"}},
		{"a bad address", [2]string{}, []string{"--core-addr=nowhere"}, []string{"--core-addr", "host:port"}},
		{"no member of the set", [2]string{}, []string{"--circuit-mode=fast"}, []string{"--circuit-mode", "consecutive"}},
		{"a bad variable", [2]string{"GWANMUN_RETRIES", "many"}, nil, []string{"--retries", "GWANMUN_RETRIES"}},
		{"no member in a variable", [2]string{"GWANMUN_CIRCUIT_MODE", "fast"}, nil, []string{"--circuit-mode", "consecutive"}},
		{"no such file", [2]string{}, []string{"--config=/no/such/file"}, []string{"--config", "/no/such/file"}},
		{"no such file in a variable", [2]string{"GWANMUN_CONFIG", "/no/such/file"}, nil, []string{"--config", "/no/such/file"}},
		{"control characters in a path", [2]string{}, []string{"--config=/\u009b2J\x7f\u202e\n"}, []string{"--config"}},
		{"control characters", [2]string{}, []string{"--retries=\x1b[2J\r\n\u009b2J\u2028\xff"}, []string{"--retries"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.env[0] != "" {
				t.Setenv(c.env[0], c.env[1])
			}
			_, out, err := parse(t, c.args...)
			wantUsage(t, err, c.want...)
			if out != "" {
				t.Errorf("printed %q", out)
			}
		})
	}
}

func wantUsage(t *testing.T, err error, parts ...string) {
	t.Helper()
	var usage *cmdline.UsageError
	if !errors.As(err, &usage) || cmdline.ExitCode(err) != 2 {
		t.Fatalf("error is %v, want a usage error", err)
	}
	if strings.ContainsFunc(err.Error(), func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }) {
		t.Errorf("not one plain line: %q", err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func TestParse_FileIsReadStrictly(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"an unknown key", `{"retrys": 3}`, `"retrys"`},
		{"a flag of the command line alone", `{"version": true}`, `"version"`},
		{"a file that names a file", `{"config": "x"}`, `"config"`},
		{"a name with hyphens in front", `{"--retries": 3}`, `"--retries"`},
		{"a key twice", `{"retries": 3, "retries": 4}`, "twice"},
		{"a value of nothing", `{"retries": null}`, "must be"},
		{"an object", `{"retries": {"a": 1}}`, "must be"},
		{"a list for one value", `{"retries": [1, 2]}`, "--retries"},
		{"a bad value", `{"retries": "many"}`, "--config"},
		{"a fraction", `{"retries": 1.5}`, "--retries"},
		{"a list", `[1]`, "one JSON object"},
		{"nothing", ``, "one JSON object"},
		{"half of it", `{"retries": 3`, "one JSON object"},
		{"a comma too many", `{"retries": 3,}`, "one JSON object"},
		{"more than one", `{} {}`, "one JSON object"},
		{"rubbish behind it", `{} x`, "one JSON object"},
		{"too much", `{"retries": 3` + strings.Repeat(" ", 1<<20) + `}`, "one JSON object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := parse(t, "--config", file(t, c.text))
			wantUsage(t, err, c.want)
		})
	}
}

func TestParse_HelpShowsEveryFlagWithVariableAndDefault(t *testing.T) {
	t.Setenv("GWANMUN_RETRIES", "many") // help must come whatever else is wrong
	_, out, err := parse(t, "--help")
	if !errors.Is(err, cmdline.ErrHelp) || cmdline.ExitCode(err) != 0 {
		t.Fatalf("error is %v", err)
	}
	text := strings.Join(strings.Fields(out), " ")
	for _, want := range []string{
		"Takes payments.",
		"--core-addr=HOST:PORT", "Where the core is ($GWANMUN_CORE_ADDR; default 127.0.0.1:9099).",
		"--read-timeout=DURATION", "($GWANMUN_READ_TIMEOUT; default 3s).",
		"--retries=N", "How often to ask again ($GWANMUN_RETRIES; default 2).",
		"--circuit-mode=NAME", "($GWANMUN_CIRCUIT_MODE; default rate; one of rate, consecutive).",
		"--[no-]migrate", "($GWANMUN_MIGRATE; default true).",
		"--hash-key=SECRET", "($GWANMUN_HASH_KEY).", "--config", "($GWANMUN_CONFIG).", "--version", "-h, --help",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("help does not say %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "4711") {
		t.Errorf("help shows the default of a secret:\n%s", out)
	}
}

func TestParse_VersionIsPrinted(t *testing.T) {
	_, out, err := parse(t, "--version")
	if !errors.Is(err, cmdline.ErrHelp) {
		t.Fatalf("error is %v", err)
	}
	if diff := cmp.Diff("payment v1.2.3\n", out); diff != "" {
		t.Error(diff)
	}
}

// A struct that kong cannot read is our fault, and not the caller's.
func TestParse_AFaultInTheFlagsThemselvesIsNoUsageError(t *testing.T) {
	var broken struct {
		A string `name:"a"`
		B string `name:"a"`
	}
	err := cmdline.Parse("x", "v", "d", nil, &broken, nil, &bytes.Buffer{})
	if err == nil || cmdline.ExitCode(err) != 1 {
		t.Errorf("error is %v", err)
	}
}

func TestExitCode(t *testing.T) {
	for want, errs := range map[int][]error{
		0: {nil, cmdline.ErrHelp},
		1: {errors.New("lost"), errors.Join(errors.New("a"), errors.New("b"))},
		2: {cmdline.Usagef("bad %s", "flag"), errors.Join(errors.New("open"), cmdline.Usagef("bad DSN"))},
	} {
		for _, err := range errs {
			if got := cmdline.ExitCode(err); got != want {
				t.Errorf("ExitCode(%v) = %d, want %d", err, got, want)
			}
		}
	}
}
