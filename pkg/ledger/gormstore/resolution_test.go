package gormstore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// canceled is the move by which a row ends that was net-canceled.
func canceled(id tranid.ID) ledger.Change {
	return ledger.Change{
		ID: id, From: ledger.StatusUnknown, To: ledger.StatusCanceled, Evidence: ledger.EvidenceCancelConfirmed,
		Method: ledger.MethodNetCancel, Reason: "canceled", By: planner,
	}
}

// unknown stores payments that are UNKNOWN and due, each with an order, as many as
// there are from the first number to the last.
func (s *shelf) unknown(first, last int) []tranid.ID {
	s.t.Helper()
	var ids []tranid.ID
	for n := first; n <= last; n++ {
		in := withOrder(numbered(n), ledger.OrderID(numbered(n).Key))
		s.mustCreate(in)
		_, err := s.Transition(s.t.Context(), ledger.Change{
			ID: in.ID, From: ledger.StatusRequested, To: ledger.StatusUnknown, SentAt: someTime, By: planner,
		})
		if err != nil {
			s.t.Fatal(err)
		}
		ids = append(ids, in.ID)
	}
	return ids
}

// claim claims all that is due, and returns the tokens.
func (s *shelf) claim() map[tranid.ID]string {
	s.t.Helper()
	tokens := map[tranid.ID]string{}
	for {
		claims, err := s.Claim(s.t.Context(), ledger.ClaimOptions{Limit: ledger.MaxClaim, Lease: time.Hour})
		if err != nil {
			s.t.Fatal(err)
		}
		for _, c := range claims {
			if c.Err != nil || tokens[c.Transaction.ID] != "" {
				s.t.Fatalf("%s is claimed again, or has error %v", c.Transaction.ID, c.Err)
			}
			tokens[c.Transaction.ID] = c.Token
		}
		if len(claims) == 0 {
			return tokens
		}
	}
}

// resolving is a call about a row that is being resolved, and what came of it.
type resolving struct {
	ledger.Transaction
	err error
}

// resolveAtOnce makes calls about rows that all wait behind one about the first.
func (s *shelf) resolveAtOnce(ids []tranid.ID, call func(id tranid.ID) (ledger.Transaction, error)) []resolving {
	s.t.Helper()
	results, calls := make([]resolving, len(ids)), make([]func(), len(ids))
	for i, id := range ids {
		calls[i] = func() { results[i].Transaction, results[i].err = call(id) }
	}
	s.atOnce(calls[0], calls[1:]...)
	return results
}

func TestResolutions_WhatWaitsIsOneCommit(t *testing.T) {
	eachShelf(t, func(s *shelf) {
		ids := s.unknown(1, 30)
		tokens := s.claim()
		ways := []struct {
			what   string
			events int
			call   func(id tranid.ID) (ledger.Transaction, error)
		}{
			{"decision", 3, func(id tranid.ID) (ledger.Transaction, error) { return s.Decide(t.Context(), id, planner, "decided") }},
			{"postponement", 4, func(id tranid.ID) (ledger.Transaction, error) {
				err := s.Postpone(t.Context(), ledger.Postponement{
					ID: id, Token: tokens[id], Delay: -time.Hour, Answered: true, Detail: "later", By: planner,
				})
				return s.afterwards(id, err)
			}},
			{"resolution", 5, func(id tranid.ID) (ledger.Transaction, error) { return s.Transition(t.Context(), canceled(id)) }},
		}
		for _, way := range ways {
			for i, r := range s.resolveAtOnce(ids, way.call) {
				if r.err != nil {
					s.t.Errorf("%s %d: %v", way.what, i, r.err)
				}
				s.stored(r.Transaction, way.events)
			}
			want := int64(2) // the first, and all others
			if s.Name() == "sqlite" {
				want = 3 // where two writers share, by twenty
			}
			if n := s.commits.Load(); n != want {
				s.t.Errorf("%s: %d commits, want %d", way.what, n, want)
			}
			if way.what == "postponement" {
				tokens = s.claim()
			}
		}
		for _, id := range ids { // their orders are free
			row, err := s.Get(t.Context(), id)
			if err != nil || row.Status != ledger.StatusCanceled || row.Decision != ledger.DecisionCancel || row.ResolveAttempts != 1 {
				s.t.Errorf("%+v, error %v", row, err)
			}
		}
		s.mustCreate(withOrder(numbered(99), ledger.OrderID(numbered(7).Key)))
	})
}

// afterwards is the row after a call that may have failed.
func (s *shelf) afterwards(id tranid.ID, err error) (ledger.Transaction, error) {
	if err != nil {
		return ledger.Transaction{}, err
	}
	return s.Get(s.t.Context(), id)
}

