package gormstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/libtnb/sqlite"
	"github.com/pressly/goose/v3"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	moderncsqlite "modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

//go:embed migrations/*/*.sql
var migrations embed.FS

// dialect is all in which the two databases differ.
type dialect struct {
	name string
	// path is the file of a SQLite book; empty for PostgreSQL.
	path string
	// file is that file once it is opened; nil for PostgreSQL.
	file *bookFile
	// writers is how many may write at a time.
	writers int

	connector func() (driver.Connector, error)
	dialector func(*sql.DB) gorm.Dialector
	goose     goose.Dialect
	// folder is where its migrations are.
	folder string

	// clock is the database's clock as a term of SQL, d from now.
	clock func(d time.Duration) any
	// due is that clock for conditions: one value for a whole statement, so that
	// an index can be searched by it.
	due func() any
	// forUpdate and skipLocked end the SELECT of a row that is to be changed.
	forUpdate, skipLocked string
	isolation             sql.IsolationLevel

	// arrays is true where many rows are passed as arrays.
	arrays bool
	// listsApart is true where the indexes of lists leave out what is REQUESTED.
	listsApart bool
	// wordings are texts that were made before.
	wordings wordings
	// joined is transactions' partner in an UPDATE of the rows that are in given,
	// and the condition that joins them.
	joined string

	// hasTable asks whether a table of that name exists.
	hasTable string
	ping     func(tx *gorm.DB) error
	// assumptions are settings on which the promises rest.
	assumptions []assumption
	// encoding asks for that of the database, if it may have another than UTF-8.
	encoding string
	// again reports whether the database refused for another writer's sake.
	again func(error) bool
	// stale reports whether a connection turned out to be dead, and a new one may
	// be had.
	stale func(error) bool
	// fault reports whether it refused what was to be stored: a mistake of ours.
	fault func(error) bool
}

// assumption is a setting and the values with which what was committed survives
// a crash.
type assumption struct {
	setting, query string
	sound          []string
}

func (d *dialect) migrations() (fs.FS, error) {
	return fs.Sub(migrations, "migrations/"+d.folder)
}

// The longest that a PostgreSQL session may do nothing in the middle of a
// transaction, unless the DSN says otherwise. A process that is paused there, or
// whose machine is gone, would keep its row locked, and nobody could resolve it.
const (
	idleSetting = "idle_in_transaction_session_timeout"
	longestIdle = "10s"
)

// A database or a role may have another encoding set for its sessions, or another way
// to write dates. What ours speak is not to be chosen, not even by the DSN.
const (
	encodingSetting = "client_encoding"
	utf8            = "UTF8"
	dateSetting     = "DateStyle"
	isoDates        = "ISO, YMD"
)

// speak has a setting for every session, whatever else the DSN says.
func speak(config *pgx.ConnConfig, setting, value string) {
	maps.DeleteFunc(config.RuntimeParams, func(name, _ string) bool { return strings.EqualFold(name, setting) })
	config.RuntimeParams[setting] = value
}

// Every statement of ours finds its rows in the order of an index. Where there are
// no statistics yet, a planner that takes what is pending for a few rows reads
// all of it by bitmap and sorts it, for each claim of twenty: a backlog then costs
// its square. One that has seen few rows, or none, reads the whole table, and the
// session keeps that plan while the table grows. Without that way what has no other
// looks so dear that PostgreSQL would compile it, which takes longer than it saves.
// And one that takes what a statement was given for a thousand rows sorts both sides
// of each join, where there are at most some hundreds, or one.
const (
	bitmapSetting  = "enable_bitmapscan"
	scanSetting    = "enable_seqscan"
	mergeSetting   = "enable_mergejoin"
	compileSetting = "jit"
	off            = "off"
)

