package gormstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/gormstore"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

const pagePath = "../../../docs/ledger.md"

// example is a query of the page: what stands above it says what it must find in
// the book of these tests.
type example struct {
	finds, query string
}

var exampleBlock = regexp.MustCompile("(?s)(?:<!-- ([^>]*) -->\n)?```sql\n(.*?)```")

func readPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(pagePath)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

func examples(t *testing.T) []example {
	t.Helper()
	var all []example
	for _, match := range exampleBlock.FindAllStringSubmatch(readPage(t), -1) {
		if match[1] == "" {
			t.Errorf("nothing says what this finds:\n%s", match[2])
		}
		all = append(all, example{finds: match[1], query: strings.TrimRight(strings.TrimSpace(match[2]), ";")})
	}
	if len(all) < 10 {
		t.Errorf("%d queries are on the page", len(all))
	}
	return all
}

// audited is a book with what the queries of the page ask for.
func audited(t *testing.T, dsn string) *gormstore.Store {
	t.Helper()
	s := openBook(t, dsn)
	move := func(c ledger.Change) {
		t.Helper()
		c.By = payer
		if _, err := s.Transition(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	id := func(number int64) tranid.ID { return tranid.New(today, number) }
	for number, order := range []ledger.OrderID{"", "order-1", "order-1", "order-2", ""} {
		if number == 0 {
			continue
		}
		in := intent(int64(number))
		in.Order = order
		if number == 1 {
			in.Key = "key-1"
		}
		if _, err := s.CreateIntent(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if number == 1 { // declined, and paid with another key
			move(ledger.Change{
				ID: in.ID, From: ledger.StatusRequested, To: ledger.StatusFailed, Evidence: ledger.EvidenceAnswered,
				Answer: ledger.Answer{Code: "0051"},
			})
		}
	}
	move(ledger.Change{
		ID: id(2), From: ledger.StatusRequested, To: ledger.StatusSuccess, Evidence: ledger.EvidenceAnswered,
		Answer: ledger.Answer{Code: "0000"},
	})
	move(ledger.Change{ID: id(3), From: ledger.StatusRequested, To: ledger.StatusUnknown, Reason: "no answer came in time"})
	move(ledger.Change{ID: id(4), From: ledger.StatusRequested, To: ledger.StatusUnknown})
	if _, err := s.Decide(t.Context(), id(4), payer, "cancel it"); err != nil {
		t.Fatal(err)
	}
	move(ledger.Change{
		ID: id(4), From: ledger.StatusUnknown, To: ledger.StatusCanceled, Evidence: ledger.EvidenceCancelConfirmed,
		Method: ledger.MethodNetCancel,
	})
	if err := s.AppendEvent(t.Context(), id(4), ledger.EvidenceProcessed, payer, "says 01"); err != nil {
		t.Fatal(err)
	}
	inquiry := ledger.Transaction{
		ID: id(5), Kind: ledger.KindBalanceInquiry, Status: ledger.StatusUnknown, Client: "shop",
		AccountMasked: "****", RequestedAt: time.Now(),
	}
	if err := s.Record(t.Context(), []ledger.Transaction{inquiry}, payer); err != nil {
		t.Fatal(err)
	}
	return s
}

// found is how many rows a query of the page finds.
func found(t *testing.T, db *sql.DB, query string) int {
	t.Helper()
	rows, err := db.QueryContext(context.Background(), query)
	if err != nil {
		t.Errorf("%s\n%v", query, err)
		return -1
	}
	defer func() { _ = rows.Close() }()
	count := 0
	for rows.Next() {
		count++
	}
	if err := rows.Err(); err != nil {
		t.Errorf("%s\n%v", query, err)
	}
	return count
}

func TestDocs_QueriesFindWhatThePageSays(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		s := audited(t, dsn)
		db := raw(t, dsn)
		for _, e := range examples(t) {
			what, only, _ := strings.Cut(e.finds, ": ")
			if what == "rows" && only != "" && only != s.Name() {
				continue
			}
			count := found(t, db, e.query)
			if what == "rows" && count == 0 || what == "none" && count != 0 {
				t.Errorf("finds %d rows, want %s:\n%s", count, what, e.query)
			}
		}
	})
}

// tampered are changes past the store that a query of the page must find.
var tampered = map[string][]string{
	"replay": {
		"UPDATE transactions SET status = 'SUCCESS', evidence = 'PROCESSED', resolution_method = 'STATUS_INQUIRY', " +
			"resolved_at = requested_at, next_resolve_at = NULL WHERE order_id = 'order-2'",
		"UPDATE transactions SET evidence = 'OPERATOR', resolution_method = 'OPERATOR' WHERE status = 'CANCELED'",
		`INSERT INTO transaction_events
(business_date, transaction_id, at, from_status, to_status, evidence, actor, instance, detail, trace_id)
SELECT business_date, transaction_id, requested_at, 'UNKNOWN', 'SUCCESS', 'ANSWERED', 'payment', '', '', ''
FROM transactions WHERE status = 'SUCCESS'`,
	},
	"debits": {"UPDATE transactions SET idempotency_key = 'key-1' WHERE kind = 'PAYMENT'"},
	"orphans": {
		"UPDATE idempotency_keys SET transaction_id = 'GWMNU20260725000000099' WHERE idempotency_key = 'key-1'",
		`INSERT INTO transaction_events
(business_date, transaction_id, at, from_status, to_status, evidence, actor, instance, detail, trace_id)
SELECT business_date, 'GWMNU20260725000000099', requested_at, '', 'REQUESTED', '', 'payment', '', '', ''
FROM transactions WHERE status = 'SUCCESS'`,
	},
	"orders": {"DELETE FROM order_guards WHERE order_id = 'order-1'", "UPDATE transactions SET order_id = 'order-1' WHERE order_id = 'order-2'"},
}

func TestDocs_QueriesFindABookThatWasChangedByHand(t *testing.T) {
	seen := 0
	for _, e := range examples(t) {
		what, name, _ := strings.Cut(e.finds, ": ")
		if what != "none" {
			continue
		}
		seen++
		for i, change := range tampered[name] {
			t.Run(fmt.Sprint(name, i), func(t *testing.T) {
				eachDatabase(t, func(t *testing.T, dsn string) {
					audited(t, dsn)
					db := raw(t, dsn)
					db.SetMaxOpenConns(1)
					if strings.HasPrefix(dsn, "sqlite:") {
						mustExec(t, db, "PRAGMA foreign_keys = OFF")
					} else {
						mustExec(t, db, "ALTER TABLE idempotency_keys DROP CONSTRAINT idempotency_keys_business_date_transaction_id_fkey")
					}
					mustExec(t, db, change)
					if found(t, db, e.query) == 0 {
						t.Errorf("%s is not found by\n%s", change, e.query)
					}
				})
			})
		}
	}
	if seen != len(tampered) {
		t.Errorf("%d queries look for what must not be, want %d", seen, len(tampered))
	}
}

func TestDocs_NameEveryColumn(t *testing.T) {
	page := readPage(t)
	query := map[string]string{
		"sqlite": `SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c
WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'`,
		"postgresql": "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'",
	}
	eachDatabase(t, func(t *testing.T, dsn string) {
		s := openBook(t, dsn)
		rows, err := raw(t, dsn).QueryContext(t.Context(), query[s.Name()])
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = rows.Close() }()
		columns := 0
		for rows.Next() {
			var table, column string
			if err := rows.Scan(&table, &column); err != nil {
				t.Fatal(err)
			}
			columns++
			if !strings.Contains(page, "`"+column+"`") || !strings.Contains(page, table) {
				t.Errorf("%s.%s is not on the page", table, column)
			}
		}
		if err := rows.Err(); err != nil || columns < 50 {
			t.Errorf("%d columns, error %v", columns, err)
		}
	})
}
