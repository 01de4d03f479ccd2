package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// shelf is a book whose commits are counted, and which can be blocked.
type shelf struct {
	*Store
	t       *testing.T
	line    *deadLine
	commits atomic.Int64
	// fillers is how many rows were made for those who come first.
	fillers int
}

// eachShelf runs a test on a new, empty book of each kind.
func eachShelf(t *testing.T, test func(s *shelf)) {
	t.Helper()
	for name, make := range map[string]connectorOf{"sqlite": sqliteConnector, "postgresql": postgresConnector} {
		t.Run(name, func(t *testing.T) {
			d, connector := make(t)
			s := &shelf{t: t, line: &deadLine{Connector: connector, happened: true}}
			s.Store = openDeadLine(t, d, s.line)
			s.line.onCommit = func() { s.commits.Add(1) }
			test(s)
		})
	}
}

// block keeps everyone from writing until the test lets them.
func (s *shelf) block() (release func()) {
	s.t.Helper()
	pool, err := s.db.DB()
	if err != nil {
		s.t.Fatal(err)
	}
	conn, err := pool.Conn(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	do := func(statement string) {
		s.t.Helper()
		if _, err := conn.ExecContext(context.Background(), statement); err != nil {
			s.t.Errorf("%s: %v", statement, err)
		}
	}
	if s.Name() == "sqlite" {
		do("BEGIN IMMEDIATE")
	} else {
		do("BEGIN")
		do("LOCK TABLE transactions, idempotency_keys IN EXCLUSIVE MODE")
	}
	return func() {
		s.t.Helper()
		do("ROLLBACK")
		if err := conn.Close(); err != nil && !errors.Is(err, sql.ErrConnDone) {
			s.t.Error(err)
		}
	}
}

// atOnce has the calls wait for one batch: a first call is under way on a blocked
// book, the others come behind it, and then the book is free.
func (s *shelf) atOnce(first func(), calls ...func()) {
	s.t.Helper()
	release := s.block()
	var all sync.WaitGroup
	all.Go(first)
	s.await("the first call is under way", func() bool { return Waiting(s.Store) == 0 && s.underWay() })
	for i, call := range calls {
		all.Go(call)
		s.await("it waits", func() bool { return Waiting(s.Store) == i+1 })
	}
	s.commits.Store(0)
	release()
	all.Wait()
}

// underWay reports whether somebody but who blocks the book has a connection, or
// a place to write.
func (s *shelf) underWay() bool { return InUse(s.Store) > 1 || len(s.writing) > 0 }

func (s *shelf) await(what string, done func() bool) {
	s.t.Helper()
	retry := time.NewTicker(time.Millisecond)
	defer retry.Stop()
	for deadline := time.Now().Add(20 * time.Second); !done(); <-retry.C {
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: not in time", what)
		}
	}
}

// numbered is an intent that nobody else has.
func numbered(n int) ledger.Intent {
	in := doubtfulIntent()
	in.ID = tranid.New(in.ID.Date(), int64(n))
	in.Key = ledger.IdempotencyKey(fmt.Sprintf("key-%d", n))
	return in
}

// intended is an intent as a line has it.
func intended(t *testing.T, in ledger.Intent) *intention {
	t.Helper()
	question, err := newIntention(&in)
	if err != nil {
		t.Fatal(err)
	}
	return question
}

// creation is a call of CreateIntent and what came of it.
type creation struct {
	in ledger.Intent
	ledger.Admission
	err error
}

// createAtOnce has intents written with one commit, and returns what came of each.
func (s *shelf) createAtOnce(ins ...ledger.Intent) []creation {
	s.t.Helper()
	results, calls := make([]creation, len(ins)), make([]func(), len(ins))
	for i, in := range ins {
		calls[i] = func() {
			results[i].in = in
			results[i].Admission, results[i].err = s.CreateIntent(s.t.Context(), in)
		}
	}
	s.atOnce(func() {
		if _, err := s.CreateIntent(s.t.Context(), numbered(999_999)); err != nil {
			s.t.Errorf("the first call: %v", err)
		}
	}, calls...)
	return results
}

// moving is a call of Transition and what came of it.
type moving struct {
	ledger.Transaction
	err error
}

