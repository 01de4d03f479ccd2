package gormstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

func TestDayRows_GarbageIsItsOwnRowsErrorAndNobodyElses(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		s := openBook(t, dsn)
		good := inStatus(t, s, 1, ledger.StatusSuccess)
		bad := map[tranid.ID]bool{}
		number := int64(2)
		for _, set := range []string{
			"kind = 'REFUND'", "status = 'DONE'", "status = ''", "amount = -1", "amount = 1000000000000",
			"account_hash = substr(account_hash, 1, 5)",
		} {
			id := inStatus(t, s, number, ledger.StatusUnknown).ID
			number++
			bad[id] = true
			spoil(t, dsn, "UPDATE transactions SET "+set+" WHERE transaction_id = '"+string(id)+"'")
		}
		rows, err := s.DayRows(context.Background(), today, "", ledger.MaxDayRows)
		if err != nil || len(rows) != 1+len(bad) {
			t.Fatalf("%d rows, error %v", len(rows), err)
		}
		for _, r := range rows {
			if (r.Err != nil) != bad[r.ID] {
				t.Errorf("%s: error %v", r.ID, r.Err)
			}
			if r.Err != nil && r != (ledger.DayRow{ID: r.ID, Err: r.Err}) {
				t.Errorf("garbage shows %+v", r)
			}
		}
		if rows[0].ID != good.ID || rows[0].Amount != good.Amount || rows[0].AccountHash != good.AccountHash {
			t.Errorf("the good row is %+v", rows[0])
		}
	})
}

// The constraints say of runs and discrepancies what the domain says.
func TestSettlement_WhatLiesIsRefusedByTheDatabase(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		s := openBook(t, dsn)
		ctx := context.Background()
		run, begun, err := s.BeginSettlement(ctx, ledger.SettlementStart{Day: today, Lease: time.Hour, Instance: "x"})
		if err != nil || !begun {
			t.Fatalf("begun %t, error %v", begun, err)
		}
		if _, err := s.SaveSettlement(ctx, ledger.SettlementProgress{Run: run.ID, Lease: time.Hour, Found: []ledger.Difference{{
			ID: tranid.New(today, 1), Class: ledger.ClassMismatch, LedgerStatus: ledger.StatusSuccess, LedgerAmount: 1,
			CoreState: ledger.CoreCanceled, CoreAmount: 1,
		}}}); err != nil {
			t.Fatal(err)
		}
		db := raw(t, dsn)
		for _, change := range []string{
			"settlement_runs SET state = 'DONE'",
			"settlement_runs SET state = 'SUCCEEDED'",
			"settlement_runs SET lease_until = NULL",
			"settlement_runs SET error = 'x'",
			"settlement_runs SET match_count = -1",
			"settlement_discrepancies SET class = 'OTHER'",
			"settlement_discrepancies SET class = 'LEDGER_ONLY'",
			"settlement_discrepancies SET class = 'CORE_ONLY'",
			"settlement_discrepancies SET class = 'UNRESOLVED'",
			"settlement_discrepancies SET state = 'GONE'",
			"settlement_discrepancies SET state = 'NOTED'",
			"settlement_discrepancies SET state = 'CLOSED'",
			"settlement_discrepancies SET note = 'x'",
			"settlement_discrepancies SET ledger_amount = 0",
			"settlement_discrepancies SET core_amount = -1",
			"settlement_discrepancies SET core_state = '01'",
			"settlement_discrepancies SET run_id = 'no such run'",
			"settlement_discrepancies SET transaction_id = 'GWMNU20000101000000001'",
		} {
			if _, err := db.ExecContext(ctx, "UPDATE "+change); err == nil {
				t.Errorf("done: %s", change)
			}
		}
		if err := s.EndSettlement(ctx, ledger.SettlementEnd{Run: run.ID, State: ledger.RunSucceeded}); err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(ctx, "UPDATE settlement_runs SET match_count = 7"); err == nil {
			t.Error("a run that has ended was changed")
		}
	})
}
