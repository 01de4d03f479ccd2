package gormstore

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/postgrestest"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// bookOfVersion makes the tables of an earlier version.
func bookOfVersion(t *testing.T, dsn string, version int64) *Store {
	t.Helper()
	d, err := parseDSN(dsn, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newStore(d, Options{Logger: slog.New(slog.NewJSONHandler(io.Discard, nil)), Now: time.Now}, ledger.HashKey{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	files, err := d.migrations()
	if err != nil {
		t.Fatal(err)
	}
	provider, err := goose.NewProvider(d.goose, poolOf(t, s), files,
		goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	s.setState(nil)
	return s
}

// Before version 7 PostgreSQL took times that are none, and the rule that refuses
// them would refuse whatever is to be done with the row: the claim of all that is
// due, for one.
func TestMigrations_MendTheTimesOfWhatIsPending(t *testing.T) {
	dsn := postgrestest.DSN(t)
	old := bookOfVersion(t, dsn, 6)
	spoilt := []string{
		"requested_at = 'infinity'", "requested_at = '12000-01-01'", "sent_at = '-infinity'", "responded_at = '0044-03-15 BC'",
		"adopt_at = 'infinity'", "next_resolve_at = 'infinity'", "lease_until = 'infinity', lease_token = 'x'",
	}
	for i, set := range append(spoilt, "reason = 'good'") {
		in := doubtfulIntent()
		in.ID, in.Key = tranid.New(in.ID.Date(), int64(i)), ledger.IdempotencyKey(rune('a'+i))
		if _, err := old.CreateIntent(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		_, err := old.Transition(t.Context(), ledger.Change{ID: in.ID, From: ledger.StatusRequested, To: ledger.StatusUnknown, By: in.By})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := poolOf(t, old).ExecContext(t.Context(),
			"UPDATE transactions SET "+set+" WHERE transaction_id = $1", string(in.ID)); err != nil {
			t.Fatal(err)
		}
	}
	now := openInternal(t, dsn)
	claims, err := now.Claim(t.Context(), ledger.ClaimOptions{Limit: ledger.MaxClaim, Lease: time.Hour})
	if err != nil || len(claims) != len(spoilt)+1 {
		t.Errorf("claimed %d, error %v", len(claims), err)
	}
	for _, c := range claims {
		if c.Err != nil {
			t.Errorf("%s: %v", c.Transaction.ID, c.Err)
		}
	}
}
