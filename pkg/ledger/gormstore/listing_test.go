package gormstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/gormstore"
	"github.com/gwanmun/gwanmun/pkg/postgrestest"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// garbageOf is garbage, and what only one of the databases takes.
func garbageOf(store string) map[string]string {
	all := map[string]string{
		"status unknown": "status = 'DONE'", "no status": "status = ''", "requested in the year 0": "requested_at = '0001-06-01 BC'",
		"requested never": "requested_at = '-infinity'", "requested at the end of time": "requested_at = 'infinity'",
		"requested in the year 12000": "requested_at = '12000-01-01'", "sent at the end of time": "sent_at = 'infinity'",
		"never due": "next_resolve_at = 'infinity'", "adopted at the end of time": "adopt_at = 'infinity'",
		"answered before all time": "responded_at = '-infinity'",
		"not an ID":                "transaction_id = 'GWMNU2026072500000000X'", "not a day": "transaction_id = ''",
	}
	if store == "sqlite" {
		for what, set := range map[string]string{
			"requested in the year 0": "requested_at = '0000-06-01T00:00:00.000000Z'", "requested never": "requested_at = ''",
			"requested at the end of time": "requested_at = 'infinity'", "requested in the year 12000": "requested_at = '12000-01-01T00:00:00.000000Z'",
			"answered before all time": "responded_at = '0001-01-01T00:00:00.000000Z'",
			"not text":                 "client_id = CAST(x'73ff' AS TEXT)", "not a message": "response_message = CAST(x'ff' AS TEXT)",
			"half asked": "asked = 7", "half reviewed": "needs_review = -1",
		} {
			all[what] = set
		}
	}
	for what, set := range garbage {
		all[what] = set
	}
	return all
}

// pages are the IDs on each page of a list, and how many rows were stepped over.
func pages(t *testing.T, s *gormstore.Store, f ledger.Filter) (ids [][]tranid.ID, unreadable int) {
	t.Helper()
	for {
		page, err := s.List(context.Background(), f)
		if err != nil {
			t.Fatal(err)
		}
		unreadable += page.Unreadable
		var here []tranid.ID
		for i := range page.Transactions {
			here = append(here, page.Transactions[i].ID)
		}
		ids = append(ids, here)
		if page.Next == nil {
			return ids, unreadable
		}
		if f.After != nil && *f.After == *page.Next {
			t.Fatalf("the page after %v is itself", f.After)
		}
		f.After = page.Next
	}
}

func TestList_StepsOverGarbage(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		s := openBook(t, dsn)
		if s.Name() == "postgresql" { // or the row could not get another ID
			mustExec(t, raw(t, dsn), "ALTER TABLE transactions DISABLE TRIGGER USER")
		} else {
			mustExec(t, raw(t, dsn), "DROP TRIGGER rows_keep_their_ids")
		}
		var good []tranid.ID
		number, bad := int64(0), garbageOf(s.Name())
		for what, set := range bad {
			id := inStatus(t, s, number, ledger.StatusUnknown).ID
			mustExec(t, raw(t, dsn), "DELETE FROM idempotency_keys WHERE transaction_id = '"+string(id)+"'")
			db := raw(t, dsn)
			db.SetMaxOpenConns(1)
			if s.Name() == "sqlite" { // its events are those of no row
				mustExec(t, db, "PRAGMA foreign_keys = OFF")
				mustExec(t, db, "PRAGMA ignore_check_constraints = ON")
			} else {
				mustExec(t, db, "ALTER TABLE transactions DROP CONSTRAINT IF EXISTS sound")
			}
			t.Log(what)
			mustExec(t, db, "UPDATE transactions SET "+set+" WHERE transaction_id = '"+string(id)+"'")
			good = append(good, inStatus(t, s, number+1, ledger.StatusUnknown).ID)
			number += 2
		}
		slices.Reverse(good)
		no, all := false, len(bad)
		for what, f := range map[string]ledger.Filter{
			"all": {}, "unknown": {Statuses: []ledger.Status{ledger.StatusUnknown}}, "client": {Client: "shop"},
			"not in review": {NeedsReview: &no}, "payments": {Kinds: []ledger.Kind{ledger.KindPayment}},
			"a day": {RequestedFrom: time.Now().Add(-time.Hour), RequestedTo: time.Now().Add(time.Hour)},
		} {
			for _, f.Limit = range []int{1, 2, 7, len(good), ledger.MaxPage} {
				shown, unreadable := pages(t, s, f)
				if got := slices.Concat(shown...); !slices.Equal(got, good) {
					t.Errorf("%s by %d: %v, want %v", what, f.Limit, got, good)
				}
				for i, page := range shown[:len(shown)-1] {
					if len(page) != f.Limit {
						t.Errorf("%s by %d: page %d has %d rows", what, f.Limit, i, len(page))
					}
				}
				if what == "all" && unreadable != all || unreadable < all/2 {
					t.Errorf("%s by %d: %d rows are unreadable, want %d", what, f.Limit, unreadable, all)
				}
			}
		}
	})
}

