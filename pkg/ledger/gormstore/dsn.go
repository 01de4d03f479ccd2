package gormstore

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const dsnForms = "sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/DATABASE"

// parseDSN reads the name of a book. Its errors never repeat the DSN: it may
// hold a password.
func parseDSN(dsn string, now func() time.Time) (*dialect, error) {
	scheme, path, _ := strings.Cut(dsn, ":")
	switch scheme {
	case "sqlite":
		return parseSQLite(path, now)
	case "postgres", "postgresql":
		config, err := pgx.ParseConfig(dsn)
		if err != nil { // not wrapped: the driver repeats what it could not read
			return nil, usagef("ledger DSN cannot be read; it must be %s", dsnForms)
		}
		return postgresDialect(config), nil
	default:
		return nil, usagef("ledger DSN must be %s", dsnForms)
	}
}

func parseSQLite(path string, now func() time.Time) (*dialect, error) {
	switch {
	case path == "":
		return nil, usagef("ledger DSN must name a file: sqlite:PATH")
	case strings.HasPrefix(path, ":"), strings.HasPrefix(path, "file:"), strings.ContainsAny(path, "?#\x00"):
		return nil, usagef("ledger DSN must be sqlite:PATH, a plain path without parameters")
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find ledger file: %w", err)
	}
	if stat, err := os.Stat(absolute); err == nil && stat.IsDir() {
		return nil, usagef("ledger DSN must name a file, not a folder")
	}
	return sqliteDialect(absolute, now), nil
}
