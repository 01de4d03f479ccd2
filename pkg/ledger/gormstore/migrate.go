package gormstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pressly/goose/v3"
)

const (
	// versionTable is where goose keeps the version of the book.
	versionTable = "ledger_version"
	// migrateTimeout bounds migrating, and waiting for another who does. A large
	// book gets a new index slowly, while payments go on.
	migrateTimeout = 2 * time.Hour
	// lockNumber is the advisory lock of a PostgreSQL book: "gwanmun" in ASCII.
	lockNumber = 0x6777616e6d756e
	// lockEvery is how often one who waits tries to get the book.
	lockEvery = 100 * time.Millisecond
	// lettingGo is how long a server is given to hear that it is to stop migrating.
	lettingGo = 2 * time.Second
)

// What a bank allows a statement, or a session, is not for an index of a large book:
// cut short each time, it would be made for ever. PostgreSQL has these settings, or
// will have, by its version.
const (
	limits      = `name IN ('statement_timeout', 'transaction_timeout', 'idle_session_timeout', 'lock_timeout')`
	takeLimits  = `SELECT set_config(name, '0', false) FROM pg_settings WHERE ` + limits
	resetLimits = `SELECT set_config(name, reset_val, false) FROM pg_settings WHERE ` + limits
)

// bringUpToDate migrates the book. goose passes a book of a newer version
// silently, so versions are compared before and after.
func (s *Store) bringUpToDate(ctx context.Context, pool *sql.DB) error {
	files, err := s.dialect.migrations()
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	options := []goose.ProviderOption{goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true)}
	lock := &bookLock{store: s.dialect.name, log: s.log}
	if s.dialect.path == "" { // Open holds the lock of a file
		options = append(options, goose.WithSessionLocker(lock))
	}
	provider, err := goose.NewProvider(s.dialect.goose, pool, files, options...)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	sources := provider.ListSources()
	ours := sources[len(sources)-1].Version
	behind, err := s.compareVersion(ctx, ours)
	switch {
	case err != nil:
		return err
	case behind && !s.migrate:
		return &refusal{fmt.Sprintf("it is behind version %d, and migrating is off", ours)}
	case !behind:
		return nil
	}
	begun := time.Now()
	s.log.InfoContext(ctx, "migrating the ledger", "store", s.dialect.name, "version", ours)
	migrating, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	made, err := provider.Up(migrating)
	switch {
	case err != nil:
		if migrating.Err() != nil {
			lock.letGo()
		}
		return fmt.Errorf("migrate the ledger: %w", err)
	case len(made) > 0: // and not by another, for whom we waited
		s.log.InfoContext(ctx, "migrated the ledger", "store", s.dialect.name, "version", ours, "seconds", time.Since(begun).Seconds())
	}
	if behind, err = s.compareVersion(ctx, ours); err == nil && behind {
		err = fmt.Errorf("migrate the ledger: it is still behind version %d", ours)
	}
	return err
}

// compareVersion refuses a book of a newer version than ours, and reports whether
// it is behind.
func (s *Store) compareVersion(ctx context.Context, ours int64) (behind bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	var tables, version int64
	db := s.db.WithContext(ctx)
	if err := db.Raw(s.dialect.hasTable, versionTable).Scan(&tables).Error; err != nil {
		return false, fmt.Errorf("look for the ledger's version: %w", err)
	}
	switch {
	case tables == 0 && s.made:
		return false, s.dialect.lost()
	case tables > 0:
		err := db.Raw("SELECT COALESCE(max(version_id), 0) FROM " + versionTable + " WHERE is_applied").Scan(&version).Error
		if err != nil {
			return false, fmt.Errorf("read the ledger's version: %w", err)
		}
	}
	if version > ours {
		return false, &refusal{fmt.Sprintf("it is of version %d, and this program knows it up to version %d", version, ours)}
	}
	return version < ours, nil
}

// bookLock keeps others from migrating the book at the same time. It is held by the
// session that migrates: when that is lost, so is the migration, and a server that
// goes on with a statement of a process that is gone keeps others out until it ends.
//
// Who waits asks again and again: an index that is made beside payments waits for all
// statements that have begun, and one of those would be the one that waits for the
// lock.
type bookLock struct {
	store string
	log   *slog.Logger
	// gone is closed when a session that was cut short has told the server so.
	gone <-chan struct{}
}

// SessionLock implements goose's lock.SessionLocker.
func (l *bookLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	again := time.NewTicker(lockEvery)
	defer again.Stop()
	for told := false; ; told = true {
		asking, cancel := context.WithTimeout(ctx, prepareTimeout)
		var ours bool
		err := conn.QueryRowContext(asking, "SELECT pg_try_advisory_lock($1)", int64(lockNumber)).Scan(&ours)
		cancel()
		switch {
		case err != nil:
			return err
		case ours:
			return l.settle(ctx, conn)
		case !told:
			l.log.InfoContext(ctx, "waiting for another process that migrates the ledger", "store", l.store)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// settle lets the session that has the lock take its time.
func (l *bookLock) settle(ctx context.Context, conn *sql.Conn) error {
	if pg := sessionOf(conn); pg != nil {
		l.gone = pg.CleanupDone()
	}
	if _, err := conn.ExecContext(ctx, takeLimits); err != nil {
		discard(conn)
		return fmt.Errorf("set the limits of the session that migrates: %w", err)
	}
	return nil
}

// letGo waits until the server was told to stop migrating, if it is that: it goes on
// with an index, and keeps the lock, when nothing but the connection is gone.
func (l *bookLock) letGo() {
	if l.gone == nil {
		return
	}
	select {
	case <-l.gone:
	case <-time.After(lettingGo):
	}
}

// SessionUnlock implements goose's lock.SessionLocker. A session that is lost has no
// lock any more.
func (l *bookLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	_, err := conn.ExecContext(ctx, resetLimits)
	if err == nil {
		_, err = conn.ExecContext(ctx, "SELECT pg_advisory_unlock($1)", int64(lockNumber))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("unlock the ledger: %w", err), conn.Raw(func(any) error { return driver.ErrBadConn }))
	}
	return nil
}
