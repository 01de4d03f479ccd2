package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// secret stands in every DSN that is given here, and nowhere else.
const secret = "s3cr3t-p4ss"

// runToEnd runs a binary that is to end by itself.
func runToEnd(t *testing.T, env []string, name string, args ...string) *process {
	t.Helper()
	c := &canary{}
	p := spawnIn(t, c, env, name, append(slices.Clone(anywhere), args...)...)
	p.dirty = true
	p.wait(t, patience)
	if strings.Contains(p.log.text()+p.out.text(), secret) {
		t.Errorf("%s %q shows the password: %s", name, args, p.log.text())
	}
	return p
}

// settingsFile writes a file for --config.
func settingsFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.json")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// misuse is a way to call a binary that is refused.
type misuse struct {
	env  []string
	args []string
	// names is in the line that says so.
	names string
}

// misusedByAll are wrong for every binary.
func misusedByAll(t *testing.T) []misuse {
	t.Helper()
	return []misuse{
		{args: []string{"--no-such-flag"}, names: "no-such-flag"},
		{args: []string{"stray"}, names: "stray"},
		{args: []string{"--log-level=loud"}, names: "log-level"},
		{args: []string{"--shutdown-timeout=soon"}, names: "shutdown-timeout"},
		{args: []string{"--shutdown-timeout=0s"}, names: "shutdown-timeout"},
		{args: []string{"--shutdown-timeout=-1s"}, names: "shutdown-timeout"},
		{args: []string{"--grpc-addr=nowhere"}, names: "grpc-addr"},
		{args: []string{"--admin-addr=127.0.0.1:99999"}, names: "admin-addr"},
		{args: []string{"--otlp-endpoint=nowhere"}, names: "otlp-endpoint"},
		{args: []string{"--trace-ratio=2"}, names: "trace-ratio"},
		{args: []string{"--config=" + filepath.Join(t.TempDir(), "none.json")}, names: "config"},
		{args: []string{"--config=" + settingsFile(t, `{"no-such-flag": 1}`)}, names: "no-such-flag"},
		{args: []string{"--config=" + settingsFile(t, `not JSON`)}, names: "config"},
		{env: []string{"GWANMUN_SHUTDOWN_TIMEOUT=soon"}, names: "GWANMUN_SHUTDOWN_TIMEOUT"},
		{env: []string{"GWANMUN_SHUTDOWN_TIMEOUT=so\non\x1b[31m"}, names: "GWANMUN_SHUTDOWN_TIMEOUT"},
	}
}

// misusedLedgers are wrong for whoever opens a ledger and calls the core.
var misusedLedgers = []misuse{
	{args: []string{"--ledger-max-conns=1"}, names: "--ledger-max-conns must be 2 to 1000"},
	{args: []string{"--ledger-max-conns=1001"}, names: "ledger-max-conns"},
	{args: []string{"--ledger-dsn=postgres://user:" + secret + "@host:no-port/ledger", "--hash-key=" + hashKey}},
	{args: []string{"--ledger-dsn=mysql://user:" + secret + "@host/ledger"}},
	{args: []string{"--ledger-dsn=" + secret}},
	{args: []string{"--ledger-dsn=sqlite:"}},
	{args: []string{"--ledger-dsn=sqlite::memory:"}},
	{args: []string{"--ledger-dsn=sqlite:ledger.db?mode=" + secret}},
	{args: []string{"--ledger-dsn=sqlite:."}},
	{env: []string{"GWANMUN_LEDGER_DSN=mysql://user:" + secret + "@host/ledger"}},
	{args: []string{"--hash-key=" + secret}},
	{args: []string{"--hash-key=file:/no/such/file"}},
	{args: []string{"--ledger-dsn=postgres://user:" + secret + "@127.0.0.1:1/ledger"}, names: "hash-key"},
	{args: []string{"--core-addr=nowhere"}, names: "core-addr"},
	{args: []string{"--read-timeout=0s"}, names: "read-timeout"},
	{args: []string{"--connect-timeout=-1s"}, names: "connect-timeout"},
	{args: []string{"--migrate=perhaps"}, names: "migrate"},
}