// postgresDialect is a book in PostgreSQL. Times are compared as of the
// statement, and stored as of when the row was locked.
func postgresDialect(config *pgx.ConnConfig) *dialect {
	for setting, value := range map[string]string{
		idleSetting: longestIdle, bitmapSetting: off, scanSetting: off, mergeSetting: off, compileSetting: off,
	} {
		if config.RuntimeParams[setting] == "" {
			config.RuntimeParams[setting] = value
		}
	}
	speak(config, encodingSetting, utf8) // the driver knows nothing else
	speak(config, dateSetting, isoDates)
	return &dialect{
		name:    "postgresql",
		writers: 1 << 10, // PostgreSQL sorts them out itself
		connector: func() (driver.Connector, error) {
			return stdlib.GetConnector(*config), nil
		},
		dialector: func(pool *sql.DB) gorm.Dialector {
			return postgres.New(postgres.Config{Conn: pool})
		},
		goose:  goose.DialectPostgres,
		folder: "postgres",
		clock: func(d time.Duration) any {
			if d == 0 {
				return gorm.Expr("clock_timestamp()")
			}
			return gorm.Expr("clock_timestamp() + CAST(? AS double precision) * interval '1 microsecond'", d.Microseconds())
		},
		due:        func() any { return gorm.Expr("statement_timestamp()") },
		forUpdate:  "FOR UPDATE",
		skipLocked: "FOR UPDATE SKIP LOCKED",
		isolation:  sql.LevelReadCommitted,
		arrays:     true,
		listsApart: true,
		joined:     "given CROSS JOIN LATERAL (" + soughtRow("ctid AS place", "") + ") AS sought\nWHERE ctid = place",
		hasTable:   "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = ?",
		ping:       pingPostgres,
		assumptions: []assumption{
			{"synchronous_commit", "SHOW synchronous_commit", []string{"on", "local", "remote_write", "remote_apply"}},
			{"fsync", "SHOW fsync", []string{"on"}},
		},
		encoding: "SHOW server_encoding",
		again:    func(err error) bool { return hasClass(err, "40001", "40P01") },
		stale:    isStale,
		fault:    func(err error) bool { return hasClass(err, "22", "23") },
	}
}

// hasClass reports whether PostgreSQL's code begins with one of those.
func hasClass(err error, prefixes ...string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(pg.Code, p) })
}

// isStale reports whether a connection that was in the pool turned out to be
// dead. A new one that is refused is another matter.
func isStale(err error) bool {
	var refused *pgconn.ConnectError
	var line net.Error
	switch {
	case errors.As(err, &refused), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	default:
		return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn) ||
			errors.As(err, &line) || pgconn.SafeToRetry(err)
	}
}

// hasCode reports whether SQLite's code, without its extension, is one of those.
func hasCode(err error, codes ...int) bool {
	var lite *moderncsqlite.Error
	return errors.As(err, &lite) && slices.Contains(codes, lite.Code()&0xff)
}

var errReadOnly = errors.New("the database is read-only")

func pingPostgres(tx *gorm.DB) error {
	var readOnly string
	if err := tx.Raw("SHOW transaction_read_only").Scan(&readOnly).Error; err != nil {
		return err
	}
	if readOnly != "off" {
		return errReadOnly
	}
	return nil
}

// sqliteParameters are set on every connection. What waits longer than
// busy_timeout is tried again by us, within the caller's deadline. A file that is
// not there is not made by a connection.
const sqliteParameters = "?mode=rw&_txlock=immediate" +
	"&_pragma=busy_timeout(1000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)"

// sqliteDialect is a book in a SQLite file. Its transactions begin by taking the
// one place for a writer, so that none fails half-way for want of it. The clock
// is this process's, since the database runs in it.
func sqliteDialect(path string, now func() time.Time) *dialect {
	file := &bookFile{path: path}
	name := url.URL{Scheme: "file", Path: path} // only a URI has a mode
	return &dialect{
		name:    "sqlite",
		path:    path,
		file:    file,
		writers: 1,
		connector: func() (driver.Connector, error) {
			connector, err := moderncsqlite.NewConnector(name.String() + sqliteParameters)
			if err != nil {
				return nil, err
			}
			return fileConnector{connector, file}, nil
		},
		dialector: func(pool *sql.DB) gorm.Dialector { return sqlite.New(sqlite.Config{Conn: pool}) },
		goose:     goose.DialectSQLite3,
		folder:    "sqlite",
		clock:     func(d time.Duration) any { return instant{at: ledger.Moment(now().Add(d))} },
		due:       func() any { return instant{at: ledger.Moment(now())} },
		joined:    "given\nWHERE business_date = at_date AND transaction_id = at_id",
		hasTable:  "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?",
		// A transaction that has begun has the place of the writer.
		ping: func(tx *gorm.DB) error { return tx.Error },
		assumptions: []assumption{
			{"synchronous", "PRAGMA synchronous", []string{"2", "3"}},
			{"journal_mode", "PRAGMA journal_mode", []string{"wal"}},
		},
		again: func(err error) bool { return hasCode(err, sqlitelib.SQLITE_BUSY) },
		stale: func(error) bool { return false },
		fault: func(err error) bool {
			return hasCode(err, sqlitelib.SQLITE_CONSTRAINT, sqlitelib.SQLITE_MISMATCH, sqlitelib.SQLITE_TOOBIG)
		},
	}
}
