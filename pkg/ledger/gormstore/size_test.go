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

// TestSize_OfAPayment is the measurement of docs/ledger.md (make ledger-size).
func TestSize_OfAPayment(t *testing.T) {
	payments, err := strconv.Atoi(os.Getenv(sizeVariable))
	if err != nil || payments < len(grownDays) {
		t.Skipf("a measurement: %s says of how many payments", sizeVariable)
	}
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