// moveAtOnce has moves written with one commit, and returns what came of each.
func (s *shelf) moveAtOnce(changes ...ledger.Change) []moving {
	s.t.Helper()
	s.fillers++
	filler := numbered(999_000 + s.fillers)
	s.mustCreate(filler)
	results, calls := make([]moving, len(changes)), make([]func(), len(changes))
	for i, c := range changes {
		calls[i] = func() { results[i].Transaction, results[i].err = s.Transition(s.t.Context(), c) }
	}
	s.atOnce(func() {
		if _, err := s.Transition(s.t.Context(), success(filler.ID)); err != nil {
			s.t.Errorf("the first call: %v", err)
		}
	}, calls...)
	return results
}

func (s *shelf) mustCreate(ins ...ledger.Intent) {
	s.t.Helper()
	for _, in := range ins {
		if admission, err := s.CreateIntent(s.t.Context(), in); err != nil || !admission.Created {
			s.t.Fatalf("create %s: %t, error %v", in.ID, admission.Created, err)
		}
	}
}

// stored fails the test unless the row is stored as it was returned, with so many
// events.
func (s *shelf) stored(want ledger.Transaction, events int) {
	s.t.Helper()
	if got, err := s.Get(s.t.Context(), want.ID); got != want || err != nil {
		s.t.Errorf("stored %+v, error %v, want %+v", got, err, want)
	}
	if got, err := s.Events(s.t.Context(), want.ID); len(got) != events || err != nil {
		s.t.Errorf("%s has %d events, error %v", want.ID, len(got), err)
	}
}

// absent fails the test if anything of the intent is stored.
func (s *shelf) absent(in ledger.Intent) {
	s.t.Helper()
	if _, err := s.Get(s.t.Context(), in.ID); !errors.Is(err, ledger.ErrNotFound) {
		s.t.Errorf("%s is there: %v", in.ID, err)
	}
	if t, err := s.GetByKey(s.t.Context(), in.Client, in.Key); err == nil && t.ID == in.ID {
		s.t.Errorf("%s has its key", in.ID)
	}
}

func success(id tranid.ID) ledger.Change {
	return ledger.Change{
		ID: id, From: ledger.StatusRequested, To: ledger.StatusSuccess, Evidence: ledger.EvidenceAnswered,
		Answer: ledger.Answer{Code: "0000", Message: "정상", Approval: "00000000001"}, SentAt: someTime, RespondedAt: someTime.Add(time.Millisecond),
		Elapsed: 2 * time.Millisecond, By: ledger.Actor{Name: "payment", Instance: "payment-1"},
	}
}

func declined(id tranid.ID) ledger.Change {
	c := success(id)
	c.To, c.Answer, c.Reason = ledger.StatusFailed, ledger.Answer{Code: "0051", Message: "잔액부족"}, "declined"
	return c
}

func TestBatch_WhatWaitsIsOneCommit(t *testing.T) {
	eachShelf(t, func(s *shelf) {
		count := crowd // of more PostgreSQL makes two batches
		if s.dialect.writers == 1 {
			count = 2 * crowd
		}
		ins := make([]ledger.Intent, count)
		for i := range ins {
			ins[i] = numbered(i)
			if i%2 == 0 {
				ins[i].Order = ledger.OrderID(ins[i].Key)
			}
		}
		for _, c := range s.createAtOnce(ins...) {
			if c.err != nil || !c.Created {
				s.t.Errorf("%s: created %t, error %v", c.in.ID, c.Created, c.err)
			}
			s.stored(c.Transaction, 1)
		}
		if n := s.commits.Load(); n != 2 {
			s.t.Errorf("%d commits of one intent and %d, want 2", n, len(ins))
		}
		changes := make([]ledger.Change, len(ins))
		for i := range changes {
			changes[i] = success(ins[i].ID)
			if i%3 == 0 {
				changes[i] = declined(ins[i].ID)
			}
		}
		for i, m := range s.moveAtOnce(changes...) {
			if m.err != nil || m.Status != changes[i].To || m.SentAt != someTime {
				s.t.Errorf("%s, error %v", m.Status, m.err)
			}
			s.stored(m.Transaction, 2)
		}
		if n := s.commits.Load(); n != 2 {
			s.t.Errorf("%d commits of one outcome and %d, want 2", n, len(changes))
		}
		s.mustCreate(withOrder(numbered(1000), ins[0].Order)) // it failed
		_, err := s.CreateIntent(t.Context(), withOrder(numbered(1001), ins[2].Order))
		if !errors.Is(err, ledger.ErrOrderTaken) {
			s.t.Errorf("order of a payment that succeeded: %v", err)
		}
	})
}

