package gormstore

import (
	"os"
	"strconv"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/postgrestest"
)

// sizeVariable asks for the measurement, of a book of so many payments.
const sizeVariable = "GWANMUN_LEDGER_SIZE"

// sizes are what each table and index takes, the largest first.
const sizes = `SELECT relname, pg_relation_size(oid) AS bytes
FROM pg_class WHERE relkind IN ('r', 'i') AND relnamespace = 'public'::regnamespace AND pg_relation_size(oid) > 1 << 20
ORDER BY bytes DESC`

// What a book writes for further rows after a checkpoint, whose IDs are random or
// begin with the time.
const (
	makeEntries = `CREATE TABLE entries (id text COLLATE "C", at timestamptz NOT NULL DEFAULT now())`
	indexThem   = `CREATE INDEX ON entries (id, at)`
	addRandom   = `INSERT INTO entries SELECT upper(substr(md5(random()::text), 1, 26)) FROM generate_series($1::int, $2::int)`
	addInOrder  = `INSERT INTO entries SELECT lpad(to_hex(1700000000000 + i), 10, '0') || upper(substr(md5(random()::text), 1, 16))
FROM generate_series($1::int, $2::int) AS i`
)

// paymentsAsked is of how many payments there is to be a measurement.
func paymentsAsked(t *testing.T) int {
	t.Helper()
	payments, err := strconv.Atoi(os.Getenv(sizeVariable))
	if err != nil || payments < len(grownDays) {
		t.Skipf("a measurement: %s says of how many payments", sizeVariable)
	}
	return payments
}

// TestSize_OfTheLogOfAnEntry is the measurement of decision 119 (make ledger-size).
func TestSize_OfTheLogOfAnEntry(t *testing.T) {
	payments := paymentsAsked(t)
	const further = 20_000
	written := map[string]float64{}
	for name, add := range map[string]string{"random": addRandom, "in order": addInOrder} {
		pool := poolOf(t, openInternal(t, postgrestest.DSN(t)))
		do := func(statement string, args ...any) {
			t.Helper()
			if _, err := pool.ExecContext(t.Context(), statement, args...); err != nil {
				t.Fatal(err)
			}
		}
		do(makeEntries)
		do(indexThem)
		do(add, 1, 8*payments)
		do("CHECKPOINT")
		var before, after int64
		at := func(lsn *int64) {
			t.Helper()
			if err := pool.QueryRowContext(t.Context(), "SELECT (pg_current_wal_lsn() - '0/0')::bigint").Scan(lsn); err != nil {
				t.Fatal(err)
			}
		}
		at(&before)
		do(add, 8*payments+1, 8*payments+further)
		at(&after)
		written[name] = float64(after-before) / further
		t.Logf("%-10s %6.0f bytes of WAL an entry, behind %d", name, written[name], 8*payments)
	}
	if written["in order"] >= written["random"] {
		t.Errorf("entries in order take no less than random ones: %v", written)
	}
}

// TestSize_OfAPayment is the measurement of docs/ledger.md (make ledger-size).
func TestSize_OfAPayment(t *testing.T) {
	payments := paymentsAsked(t)
	s := openInternal(t, postgrestest.DSN(t))
	grow(t, s, payments)
	rows, err := poolOf(t, s).QueryContext(t.Context(), sizes)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	t.Logf("%-32s %16s", "of "+strconv.Itoa(payments)+" payments", "bytes a payment")
	total := 0
	for rows.Next() {
		var name string
		var bytes int
		if err := rows.Scan(&name, &bytes); err != nil {
			t.Fatal(err)
		}
		t.Logf("%-32s %16d", name, bytes/payments)
		total += bytes
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%-32s %16d", "all", total/payments)
	if total < payments*1000 {
		t.Errorf("%d bytes are not %d payments", total, payments)
	}
}
