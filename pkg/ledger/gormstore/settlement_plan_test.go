package gormstore

import (
	"context"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// settlementPlans are plans of settlement. What is UNKNOWN of a day is in
// TestPlans_WhatIsUnknownOfADay: it is sorted, as it must be.
var settlementPlans = map[string]struct {
	index string
	call  func(ctx context.Context, s *Store) error
}{
	"rows of a day": {"PRIMARY KEY", func(ctx context.Context, s *Store) error {
		_, err := s.DayRows(ctx, planID.Date(), planID, ledger.MaxDayRows)
		return err
	}},
	"discrepancies of a day": {"settlement_discrepancies_unclosed", func(ctx context.Context, s *Store) error {
		_, err := s.UnclosedDiscrepancies(ctx, planID.Date(), planID, ledger.MaxDayRows)
		return err
	}},
	"runs": {"settlement_runs_listed", listRuns(ledger.SettlementFilter{})},
	"next runs": {"settlement_runs_listed", listRuns(ledger.SettlementFilter{
		After: &ledger.SettlementCursor{StartedAt: someTime, ID: "x"},
	})},
	"runs of a day": {"settlement_runs_of_day", listRuns(ledger.SettlementFilter{Day: planID.Date()})},
	"discrepancies": {"settlement_discrepancies_listed", listDiscrepancies(ledger.DiscrepancyFilter{})},
	"next discrepancies": {"settlement_discrepancies_listed", listDiscrepancies(ledger.DiscrepancyFilter{
		After: &ledger.DiscrepancyCursor{FoundAt: someTime, ID: planID},
	})},
	"discrepancies of a run":   {"settlement_discrepancies_of_run", listDiscrepancies(ledger.DiscrepancyFilter{Run: "x"})},
	"discrepancies in a state": {"settlement_discrepancies_in_state", listDiscrepancies(ledger.DiscrepancyFilter{State: ledger.DiscrepancyOpen})},
	"lost runs": {"settlement_runs_live", func(ctx context.Context, s *Store) error {
		_, err := s.FailLostSettlements(ctx)
		return err
	}},
	"open discrepancies": {"COVERING INDEX settlement_discrepancies_in_state", func(ctx context.Context, s *Store) error {
		_, err := s.CountDiscrepancies(ctx)
		return err
	}},
}

func listRuns(f ledger.SettlementFilter) func(ctx context.Context, s *Store) error {
	f.Limit = 50
	return func(ctx context.Context, s *Store) error {
		_, err := s.ListSettlements(ctx, f)
		return err
	}
}

func listDiscrepancies(f ledger.DiscrepancyFilter) func(ctx context.Context, s *Store) error {
	f.Limit = 50
	return func(ctx context.Context, s *Store) error {
		_, err := s.ListDiscrepancies(ctx, f)
		return err
	}
}

func TestPlans_SettlementReadsNoWholeTable(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ctx := context.Background()
		if _, err := s.CreateIntent(ctx, doubtfulIntent()); err != nil {
			t.Fatal(err)
		}
		var r recorder
		r.on(t, s.db)
		for what, p := range settlementPlans {
			r.statements, r.values = nil, nil
			if err := p.call(ctx, s); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if len(r.statements) != 1 {
				t.Fatalf("%s: %d statements", what, len(r.statements))
			}
			checkPlan(t, s, what, p.index, r.statements[0], r.values[0])
		}
	})
}

// A day of ten million rows has a few that are UNKNOWN: they are found without
// reading the day.
func TestPlans_WhatIsUnknownOfADay(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		var r recorder
		r.on(t, s.db)
		if _, err := s.DayUnknown(context.Background(), planID.Date(), "", 10); err != nil {
			t.Fatal(err)
		}
		if len(r.statements) != 1 {
			t.Fatalf("%d statements", len(r.statements))
		}
		const pending = "SELECT transaction_id AS id FROM transactions WHERE status = 'UNKNOWN'"
		checkPlan(t, s, "what is UNKNOWN", "COVERING INDEX transactions_due", pending, nil)
	})
}

func TestSettlement_RunOfAnInstanceThatCannotBeNamedIsRefused(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		long := make([]byte, 101)
		for i := range long {
			long[i] = 'x'
		}
		_, begun, err := s.BeginSettlement(context.Background(), ledger.SettlementStart{
			Day: planID.Date(), Lease: time.Hour, Instance: string(long),
		})
		if begun || err == nil {
			t.Errorf("begun %t, error %v", begun, err)
		}
	})
}
