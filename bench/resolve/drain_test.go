package main

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/bench/child"
)

// A reconciler that ends by itself is not waited for.
func TestDrain_ReconcilerThatEndsIsAnErrorWithItsLog(t *testing.T) {
	none := func() (time.Duration, error) { return 0, nil }
	d := drain{
		cfg:  config{Reconciler: program(t, "echo the book is newer; exit 1"), Rows: 1},
		core: serving(t, 0), book: book{cpu: none}, log: filepath.Join(t.TempDir(), "log"),
	}
	if _, _, err := d.once(t.Context(), &backlog{rows: 1}); err == nil || !strings.Contains(err.Error(), "the book is newer") {
		t.Errorf("error %v", err)
	}
}

func TestDrain_HasEndedWhenEveryRowIsAsTheCoreMakesIt(t *testing.T) {
	for name, c := range map[string]struct {
		ends outcome
		want error
	}{
		"as it should":  {fenced, nil},
		"as another is": {canceled, errUndrained},
	} {
		t.Run(name, func(t *testing.T) {
			core := &core{ends: c.ends, tell: func(context.Context, bool) (int64, time.Duration, error) { return 2, time.Second, nil }}
			b, store := filled(t, core, 1)
			fence(t, store, 1)
			d := drain{core: core}
			if took, err := d.ended(t.Context(), running(t, "while :; do sleep 0.01; done"), b); !errors.Is(err, c.want) || took != time.Second {
				t.Errorf("it took %v, error %v; want %v", took, err, c.want)
			}
		})
	}
}

func TestDrain_WithARowThatIsLeftHasNotEnded(t *testing.T) {
	core := new(core)
	b, store := filled(t, core, 2)
	fence(t, store, 1)
	d := drain{core: core}
	if _, err := d.ended(t.Context(), running(t, "exit 1"), b); err == nil || !strings.Contains(err.Error(), "with 1 rows left") {
		t.Errorf("error %v", err)
	}
}

// running is a reconciler that does nothing but this.
func running(t *testing.T, script string) *child.Process {
	t.Helper()
	p, err := child.Launch("the reconciler", filepath.Join(t.TempDir(), "log"), exec.Command(program(t, script))) //nolint:gosec // the test's own script
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop() }) // by a signal that no script takes well
	return p
}
