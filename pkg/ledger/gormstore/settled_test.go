package gormstore

import (
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// An operator's settlements that come at once share a statement, which sets the
// decision of those that have one.
func TestBatch_SettlementsOfOperatorsAreStoredWithTheirDecisions(t *testing.T) {
	verdicts := []ledger.Status{ledger.StatusSuccess, ledger.StatusFailed, ledger.StatusCanceled}
	eachStore(t, func(t *testing.T, s *Store) {
		var changes []*ledger.Change
		for i, to := range verdicts {
			in := numbered(i)
			if _, err := s.CreateIntent(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Transition(t.Context(), ledger.Change{
				ID: in.ID, From: ledger.StatusRequested, To: ledger.StatusUnknown, By: planner,
			}); err != nil {
				t.Fatal(err)
			}
			claim, err := s.ClaimOne(t.Context(), in.ID, time.Hour, planner)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Postpone(t.Context(), ledger.Postponement{ID: in.ID, Token: claim.Token, NeedsReview: true, By: planner}); err != nil {
				t.Fatal(err)
			}
			c := ledger.Settlement(in.ID, to, "the bank was called", planner)
			changes = append(changes, &c)
		}
		settled(t, s.writeOutcomes(t.Context(), changes))
		for i, to := range verdicts {
			row, err := s.Get(t.Context(), numbered(i).ID)
			undone := to != ledger.StatusSuccess
			if err != nil || row.Status != to || (row.Decision == ledger.DecisionCancel) != undone || row.Owed() != undone {
				t.Errorf("%s, decision %q, owed %t, error %v", row.Status, row.Decision, row.Owed(), err)
			}
		}
	})
}