var misusedByName = map[string][]misuse{
	"payment": {
		{args: []string{"--deadline=0s"}, names: "deadline"},
		{args: []string{"--send-window=0s"}, names: "send-window"},
		{args: []string{"--min-deadline=-1ms"}, names: "min-deadline"},
		{args: []string{"--adopt-margin=0s"}, names: "adopt-margin"},
		{args: []string{"--sweep-interval=1s"}, names: "sweep-interval"},
	},
	"reconciler": {
		{args: []string{"--sweep-interval=0s"}, names: "sweep-interval"},
		{args: []string{"--max-attempts=0"}, names: "max-attempts"},
		{args: []string{"--max-attempts=many"}, names: "max-attempts"},
		{args: []string{"--late-window=0s"}, names: "late-window"},
		{args: []string{"--lease=0s"}, names: "lease"},
		{args: []string{"--core-fences=perhaps"}, names: "core-fences"},
	},
	"corebank": {
		{args: []string{"--book-dsn=postgres://user:" + secret + "@host/book"}},
		{args: []string{"--book-dsn=sqlite:"}},
		{args: []string{"--frame-addr=nowhere"}, names: "frame-addr"},
		{args: []string{"--late-answer=0s"}, names: "late-answer"},
		{args: []string{"--ledger-dsn=sqlite:ledger.db"}, names: "ledger-dsn"},
	},
}

// services are the three binaries.
var services = []string{"payment", "corebank", "reconciler"}

// TestMisuse_IsOneLineAndExitCodeTwo calls each binary in every wrong way.
func TestMisuse_IsOneLineAndExitCodeTwo(t *testing.T) {
	for _, name := range services {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cases := append(misusedByAll(t), misusedByName[name]...)
			if name != "corebank" {
				cases = append(cases, misusedLedgers...)
			}
			for _, c := range cases {
				p := runToEnd(t, c.env, name, c.args...)
				lines := p.log.all()
				if p.code != 2 || len(lines) != 1 || len(p.out.all()) != 0 {
					t.Errorf("%q %q: exit code %d, stderr %q, stdout %q", c.env, c.args, p.code, lines, p.out.all())
					continue
				}
				if !strings.HasPrefix(lines[0], name+": ") || !strings.Contains(lines[0], c.names) || strings.ContainsAny(lines[0], "\x1b\r") {
					t.Errorf("%q %q: the line is %q", c.env, c.args, lines[0])
				}
			}
		})
	}
}

// inHelp is where the help begins to tell of a flag.
var inHelp = regexp.MustCompile(`(?m)^ {2,6}(?:-\w, )?--(?:\[no-\])?([a-z-]+)`)

// flagsIn is what a help says of each flag, on one line.
func flagsIn(help string) map[string]string {
	flags := map[string]string{}
	starts := inHelp.FindAllStringSubmatchIndex(help, -1)
	for i, at := range starts {
		end := len(help)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		flags[help[at[2]:at[3]]] = strings.Join(strings.Fields(help[at[0]:end]), " ")
	}
	return flags
}

// TestHelp_ListsEveryFlag reads the help of each binary: the flags that are
// promised are there, and of each flag it tells the environment variable, and
// the default if there is one.
func TestHelp_ListsEveryFlag(t *testing.T) {
	all := []string{"grpc-addr", "admin-addr", "shutdown-timeout", "log-level", "config", "help", "version"}
	ledger := append(slices.Clone(all), "ledger-dsn", "hash-key", "migrate", "ledger-max-conns", "core-addr", "read-timeout", "connect-timeout")
	promised := map[string][]string{
		"payment":    append(slices.Clone(ledger), "deadline", "send-window", "min-deadline", "adopt-margin"),
		"reconciler": append(slices.Clone(ledger), "sweep-interval", "max-attempts", "core-fences", "late-window", "lease", "listing-addr", "settlement-at"),
		"corebank":   append(slices.Clone(all), "frame-addr", "listing-addr", "book-dsn", "core-fences", "dedupe", "late-answer", "callback-addr", "callback-mode"),
	}
	noVariable := map[string]bool{"help": true, "version": true}
	// A switch is off, and a file or what may be unset has no default to tell.
	noDefault := func(flag, text string) bool {
		return flag == "version" || flag == "config" ||
			!strings.Contains(text, "=") || strings.Contains(text, "=FILE") || strings.Contains(strings.ToLower(text), "unset")
	}
	for _, name := range services {
		p := runToEnd(t, nil, name, "--help")
		if p.code != 0 || len(p.log.all()) != 0 {
			t.Errorf("%s --help: exit code %d, stderr %q", name, p.code, p.log.all())
		}
		told := flagsIn(p.out.text())
		for _, flag := range promised[name] {
			if told[flag] == "" {
				t.Errorf("%s --help does not tell of --%s", name, flag)
			}
		}
		for flag, text := range told {
			variable := "($GWANMUN_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
			if !noVariable[flag] && !strings.Contains(text, variable+";") && !strings.Contains(text, variable+")") {
				t.Errorf("%s --help does not tell of %s: %s", name, variable, text)
			}
			if !noDefault(flag, text) && !strings.Contains(text, "default ") {
				t.Errorf("%s --help has no default of --%s: %s", name, flag, text)
			}
		}
	}
}

