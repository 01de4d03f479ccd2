// Package postgrestest gives tests a real PostgreSQL: a throwaway cluster that
// lives as long as the test process, or the server that GWANMUN_TEST_PG names.
// Each caller gets a fresh, empty database.
//
// Without PostgreSQL's server binaries a test that asks for a database is
// skipped, and says so; where the variable CI is set it fails.
package postgrestest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// ServerVariable names the environment variable with the DSN of a server that
// exists. Its user must be allowed to make databases.
const ServerVariable = "GWANMUN_TEST_PG"

// DurableVariable names the environment variable that, if it is set, has the
// throwaway cluster keep what it commits, as a server does by default: for
// benchmarks. Tests have no use for it.
const DurableVariable = "GWANMUN_TEST_PG_DURABLE"

// adminTimeout bounds making or dropping a database.
const adminTimeout = 30 * time.Second

var (
	shared struct {
		sync.Once
		cluster *cluster
		err     error
	}
	errNoBinaries = errors.New("no PostgreSQL server found in PATH or /usr/lib/postgresql")
)

// Main runs a package's tests and then stops the cluster, if one was started:
//
//	func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }
//
// A package without it leaves that to the kernel, which stops the server when
// the test process is gone (on Linux), but leaves its files.
func Main(m *testing.M) int {
	code := m.Run()
	if shared.cluster == nil {
		return code
	}
	if err := shared.cluster.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop PostgreSQL:", err)
		return max(code, 1)
	}
	return code
}

// DSN returns the DSN of a fresh, empty database, which is dropped when the test
// ends, whoever is connected to it then.
func DSN(t testing.TB) string {
	t.Helper()
	return create(t, "template0")
}

// Clone returns the DSN of a fresh copy of the database that dsn names, which no
// one may be connected to. It is dropped when the test ends.
func Clone(t testing.TB, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal("read DSN of the database to copy: not a URL")
	}
	return create(t, u.Path[1:])
}

// Server returns the DSN of the server itself, for a test that needs to look at
// other sessions than its own.
func Server(t testing.TB) string {
	t.Helper()
	if dsn := os.Getenv(ServerVariable); dsn != "" {
		return dsn
	}
	shared.Do(func() { shared.cluster, shared.err = startCluster() })
	objectTo(t, shared.err)
	return shared.cluster.dsn()
}

// objectTo ends a test whose server did not start: where there is none to be
// had, that is no fault of the code under test.
func objectTo(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, errNoBinaries) && os.Getenv("CI") == "":
		t.Skipf("SKIPPED, PostgreSQL NOT TESTED: %s; install it, or name a server in %s", err, ServerVariable)
	default:
		t.Fatalf("start PostgreSQL: %s", err)
	}
}

func create(t testing.TB, template string) string {
	t.Helper()
	return createAt(t, Server(t), template)
}

func createAt(t testing.TB, server, template string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil || u.Scheme == "" {
		t.Fatalf("%s must be a DSN of the form postgres://...", ServerVariable)
	}
	suffix := make([]byte, 6)
	if _, err := rand.Read(suffix); err != nil {
		t.Fatal(err)
	}
	name := "gwanmun_test_" + hex.EncodeToString(suffix)
	quoted := pgx.Identifier{name}.Sanitize()
	if err := execute(server, func(ctx context.Context, conn *pgx.Conn) error {
		return createDatabase(ctx, conn, quoted, pgx.Identifier{template}.Sanitize())
	}); err != nil {
		t.Fatalf("create a database: %s", err)
	}
	t.Cleanup(func() {
		if err := execute(server, func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "DROP DATABASE "+quoted+" WITH (FORCE)")
			return err
		}); err != nil {
			t.Errorf("drop the test's database: %s", err)
		}
	})
	u.Path = "/" + name
	return u.String()
}

// createDatabase copies the template's files where the server can: that is twice
// as fast as the way through its log.
func createDatabase(ctx context.Context, conn *pgx.Conn, quoted, template string) error {
	var version int
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		return err
	}
	statement := "CREATE DATABASE " + quoted + " TEMPLATE " + template
	if version >= 150000 {
		statement += " STRATEGY file_copy"
	}
	_, err := conn.Exec(ctx, statement)
	return err
}

// execute does something as the server's own user.
func execute(server string, do func(ctx context.Context, conn *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	return errors.Join(do(ctx, conn), conn.Close(ctx))
}
