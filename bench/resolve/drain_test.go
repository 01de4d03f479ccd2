package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
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
