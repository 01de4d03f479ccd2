package simulator

import (
	"context"
	"database/sql"
	_ "embed" // the schema
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the database/sql driver "sqlite"
)

const (
	// bookApplication marks a SQLite file as a book of this simulator ("GWMB").
	bookApplication = 0x47574d42
	// bookVersion is the newest schema that this program knows.
	bookVersion = 1

	busyTimeout = 5 * time.Second
	readers     = 2
)

//go:embed schema.sql
var schema string

var (
	// ErrInUse says that another process has the book open.
	ErrInUse = errors.New("another process has the book open")
	// ErrNotBook says that the file is a database, but no book.
	ErrNotBook = errors.New("the file is no book of this simulator")
	// ErrNewer says that a newer program wrote the book.
	ErrNewer = errors.New("the book is of a newer version")
)

// SQLiteBook is a Book in a SQLite file, in WAL mode with synchronous=FULL: what
// Append wrote survives the end of the process and of the machine.
type SQLiteBook struct {
	lock *os.File

	writeDB, readDB *sql.DB
	write           *sql.Conn // the one connection that writes
	insertEntry     *sql.Stmt
	insertEntries   *sql.Stmt // entriesPerInsert of them
	insertSetting   *sql.Stmt
	settings        int64 // how many there are
}

// OpenSQLite opens the book in a file, and makes it, readable by its owner
// alone, if there is none. Errors: ErrInUse, ErrNotBook, ErrNewer.
func OpenSQLite(ctx context.Context, path string) (*SQLiteBook, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find the book: %w", err)
	}
	b := new(SQLiteBook)
	if err := b.openFile(ctx, path); err != nil {
		return nil, errors.Join(fmt.Errorf("open the book: %w", err), b.Close())
	}
	return b, nil
}

func (b *SQLiteBook) openFile(ctx context.Context, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return err
	}
	b.lock = lock
	// SQLite would make it readable by everyone, and gives its WAL the same mode.
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	if err := b.connect(ctx, path); err != nil {
		return err
	}
	if err := b.migrate(ctx); err != nil {
		return err
	}
	return b.prepare(ctx)
}

func (b *SQLiteBook) connect(ctx context.Context, path string) error {
	address := func(pragmas ...string) string {
		u := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"_pragma": pragmas}.Encode()}
		return u.String()
	}
	busy := fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds())
	var err error
	if b.writeDB, err = sql.Open("sqlite", address(busy, "journal_mode(WAL)", "synchronous(FULL)")); err != nil {
		return err
	}
	if b.write, err = b.writeDB.Conn(ctx); err != nil {
		return err
	}
	if err := b.checkDurability(ctx); err != nil {
		return err
	}
	if b.readDB, err = sql.Open("sqlite", address(busy, "query_only(ON)")); err != nil {
		return err
	}
	b.readDB.SetMaxOpenConns(readers)
	return nil
}

// checkDurability asks SQLite whether it took the settings that make a commit
// survive: it says nothing when it does not.
func (b *SQLiteBook) checkDurability(ctx context.Context) error {
	var mode string
	var synchronous int
	if err := b.write.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return err
	}
	if err := b.write.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&synchronous); err != nil {
		return err
	}
	const full = 2
	if mode != "wal" || synchronous != full {
		return fmt.Errorf("journal_mode is %s and synchronous is %d, not wal and %d", mode, synchronous, full)
	}
	return nil
}

func (b *SQLiteBook) migrate(ctx context.Context) error {
	var application, version, tables int
	for query, value := range map[string]*int{
		"PRAGMA application_id":              &application,
		"PRAGMA user_version":                &version,
		"SELECT count(*) FROM sqlite_schema": &tables,
	} {
		if err := b.write.QueryRowContext(ctx, query).Scan(value); err != nil {
			return err
		}
	}
	switch {
	case tables > 0 && application != bookApplication:
		return ErrNotBook
	case version > bookVersion:
		return fmt.Errorf("%w: %d, this program knows %d", ErrNewer, version, bookVersion)
	case version == bookVersion:
		return nil
	}
	script := fmt.Sprintf("BEGIN IMMEDIATE; %s PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT",
		schema, bookApplication, bookVersion)
	if _, err := b.write.ExecContext(ctx, script); err != nil {
		return fmt.Errorf("create the tables: %w", err)
	}
	return nil
}

func (b *SQLiteBook) prepare(ctx context.Context) error {
	for statement, query := range map[**sql.Stmt]string{
		&b.insertEntry:   insertSQL(1),
		&b.insertEntries: insertSQL(entriesPerInsert),
		&b.insertSetting: insertSettingSQL,
	} {
		var err error
		if *statement, err = b.write.PrepareContext(ctx, query); err != nil { //nolint:sqlclosecheck // ends with its connection
			return err
		}
	}
	return b.write.QueryRowContext(ctx, "SELECT coalesce(max(number), 0) FROM settings").Scan(&b.settings)
}

// Close implements Book. It also ends an OpenSQLite that failed half-way.
func (b *SQLiteBook) Close() error {
	var errs []error
	if b.write != nil {
		errs = append(errs, b.write.Close())
	}
	for _, db := range []*sql.DB{b.readDB, b.writeDB} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if b.lock != nil {
		errs = append(errs, b.lock.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close the book: %w", err)
	}
	return nil
}
