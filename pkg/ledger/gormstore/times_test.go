package gormstore_test

import (
	"context"
	"strings"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/postgrestest"
)

// PostgreSQL has times that are none, and years that nobody else can write. One of
// them in the right column and a row is never due, or never free.
func TestConstraints_PostgreSQLRefusesTimesThatAreNone(t *testing.T) {
	dsn := postgrestest.DSN(t)
	s, db := openBook(t, dsn), raw(t, dsn)
	rows := map[ledger.Status]ledger.Transaction{}
	for i, status := range ledger.Statuses {
		rows[status] = inStatus(t, s, int64(i), status)
	}
	columns := map[string]ledger.Status{
		"requested_at": ledger.StatusRequested, "sent_at": ledger.StatusSuccess, "responded_at": ledger.StatusSuccess,
		"resolved_at": ledger.StatusCanceled, "adopt_at": ledger.StatusRequested, "next_resolve_at": ledger.StatusUnknown,
		"lease_token = 'x', lease_until": ledger.StatusUnknown,
	}
	update := func(column, value string, id ledger.Transaction) error {
		_, err := db.ExecContext(context.Background(),
			"UPDATE transactions SET "+column+" = '"+value+"' WHERE transaction_id = '"+string(id.ID)+"'")
		return err
	}
	for column, status := range columns {
		for _, value := range []string{
			"infinity", "-infinity", "10000-01-01 00:00:00+00", "12000-01-01", "0001-01-01 00:00:00+00", "0044-03-15 BC",
		} {
			if err := update(column, value, rows[status]); err == nil || !strings.Contains(err.Error(), `"times"`) {
				t.Errorf("%s SET %s = %s: error %v", status, column, value, err)
			}
		}
		for _, value := range []string{"0001-01-01 00:00:00.000001+00", "9999-12-31 23:59:59.999999+00"} {
			if err := update(column, value, rows[status]); err != nil {
				t.Errorf("%s SET %s = %s: %v", status, column, value, err)
			}
		}
		if got, err := s.Get(t.Context(), rows[status].ID); err != nil {
			t.Errorf("%+v, error %v", got, err)
		}
	}
	for _, value := range []string{"infinity", "-infinity", "12000-01-01", "0044-03-15 BC"} {
		_, err := db.ExecContext(t.Context(), "INSERT INTO transaction_events (business_date, transaction_id, at, from_status, to_status, "+
			"evidence, actor, instance, detail, trace_id) VALUES ('2026-07-25', 'GWMNU20260725000000001', '"+value+
			"', '', 'UNKNOWN', '', 'payment', '', '', '')")
		if err == nil || !strings.Contains(err.Error(), `"event_time"`) {
			t.Errorf("an event at %s: error %v", value, err)
		}
	}
}
