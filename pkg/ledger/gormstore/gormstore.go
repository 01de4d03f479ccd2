// Package gormstore is the ledger on GORM, in PostgreSQL or in SQLite: the only
// place in the house that knows SQL. Its tables are made by goose migrations,
// and their constraints repeat what package ledger says a row must keep to, so
// that not even a mistake of ours can store a payment that lies.
//
// Every method is one database transaction or one statement on one connection, or
// shares one with calls of its kind that come at the same time; nothing in here
// waits for anything but the database. What the database refuses
// for the sake of another writer (SQLITE_BUSY, serialization failure, deadlock)
// is tried again until the caller's deadline.
package gormstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/trace"
	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// Flags say which book to open. They carry kong tags.
type Flags struct {
	LedgerDSN string `default:"sqlite:var/ledger.db" help:"The ledger: sqlite:PATH or postgres://..." name:"ledger-dsn" placeholder:"DSN" shown:"dsn"`
	HashKey   string `help:"Key of the ledger's digests: 64 hex digits or file:PATH. Unset with SQLite: a file beside the ledger, made at the first start." name:"hash-key" placeholder:"KEY" shown:"key"`
	Migrate   bool   `default:"true" help:"Bring the ledger's tables up to date at start; otherwise refuse a ledger that is behind." name:"migrate" negatable:""`
	// LedgerMaxConns is how many connections the pool has at most; 0 means 16.
	LedgerMaxConns int `default:"16" help:"The most connections to the ledger's database at a time, 2 to 1000. A payment service is fastest with 8 and more." name:"ledger-max-conns" placeholder:"N"`
}

// Validate is called when the flags are read.
func (f *Flags) Validate() error {
	if f.LedgerMaxConns < fewestConns || f.LedgerMaxConns > mostConns {
		return fmt.Errorf("--ledger-max-conns must be %d to %d", fewestConns, mostConns)
	}
	return nil
}

// Options are what Open needs.
type Options struct {
	Flags Flags
	// Logger hears what an operator must know about the database; required.
	Logger *slog.Logger
	// Now is the clock of a SQLite book, which has none of its own; nil means
	// the machine's. PostgreSQL's clock is its server's.
	Now func() time.Time
	// Registry counts how many rows each commit of payments has, and those that
	// cannot be read; nil means that nobody looks.
	Registry prometheus.Registerer
	// Tracer makes the spans of statements; nil means that nothing is traced.
	Tracer trace.TracerProvider
}

// UsageError says what is wrong with the flags, in one line and without a
// secret. The process should exit with 2.
type UsageError struct {
	// Err is the fault.
	Err error
}

// Error is one line.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap is the fault.
func (e *UsageError) Unwrap() error { return e.Err }

// IsUsage tells a binary that what it was called with is wrong.
func (e *UsageError) IsUsage() {}

func usagef(format string, args ...any) error {
	return &UsageError{Err: fmt.Errorf(format, args...)}
}

// The bounds of what a store waits for.
const (
	defaultMaxConns = 16
	// A write may have to look at what another connection is about to commit.
	fewestConns, mostConns = 2, 1000
	// defaultTimeout ends a method whose caller set no deadline.
	defaultTimeout = 5 * time.Second
	// connectTimeout bounds one attempt to make a book ready.
	connectTimeout = 5 * time.Second
)

var (
	errNotReady = errors.New("not connected yet")
	errClosed   = errors.New("store is closed")
)

// Store is a ledger.Store on a database.
type Store struct {
	dialect *dialect
	db      *gorm.DB
	// allowed bounds the pool's connections.
	allowed *allowance
	log     *slog.Logger
	key     ledger.HashKey
	migrate bool
	// made is true when a SQLite book was made before, so that one without tables
	// is another.
	made bool

	// writing has one place where the database takes one writer at a time: who
	// waits here waits in order and spends nothing.
	writing chan struct{}

	mu    sync.Mutex
	state error // nil when the book is ready, else why it is not

	// intents, outcomes and decisions are where those wait who write the rows of
	// payments, claims who begin to resolve some, resolutions and postponements who
	// end that.
	intents       *line[*intention, *ledger.Admission]
	outcomes      *line[*ledger.Change, *ledger.Transaction]
	decisions     *line[*decision, ledger.Transaction]
	resolutions   *line[*ledger.Change, *ledger.Transaction]
	postponements *line[*ledger.Postponement, struct{}]
	claims        *line[*claiming, []clockedRow]

	// requested are rows whose outcomes are awaited, claimed those that are being
	// resolved.
	requested recent
	claimed   claimed

	// failed is the last write that failed, until a probe succeeds.
	failed atomic.Pointer[error]

	unreadable *unreadable

	stop       context.CancelFunc
	connecting sync.WaitGroup
	// patience is how long a start waits for a book that is being migrated.
	patience time.Duration
}

var _ ledger.Store = (*Store)(nil)