func withOrder(in ledger.Intent, order ledger.OrderID) ledger.Intent {
	in.Order = order
	return in
}

func TestBatch_EqualKeysOrdersAndIDsAreSettledAsOneAfterTheOther(t *testing.T) {
	eachShelf(t, func(s *shelf) {
		s.mustCreate(numbered(1), withOrder(numbered(2), "held"))
		lead := withOrder(numbered(10), "order")
		sameKey, otherPayment, sameOrder, sameID := lead, lead, withOrder(numbered(13), "order"), numbered(14)
		sameKey.ID = numbered(11).ID
		otherPayment.ID, otherPayment.Fingerprint = numbered(12).ID, ledger.Hash{9}
		sameID.ID = lead.ID
		bound, reused, held := numbered(15), numbered(16), withOrder(numbered(17), "held")
		bound.Key, reused.Key, reused.Fingerprint = numbered(1).Key, numbered(1).Key, ledger.Hash{9}
		r := s.createAtOnce(lead, sameKey, otherPayment, sameOrder, sameID, lead, bound, reused, held, numbered(18))
		for i, want := range []struct {
			created bool
			holder  tranid.ID
			err     error
		}{
			{true, lead.ID, nil},
			{false, lead.ID, nil},
			{false, "", ledger.ErrKeyReused},
			{false, "", ledger.ErrOrderTaken},
			{false, "", ledger.ErrDuplicateID},
			{true, lead.ID, nil},
			{false, numbered(1).ID, nil},
			{false, "", ledger.ErrKeyReused},
			{false, "", ledger.ErrOrderTaken},
			{true, numbered(18).ID, nil},
		} {
			if r[i].Created != want.created || r[i].Transaction.ID != want.holder || !errors.Is(r[i].err, want.err) {
				s.t.Errorf("%d: created %t, holder %q, error %v; want %+v", i, r[i].Created, r[i].Transaction.ID, r[i].err, want)
			}
		}
		var taken *ledger.OrderError
		if !errors.As(r[3].err, &taken) || taken.Holder != r[0].Transaction {
			s.t.Errorf("holder of the order: %v", r[3].err)
		}
		s.stored(r[0].Transaction, 1)
		for _, i := range []int{1, 2, 3, 6, 7, 8} {
			s.absent(r[i].in)
		}
		s.mustCreate(withOrder(sameOrder, ""), withOrder(held, "")) // their keys are free
	})
}

func TestBatch_BadRowHarmsNoOther(t *testing.T) {
	forbid := map[string][]string{
		"postgresql": {
			"ALTER TABLE transactions ADD CONSTRAINT no_thirteen CHECK (amount <> 13)",
			"ALTER TABLE transactions ADD CONSTRAINT no_reason CHECK (reason <> 'bad')",
		},
		"sqlite": {
			"CREATE TRIGGER no_thirteen BEFORE INSERT ON transactions WHEN NEW.amount = 13 BEGIN SELECT RAISE(ABORT, 'no'); END",
			"CREATE TRIGGER no_reason BEFORE UPDATE ON transactions WHEN NEW.reason = 'bad' BEGIN SELECT RAISE(ABORT, 'no'); END",
		},
	}
	eachShelf(t, func(s *shelf) {
		for _, statement := range forbid[s.Name()] {
			if err := s.db.Exec(statement).Error; err != nil {
				s.t.Fatal(err)
			}
		}
		s.mustCreate(numbered(50))
		ins, changes := make([]ledger.Intent, 20), make([]ledger.Change, 20)
		for i := range ins {
			ins[i] = numbered(i)
			changes[i] = success(ins[i].ID)
		}
		ins[7].Amount, ins[9].ID, changes[3].Reason = 13, numbered(50).ID, "bad"
		for i, c := range s.createAtOnce(ins...) {
			switch bad := i == 7 || i == 9; {
			case bad && (c.err == nil || errors.Is(c.err, ledger.ErrUnavailable)), !bad && (c.err != nil || !c.Created):
				s.t.Errorf("intent %d: created %t, error %v", i, c.Created, c.err)
			case i == 9 && !errors.Is(c.err, ledger.ErrDuplicateID):
				s.t.Errorf("intent with an ID that is taken: %v", c.err)
			case bad:
				if _, err := s.GetByKey(s.t.Context(), c.in.Client, c.in.Key); !errors.Is(err, ledger.ErrNotFound) {
					s.t.Errorf("intent %d has its key: %v", i, err)
				}
			default:
				s.stored(c.Transaction, 1)
			}
		}
		for i, m := range s.moveAtOnce(changes...) {
			switch i {
			case 3:
				if m.err == nil || errors.Is(m.err, ledger.ErrUnavailable) {
					s.t.Errorf("bad outcome: %v", m.err)
				}
			case 7, 9: // there is none, or it is another's
			default:
				if m.err != nil {
					s.t.Errorf("outcome %d: %v", i, m.err)
				}
				s.stored(m.Transaction, 2)
			}
		}
	})
}

