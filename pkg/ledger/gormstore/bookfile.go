package gormstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// errGone says that the file of a SQLite book is no longer where it was opened.
// SQLite goes on writing to it, but whoever starts next finds another book, and
// would make the same payment again.
var errGone = errors.New("the ledger's file was removed or replaced while in use; stop every service on it and put it back")

// bookFile is the file of a SQLite book as it was opened. PostgreSQL has none: a
// nil bookFile is always there.
type bookFile struct {
	path   string
	opened fs.FileInfo
	// held keeps the file's number from being given to another file. It is closed
	// last: with any of its descriptors SQLite loses the locks of all.
	held *os.File
	// wal is the file beside it that holds what was committed lately; empty where
	// there is none.
	wal string
}

// check returns errGone unless the path still leads to the file that was opened.
func (f *bookFile) check() error {
	if f == nil {
		return nil
	}
	now, err := os.Stat(f.path)
	switch {
	case isNoFile(err), err == nil && !os.SameFile(now, f.opened):
		return errGone
	case err != nil:
		return fmt.Errorf("look at the ledger's file: %w", err)
	default:
		return nil
	}
}

// checkInside is check within a transaction, while the file of the latest commits
// must be there too.
func (f *bookFile) checkInside() error {
	if err := f.check(); err != nil || f == nil || f.wal == "" {
		return err
	}
	if _, err := os.Stat(f.wal); isNoFile(err) {
		return errGone
	}
	return nil
}

// findWAL remembers the file of the latest commits, once a connection made it.
func (f *bookFile) findWAL() error {
	if f == nil {
		return nil
	}
	target, err := filepath.EvalSymlinks(f.path) // SQLite does so too
	if err != nil {
		return fmt.Errorf("find the ledger's file: %w", err)
	}
	if _, err := os.Stat(target + "-wal"); err == nil {
		f.wal = target + "-wal"
	}
	return nil
}

// release lets go of the file, when no connection is open any more.
func (f *bookFile) release() error {
	if f == nil || f.held == nil {
		return nil
	}
	held := f.held
	f.held = nil
	return held.Close()
}

func isNoFile(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// fileConnector opens connections to the book's file and to no other.
type fileConnector struct {
	driver.Connector
	file *bookFile
}

// Connect opens a connection. It looks at the path before and after: another file
// is neither changed nor used.
func (c fileConnector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := c.file.check(); err != nil {
		return nil, err
	}
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.file.check(); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// makeFile makes the file of a SQLite book before the driver does, so that from
// its first moment on it is its owner's alone; SQLite gives the files that it
// makes beside it the same mode. It reports whether the book is empty as yet. A
// book that is not there, but was, is refused.
func (d *dialect) makeFile(lock *startLock) (isNew bool, err error) {
	if d.path == "" {
		return false, nil
	}
	stat, err := os.Stat(d.path)
	missing := isNoFile(err)
	if err != nil && !missing {
		return false, fmt.Errorf("look for the ledger's file: %w", err)
	}
	isNew = missing || stat.Size() == 0
	if isNew && lock.made || missing && d.hasKeyFile() {
		return false, d.lost()
	}
	if d.file.held, err = os.OpenFile(d.path, os.O_RDWR|os.O_CREATE, 0o600); err == nil {
		d.file.opened, err = d.file.held.Stat()
	}
	if err != nil {
		return false, fmt.Errorf("make the ledger's file: %w", err)
	}
	return isNew, nil
}

// isMissing reports whether a SQLite book is not there as yet, or empty.
func (d *dialect) isMissing() bool {
	if d.path == "" {
		return false
	}
	stat, err := os.Stat(d.path)
	return isNoFile(err) || err == nil && stat.Size() == 0
}

// lost is the refusal of a book that was in use, and of which nothing is there.
func (d *dialect) lost() error {
	return &refusal{fmt.Sprintf("%[1]s was in use, and is missing or empty: restore it. To begin a new ledger, "+
		"which knows no payment made before, move what is beside it (%[1]s.key, %[1]s.lock) away", d.path)}
}

// keyFile is where the hash key of a SQLite book is kept when no flag names one;
// empty for PostgreSQL.
func (d *dialect) keyFile() string {
	if d.path == "" {
		return ""
	}
	return d.path + ".key"
}

func (d *dialect) hasKeyFile() bool {
	_, err := os.Lstat(d.keyFile())
	return err == nil
}