func TestResolutions_BadRowHarmsNoOther(t *testing.T) {
	forbid := map[string][]string{
		"postgresql": {
			"ALTER TABLE transaction_events ADD CONSTRAINT no_bad CHECK (detail <> 'bad')",
			"ALTER TABLE transactions ADD CONSTRAINT no_reason CHECK (reason <> 'bad')",
		},
		"sqlite": {
			"CREATE TRIGGER no_bad BEFORE INSERT ON transaction_events WHEN NEW.detail = 'bad' BEGIN SELECT RAISE(ABORT, 'no'); END",
		},
	}
	eachShelf(t, func(s *shelf) {
		for _, statement := range forbid[s.Name()] {
			if err := s.db.Exec(statement).Error; err != nil {
				s.t.Fatal(err)
			}
		}
		ids := s.unknown(1, 15)
		tokens := s.claim()
		bad := ids[4]
		text := func(id tranid.ID) string {
			if id == bad {
				return "bad"
			}
			return "good"
		}
		check := func(what string, results []resolving, events int) {
			s.t.Helper()
			for i, r := range results {
				switch isBad := ids[i] == bad; {
				case isBad && (r.err == nil || errors.Is(r.err, ledger.ErrUnavailable)), !isBad && r.err != nil:
					s.t.Errorf("%s %d: %v", what, i, r.err)
				case !isBad:
					s.stored(r.Transaction, events)
				}
			}
		}
		check("decision", s.resolveAtOnce(ids, func(id tranid.ID) (ledger.Transaction, error) {
			return s.Decide(t.Context(), id, planner, text(id))
		}), 3)
		check("postponement", s.resolveAtOnce(ids, func(id tranid.ID) (ledger.Transaction, error) {
			err := s.Postpone(t.Context(), ledger.Postponement{ID: id, Token: tokens[id], Delay: -time.Hour, Detail: text(id), By: planner})
			return s.afterwards(id, err)
		}), 4)
		s.claim()
		check("resolution", s.resolveAtOnce(ids, func(id tranid.ID) (ledger.Transaction, error) {
			c := canceled(id)
			c.Reason = text(id)
			return s.Transition(t.Context(), c)
		}), 5)
		if row, err := s.Get(t.Context(), bad); err != nil || row.Status != ledger.StatusUnknown || row.Decision != 0 {
			s.t.Errorf("the bad row is %+v, error %v", row, err)
		}
	})
}

// What a store remembers of a claim may be of the past: it is told what is.
func TestResolutions_RowThatIsNotAsItWasClaimedIsAsTheBookSays(t *testing.T) {
	eachShelf(t, func(s *shelf) {
		ids := s.unknown(1, 5)
		s.claim()
		beside := func(statement string, id tranid.ID) {
			s.t.Helper()
			result := s.db.Exec("UPDATE transactions SET "+statement+" WHERE business_date = ? AND transaction_id = ?", id.Date().String(), string(id))
			if result.Error != nil || result.RowsAffected != 1 {
				s.t.Fatalf("%s: %d rows, error %v", statement, result.RowsAffected, result.Error)
			}
		}
		won, err := MoveAlone(t.Context(), s.Store, canceled(ids[0]))
		if err != nil {
			s.t.Fatal(err)
		}
		beside("decision = 'CANCEL'", ids[1])
		beside("lease_token = 'another', resolve_attempts = 7, asked = TRUE", ids[2])
		beside("lease_token = 'another', resolve_attempts = 7, asked = TRUE", ids[3])
		results := s.resolveAtOnce(ids[:3], func(id tranid.ID) (ledger.Transaction, error) {
			return s.Decide(t.Context(), id, planner, "decided")
		})
		results = append(results, s.resolveAtOnce(ids[3:], func(id tranid.ID) (ledger.Transaction, error) {
			return s.Transition(t.Context(), canceled(id))
		})...)
		var lost *ledger.LostError
		if !errors.As(results[0].err, &lost) || lost.Current != won {
			s.t.Errorf("decision on a row that is final: %v", results[0].err)
		}
		for i, events := range map[int]int{1: 2, 2: 3, 3: 3, 4: 3} {
			if results[i].err != nil {
				s.t.Errorf("%d: %v", i, results[i].err)
			}
			s.stored(results[i].Transaction, events)
		}
		done := canceled(ids[1])
		done.To, done.Evidence, done.Method = ledger.StatusSuccess, ledger.EvidenceProcessed, ledger.MethodStatusInquiry
		if _, err := s.Transition(t.Context(), done); !errors.As(err, &lost) || lost.Current != results[1].Transaction {
			s.t.Errorf("success in spite of a decision that another made: %v", err)
		}
	})
}

