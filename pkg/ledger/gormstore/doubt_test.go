package gormstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	moderncsqlite "modernc.org/sqlite"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/postgrestest"
)

var errLine = errors.New("the line went dead")

// deadLine is a driver whose COMMITs fail, with or without having happened.
type deadLine struct {
	driver.Connector
	fail     atomic.Int64 // how many to fail
	happened bool
	// onCommit is called, if it is set, with each COMMIT that happens.
	onCommit func()
}

func (d *deadLine) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := d.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &deadConn{fullConn: conn.(fullConn), line: d}, nil
}

// fullConn is what both drivers' connections can do.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
}

type deadConn struct {
	fullConn
	line *deadLine
	// inside is true in a transaction of several statements.
	inside bool
}

// Raw is the driver's own connection, as that of a traced pool has it.
func (c *deadConn) Raw() driver.Conn { return c.fullConn }

func (c *deadConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := c.fullConn.BeginTx(ctx, o)
	c.inside = err == nil
	return deadTx{tx, c}, err
}

// QueryContext takes a statement that writes rows outside of a transaction for a
// COMMIT.
func (c *deadConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.inside || !strings.HasPrefix(query, "WITH given") && !strings.HasPrefix(query, "WITH due") {
		return c.fullConn.QueryContext(ctx, query, args)
	}
	if c.line.fail.Add(-1) < 0 {
		rows, err := c.fullConn.QueryContext(ctx, query, args)
		if err == nil && c.line.onCommit != nil {
			c.line.onCommit()
		}
		return rows, err
	}
	if !c.line.happened {
		return nil, errLine
	}
	rows, err := c.fullConn.QueryContext(ctx, query, args)
	if err != nil {
		return nil, err
	}
	row := make([]driver.Value, len(rows.Columns()))
	for err == nil {
		err = rows.Next(row)
	}
	return nil, errors.Join(errLine, rows.Close())
}

// CheckNamedValue passes on what the driver takes as it is.
func (c *deadConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.fullConn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

type deadTx struct {
	driver.Tx
	conn *deadConn
}

func (t deadTx) Rollback() error {
	t.conn.inside = false
	return t.Tx.Rollback()
}

func (t deadTx) Commit() error {
	t.conn.inside = false
	line := t.conn.line
	if line.fail.Add(-1) < 0 {
		if line.onCommit != nil {
			line.onCommit()
		}
		return t.Tx.Commit()
	}
	if line.happened {
		return errors.Join(errLine, t.Tx.Commit())
	}
	return errors.Join(errLine, t.Rollback())
}

// eachDeadLine runs a test on a book of each kind, of which the COMMITs fail as
// the line says.
func eachDeadLine(t *testing.T, test func(t *testing.T, s *Store, line *deadLine)) {
	t.Helper()
	run := func(name string, make connectorOf) {
		for _, happened := range []bool{true, false} {
			t.Run(name+map[bool]string{true: " that happened", false: " that did not happen"}[happened], func(t *testing.T) {
				d, connector := make(t)
				line := &deadLine{Connector: connector, happened: happened}
				s := openDeadLine(t, d, line)
				test(t, s, line)
			})
		}
	}
	run("sqlite", sqliteConnector)
	run("postgresql", postgresConnector)
}

// connectorOf makes a new, empty database, and says how to connect to it.
type connectorOf func(t *testing.T) (*dialect, driver.Connector)

// openDeadLine opens a new book over the line.
func openDeadLine(t *testing.T, d *dialect, line *deadLine) *Store {
	t.Helper()
	d.connector = func() (driver.Connector, error) { return line, nil }
	s, err := newStore(d, Options{
		Flags: Flags{Migrate: true, LedgerMaxConns: 4}, Logger: slog.New(slog.NewJSONHandler(io.Discard, nil)),
	}, ledger.HashKey{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func sqliteConnector(t *testing.T) (*dialect, driver.Connector) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	connector, err := moderncsqlite.NewConnector(path + sqliteParameters)
	if err != nil {
		t.Fatal(err)
	}
	d := sqliteDialect(path, time.Now)
	if _, err := d.makeFile(&startLock{}); err != nil {
		t.Fatal(err)
	}
	return d, connector
}

func postgresConnector(t *testing.T) (*dialect, driver.Connector) {
	config, err := pgx.ParseConfig(postgrestest.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	return postgresDialect(config), stdlib.GetConnector(*config)
}

func doubtfulIntent() ledger.Intent {
	return ledger.Intent{
		ID: "GWMNU20260725000000001", Client: "shop", Key: "key", AccountMasked: "****", Amount: 1,
		Policy: ledger.PolicyConfirm, RequestedAt: time.Now(), AdoptAfter: time.Hour, KeyLife: time.Hour, By: ledger.Actor{Name: "payment"},
	}
}

func TestCreateIntent_CommitInDoubtIsFoundOut(t *testing.T) {
	eachDeadLine(t, func(t *testing.T, s *Store, line *deadLine) {
		line.fail.Store(2)
		admission, err := s.CreateIntent(t.Context(), doubtfulIntent())
		if err != nil || !admission.Created {
			t.Fatalf("created %t, error %v", admission.Created, err)
		}
		stored, err := s.Get(t.Context(), admission.Transaction.ID)
		if err != nil || stored != admission.Transaction {
			t.Errorf("stored %+v, error %v", stored, err)
		}
		if events, err := s.Events(t.Context(), stored.ID); err != nil || len(events) != 1 {
			t.Errorf("%d events, error %v", len(events), err)
		}
	})
}

func TestCreateIntent_CommitInDoubtToTheEndIsUnavailable(t *testing.T) {
	eachDeadLine(t, func(t *testing.T, s *Store, line *deadLine) {
		if line.happened {
			t.Skip("is found out by the first look")
		}
		line.fail.Store(1 << 30)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		admission, err := s.CreateIntent(ctx, doubtfulIntent())
		if !errors.Is(err, ledger.ErrUnavailable) || admission.Created {
			t.Errorf("created %t, error %v", admission.Created, err)
		}
	})
}

func TestTransition_CommitInDoubtIsUnavailable(t *testing.T) {
	eachDeadLine(t, func(t *testing.T, s *Store, line *deadLine) {
		in := doubtfulIntent()
		if _, err := s.CreateIntent(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		line.fail.Store(1)
		_, err := s.Transition(t.Context(), ledger.Change{
			ID: in.ID, From: ledger.StatusRequested, To: ledger.StatusUnknown, By: in.By,
		})
		if !errors.Is(err, ledger.ErrUnavailable) || !errors.Is(err, errLine) {
			t.Errorf("error %v", err)
		}
		stored, err := s.Get(t.Context(), in.ID)
		if want := stored.Status == ledger.StatusUnknown; err != nil || want != line.happened {
			t.Errorf("%s after a commit that happened: %t, error %v", stored.Status, line.happened, err)
		}
	})
}

// The file may be lost between the last look at it and the COMMIT.
func TestCreateIntent_CommittedIntoALostFileIsNotCreated(t *testing.T) {
	eachDeadLine(t, func(t *testing.T, s *Store, line *deadLine) {
		if s.Name() != "sqlite" {
			t.Skip("PostgreSQL keeps its files itself")
		}
		line.onCommit = func() {
			if err := os.Rename(s.dialect.path, s.dialect.path+".moved"); err != nil {
				t.Error(err)
			}
		}
		if admission, err := s.CreateIntent(t.Context(), doubtfulIntent()); !errors.Is(err, errGone) || admission.Created {
			t.Errorf("created %t, error %v", admission.Created, err)
		}
	})
}
