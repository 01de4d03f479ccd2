package gormstore_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/gormstore"
	"github.com/gwanmun/gwanmun/pkg/postgrestest"
)

const patience = 30 * time.Second

// gate is a way to a PostgreSQL server that is shut at first.
type gate struct {
	address string
	server  func() (net.Conn, error)

	mu       sync.Mutex
	listener net.Listener
	passing  []net.Conn
	all      sync.WaitGroup
}

// newGate returns a shut gate before the database that dsn names, and its DSN
// through the gate, with a password.
func newGate(t *testing.T, dsn string) (*gate, string) {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	reserved, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{address: reserved.Addr().String(), server: func() (net.Conn, error) {
		network, address := pgconn.NetworkAddress(config.Host, config.Port)
		return net.Dial(network, address)
	}}
	if err := reserved.Close(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.shut)
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.Host, u.User = g.address, url.UserPassword(config.User, "hunter2")
	u.RawQuery = "sslmode=disable"
	return g, u.String()
}

func (g *gate) open(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", g.address)
	if err != nil {
		t.Fatal(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listener = listener
	g.all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // shut
			}
			if server, err := g.server(); err == nil {
				g.pass(client, server)
			} else {
				_ = client.Close()
			}
		}
	})
}

func (g *gate) pass(client, server net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passing = append(g.passing, client, server)
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		g.all.Go(func() {
			// However it ends, both ends are closed.
			_, _ = io.Copy(way[0], way[1])
			_, _ = way[0].Close(), way[1].Close()
		})
	}
}

// shut lets nothing more pass and cuts off what does.
func (g *gate) shut() {
	g.mu.Lock()
	if g.listener != nil {
		_ = g.listener.Close()
	}
	for _, conn := range g.passing {
		_ = conn.Close()
	}
	g.mu.Unlock()
	g.all.Wait()
}

// lines is a log that may be read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// await fails the test unless done becomes true.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	for deadline := time.Now().Add(patience); !done(); <-retry.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

func TestUnreachable_StoreSaysSoAndComesUpWithTheServer(t *testing.T) {
	dsn := postgrestest.DSN(t)
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	g, through := newGate(t, dsn)
	var log lines
	o := options(through)
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s := openWith(t, o)
	ctx := context.Background()
	for what, err := range map[string]error{
		"ping":   s.Ping(ctx),
		"create": second(s.CreateIntent(ctx, intent(1))),
		"get":    second(s.Get(ctx, intent(1).ID)),
		"block":  second(s.NextBlock(ctx, today, 1, 0)),
	} {
		if !errors.Is(err, ledger.ErrUnavailable) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error %v", what, err)
		}
	}
	g.open(t)
	await(t, "ping", func() bool { return s.Ping(ctx) == nil })
	if _, err := s.CreateIntent(ctx, intent(1)); err != nil {
		t.Error(err)
	}
	if text := log.String(); strings.Contains(text, "hunter2") || strings.Count(text, "ledger connected") != 1 {
		t.Errorf("log: %s", text)
	}
}

func second[T any](_ T, err error) error { return err }

func TestUnreachable_BookThatTurnsOutWrongIsNeverUsed(t *testing.T) {
	dsn := postgrestest.DSN(t)
	for what, c := range map[string]struct {
		spoil string
		key   string
		want  string
	}{
		"newer":       {"INSERT INTO ledger_version (version_id, is_applied) VALUES (9999, TRUE)", testKey, "version 9999"},
		"another key": {"DELETE FROM ledger_version WHERE version_id = 9999", strings.Repeat("5b", 32), "another hash key"},
	} {
		t.Run(what, func(t *testing.T) {
			openBook(t, dsn)
			mustExec(t, raw(t, dsn), c.spoil)
			g, through := newGate(t, dsn)
			var log lines
			o := options(through)
			o.Flags.HashKey, o.Logger = c.key, slog.New(slog.NewTextHandler(&log, nil))
			s := openWith(t, o)
			g.open(t)
			ctx := context.Background()
			await(t, "refusal", func() bool {
				err := s.Ping(ctx)
				return errors.Is(err, ledger.ErrUnavailable) && strings.Contains(err.Error(), c.want)
			})
			if _, err := s.CreateIntent(ctx, intent(1)); !errors.Is(err, ledger.ErrUnavailable) {
				t.Errorf("error %v", err)
			}
			if text := log.String(); strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, c.want) {
				t.Errorf("log: %s", text)
			}
			mustExec(t, raw(t, dsn), "DELETE FROM ledger_version WHERE version_id = 9999")
		})
	}
}

func TestUnreachable_CloseDoesNotWaitForTheServer(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	s, _, err := gormstore.Open(context.Background(), options("postgres://user:hunter2@127.0.0.1:1/x"))
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("closed after %s", took)
	}
	if err := s.Ping(context.Background()); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("after it is closed: %v", err)
	}
}

func TestServerGone_IsUnavailableAndThenWorksAgain(t *testing.T) {
	g, through := newGate(t, postgrestest.DSN(t))
	g.open(t)
	s := openBook(t, through)
	ctx := context.Background()
	inStatus(t, s, 1, ledger.StatusRequested)
	g.shut()
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := s.CreateIntent(short, intent(2))
	if !errors.Is(err, ledger.ErrUnavailable) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v", err)
	}
	g.open(t)
	if _, err := s.CreateIntent(ctx, intent(2)); err != nil {
		t.Error(err)
	}
}
