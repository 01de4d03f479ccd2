package integration

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"

	"github.com/gwanmun/gwanmun/pkg/postgrestest"
)

// hashKey is the key of the ledgers in PostgreSQL.
const hashKey = "6d6f6e65792d6e657665722d6c6965732c2d616e642d6e6f722d646f2d776521"

// database is one ledger, empty at first.
type database struct {
	kind string
	dsn  string
	// flags tell a service to open it.
	flags []string
	// driver and source open it from here.
	driver, source string
	// tables lists the names of its tables.
	tables string
	// lockRow takes a lock that keeps everybody from changing a row.
	lockRow string
}

// memoryFolder is where Linux keeps files in memory.
const memoryFolder = "/dev/shm"

// scratch is a folder of the test's own, in memory where there is such a place:
// the kills of these tests end processes, not the machine, and a slow disk would
// only make them slow.
func scratch(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(memoryFolder, "gwanmun-integration-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// kinds are the databases that every promise holds on.
var kinds = []struct {
	name string
	make func(t testing.TB) *database
}{
	{"sqlite", newSQLite},
	{"postgresql", newPostgreSQL},
}

// onEachDatabase plays a test once on each kind of ledger, all at a time.
func onEachDatabase(t *testing.T, play func(t *testing.T, db *database)) {
	t.Helper()
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			play(t, kind.make(t))
		})
	}
}

func newSQLite(t testing.TB) *database {
	t.Helper()
	path := filepath.Join(scratch(t), "ledger.db")
	return &database{
		kind: "sqlite", dsn: "sqlite:" + path,
		flags:  []string{"--ledger-dsn=sqlite:" + path},
		driver: "sqlite", source: path + "?_pragma=busy_timeout(10000)",
		tables: "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name",
		// The one place of a writer: nobody changes anything meanwhile.
		lockRow: "SELECT 1 FROM transactions WHERE transaction_id = $1",
	}
}

func newPostgreSQL(t testing.TB) *database {
	t.Helper()
	return onPostgreSQL(postgrestest.DSN(t))
}

// onPostgreSQL is the ledger that a DSN names.
func onPostgreSQL(dsn string) *database {
	return &database{
		kind: "postgresql", dsn: dsn,
		flags:  []string{"--ledger-dsn=" + dsn, "--hash-key=" + hashKey},
		driver: "pgx", source: dsn,
		tables:  "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename",
		lockRow: "SELECT 1 FROM transactions WHERE transaction_id = $1 FOR UPDATE",
	}
}

// open opens the ledger from here, past every service.
func (db *database) open(t testing.TB) *sql.DB {
	t.Helper()
	pool, err := sql.Open(db.driver, db.source)
	if err != nil {
		t.Fatalf("open the ledger: %v", err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

// lock keeps every service from changing these rows, until unlock is called.
func (db *database) lock(t testing.TB, ids ...string) (unlock func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	pool := db.open(t)
	conn, err := pool.Conn(ctx)
	if err != nil {
		t.Fatalf("lock %s: %v", ids, err)
	}
	begin := "BEGIN"
	if db.kind == "sqlite" {
		begin = "BEGIN IMMEDIATE"
	}
	if _, err := conn.ExecContext(ctx, begin); err != nil {
		t.Fatalf("lock %s: %v", ids, err)
	}
	for _, id := range ids {
		var found int
		if err := conn.QueryRowContext(ctx, db.lockRow, id).Scan(&found); err != nil {
			t.Fatalf("lock %s: %v", id, err)
		}
	}
	unlock = sync.OnceFunc(func() {
		_, err := conn.ExecContext(ctx, "ROLLBACK")
		_ = conn.Close()
		_ = pool.Close()
		cancel()
		if err != nil {
			t.Errorf("unlock %s: %v", ids, err)
		}
	})
	t.Cleanup(unlock)
	return unlock
}

// dump is every column of every row of every table, as text, but for that of the
// transaction numbers.
func (db *database) dump(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pool := db.open(t)
	defer func() { _ = pool.Close() }()
	var all strings.Builder
	for _, table := range selectAll(ctx, t, pool, db.tables) {
		if table == "tranid_blocks" { // numbers are taken ahead, whether or not anyone calls
			continue
		}
		fmt.Fprintf(&all, "-- %s\n", table)
		for _, row := range selectAll(ctx, t, pool, `SELECT * FROM "`+table+`"`) {
			all.WriteString(row + "\n")
		}
	}
	return all.String()
}

// selectAll is the rows of a query, each a line of its columns.
func selectAll(ctx context.Context, t testing.TB, pool *sql.DB, query string) []string {
	t.Helper()
	rows, err := pool.QueryContext(ctx, query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer func() { _ = rows.Close() }()
	names, err := rows.Columns()
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	var lines []string
	for rows.Next() {
		values, places := make([]any, len(names)), make([]any, len(names))
		for i := range values {
			places[i] = &values[i]
		}
		if err := rows.Scan(places...); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		texts := make([]string, len(values))
		for i, v := range values {
			if b, ok := v.([]byte); ok {
				v = string(b)
			}
			texts[i] = fmt.Sprint(v)
		}
		lines = append(lines, strings.Join(texts, "|"))
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return lines
}

// pause stops a process with SIGSTOP, but not while it writes a SQLite file: it
// would keep everybody from writing.
func (db *database) pause(t testing.TB, p *process) {
	t.Helper()
	pool := db.open(t)
	defer func() { _ = pool.Close() }()
	eventually(t, p.name+" is paused and holds no lock", func(ctx context.Context) error {
		p.stop(t)
		if db.kind != "sqlite" {
			return nil
		}
		conn, err := pool.Conn(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		for _, statement := range []string{"PRAGMA busy_timeout = 500", "BEGIN IMMEDIATE", "ROLLBACK"} {
			if _, err := conn.ExecContext(ctx, statement); err != nil {
				p.signal(syscall.SIGCONT)
				return err
			}
		}
		return nil
	})
}

// awaitBlocked waits until somebody waits for a lock in PostgreSQL.
func (db *database) awaitBlocked(t testing.TB) {
	t.Helper()
	pool := db.open(t)
	defer func() { _ = pool.Close() }()
	eventually(t, "somebody waits for the lock", func(ctx context.Context) error {
		var waiting int
		err := pool.QueryRowContext(ctx,
			"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&waiting)
		if err == nil && waiting == 0 {
			err = errUnseen
		}
		return err
	})
}

// endBlocked ends whatever waits for a lock in PostgreSQL: a statement that was
// sent would come about when the lock is free, whoever has sent it.
func (db *database) endBlocked(t testing.TB) {
	t.Helper()
	pool := db.open(t)
	defer func() { _ = pool.Close() }()
	eventually(t, "nobody waits for the lock", func(ctx context.Context) error {
		var ended int
		err := pool.QueryRowContext(ctx, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&ended)
		if err == nil && ended > 0 {
			err = errUnseen
		}
		return err
	})
}