// Open opens the book that the flags name, brings its tables up to date, and
// returns it with the key of its digests.
//
// It returns a *UsageError for flags that cannot be right, and another error for
// a book that must not be used: one of a newer version, one that is behind where
// migrating is off, one whose digests were made with another key, or a SQLite
// file that was in use and is gone. A
// PostgreSQL that cannot be reached is no error: the Store then answers
// ErrUnavailable, and goes on connecting until it is closed.
func Open(ctx context.Context, o Options) (*Store, ledger.HashKey, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Flags.LedgerMaxConns == 0 {
		o.Flags.LedgerMaxConns = defaultMaxConns
	}
	d, err := parseDSN(o.Flags.LedgerDSN, o.Now)
	if err != nil {
		return nil, ledger.HashKey{}, err
	}
	key, err := d.givenHashKey(o.Flags.HashKey)
	if err != nil {
		return nil, ledger.HashKey{}, err
	}
	if !o.Flags.Migrate && d.isMissing() { // no file is made to find that out
		return nil, ledger.HashKey{}, &refusal{fmt.Sprintf("%s is not there, and migrating is off", d.path)}
	}
	lock, err := d.lockFile(ctx)
	if err != nil {
		return nil, ledger.HashKey{}, err
	}
	s, err := openLocked(ctx, d, o, key, lock)
	if err != nil {
		return nil, ledger.HashKey{}, errors.Join(err, d.file.release(), lock.release())
	}
	if err := lock.release(); err != nil {
		return nil, ledger.HashKey{}, errors.Join(err, s.Close())
	}
	return s, s.key, nil
}

// openLocked opens the book while no other process is making it.
func openLocked(ctx context.Context, d *dialect, o Options, key ledger.HashKey, lock *startLock) (*Store, error) {
	isNew, err := d.makeFile(lock)
	if err != nil {
		return nil, err
	}
	if isNew { // of a mistyped path nothing else would tell
		o.Logger.WarnContext(ctx, "the ledger is made anew: it knows of no payment and of no key", "path", d.path)
	}
	if key == (ledger.HashKey{}) {
		if key, err = keptHashKey(d.keyFile(), isNew); err != nil {
			return nil, err
		}
	}
	s, err := newStore(d, o, key)
	if err != nil {
		return nil, err
	}
	s.made = lock.made
	err = s.start(ctx)
	if err == nil {
		err = errors.Join(d.file.findWAL(), lock.markMade())
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// newStore is a Store that has not looked at its database yet.
func newStore(d *dialect, o Options, key ledger.HashKey) (*Store, error) {
	connector, err := d.connector()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", d.name, err)
	}
	allowed := &allowance{log: o.Logger, most: max(o.Flags.LedgerMaxConns, fewestConns)}
	pool := openPool(allowed.over(connector), d.name, o.Tracer)
	allowed.keeps(pool)
	db, err := gorm.Open(d.dialector(pool), &gorm.Config{
		Logger:                 sqlLog{log: o.Logger, slow: slowStatement},
		TranslateError:         true,
		SkipDefaultTransaction: true,
		DisableAutomaticPing:   true,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", d.name, err), pool.Close())
	}
	s := &Store{
		dialect: d, db: db, allowed: allowed, log: o.Logger, key: key, migrate: o.Flags.Migrate,
		writing: make(chan struct{}, d.writers), state: errNotReady, unreadable: newUnreadable(&o), patience: startPatience,
	}
	rows := batchRows(o.Registry)
	s.intents = newLineOf(d.writers, rows.WithLabelValues("intent"), s.writeIntents)
	s.outcomes = newLineOf(d.writers, rows.WithLabelValues("outcome"), s.writeOutcomes)
	s.decisions = newLine(unobserved, inTurns(d, rows.WithLabelValues("decision"), s.writeDecisions))
	s.resolutions = newLine(unobserved, inTurns(d, rows.WithLabelValues("resolution"), s.writeResolutions))
	s.postponements = newLine(unobserved, inTurns(d, rows.WithLabelValues("postponement"), s.writePostponements))
	s.claims = newLine(unobserved, s.writeClaims)
	return s, nil
}

// batchRows is how many rows of payments there are to a commit.
func batchRows(registry prometheus.Registerer) *prometheus.HistogramVec {
	return promauto.With(registry).NewHistogramVec(prometheus.HistogramOpts{
		Name:    "gwanmun_ledger_batch_rows",
		Help:    "Rows of payments that were written with one commit.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 9),
	}, []string{"kind"})
}

// Name is what the store is called in logs and reports: postgresql or sqlite.
func (s *Store) Name() string { return s.dialect.name }

// Close stops connecting, waits for that and for the rows that are being written,
// and closes the database. Who waits to write is told that it is closed.
func (s *Store) Close() error {
	if s.stop != nil {
		s.stop()
	}
	s.connecting.Wait()
	s.setState(errClosed)
	s.intents.close()
	s.outcomes.close()
	s.decisions.close()
	s.resolutions.close()
	s.postponements.close()
	s.claims.close()
	pool, err := s.db.DB()
	if err != nil {
		return fmt.Errorf("close ledger: %w", err)
	}
	s.allowed.end()
	if err := errors.Join(pool.Close(), s.dialect.file.release()); err != nil {
		return fmt.Errorf("close ledger: %w", err)
	}
	return nil
}

func (s *Store) setState(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = err
}

// giveUp makes every later call fail, and says so once.
func (s *Store) giveUp(ctx context.Context, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != nil {
		return
	}
	s.state = why
	s.log.ErrorContext(ctx, "ledger lost, and not used until a restart", "store", s.dialect.name, "error", why)
}

// ready returns nil, or why the book cannot be used.
func (s *Store) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}