func TestBatch_MovesThatLoseAreToldTheStateThatWon(t *testing.T) {
	eachShelf(t, func(s *shelf) {
		s.mustCreate(numbered(1), numbered(2), numbered(3), numbered(4))
		won, err := s.Transition(t.Context(), success(numbered(2).ID))
		if err != nil {
			s.t.Fatal(err)
		}
		contradiction := declined(numbered(4).ID) // no row may say so
		contradiction.To = ledger.StatusSuccess
		noActor := success(numbered(4).ID)
		noActor.By = ledger.Actor{}
		m := s.moveAtOnce(success(numbered(1).ID), declined(numbered(1).ID), declined(numbered(2).ID),
			success(numbered(5).ID), success("GWMNU20260230000000001"), contradiction, success(numbered(3).ID))
		for i, want := range []error{
			nil, ledger.ErrLost, ledger.ErrLost, ledger.ErrNotFound, ledger.ErrNotFound, ledger.ErrIllegalMove, nil,
		} {
			if !errors.Is(m[i].err, want) {
				s.t.Errorf("move %d: %v, want %v", i, m[i].err, want)
			}
		}
		for i, want := range map[int]ledger.Transaction{1: m[0].Transaction, 2: won} {
			var lost *ledger.LostError
			if !errors.As(m[i].err, &lost) || lost.Current != want {
				s.t.Errorf("move %d lost to %v", i, m[i].err)
			}
		}
		s.stored(m[0].Transaction, 2)
		s.stored(won, 2)
		r := s.moveAtOnce(noActor, success(numbered(4).ID))
		if !errors.Is(r[0].err, ledger.ErrInvalidRow) || r[1].err != nil {
			s.t.Errorf("without an actor: %v, and then %v", r[0].err, r[1].err)
		}
	})
}

// The rows of a batch are locked when they are read; should they ever not be, the
// update finds out.
func TestBatch_MoveOfARowThatChangedIsNotStored(t *testing.T) {
	eachShelf(t, func(s *shelf) {
		s.mustCreate(numbered(1), numbered(2), numbered(3))
		stale := map[tranid.ID]*outcome{}
		note := func(c ledger.Change) {
			before, err := s.Get(t.Context(), c.ID)
			if err != nil {
				s.t.Fatal(err)
			}
			o := &outcome{before: &before, after: before, event: c.Event(someTime)}
			if made, err := c.Apply(&o.after, someTime); !made || err != nil {
				s.t.Fatalf("made %t, error %v", made, err)
			}
			stale[c.ID] = o
		}
		unknown := ledger.Change{From: ledger.StatusRequested, To: ledger.StatusUnknown, By: planner}
		move := func(c ledger.Change, n int) ledger.Change {
			c.ID = numbered(n).ID
			if _, err := s.Transition(t.Context(), c); err != nil {
				s.t.Fatal(err)
			}
			return c
		}
		note(success(numbered(1).ID))
		move(unknown, 1) // another status
		move(unknown, 2)
		late := success(numbered(2).ID)
		late.From = ledger.StatusUnknown
		note(late)
		if _, err := s.Decide(t.Context(), late.ID, planner, ""); err != nil { // another decision
			s.t.Fatal(err)
		}
		note(success(numbered(3).ID))
		if err := s.transact(t.Context(), func(tx *gorm.DB) error { return s.storeMoves(tx, stale) }); err != nil {
			s.t.Fatal(err)
		}
		for n, events := range map[int]int{1: 2, 2: 3, 3: 2} {
			o := stale[numbered(n).ID]
			want, err := s.Get(t.Context(), o.after.ID)
			if err != nil || o.stored != (n == 3) || o.stored != (want == o.after) {
				s.t.Errorf("%d: stored %t, as %+v, error %v", n, o.stored, want, err)
			}
			s.stored(want, events)
		}
	})
}

