package gormstore

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

const (
	// prepareTimeout bounds each look at the book.
	prepareTimeout = time.Minute
	// startPatience is how long a start waits for a book that is being migrated, by
	// whomever. Then the service runs, and is not ready.
	startPatience = 10 * time.Second

	firstReconnect = 250 * time.Millisecond
	lastReconnect  = 10 * time.Second
)

// errUnreachable is a database that could not be asked at all.
var errUnreachable = errors.New("reach the database")

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
// cannot be reached, or where it takes long.
func (s *Store) start(ctx context.Context) error {
	preparing, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	tried := make(chan error, 1)
	s.connecting.Go(func() { tried <- s.prepareBusy(preparing) })
	var patience <-chan time.Time
	if s.dialect.path == "" {
		timer := time.NewTimer(s.patience)
		defer timer.Stop()
		patience = timer.C
	}
	select {
	case err := <-tried:
		if err == nil {
			s.setState(nil)
			return nil
		}
		if s.dialect.path != "" || isRefusal(err) || isDenied(err) {
			return err
		}
		s.tellUnready(ctx, err)
		tried <- err
	case <-patience:
		s.log.WarnContext(ctx, "ledger takes long to be made ready, and is not used until then", "store", s.dialect.name)
	case <-ctx.Done():
		stop()
		if err := <-tried; isRefusal(err) || isDenied(err) {
			return err
		}
		return ctx.Err()
	}
	s.connecting.Go(func() { s.connect(preparing, tried) })
	return nil
}

// connect tries until the book is ready or refused, or the store closed. The first
// try was made before.
func (s *Store) connect(ctx context.Context, tried <-chan error) {
	err := <-tried
	for wait := firstReconnect; !s.takeUp(ctx, err); wait = min(2*wait, lastReconnect) {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		if err = s.prepare(ctx); err != nil && !isRefusal(err) && ctx.Err() == nil {
			s.tellUnready(ctx, err)
		}
	}
}

// takeUp begins to use a book that is ready, or gives up one that is refused, and
// reports whether it was either.
func (s *Store) takeUp(ctx context.Context, err error) bool {
	switch {
	case err == nil:
		s.log.InfoContext(ctx, "ledger connected", "store", s.dialect.name)
		s.setState(nil)
	case isRefusal(err):
		s.log.ErrorContext(ctx, "ledger refused, and not used until a restart", "store", s.dialect.name, "error", err)
		s.setState(err)
	default:
		return false
	}
	return true
}

// tellUnready says why a book is not ready, which is tried again.
func (s *Store) tellUnready(ctx context.Context, err error) {
	if errors.Is(err, errUnreachable) {
		s.log.WarnContext(ctx, "ledger cannot be reached, will go on trying", "store", s.dialect.name, "error", err)
		return
	}
	level := slog.LevelWarn
	if hasClass(err, "42501") { // who may not, may not later
		level = slog.LevelError
	}
	s.log.Log(ctx, level, "ledger is not ready, will go on trying", "store", s.dialect.name, "error", err)
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
func (s *Store) prepare(ctx context.Context) error {
	pool, err := s.db.DB()
	if err != nil {
		return err
	}
	reaching, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := pool.PingContext(reaching); err != nil {
		return fmt.Errorf("%w: %w", errUnreachable, err)
	}
	if err := s.checkEncoding(ctx); err != nil {
		return err
	}
	if err := s.bringUpToDate(ctx, pool); err != nil {
		return err
	}
	ctx, cancel = context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	if err := s.checkKey(ctx); err != nil {
		return err
	}
	return s.checkAssumptions(ctx)
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
