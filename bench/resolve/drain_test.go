package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A reconciler that ends by itself is not waited for.
func TestDrain_ReconcilerThatEndsIsAnErrorWithItsLog(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "reconciler")
	//nolint:gosec // it is run
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho the book is newer\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	none := func() (time.Duration, error) { return 0, nil }
	d := drain{cfg: config{Reconciler: program, Rows: 1}, core: serving(t, 0), book: book{cpu: none}, log: filepath.Join(dir, "log")}
	if _, _, err := d.once(t.Context()); err == nil || !strings.Contains(err.Error(), "the book is newer") {
		t.Errorf("error %v", err)
	}
}
