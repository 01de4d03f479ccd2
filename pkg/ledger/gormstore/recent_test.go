package gormstore

import (
	"errors"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/postgrestest"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

func TestPlain_PaymentIsTwoStatements(t *testing.T) {
	s := openInternal(t, postgrestest.DSN(t))
	var r recorder
	r.on(t, s.db)
	in := doubtfulIntent()
	in.RequestedAt = someTime
	admission, err := s.CreateIntent(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	after, err := s.Transition(t.Context(), success(in.ID))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.statements) != 2 {
		t.Errorf("statements: %q", r.statements)
	}
	if stored, err := s.Get(t.Context(), in.ID); err != nil || stored != after {
		t.Errorf("stored %+v, told %+v, error %v", stored, after, err)
	}
	events, err := s.Events(t.Context(), in.ID)
	if err != nil || len(events) != 2 {
		t.Fatalf("events %v, error %v", events, err)
	}
	bound := admission.Transaction.AdoptAt.Add(-in.AdoptAfter)
	if events[0].At != bound || events[1].At.Before(bound) {
		t.Errorf("by the database's clock it was bound at %v; events %v", bound, events)
	}
	if _, remembered := s.requested.find(in.ID); remembered {
		t.Error("its row is remembered")
	}
}

func TestPlain_OutcomeOfARowThatAnotherMovedIsLost(t *testing.T) {
	dsn := postgrestest.DSN(t)
	s, other := openInternal(t, dsn), openInternal(t, dsn)
	in := doubtfulIntent()
	if _, err := s.CreateIntent(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	moved, err := other.Transition(t.Context(), ledger.Change{
		ID: in.ID, From: ledger.StatusRequested, To: ledger.StatusUnknown, By: planner,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Transition(t.Context(), success(in.ID))
	var lost *ledger.LostError
	if !errors.As(err, &lost) || lost.Current != moved {
		t.Errorf("error %v, want that it is %+v", err, moved)
	}
	if stored, err := s.Get(t.Context(), in.ID); err != nil || stored != moved {
		t.Errorf("stored %+v, error %v", stored, err)
	}
	if events, err := s.Events(t.Context(), in.ID); err != nil || len(events) != 2 {
		t.Errorf("events %v, error %v", events, err)
	}
}

func TestRecent_ForgetsTheOldestFirst(t *testing.T) {
	var r recent
	id := func(n int) tranid.ID { return numbered(n).ID }
	for n := range maxRecent + 2 {
		r.remember(&ledger.Transaction{ID: id(n)})
	}
	r.forget([]*ledger.Change{{ID: id(7)}})
	for n, want := range map[int]bool{0: false, 1: false, 2: true, 7: false, 8: true, maxRecent + 1: true} {
		if row, found := r.find(id(n)); found != want || found && row.ID != id(n) {
			t.Errorf("%d: found %t, %s", n, found, row.ID)
		}
	}
	if len(r.rows) != maxRecent-1 {
		t.Errorf("%d rows are remembered", len(r.rows))
	}
}
