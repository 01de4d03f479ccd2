package gormstore

import (
	"errors"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/postgrestest"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// differing are what the intents of a batch may differ in although one statement
// has it but once.
var differing = map[string]func(in *ledger.Intent){
	"the day": func(in *ledger.Intent) {
		in.ID = tranid.New(tranid.DateOf(in.ID.Date().Start().Add(36*time.Hour)), 7)
	},
	"the life of the key":     func(in *ledger.Intent) { in.KeyLife += time.Minute },
	"when it is abandoned":    func(in *ledger.Intent) { in.AdoptAfter += time.Minute },
	"who writes it":           func(in *ledger.Intent) { in.By.Name = "another" },
	"which process writes it": func(in *ledger.Intent) { in.By.Instance = "another" },
}

func TestPlain_RowsThatAreNotAlikeAreStoredAsTheyAre(t *testing.T) {
	for what, change := range differing {
		t.Run(what, func(t *testing.T) {
			eachShelf(t, func(s *shelf) {
				ins := []ledger.Intent{numbered(1), numbered(2), numbered(3)}
				change(&ins[1])
				changes := make([]ledger.Change, len(ins))
				for i, c := range s.createAtOnce(ins...) {
					if c.err != nil || !c.Created {
						s.t.Fatalf("intent %d: created %t, error %v", i, c.Created, c.err)
					}
					s.stored(c.Transaction, 1)
					s.keeps(c)
					changes[i] = success(c.in.ID)
					changes[i].By = c.in.By
				}
				for i, m := range s.moveAtOnce(changes...) {
					if m.err != nil {
						s.t.Fatalf("move %d: %v", i, m.err)
					}
					s.stored(m.Transaction, 2)
					events, err := s.Events(s.t.Context(), m.ID)
					if err != nil || events[0].By != ins[i].By || events[1].By != ins[i].By {
						s.t.Errorf("events of %d: %+v, error %v", i, events, err)
					}
				}
			})
		})
	}
}

// keeps fails the test unless key and row live as long as the intent says.
func (s *shelf) keeps(c creation) {
	s.t.Helper()
	var created, expires instant
	err := eachRow(s.db.Raw("SELECT created_at, expires_at FROM idempotency_keys WHERE idempotency_key = ?", string(c.in.Key)),
		func() {}, &created, &expires)
	life, adopt := expires.at.Sub(created.at), c.Transaction.AdoptAt.Sub(created.at)
	// Each is a moment by a clock of its own on SQLite.
	if err != nil || (life-c.in.KeyLife).Abs() > time.Second || (adopt-c.in.AdoptAfter).Abs() > time.Second {
		s.t.Errorf("the key lives %v, the row %v, error %v; want %v, %v", life, adopt, err, c.in.KeyLife, c.in.AdoptAfter)
	}
}

func TestPlain_RecordsOfTwoDaysAndOfPaymentsAreStoredAsTheyAre(t *testing.T) {
	eachShelf(t, func(s *shelf) {
		today := numbered(1).ID.Date()
		tomorrow := tranid.DateOf(today.Start().Add(36 * time.Hour))
		rows := []ledger.Transaction{
			{
				ID: tranid.New(today, 1), Kind: ledger.KindBalanceInquiry, Status: ledger.StatusSuccess, Evidence: ledger.EvidenceAnswered,
				Client: "shop", AccountMasked: "123456****1234", AccountHash: ledger.Hash{7}, RequestedAt: someTime, CorrelationID: "c-1", TraceID: "",
				Answer: ledger.Answer{Code: "0000", Message: "정상", Approval: "00000000001"},
				SentAt: someTime, RespondedAt: someTime.Add(time.Millisecond), Elapsed: time.Millisecond,
			},
			{
				ID: tranid.New(tomorrow, 2), Kind: ledger.KindHistoryInquiry, Status: ledger.StatusUnknown, Client: "shop", AccountMasked: "****",
				RequestedAt: someTime, Reason: "no answer in time", SentAt: someTime,
			},
			{
				ID: tranid.New(today, 3), Kind: ledger.KindPayment, Status: ledger.StatusFailed, Evidence: ledger.EvidenceNotSent,
				Client: "shop", Key: "key", Order: "order", Policy: ledger.PolicyConfirm, Amount: 5, AccountMasked: "****",
				RequestedAt: someTime, Reason: "the circuit is open",
			},
		}
		if err := s.Record(s.t.Context(), rows, payer()); err != nil {
			s.t.Fatal(err)
		}
		for _, want := range rows {
			got, err := s.Get(s.t.Context(), want.ID)
			if err != nil || got.NextResolveAt.IsZero() != (want.Status != ledger.StatusUnknown) {
				s.t.Errorf("due at %v, error %v", got.NextResolveAt, err)
			}
			want.NextResolveAt = got.NextResolveAt
			s.stored(want, 1)
			events, err := s.Events(s.t.Context(), want.ID)
			if err != nil || events[0].Detail != want.Reason || events[0].To != want.Status || events[0].Evidence != want.Evidence || events[0].By != payer() {
				s.t.Errorf("events %+v, error %v", events, err)
			}
		}
	})
}

func payer() ledger.Actor { return ledger.Actor{Name: "payment", Instance: "payment-1"} }

// Who pays for what is paid for already is refused, and PostgreSQL's log has no error
// for it.
func TestPlain_AnOrderThatIsTakenFailsNoStatement(t *testing.T) {
	s := openInternal(t, postgrestest.DSN(t))
	ordered := func(number int, order ledger.OrderID) *intention {
		in := numbered(number)
		in.Order = order
		made, err := newIntention(&in)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	if _, err := s.plainIntents(t.Context(), []*intention{ordered(1, "order"), ordered(2, "")}); err != nil {
		t.Fatal(err)
	}
	replies, err := s.plainIntents(t.Context(), []*intention{ordered(3, "order"), ordered(4, "other"), ordered(5, "")})
	if err != nil {
		t.Fatalf("the statement failed: %v", err)
	}
	for i, taken := range []bool{true, false, false} {
		if errors.Is(replies[i].err, errAlone) != taken || (replies[i].answer != nil) == taken {
			t.Errorf("intent %d: %+v", i, replies[i])
		}
	}
}

// An order that another takes while a batch is written is his: the statement finds out
// when it waits for him, and fails.
func TestPlain_AnOrderThatIsTakenMeanwhileFailsTheStatement(t *testing.T) {
	s := openInternal(t, postgrestest.DSN(t))
	holder := intended(t, numbered(1))
	if _, err := s.plainIntents(t.Context(), []*intention{holder}); err != nil {
		t.Fatal(err)
	}
	other := s.db.WithContext(t.Context()).Begin()
	defer other.Rollback()
	err := other.Exec("INSERT INTO order_guards (client_id, order_id, business_date, transaction_id) VALUES (?, 'order', CAST(? AS date), ?)",
		string(holder.Client), holder.ID.Date().String(), string(holder.ID)).Error
	if err != nil {
		t.Fatal(err)
	}
	late := numbered(2)
	late.Order = "order"
	failed := make(chan error, 1)
	go func() {
		_, err := s.plainIntents(t.Context(), []*intention{intended(t, late), intended(t, numbered(3))})
		failed <- err
	}()
	for waiting := 0; waiting == 0; {
		err := s.db.Raw("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&waiting).Error
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Commit().Error; err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, errNotPlain) {
		t.Errorf("error %v", err)
	}
	for _, id := range []tranid.ID{late.ID, numbered(3).ID} {
		if _, err := s.Get(t.Context(), id); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("%s: error %v", id, err)
		}
	}
}
