package main

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// keeping is a journal as corebank makes it, and what enters decisions into it.
func keeping(t *testing.T) (j *journal, enter func(at ...time.Duration)) {
	t.Helper()
	schema, err := os.ReadFile("../../services/corebank/simulator/schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "book.db")
	writer, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = writer.Close() })
	if _, err := writer.ExecContext(t.Context(), string(schema)); err != nil {
		t.Fatal(err)
	}
	if j, err = openJournal(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.pool.Close() })
	sequence := 0
	return j, func(at ...time.Duration) {
		for _, d := range at {
			sequence++
			if _, err := writer.ExecContext(t.Context(),
				"INSERT INTO journal VALUES (?, ?, '0420', ?, '', 0, 'FENCE', '0000', 1)", sequence, int64(d), string(transactionID(1))); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestJournal_TellsOfWhatCameSinceItWasToldToForget(t *testing.T) {
	j, enter := keeping(t)
	tells := func(forget bool, requests int64, took time.Duration) {
		t.Helper()
		if n, d, err := j.tell(t.Context(), forget); n != requests || d != took || err != nil {
			t.Errorf("%d requests in %v, error %v; want %d in %v", n, d, err, requests, took)
		}
	}
	tells(true, 0, 0)
	enter(100, 120)
	tells(false, 2, 20)
	enter(150)
	tells(true, 3, 50)
	tells(false, 0, 0)
	tells(true, 0, 0)
	enter(1000, 1001, 1007)
	tells(false, 3, 7)
}

func TestJournal_ThatIsNoneIsAnError(t *testing.T) {
	j, err := openJournal(filepath.Join(t.TempDir(), "none.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.pool.Close() }()
	if _, _, err := j.tell(t.Context(), false); err == nil {
		t.Error("no error")
	}
}

// program is a script.
func program(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	//nolint:gosec // it is run
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStartBank_IsWhereItsFramesAre(t *testing.T) {
	script := `trap 'exit 0' TERM
echo '{"msg":"listening","name":"grpc","address":"elsewhere"}'
echo '{"msg":"listening","name":"frame","address":"here"}'
while :; do sleep 0.01; done`
	c, err := startBank(t.Context(), program(t, script), filepath.Join(t.TempDir(), "core"))
	if err != nil {
		t.Fatal(err)
	}
	if c.addr != "here" || c.ends != fenced {
		t.Errorf("it is at %s, and a row ends as %v", c.addr, c.ends)
	}
	if err := c.stop(); err != nil {
		t.Error(err)
	}
}

func TestStartBank_ThatEndsIsAnErrorWithItsLog(t *testing.T) {
	_, err := startBank(t.Context(), program(t, "echo another process has the book open; exit 1"), filepath.Join(t.TempDir(), "core"))
	if err == nil || !strings.Contains(err.Error(), "has the book open") {
		t.Errorf("error %v", err)
	}
}