func TestResolutions_CommitInDoubtIsNotTakenForNothing(t *testing.T) {
	for _, happened := range []bool{true, false} {
		eachShelf(t, func(s *shelf) {
			s.line.happened = happened
			ids := s.unknown(1, 8)
			tokens := s.claim()
			s.failSecond()
			for i, r := range s.resolveAtOnce(ids, func(id tranid.ID) (ledger.Transaction, error) {
				return s.Decide(t.Context(), id, planner, "decided")
			}) {
				if r.err != nil { // it may be made again
					s.t.Errorf("decision %d: %v", i, r.err)
				}
				s.stored(r.Transaction, 3)
			}
			inDoubt := func(what string, results []resolving) {
				s.t.Helper()
				for i, r := range results[1:] {
					if !errors.Is(r.err, ledger.ErrUnavailable) || !errors.Is(r.err, errLine) {
						s.t.Errorf("%s %d: %v", what, i+1, r.err)
					}
				}
			}
			s.failSecond()
			inDoubt("postponement", s.resolveAtOnce(ids, func(id tranid.ID) (ledger.Transaction, error) {
				return ledger.Transaction{}, s.Postpone(t.Context(), ledger.Postponement{ID: id, Token: tokens[id], Delay: -time.Hour, By: planner})
			}))
			s.claim()
			s.failSecond()
			inDoubt("resolution", s.resolveAtOnce(ids, func(id tranid.ID) (ledger.Transaction, error) {
				return s.Transition(t.Context(), canceled(id))
			}))
			for i, id := range ids[1:] {
				row, err := s.Get(t.Context(), id)
				if err != nil || (row.Status == ledger.StatusCanceled) != happened || row.Asked != happened {
					s.t.Errorf("%d: %s, asked %t, after commits that happened: %t, error %v", i+1, row.Status, row.Asked, happened, err)
				}
			}
		})
	}
}

func TestClaims_AtOnceAreEachTheirOwn(t *testing.T) {
	eachShelf(t, func(s *shelf) {
		ids := s.unknown(1, 70)
		options := ledger.ClaimOptions{Limit: ledger.MaxClaim, Lease: time.Hour, Only: ledger.PartFresh}
		newest := options
		newest.Newest, newest.Limit = true, 5
		claims, errs := make([][]ledger.Claim, 5), make([]error, 5)
		calls := make([]func(), len(claims))
		for i, o := range []ledger.ClaimOptions{newest, options, options, newest, options} {
			calls[i] = func() { claims[i], errs[i] = s.Claim(t.Context(), o) }
		}
		if s.Name() == "sqlite" { // they come one after the other
			for _, call := range calls {
				call()
			}
		} else {
			s.atOnce(calls[0], calls[1:]...)
			if n := s.commits.Load(); n != 4 { // the first, two alike, and one each
				s.t.Errorf("%d commits, want 4", n)
			}
		}
		of := map[tranid.ID]string{}
		for i, want := range []int{5, 20, 20, 5, 20} {
			if len(claims[i]) != want || errs[i] != nil {
				s.t.Fatalf("claim %d has %d rows, error %v", i, len(claims[i]), errs[i])
			}
			for n, c := range claims[i] {
				if of[c.Transaction.ID] != "" || c.Token != claims[i][0].Token || c.Err != nil {
					s.t.Errorf("claim %d: %s has token %s before, error %v", i, c.Transaction.ID, of[c.Transaction.ID], c.Err)
				}
				of[c.Transaction.ID] = c.Token
				if before := max(n-1, 0); claims[i][before].Transaction.ID > c.Transaction.ID && want == 20 {
					s.t.Errorf("claim %d is out of order", i)
				}
			}
		}
		if len(of) != len(ids) {
			s.t.Errorf("%d rows of %d are claimed", len(of), len(ids))
		}
		if err := s.Release(t.Context(), claims[1][0].Token); err != nil {
			s.t.Fatal(err)
		}
		if again := s.claim(); len(again) != 20 {
			s.t.Errorf("after one of them is released %d rows can be claimed", len(again))
		}
	})
}

func TestClaimed_ForgetsTheOldest(t *testing.T) {
	var c claimed
	claim := func(n int) ledger.Claim {
		return ledger.Claim{Token: fmt.Sprint(n), Transaction: ledger.Transaction{ID: numbered(n).ID, Status: ledger.StatusUnknown}}
	}
	garbage := claim(maxRecent + 1)
	garbage.Err = ledger.ErrUnreadable
	c.remember([]ledger.Claim{claim(0), claim(1), garbage, {Transaction: claim(2).Transaction}})
	c.decided(numbered(1).ID)
	if row, ok := c.find(numbered(1).ID); !ok || row.token != "1" || row.Decision != ledger.DecisionCancel {
		t.Errorf("%+v, %t", row, ok)
	}
	for n := 2; n <= maxRecent; n++ {
		c.remember([]ledger.Claim{claim(n)})
	}
	_, oldest := c.find(numbered(0).ID)
	_, next := c.find(numbered(1).ID)
	_, bad := c.find(garbage.Transaction.ID)
	if len(c.rows) != maxRecent || oldest || !next || bad {
		t.Errorf("%d rows, the oldest %t, the next %t, the one with garbage %t", len(c.rows), oldest, next, bad)
	}
	c.forget(numbered(1).ID)
	if _, ok := c.find(numbered(1).ID); ok {
		t.Error("it is not forgotten")
	}
}
