package gormstore

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// rowsPending is how many rows are pending where plans are looked at.
const rowsPending = 10_000

// fillPending stores payments that are pending, all orders of one client, in a
// book of which the database knows no statistics.
func fillPending(t *testing.T, s *Store) {
	t.Helper()
	if s.Name() == "postgresql" {
		for _, table := range []string{"transactions", "idempotency_keys", "order_guards", "transaction_events"} {
			if err := s.db.Exec("ALTER TABLE " + table + " SET (autovacuum_enabled = false)").Error; err != nil {
				t.Fatal(err)
			}
		}
	}
	for begin := 0; begin < rowsPending; begin += 500 {
		ins := make([]*intention, 500)
		for i := range ins {
			in := numbered(begin + i)
			in.Order = ledger.OrderID(in.Key)
			ins[i] = intended(t, in)
		}
		err := s.transact(t.Context(), func(tx *gorm.DB) error {
			replies, err := s.admitMany(tx, ins)
			for _, r := range replies {
				if err == nil {
					err = r.err
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// batchTables are the tables that a batch may read, and the indexes by which.
var batchTables = map[string]map[string]string{
	"postgresql": {
		"transactions": "transactions_pkey", "idempotency_keys": "idempotency_keys_pkey", "order_guards": "order_guards_pkey",
	},
	"sqlite": {
		"transactions": "sqlite_autoindex_transactions_1", "idempotency_keys": "sqlite_autoindex_idempotency_keys_",
		"order_guards": "PRIMARY KEY",
	},
}

func TestPlans_OfBatchesUseThePrimaryKeyWithoutStatistics(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fillPending(t, s)
		var r recorder
		r.on(t, s.db)
		var changes []*ledger.Change
		var ins []*intention
		for i := range 200 {
			c := declined(numbered(i * 7).ID)
			in := numbered(rowsPending + i)
			in.Order = ledger.OrderID(numbered(5000 + i).Key) // which is held
			changes, ins = append(changes, &c), append(ins, intended(t, in))
		}
		for i, reply := range s.writeOutcomes(t.Context(), changes) {
			if reply.err != nil {
				t.Fatalf("outcome %d: %v", i, reply.err)
			}
		}
		for i := range changes { // and some that free no order
			c := success(numbered(i*7 + 1).ID)
			changes[i] = &c
		}
		for i, reply := range s.writeOutcomes(t.Context(), changes) {
			if reply.err != nil {
				t.Fatalf("outcome %d: %v", i, reply.err)
			}
		}
		s.writeIntents(t.Context(), ins) // none is plain, and none is stored
		twin := *ins[0]
		twin.ID = numbered(rowsPending + 200).ID
		s.writeIntents(t.Context(), append(ins, &twin)) // with one transaction for all
		pool, err := s.db.DB()
		if err != nil {
			t.Fatal(err)
		}
		conn, err := pool.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		read := map[string]int{}
		for i, statement := range r.statements {
			if strings.HasPrefix(statement, "INSERT") || // they read nothing
				strings.Contains(statement, "bound AS (") && !strings.Contains(statement, "AS held") {
				continue
			}
			for _, values := range [][]any{r.values[i], nil} {
				table, plan := planOf(t, conn, s, statement, values)
				checkBatchPlan(t, s, statement, table, plan)
				read[table]++
			}
		}
		if read["transactions"] < 4 || read["idempotency_keys"] < 2 || read["order_guards"] < 2 {
			t.Errorf("statements: %v", read)
		}
	})
}

// planOf is how the database does a statement, and on which table; without values
// it is the plan that PostgreSQL makes for any values.
func planOf(t *testing.T, conn *sql.Conn, s *Store, statement string, values []any) (table, plan string) {
	t.Helper()
	for name := range batchTables["sqlite"] {
		for _, before := range []string{"FROM ", "UPDATE "} {
			if strings.Contains(statement, before+name) {
				table = name
			}
		}
	}
	switch {
	case s.Name() == "sqlite" && values == nil: // it has one plan
		return table, batchTables["sqlite"][table]
	case s.Name() == "sqlite":
		return table, planText(t, conn, "EXPLAIN QUERY PLAN "+statement, values)
	case values != nil:
		return table, planText(t, conn, "EXPLAIN "+statement, values)
	}
	do := func(statement string) {
		t.Helper()
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%.300s: %v", statement, err)
		}
	}
	do("SET plan_cache_mode = force_generic_plan")
	do("PREPARE looked_at AS " + statement)
	nulls := strings.TrimSuffix(strings.Repeat("NULL, ", strings.Count(statement, "$")), ", ")
	plan = planText(t, conn, "EXPLAIN EXECUTE looked_at("+nulls+")", nil)
	do("DEALLOCATE looked_at")
	return table, plan
}

// planText is the last column of what a statement returns.
func planText(t *testing.T, conn *sql.Conn, statement string, values []any) string {
	t.Helper()
	rows, err := conn.QueryContext(t.Context(), statement, values...)
	if err != nil {
		t.Fatalf("%.200s: %v", statement, err)
	}
	defer func() { _ = rows.Close() }()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	line := make([]any, len(names))
	for i := range line {
		line[i] = new(any)
	}
	var plan strings.Builder
	for rows.Next() {
		if err := rows.Scan(line...); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&plan, *line[len(line)-1].(*any))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}

// checkBatchPlan fails the test unless the rows of the table are found by its
// primary key.
func checkBatchPlan(t *testing.T, s *Store, statement, table, plan string) {
	t.Helper()
	index := batchTables[s.Name()][table]
	for _, bad := range []string{
		"Seq Scan", "SCAN " + table, "transactions_due", "transactions_abandoned", "_of_order", "idempotency_keys_expiring",
	} {
		if strings.Contains(plan, bad) {
			t.Errorf("%s is used for\n%s\n%s", bad, statement, plan)
		}
	}
	if index == "" || !strings.Contains(plan, index) {
		t.Errorf("%s is not used for\n%s\n%s", index, statement, plan)
	}
}
