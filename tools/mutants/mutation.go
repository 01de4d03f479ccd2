package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutation is a guard that is taken away.
type mutation struct {
	name string
	// guard is what it removes, in the words of DESIGN P10 or of issue 3.
	guard string
	edits []edit
	// tests are those that must notice; one that does is enough.
	tests []target
	// postgres is set where nothing but PostgreSQL can show the difference.
	postgres bool
}

// edit replaces a text that stands in a file exactly once.
type edit struct {
	file     string
	old, new string
}

// target is the tests of a package, or some of them.
type target struct {
	pkg string
	// run is a regular expression as go test -run takes it; empty for all.
	run string
	// args are for the test binary; a target with any is run by itself.
	args string
}

// apply makes the edits, and returns what takes them back. Nothing is changed
// when one of them has no place, or more than one.
func (m *mutation) apply(dir string) (undo func() error, err error) {
	was := map[string][]byte{}
	now := map[string]string{}
	for _, e := range m.edits {
		text, ok := now[e.file]
		if !ok {
			b, err := os.ReadFile(filepath.Join(dir, e.file))
			if err != nil {
				return nil, err
			}
			was[e.file], text = b, string(b)
		}
		if n := strings.Count(text, e.old); n != 1 || e.old == e.new {
			return nil, fmt.Errorf("%s has the text to be replaced %d times, want once: %.60q", e.file, n, e.old)
		}
		now[e.file] = strings.Replace(text, e.old, e.new, 1)
	}
	undo = func() error {
		for file, b := range was {
			if err := os.WriteFile(filepath.Join(dir, file), b, 0o600); err != nil {
				return fmt.Errorf("take a mutation back: %w", err)
			}
		}
		return nil
	}
	for file, text := range now {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			return undo, err
		}
	}
	return undo, nil
}

// targets are the tests of all mutations together. Those of one package are run
// at once, but for names of subtests, which go test takes apart at each slash.
func targets(mutations []mutation) []target {
	var all []target
	at := map[string]int{}
	seen := map[target]bool{}
	for _, m := range mutations {
		for _, t := range m.tests {
			i, merged := at[t.pkg]
			apart := strings.Contains(t.run, "/") || t.args != ""
			switch {
			case seen[t]:
			case apart || !merged:
				if !apart {
					at[t.pkg] = len(all)
				}
				all = append(all, t)
			case t.run == "" || all[i].run == "":
				all[i].run = ""
			default:
				all[i].run += "|" + t.run
			}
			seen[t] = true
		}
	}
	return all
}