// TestVersion_IsTold asks each binary for its version.
func TestVersion_IsTold(t *testing.T) {
	for _, name := range services {
		p := runToEnd(t, nil, name, "--version")
		if lines := p.out.all(); p.code != 0 || len(lines) != 1 || !strings.HasPrefix(lines[0], name+" ") || len(p.log.all()) != 0 {
			t.Errorf("%s --version: exit code %d, stdout %q, stderr %q", name, p.code, lines, p.log.all())
		}
	}
}

// TestSettings_FlagBeatsVariableBeatsFile gives one setting in all three ways.
func TestSettings_FlagBeatsVariableBeatsFile(t *testing.T) {
	good, bad := `{"log-level": "debug"}`, `{"log-level": "loud"}`
	for what, c := range map[string]struct {
		env, args []string
		file      string
		code      int
	}{
		"the file":                   {file: bad, code: 2},
		"the variable":               {env: []string{"GWANMUN_LOG_LEVEL=loud"}, file: good, code: 2},
		"the variable over the file": {env: []string{"GWANMUN_LOG_LEVEL=warn"}, file: bad},
		"the flag over the variable": {env: []string{"GWANMUN_LOG_LEVEL=loud"}, args: []string{"--log-level=warn"}, file: bad},
	} {
		args := append([]string{"--config=" + settingsFile(t, c.file)}, c.args...)
		// What is right about the level fails because of the ledger's folder.
		p := runToEnd(t, c.env, "payment", append(args, "--ledger-dsn=sqlite:/dev/null/ledger.db")...)
		if wrongLevel := strings.Contains(p.log.text(), "loud") || strings.Contains(strings.ToLower(p.log.text()), "log-level"); wrongLevel != (c.code == 2) {
			t.Errorf("%s: exit code %d, %s", what, p.code, p.log.text())
		}
	}
}

// TestLedger_OfANewerVersionIsRefused starts services on a ledger that a later
// version has made, and on one that was made with another key.
func TestLedger_OfANewerVersionIsRefused(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		first := s.startPayment(t)
		first.terminate(t)

		wrongKey := "--hash-key=" + strings.Repeat("ab", 32)
		for _, name := range []string{"payment", "reconciler"} {
			p := runToEnd(t, nil, name, override(db.flags, []string{wrongKey})...)
			if p.code != 1 || !strings.Contains(p.log.text(), "another hash key") {
				t.Errorf("%s with another key: exit code %d, %s", name, p.code, p.log.text())
			}
		}

		pool := db.open(t)
		if _, err := pool.ExecContext(context.Background(), "INSERT INTO ledger_version (version_id, is_applied) VALUES (4711, $1)", true); err != nil {
			t.Fatalf("make the ledger newer: %v", err)
		}
		before := db.dump(t)
		for _, name := range []string{"payment", "reconciler"} {
			p := runToEnd(t, nil, name, db.flags...)
			lines := p.log.all()
			last := lines[len(lines)-1]
			if p.code != 1 || !strings.Contains(last, "4711") || !regexp.MustCompile(`version \d\b`).MatchString(last) {
				t.Errorf("%s on a newer ledger: exit code %d, %s", name, p.code, last)
			}
		}
		if after := db.dump(t); after != before {
			t.Errorf("a refused ledger was\n%s\nand is\n%s", before, after)
		}
	})
}

// TestLedger_ThatIsBehindIsRefusedWithoutMigrating starts services on an empty
// database with --no-migrate.
func TestLedger_ThatIsBehindIsRefusedWithoutMigrating(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		for _, name := range []string{"payment", "reconciler"} {
			p := runToEnd(t, nil, name, append(slices.Clone(db.flags), "--no-migrate")...)
			if p.code != 1 || !strings.Contains(p.log.text(), "migrating is off") {
				t.Errorf("%s: exit code %d, %s", name, p.code, p.log.text())
			}
		}
		if dump := db.dump(t); strings.Contains(dump, "-- transactions") {
			t.Errorf("it was migrated all the same: %s", dump)
		}
	})
}

// TestLedger_FilesAreTheirOwners looks at the modes of the files that a SQLite
// ledger is made of.
func TestLedger_FilesAreTheirOwners(t *testing.T) {
	t.Parallel()
	db := newSQLite(t)
	s := newStack(t, db)
	p := s.startPayment(t)
	p.pay(t, "key", ordinary, 1, netCancel)
	files, err := filepath.Glob(filepath.Join(filepath.Dir(strings.TrimPrefix(db.dsn, "sqlite:")), "*"))
	if err != nil || len(files) < 2 {
		t.Fatalf("files %v, %v", files, err)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %s, %v", filepath.Base(file), fmt.Sprint(info.Mode()), err)
		}
	}
	s.audit(t, p)
}