func TestBatch_CommitInDoubtIsFoundOutForEachRow(t *testing.T) {
	for _, happened := range []bool{true, false} {
		eachShelf(t, func(s *shelf) {
			s.line.happened = happened
			ins := make([]ledger.Intent, 10)
			for i := range ins {
				ins[i] = withOrder(numbered(i), ledger.OrderID(numbered(i).Key))
			}
			s.failSecond()
			for _, c := range s.createAtOnce(ins...) {
				if c.err != nil || !c.Created {
					s.t.Errorf("happened %t: created %t, error %v", happened, c.Created, c.err)
				}
				s.stored(c.Transaction, 1)
			}
			changes := make([]ledger.Change, len(ins))
			for i := range changes {
				changes[i] = success(ins[i].ID)
			}
			s.mustCreate(numbered(999_998))
			release := s.block()
			var all sync.WaitGroup
			all.Go(func() { _, _ = s.Transition(t.Context(), success(numbered(999_998).ID)) })
			s.await("the first call is under way", func() bool { return s.underWay() && Waiting(s.Store) == 0 })
			for i, c := range changes {
				all.Go(func() {
					if _, err := s.Transition(t.Context(), c); !errors.Is(err, ledger.ErrUnavailable) || !errors.Is(err, errLine) {
						s.t.Errorf("outcome: %v", err)
					}
				})
				s.await("it waits", func() bool { return Waiting(s.Store) == i+1 })
			}
			s.failSecond()
			release()
			all.Wait()
			for _, in := range ins {
				stored, err := s.Get(t.Context(), in.ID)
				if want := stored.Status == ledger.StatusSuccess; err != nil || want != happened {
					s.t.Errorf("%s after a commit that happened: %t, error %v", stored.Status, happened, err)
				}
			}
		})
	}
}

// failSecond has the second COMMIT from now on fail.
func (s *shelf) failSecond() {
	s.line.onCommit = func() {
		s.line.onCommit = nil
		s.line.fail.Store(1)
	}
}

func TestBatch_OneThatLeavesHarmsNoOther(t *testing.T) {
	eachShelf(t, func(s *shelf) {
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		release := s.block()
		create := func(ctx context.Context, n int, want error) {
			all.Go(func() {
				if _, err := s.CreateIntent(ctx, numbered(n)); !errors.Is(err, want) {
					s.t.Errorf("intent %d: %v", n, err)
				}
			})
		}
		create(t.Context(), 0, nil)
		s.await("the first call is under way", func() bool { return s.underWay() && Waiting(s.Store) == 0 })
		create(t.Context(), 1, nil)
		create(ctx, 2, ledger.ErrUnavailable)
		create(t.Context(), 3, nil)
		s.await("three wait", func() bool { return Waiting(s.Store) == 3 })
		leave()
		release()
		all.Wait()
		s.await("nothing is under way", func() bool { return InUse(s.Store) == 0 })
		for _, n := range []int{0, 1, 3} {
			if _, err := s.Get(t.Context(), numbered(n).ID); err != nil {
				s.t.Errorf("intent %d: %v", n, err)
			}
		}
	})
}

func TestBatch_CloseAnswersAllWhoWait(t *testing.T) {
	before := goleak.IgnoreCurrent()
	eachShelf(t, func(s *shelf) {
		var all sync.WaitGroup
		var unavailable atomic.Int64
		release := s.block()
		for i := range 20 {
			all.Go(func() {
				_, err := s.CreateIntent(t.Context(), numbered(i))
				if err != nil && !errors.Is(err, ledger.ErrUnavailable) {
					s.t.Errorf("error %v", err)
				}
				if err != nil {
					unavailable.Add(1)
				}
			})
			s.await("the calls wait", func() bool { return s.underWay() && Waiting(s.Store) == i })
		}
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		s.await("the store is closing", func() bool { return s.ready() != nil })
		release()
		all.Wait()
		if err := <-closed; err != nil || unavailable.Load() < 19 {
			s.t.Errorf("%d are told that it is closed, error %v", unavailable.Load(), err)
		}
	})
	goleak.VerifyNone(t, before)
}