// Where there is more garbage than a page looks at, pages are cut short, and go on.
func TestList_CrossesAFieldOfGarbage(t *testing.T) {
	const field = 4500
	dsn := postgrestest.DSN(t)
	s := openBook(t, dsn)
	first, last := inStatus(t, s, 1, ledger.StatusUnknown), inStatus(t, s, 2, ledger.StatusUnknown)
	spoil(t, dsn, "UPDATE transactions SET requested_at = requested_at - interval '1 day' WHERE transaction_id = '"+string(first.ID)+"'")
	mustExec(t, raw(t, dsn), fmt.Sprintf(`CREATE TEMP TABLE field AS SELECT t.* FROM transactions t, generate_series(1, %d)
	WHERE transaction_id = '%s';
	UPDATE field SET amount = -1, requested_at = requested_at - interval '1 hour',
		transaction_id = 'GWMNU20260725' || lpad((1000 + substr(ctid::text, 2, strpos(ctid::text, ',') - 2)::int * 1000
			+ trim(')' FROM split_part(ctid::text, ',', 2))::int)::text, 9, '0');
	INSERT INTO transactions SELECT * FROM field`, field, last.ID))
	shown, unreadable := pages(t, s, ledger.Filter{Limit: 3})
	if got := slices.Concat(shown...); !slices.Equal(got, []tranid.ID{last.ID, first.ID}) || unreadable != field {
		t.Errorf("%v, %d unreadable", got, unreadable)
	}
	if len(shown) != 3 {
		t.Errorf("%d pages: a page looks at no more than 2000 rows", len(shown))
	}
}

// A list that is asked for each second tells of a bad row once in a minute, and
// counts it each time.
func TestList_TellsOfGarbageOnceInAMinute(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		var log strings.Builder
		o, registry, now := options(dsn), prometheus.NewRegistry(), time.Now()
		o.Logger, o.Registry, o.Now = slog.New(slog.NewJSONHandler(&log, nil)), registry, func() time.Time { return now }
		s := openWith(t, o)
		id := inStatus(t, s, 1, ledger.StatusUnknown).ID
		spoil(t, dsn, "UPDATE transactions SET amount = -1 WHERE transaction_id = '"+string(id)+"'")
		list := func(times int) {
			for range times {
				if page, err := s.List(t.Context(), ledger.Filter{Limit: 10}); err != nil || page.Unreadable != 1 {
					t.Errorf("%d unreadable, error %v", page.Unreadable, err)
				}
			}
		}
		said := func() int {
			return strings.Count(log.String(), `"level":"ERROR","msg":"row cannot be read","transaction_id":"`+string(id)+`"`)
		}
		list(3)
		if said() != 1 || !strings.Contains(log.String(), "amount") {
			t.Errorf("told %d times: %s", said(), log.String())
		}
		now = now.Add(time.Minute)
		list(2)
		if said() != 2 {
			t.Errorf("told %d times: %s", said(), log.String())
		}
		if _, err := s.Get(t.Context(), id); err == nil {
			t.Error("the row is read")
		}
		err := testutil.GatherAndCompare(registry, strings.NewReader(`# HELP gwanmun_ledger_unreadable_rows_total Rows of the ledger that were read and hold what no row may, each time.
# TYPE gwanmun_ledger_unreadable_rows_total counter
gwanmun_ledger_unreadable_rows_total 6
`), "gwanmun_ledger_unreadable_rows_total")
		if err != nil {
			t.Error(err)
		}
	})
}

func TestList_OfMuchGarbageIsTellsOfSome(t *testing.T) {
	var log strings.Builder
	o := options(sqliteDSN(t))
	o.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	s := openWith(t, o)
	for i := range int64(103) {
		if _, err := s.CreateIntent(t.Context(), intent(i)); err != nil {
			t.Fatal(err)
		}
	}
	spoil(t, o.Flags.LedgerDSN, "UPDATE transactions SET amount = -1")
	for range 2 {
		if page, err := s.List(t.Context(), ledger.Filter{Limit: 1}); err != nil || page.Unreadable != 103 {
			t.Fatalf("%d unreadable, error %v", page.Unreadable, err)
		}
	}
	rows, more := strings.Count(log.String(), `"row cannot be read"`), strings.Count(log.String(), `"more rows cannot be read`)
	if rows != 100 || more != 1 {
		t.Errorf("%d rows are told, %d times that there are more", rows, more)
	}
}

func TestSummarize_StepsOverAStatusThatThereIsNot(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		s := openBook(t, dsn)
		inStatus(t, s, 1, ledger.StatusSuccess)
		id := inStatus(t, s, 2, ledger.StatusUnknown).ID
		spoil(t, dsn, "UPDATE transactions SET status = 'DONE' WHERE transaction_id = '"+string(id)+"'")
		sum, err := s.Summarize(t.Context(), "", time.Time{}, time.Time{})
		if err != nil || sum.Unreadable != 1 || len(sum.Totals) != 1 || sum.Totals[0].Count != 1 {
			t.Errorf("%+v, error %v", sum, err)
		}
	})
}

// A second payment must not come of a key of which nobody knows how long it lives.
func TestCreateIntent_KeyWhoseLifeCannotBeReadIsNotBoundAgain(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		s := openBook(t, dsn)
		paid := inStatus(t, s, 1, ledger.StatusSuccess)
		mustExec(t, raw(t, dsn), "UPDATE idempotency_keys SET expires_at = 'infinity'")
		again := intent(2)
		again.Key = paid.Key
		if a, err := s.CreateIntent(t.Context(), again); err == nil {
			t.Errorf("admitted: %+v", a)
		}
		if row, err := s.Bound(t.Context(), again.Client, again.Key, again.Fingerprint); err == nil ||
			strings.Contains(err.Error(), ledger.ErrNotFound.Error()) {
			t.Errorf("bound to %+v, error %v", row, err)
		}
		if _, err := s.Get(t.Context(), again.ID); err == nil {
			t.Error("a second payment is stored")
		}
	})
}
