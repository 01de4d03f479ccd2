package gormstore

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// resolveTogether makes payments that are UNKNOWN, and claims, decides, puts off
// and resolves them, so many together.
func resolveTogether(t *testing.T, s *Store, from, count int) {
	t.Helper()
	ins, changes := make([]*intention, count), make([]*ledger.Change, count)
	for i := range count {
		in := numbered(from + i)
		if i%2 == 0 {
			in.Order = ledger.OrderID(in.Key)
		}
		ins[i], changes[i] = intended(t, in), &ledger.Change{ID: in.ID, From: ledger.StatusRequested, To: ledger.StatusUnknown, By: planner}
	}
	settled(t, s.writeIntents(t.Context(), ins))
	settled(t, s.writeOutcomes(t.Context(), changes))
	tokens := claimTogether(t, s, count)
	decisions, later := make([]*decision, count), make([]*ledger.Postponement, count)
	for i, in := range ins {
		decisions[i] = &decision{id: in.ID, by: planner, detail: "decided"}
		later[i] = &ledger.Postponement{ID: in.ID, Token: tokens[in.ID], Delay: -time.Hour, Detail: "later", By: planner}
		c := canceled(in.ID)
		changes[i] = &c
	}
	settled(t, s.writeDecisions(t.Context(), decisions))
	settled(t, s.writePostponements(t.Context(), later))
	claimTogether(t, s, count)
	settled(t, s.writeResolutions(t.Context(), changes))
}

// claimTogether claims so many rows, with five claims in a statement where there are
// enough, and returns their tokens.
func claimTogether(t *testing.T, s *Store, count int) map[tranid.ID]string {
	t.Helper()
	tokens := make(map[tranid.ID]string, count)
	for part := range 2 * count { // some are fresh, the others were asked about
		o := ledger.ClaimOptions{Limit: ledger.MaxClaim, Lease: time.Hour, Only: ledger.PartFresh + ledger.Part(part%2)}
		var batch []*claiming
		for n := 0; n < count; n += ledger.MaxClaim {
			batch = append(batch, &claiming{o, "token " + string(rune('a'+len(batch)))})
		}
		for i, r := range s.writeClaims(t.Context(), batch) {
			if r.err != nil {
				t.Fatal(r.err)
			}
			var claims []ledger.Claim
			for n := range r.answer {
				c := newClaim(&r.answer[n], batch[i].token)
				tokens[c.Transaction.ID] = c.Token
				claims = append(claims, c)
			}
			s.claimed.remember(claims)
		}
		if len(tokens) == count {
			return tokens
		}
	}
	t.Fatalf("%d rows of %d are claimed", len(tokens), count)
	return nil
}

// What a resolver writes finds its rows by the primary key, and what it claims in
// the order of the index of what is due, by plans that were made for an empty book
// and of which nobody has counted the rows since.
func TestPlans_OfAResolverMadeForAnEmptyBookDoForAFullOne(t *testing.T) {
	s, log := openExplained(t)
	for i := range often {
		resolveTogether(t, s, 10*i, 3)
		resolveTogether(t, s, 10*i+5, 1)
	}
	for from := 1000; from < 1000+rowsPending/4; from += keptBatch {
		resolveTogether(t, s, from, keptBatch)
	}
	claims, others := 0, 0
	for _, plan := range log.take() {
		_, statement, _ := strings.Cut(plan, "Query Text: ")
		switch {
		case strings.HasPrefix(statement, "WITH due"):
			claims++
			checkClaimPlan(t, plan)
		case isWasteful(plan):
			t.Errorf("wasteful: %s", plan)
		case strings.HasPrefix(statement, "WITH given") && slices.ContainsFunc([]string{"made AS", "put AS"}, func(part string) bool { return strings.Contains(statement, part) }):
			others++
		}
		if t.Failed() {
			return
		}
	}
	if want := 4*often + rowsPending/4/keptBatch; claims < want || others < 3*want/2 {
		t.Errorf("%d plans of claims, %d of what follows", claims, others)
	}
}

// checkClaimPlan fails the test unless a claim reads what is due in the order of
// the index, until it has enough.
func checkClaimPlan(t *testing.T, plan string) {
	t.Helper()
	for _, bad := range []string{"Sort", "Seq Scan on ", "Bitmap", "transactions_abandoned", "Merge Join", "Hash Join"} {
		if strings.Contains(plan, bad) {
			t.Errorf("%s: %s", bad, plan)
		}
	}
	if !strings.Contains(plan, "using transactions_due") {
		t.Errorf("not by the index: %s", plan)
	}
}
