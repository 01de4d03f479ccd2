package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// tree is a copy of the work tree.
type tree struct {
	dir      string
	timeout  time.Duration
	postgres bool
}

// copy takes over what git knows of the work tree and what it does not ignore,
// as it stands there.
func (t *tree) copy(ctx context.Context, root string) error {
	list := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir, list.Stderr = root, os.Stderr
	names, err := list.Output()
	if err != nil {
		return fmt.Errorf("list the files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		b, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			return err
		}
		to := filepath.Join(t.dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(to, b, 0o700); err != nil { // some are scripts
			return err
		}
	}
	return nil
}

// verdict is what became of a mutation.
type verdict string

const (
	caught   verdict = "caught"
	survived verdict = "SURVIVED"
	// broken: it says nothing about the tests.
	broken  verdict = "BROKEN"
	untried verdict = "not tried"
)

// result is a verdict, and what led to it.
type result struct {
	verdict verdict
	detail  string
}

// try applies a mutation, runs its tests until one notices, and takes it back.
func (t *tree) try(ctx context.Context, m *mutation) result {
	if m.postgres && !t.postgres {
		return result{untried, "needs PostgreSQL"}
	}
	undo, err := m.apply(t.dir)
	if err != nil {
		return result{broken, err.Error()}
	}
	last := result{broken, "names no tests"}
	for _, target := range m.tests {
		if last = t.test(ctx, target); last.verdict != survived {
			break
		}
	}
	if err := undo(); err != nil {
		return result{broken, err.Error()}
	}
	return last
}

// event is a line of go test -json; see go doc test2json.
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	FailedBuild string
}

// test runs tests once. They survive if all of them pass; they catch something
// if one of them fails, or takes too long. What does not compile catches nothing.
func (t *tree) test(ctx context.Context, target target) result {
	args := []string{"test", "-json", "-trimpath", "-vet=off", "-count=1", "-failfast", "-timeout", t.timeout.String()}
	if target.run != "" {
		args = append(args, "-run", target.run)
	}
	args = append(args, target.pkg)
	if target.args != "" {
		args = append(args, target.args)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = t.dir
	cmd.Env = append(os.Environ(), "GOWORK=") // that of the copy, wherever this was started
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	events, parsed := read(&stdout)
	switch {
	case parsed != nil:
		return result{broken, parsed.Error()}
	case err == nil && !ran(events):
		return result{broken, fmt.Sprintf("no test of %s is named %s", target.pkg, target.run)}
	case err == nil:
		return result{survived, target.pkg}
	}
	return judge(events, stderr.String())
}

func read(r io.Reader) ([]event, error) {
	var events []event
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("read what go test says: %w", err)
		}
		events = append(events, e)
	}
	return events, lines.Err()
}

// ran reports whether any test passed.
func ran(events []event) bool {
	return slices.ContainsFunc(events, func(e event) bool { return e.Action == "pass" && e.Test != "" })
}

// foundAfter is how the simulation says how long it took.
var foundAfter = regexp.MustCompile(` after [0-9]+ seeds: [^\n]*`)

// judge tells tests that failed from tests that could not be run.
func judge(events []event, stderr string) result {
	var failed []string
	var said strings.Builder
	for _, e := range events {
		said.WriteString(e.Output)
		switch {
		case e.FailedBuild != "":
			return result{broken, "does not compile:\n" + said.String()}
		case e.Action == "fail" && e.Test != "" && !strings.Contains(e.Test, "/"):
			failed = append(failed, e.Test)
		case e.Action == "fail" && e.Test == "" && len(failed) == 0:
			failed = append(failed, e.Package)
		}
	}
	if len(failed) == 0 {
		return result{broken, "go test failed, and no test did: " + stderr + said.String()}
	}
	slices.Sort(failed)
	return result{caught, strings.Join(slices.Compact(failed), " ") + foundAfter.FindString(said.String())}
}

// hasPostgres reports whether the tests will find a server where
// pkg/postgrestest looks for one.
func hasPostgres() bool {
	if os.Getenv("GWANMUN_TEST_PG") != "" {
		return true
	}
	if _, err := exec.LookPath("initdb"); err == nil {
		return true
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	return len(found) > 0
}
