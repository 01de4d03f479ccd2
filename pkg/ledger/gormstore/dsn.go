package gormstore

import (
	"errors"
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

// makeFile makes the file of a SQLite book before the driver does, so that from
// its first moment on it is its owner's alone; SQLite gives the files that it
// makes beside it the same mode. It reports whether the book is empty as yet.
func (d *dialect) makeFile() (isNew bool, err error) {
	if d.path == "" {
		return false, nil
	}
	file, err := os.OpenFile(d.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, fmt.Errorf("make the ledger's file: %w", err)
	}
	stat, err := file.Stat()
	if err = errors.Join(err, file.Close()); err != nil {
		return false, fmt.Errorf("make the ledger's file: %w", err)
	}
	return stat.Size() == 0, nil
}

// keyFile is where the hash key of a SQLite book is kept when no flag names one;
// empty for PostgreSQL.
func (d *dialect) keyFile() string {
	if d.path == "" {
		return ""
	}
	return d.path + ".key"
}
