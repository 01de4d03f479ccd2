package hardening

import (
	"path/filepath"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/postgrestest"
)

// hashKey is the key of the ledgers.
const hashKey = "6d6f6e65792d6e657665722d6c6965732c2d616e642d6e6f722d646f2d776521"

// ledger is what tells a service which ledger to open.
type ledger []string

func newSQLite(t testing.TB) ledger {
	t.Helper()
	return ledger{"--ledger-dsn=sqlite:" + filepath.Join(t.TempDir(), "ledger.db"), "--hash-key=" + hashKey}
}

func newPostgreSQL(t testing.TB) ledger {
	t.Helper()
	return ledger{"--ledger-dsn=" + postgrestest.DSN(t), "--hash-key=" + hashKey}
}

// startCore starts a core with a book of its own.
func startCore(t testing.TB, flags ...string) *process {
	t.Helper()
	return spawn(t, "corebank", append([]string{
		"--frame-addr=127.0.0.1:0", "--listing-addr=127.0.0.1:0", "--book-dsn=sqlite:" + filepath.Join(t.TempDir(), "book.db"),
	}, flags...)...)
}

// behind are the flags of a service that reaches a core.
func behind(t testing.TB, core *process, l ledger, flags ...string) []string {
	t.Helper()
	reach := []string{"--core-addr=" + core.address(t, "frame"), "--listing-addr=" + core.address(t, "listing")}
	return append(append(reach, l...), flags...)
}

// all are the three services, on one SQLite ledger.
func all(t testing.TB, flags ...string) []*process {
	t.Helper()
	core, l := startCore(t, flags...), newSQLite(t)
	return []*process{
		core,
		spawn(t, "payment", behind(t, core, l, flags...)...),
		spawn(t, "reconciler", behind(t, core, l, flags...)...),
	}
}
