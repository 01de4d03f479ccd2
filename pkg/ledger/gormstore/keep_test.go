package gormstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/gormstore"
	"github.com/gwanmun/gwanmun/pkg/postgrestest"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// longAgo is a business day that is older than what any test retains.
var longAgo = tranid.DateOf(time.Date(2025, 3, 2, 3, 0, 0, 0, time.UTC))

// retiring are options by which it may go.
func retiring(limit int) ledger.RetireOptions {
	return ledger.RetireOptions{RetainDays: 1, Today: tranid.DateOf(time.Now()), Limit: limit}
}

// old stores a payment of that day, in a status, and unbinds its key.
func old(t *testing.T, s *gormstore.Store, number int64, status ledger.Status) tranid.ID {
	t.Helper()
	in := intent(number)
	in.ID = tranid.New(longAgo, number)
	in.KeyLife = -time.Minute
	if _, err := s.CreateIntent(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	end := ledger.Change{ID: in.ID, From: ledger.StatusRequested, To: status, By: payer}
	if status == ledger.StatusSuccess {
		end.Evidence, end.Answer.Code = ledger.EvidenceAnswered, "0000"
	}
	if _, err := s.Transition(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PurgeKeys(t.Context(), ledger.MaxPurge); err != nil {
		t.Fatal(err)
	}
	return in.ID
}

func retireStep(t *testing.T, s *gormstore.Store, o ledger.RetireOptions, want ledger.Retirement) {
	t.Helper()
	step, err := s.RetireDay(context.Background(), o)
	if step != want || err != nil {
		t.Errorf("retired %+v, want %+v, error %v", step, want, err)
	}
}

func TestRetireDay_WaitsForTheCoreToHearOfAnOperatorsSettlement(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		s := openBook(t, dsn)
		id := old(t, s, 1, ledger.StatusUnknown)
		if _, err := s.Decide(t.Context(), id, payer, ""); err != nil {
			t.Fatal(err)
		}
		db := raw(t, dsn)
		mustExec(t, db, "UPDATE transactions SET status = 'FAILED', evidence = 'OPERATOR', resolution_method = 'OPERATOR', "+
			"resolved_at = requested_at, next_resolve_at = requested_at")
		mustExec(t, db, "DELETE FROM idempotency_keys")
		retireStep(t, s, retiring(1), ledger.Retirement{Day: longAgo, Hold: ledger.HoldOwed})
		mustExec(t, db, "UPDATE transactions SET next_resolve_at = NULL")
		retireStep(t, s, retiring(1), ledger.Retirement{Day: longAgo, Rows: 1, Events: 3, Gone: true})
	})
}

func TestRetireDay_IsFinishedByWhoComesAfterACrash(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		first := openBook(t, dsn)
		for i := range int64(3) {
			old(t, first, i, ledger.StatusSuccess)
		}
		retireStep(t, first, retiring(1), ledger.Retirement{Day: longAgo, Rows: 1, Events: 2})

		// Nor does a row that came to the day since lose anything.
		late := []tranid.ID{old(t, first, 8, ledger.StatusUnknown), tranid.New(longAgo, 9)}
		in := intent(9)
		in.ID = late[1]
		if _, err := first.CreateIntent(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		second := openBook(t, dsn)
		retireStep(t, second, retiring(10), ledger.Retirement{Day: longAgo, Rows: 2, Events: 4})
		retireStep(t, second, retiring(10), ledger.Retirement{Day: longAgo, Hold: ledger.HoldOpen})
		for i, id := range late {
			if events, err := second.Events(t.Context(), id); len(events) != 2-i || err != nil {
				t.Errorf("open row %s has %d events, error %v", id, len(events), err)
			}
		}
	})
}

