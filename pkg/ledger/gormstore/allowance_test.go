package gormstore

import (
	"bytes"
	"context"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/postgrestest"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// A role that may have fewer connections than the pool wants makes payments slower,
// and refuses none; what it may have later is taken.
func TestAllowance_FewerConnectionsAreSharedAndMoreAreTaken(t *testing.T) {
	dsn := postgrestest.DSN(t)
	admin := openInternal(t, dsn)
	as, role := asRole(t, admin, dsn, "CONNECTION LIMIT 4")
	var told bytes.Buffer // slog writes one line at a time
	s, _, err := Open(t.Context(), Options{
		Flags:  Flags{LedgerDSN: as, HashKey: strings.Repeat("5a", 32)},
		Logger: slog.New(slog.NewTextHandler(&told, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	payAtOnce(t, s, 1000)
	if got := poolOf(t, s).Stats().MaxOpenConnections; got > 4 {
		t.Errorf("the pool may have %d connections, and its role 4", got)
	}
	mustExec(t, admin, "ALTER ROLE "+role+" CONNECTION LIMIT 100")
	s.allowed.askForMore()
	payAtOnce(t, s, 2000)
	if got := poolOf(t, s).Stats().MaxOpenConnections; got != defaultMaxConns {
		t.Errorf("the pool may have %d connections again, want %d", got, defaultMaxConns)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(told.String(), "database refuses connections"); n != 1 {
		t.Errorf("it is told %d times:\n%s", n, told.String())
	}
}

// asRole is the DSN of a book for a new role, which may use its tables and not change
// them.
func asRole(t *testing.T, admin *Store, dsn, attributes string) (as, role string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	role = strings.TrimPrefix(u.Path, "/")
	mustExec(t, admin, "CREATE ROLE "+role+" LOGIN "+attributes, "GRANT ALL ON ALL TABLES IN SCHEMA public TO "+role,
		"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO "+role)
	t.Cleanup(func() {
		for _, statement := range []string{"DROP OWNED BY " + role, "DROP ROLE " + role} {
			if _, err := poolOf(t, admin).ExecContext(context.Background(), statement); err != nil {
				t.Error(err)
			}
		}
	})
	u.User = url.User(role)
	return u.String(), role
}

// payAtOnce makes more payments at once, and reads them, than there are connections.
func payAtOnce(t *testing.T, s *Store, first int64) {
	t.Helper()
	var all sync.WaitGroup
	for i := range int64(60) {
		all.Go(func() {
			in := doubtfulIntent()
			in.ID = tranid.New(in.ID.Date(), first+i)
			in.Key = ledger.IdempotencyKey(in.ID)
			if _, err := s.CreateIntent(t.Context(), in); err != nil {
				t.Errorf("create: %v", err)
			}
			for range 5 {
				if _, err := s.Get(t.Context(), in.ID); err != nil {
					t.Errorf("get: %v", err)
				}
			}
			_, err := s.Transition(t.Context(), ledger.Change{
				ID: in.ID, From: ledger.StatusRequested, To: ledger.StatusSuccess, Evidence: ledger.EvidenceAnswered,
				Answer: ledger.Answer{Code: "0000"}, By: in.By,
			})
			if err != nil {
				t.Errorf("end: %v", err)
			}
		})
	}
	all.Wait()
}
