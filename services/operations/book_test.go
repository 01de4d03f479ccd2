package operations

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"

	"github.com/gwanmun/gwanmun/pkg/postgrestest"
)

// book is a ledger, in a file or in PostgreSQL.
type book struct {
	// path is the file; empty in PostgreSQL.
	path string
	// dsn names the database in PostgreSQL.
	dsn string
}

func newBook(t testing.TB, kind string) *book {
	t.Helper()
	if kind == "sqlite" {
		return &book{path: filepath.Join(t.TempDir(), "ledger.db")}
	}
	return &book{dsn: postgrestest.DSN(t)}
}

// flags have a service open the book. The server asks for no password; it is
// there to be told by mistake.
func (b *book) flags(t testing.TB, password string) []string {
	t.Helper()
	if b.path != "" {
		return []string{"--ledger-dsn=sqlite:" + b.path}
	}
	dsn, err := url.Parse(b.dsn)
	if err != nil {
		t.Fatal(err)
	}
	query := dsn.Query()
	query.Set("password", password)
	dsn.RawQuery = query.Encode()
	return []string{"--ledger-dsn=" + dsn.String(), "--hash-key=" + hashKey}
}

// hashKey is the book's, in hex.
func (b *book) hashKey(t testing.TB) string {
	t.Helper()
	if b.path == "" {
		return hashKey
	}
	key, err := os.ReadFile(b.path + ".key")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(key))
}

// open opens the book past every service.
func (b *book) open(t testing.TB) *sql.DB {
	t.Helper()
	driver, source := "sqlite", b.path+"?_pragma=busy_timeout(10000)"
	if b.path == "" {
		driver, source = "pgx", b.dsn
	}
	pool, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

// kind is the database's name, as docs/ledger.md has it.
func (b *book) kind() string {
	if b.path != "" {
		return "sqlite"
	}
	return "postgresql"
}

// dump is every column of every row of every table, as text.
func (b *book) dump(t testing.TB) string {
	t.Helper()
	pool := b.open(t)
	list := "SELECT name FROM sqlite_master WHERE type = 'table'"
	if b.path == "" {
		list = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
	}
	var all strings.Builder
	for _, table := range query(t, pool, list) {
		all.WriteString("-- " + table + "\n")
		for _, row := range query(t, pool, `SELECT * FROM "`+table+`"`) {
			all.WriteString(row + "\n")
		}
	}
	return all.String()
}

// query is the rows of a query, each a line of its columns.
func query(t testing.TB, pool *sql.DB, text string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	rows, err := pool.QueryContext(ctx, text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer func() { _ = rows.Close() }()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for rows.Next() {
		values, places := make([]any, len(names)), make([]any, len(names))
		for i := range values {
			places[i] = &values[i]
		}
		if err := rows.Scan(places...); err != nil {
			t.Fatal(err)
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
		t.Fatalf("%s: %v", text, err)
	}
	return lines
}
