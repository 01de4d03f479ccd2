package gormstore

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pressly/goose/v3"
)

const (
	// versionTable is where goose keeps the version of the book.
	versionTable = "ledger_version"
	// prepareTimeout bounds each look at the book.
	prepareTimeout = time.Minute
	// migrateTimeout bounds migrating, and waiting for another who does. A large
	// book gets a new index slowly, while payments go on.
	migrateTimeout = 2 * time.Hour
	// lockEvery is how often one who waits tries to get the book.
	lockEvery = 100 * time.Millisecond
	// bookLock is the advisory lock of a PostgreSQL book: "gwanmun" in ASCII.
	bookLock = 0x6777616e6d756e

	firstReconnect = 250 * time.Millisecond
	lastReconnect  = 10 * time.Second
)

// refusal is a book that must not be used as it is. No waiting helps.
type refusal struct {
	reason string
}

// Error says why.
func (r *refusal) Error() string { return "the ledger is refused: " + r.reason }

func isRefusal(err error) bool {
	var r *refusal
	return errors.As(err, &r)
}

// isDenied reports whether a server that was reached does not let us in: at
// start that is a mistake in the DSN.
func isDenied(err error) bool { return hasClass(err, "28", "3D000") }

// start makes the book ready, or leaves that to a goroutine where its database
// cannot be reached.
func (s *Store) start(ctx context.Context) error {
	err := s.prepareBusy(ctx)
	switch {
	case err == nil:
		s.setState(nil)
		return nil
	case s.dialect.path != "", isRefusal(err), isDenied(err), ctx.Err() != nil:
		return err
	}
	s.log.WarnContext(ctx, "ledger cannot be reached, will go on trying", "store", s.dialect.name, "error", err)
	connecting, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.connecting.Go(func() { s.connect(connecting) })
	return nil
}

// connect tries until the book is ready or refused, or the store closed.
func (s *Store) connect(ctx context.Context) {
	for wait := firstReconnect; ; wait = min(2*wait, lastReconnect) {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		err := s.prepare(ctx)
		switch {
		case err == nil:
			s.log.InfoContext(ctx, "ledger connected", "store", s.dialect.name)
			s.setState(nil)
			return
		case isRefusal(err):
			s.log.ErrorContext(ctx, "ledger refused, and not used until a restart", "store", s.dialect.name, "error", err)
			s.setState(err)
			return
		case ctx.Err() == nil:
			s.log.WarnContext(ctx, "ledger still cannot be reached", "store", s.dialect.name, "error", err)
		}
	}
}

// prepareBusy prepares the book, and again while another process keeps it busy:
// one that starts beside others that write all the time is not to give up.
func (s *Store) prepareBusy(ctx context.Context) error {
	err := s.prepare(ctx)
	for tries := 1; tries < maxTries && s.dialect.again(err) && pause(ctx, tries); tries++ {
		err = s.prepare(ctx)
	}
	return err
}

// prepare reaches the database, brings its tables up to date, and checks that it
// is our book.
func (s *Store) prepare(ctx context.Context) (err error) {
	pool, err := s.db.DB()
	if err != nil {
		return err
	}
	reaching, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := pool.PingContext(reaching); err != nil {
		return fmt.Errorf("reach the database: %w", err)
	}
	migrating, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	unlock, err := s.dialect.lock(migrating, pool)
	if err != nil {
		return fmt.Errorf("lock the ledger: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := s.checkEncoding(ctx); err != nil {
		return err
	}
	if err := s.bringUpToDate(migrating, pool); err != nil {
		return err
	}
	ctx, cancel = context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	if err := s.checkKey(ctx); err != nil {
		return err
	}
	return s.checkAssumptions(ctx)
}

// bringUpToDate migrates the book. goose passes a book of a newer version
// silently, so versions are compared before and after.
func (s *Store) bringUpToDate(ctx context.Context, pool *sql.DB) error {
	files, err := s.dialect.migrations()
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	provider, err := goose.NewProvider(s.dialect.goose, pool, files,
		goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true))
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
	s.log.InfoContext(ctx, "migrating the ledger", "store", s.dialect.name, "version", ours)
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate the ledger: %w", err)
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

// checkKey stores the key's check value in a new book, and refuses another key
// ever after: with it no account would be found and no payment recognised. A book
// that has one is only read: another writer must not keep a service from starting.
func (s *Store) checkKey(ctx context.Context) error {
	check := s.key.Check()
	db := s.db.WithContext(ctx)
	for range 2 {
		var stored [][]byte
		if err := db.Raw("SELECT check_value FROM hash_key_check WHERE id = 1").Scan(&stored).Error; err != nil {
			return fmt.Errorf("read the hash key's check value: %w", err)
		}
		switch {
		case len(stored) == 1 && subtle.ConstantTimeCompare(stored[0], check[:]) == 1:
			return nil
		case len(stored) == 1:
			return &refusal{"it was made with another hash key"}
		}
		err := db.Exec("INSERT INTO hash_key_check (id, check_value) VALUES (1, ?) ON CONFLICT DO NOTHING", check[:]).Error
		if err != nil {
			return fmt.Errorf("store the hash key's check value: %w", err)
		}
	}
	return errors.New("the hash key's check value is not kept")
}

// checkEncoding refuses a database that cannot hold every text: an outcome whose
// message it does not take could not be stored, and what the core did would be undone.
func (s *Store) checkEncoding(ctx context.Context) error {
	if s.dialect.encoding == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	var encoding string
	if err := s.db.WithContext(ctx).Raw(s.dialect.encoding).Scan(&encoding).Error; err != nil {
		return fmt.Errorf("read the encoding: %w", err)
	}
	if encoding != utf8 {
		return &refusal{fmt.Sprintf("its encoding is %.30q, and must be %s", encoding, utf8)}
	}
	return nil
}

// checkAssumptions says loudly when the database is set so that a crash may take
// back what it confirmed.
func (s *Store) checkAssumptions(ctx context.Context) error {
	for _, a := range s.dialect.assumptions {
		var value string
		if err := s.db.WithContext(ctx).Raw(a.query).Scan(&value).Error; err != nil {
			return fmt.Errorf("read the setting %s: %w", a.setting, err)
		}
		if !slices.Contains(a.sound, value) {
			s.log.ErrorContext(ctx, "the database may lose what it has confirmed: a payment may be made twice",
				"store", s.dialect.name, "setting", a.setting, "value", value, "want", a.sound[0])
		}
	}
	return nil
}

// lock keeps others from migrating the book at the same time. Who waits for it asks
// again and again: an index that is made beside payments waits for all statements
// that have begun, and one of those would be the one that waits for the lock.
func (d *dialect) lock(ctx context.Context, pool *sql.DB) (unlock func() error, err error) {
	if d.path != "" {
		return func() error { return nil }, nil // Open holds the file's lock
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if err := takeBook(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
		defer cancel()
		_, err := conn.ExecContext(ctx, "SELECT pg_advisory_unlock($1)", int64(bookLock))
		return errors.Join(err, conn.Close())
	}, nil
}

// takeBook waits until the session has the lock of the book.
func takeBook(ctx context.Context, conn *sql.Conn) error {
	again := time.NewTicker(lockEvery)
	defer again.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, prepareTimeout)
		var ours bool
		err := conn.QueryRowContext(asking, "SELECT pg_try_advisory_lock($1)", int64(bookLock)).Scan(&ours)
		cancel()
		if err != nil || ours {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