func TestRetireDay_LeavesADayToWhoIsAtIt(t *testing.T) {
	dsn := postgrestest.DSN(t)
	s := openBook(t, dsn)
	old(t, s, 1, ledger.StatusSuccess)
	old(t, s, 2, ledger.StatusSuccess)
	retireStep(t, s, retiring(1), ledger.Retirement{Day: longAgo, Rows: 1, Events: 2})
	other, err := raw(t, dsn).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.ExecContext(t.Context(), "SELECT 1 FROM retired_days FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	retireStep(t, s, retiring(1), ledger.Retirement{Day: longAgo, Hold: ledger.HoldBusy})
	if err := other.Rollback(); err != nil {
		t.Fatal(err)
	}
	retireStep(t, s, retiring(1), ledger.Retirement{Day: longAgo, Rows: 1, Events: 2, Gone: true})
}

func TestRetireDay_IsByTheDatabasesClockToo(t *testing.T) {
	o := options(sqliteDSN(t))
	now := longAgo.Start().AddDate(0, 0, 31)
	o.Now = func() time.Time { return now }
	s := openWith(t, o)
	old(t, s, 1, ledger.StatusSuccess)
	retain := ledger.RetireOptions{RetainDays: 30, Today: tranid.DateOf(time.Now()), Limit: 1}

	now = longAgo.Start().AddDate(0, 0, 31).Add(-time.Microsecond) // of the thirtieth day after
	retireStep(t, s, retain, ledger.Retirement{})
	now = longAgo.Start().AddDate(0, 0, 31)
	retireStep(t, s, retain, ledger.Retirement{Day: longAgo, Rows: 1, Events: 2, Gone: true})
}

func TestRetireDay_TakesTheGuardsOfItsOwnOrdersAlone(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		s := openBook(t, dsn)
		pay := func(id tranid.ID, order ledger.OrderID) {
			t.Helper()
			in := intent(1)
			in.ID, in.Key, in.Order, in.KeyLife = id, ledger.IdempotencyKey(id), order, -time.Minute
			if _, err := s.CreateIntent(t.Context(), in); err != nil {
				t.Fatal(err)
			}
		}
		end := func(id tranid.ID, to ledger.Status, code string) {
			t.Helper()
			_, err := s.Transition(t.Context(), ledger.Change{
				ID: id, From: ledger.StatusRequested, To: to, Evidence: ledger.EvidenceAnswered,
				Answer: ledger.Answer{Code: code}, By: payer,
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		declined, paid, later := tranid.New(longAgo, 1), tranid.New(longAgo, 2), tranid.New(tranid.DateOf(time.Now()), 3)
		pay(declined, "a")
		end(declined, ledger.StatusFailed, "0051")
		pay(paid, "b")
		end(paid, ledger.StatusSuccess, "0000")
		pay(later, "a") // again, another day
		if _, err := s.PurgeKeys(t.Context(), ledger.MaxPurge); err != nil {
			t.Fatal(err)
		}
		retireStep(t, s, retiring(10), ledger.Retirement{Day: longAgo, Rows: 2, Events: 4, Orders: 1, Gone: true})
		var holder string
		err := raw(t, dsn).QueryRowContext(t.Context(), "SELECT transaction_id FROM order_guards").Scan(&holder)
		if err != nil || holder != string(later) {
			t.Errorf("the order is guarded by %q, want %s, error %v", holder, later, err)
		}
	})
}

func TestRows_LeaveTheBookWithTheirDayAlone(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		s := openBook(t, dsn)
		inStatus(t, s, 1, ledger.StatusSuccess)
		db := raw(t, dsn)
		mustExec(t, db, "DELETE FROM idempotency_keys")
		mustExec(t, db, fmt.Sprintf("INSERT INTO retired_days (business_date, begun_at) VALUES ('%s', '2026-01-01T00:00:00.000000Z')", longAgo))
		for _, table := range []string{"transaction_events", "transactions"} {
			if _, err := db.ExecContext(t.Context(), "DELETE FROM "+table); err == nil {
				t.Errorf("what is in %s was deleted", table)
			}
		}
	})
}
