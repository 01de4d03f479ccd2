package integration

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	reconciliationv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/reconciliation/v1"

	"github.com/gwanmun/gwanmun/pkg/account"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// settle runs a settlement of a day to its end.
func (r *reconciler) settle(t testing.TB, day tranid.Date) *reconciliationv1.SettlementRun {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callFor)
	defer cancel()
	begun, err := r.RunSettlement(ctx, &reconciliationv1.RunSettlementRequest{BusinessDate: day.String()})
	if err != nil {
		t.Fatalf("run settlement: %v", err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for run := begun.GetRun(); ; <-tick.C {
		if run.GetState() != reconciliationv1.RunState_RUN_STATE_RUNNING {
			return run
		}
		now, err := r.GetSettlementRun(ctx, &reconciliationv1.GetSettlementRunRequest{RunId: run.GetRunId()})
		if err != nil {
			t.Fatalf("get settlement run: %v", err)
		}
		run = now.GetRun()
	}
}

// debit has the core do a payment that the ledger knows nothing of.
func (s *stack) debit(t testing.TB, id tranid.ID, number string) {
	t.Helper()
	owner, err := account.Parse(number)
	if err != nil {
		t.Fatal(err)
	}
	frame, err := telegram.PaymentRequest{TranID: id, Account: owner, Amount: 4321}.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.DialTimeout("tcp", s.core.address(t, "frame"), callFor)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(callFor)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(frame); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, telegram.AnswerLength)
	if _, err := io.ReadFull(conn, answer); err != nil {
		t.Fatal(err)
	}
}

// TestSettlement_FindsAGhostAmongWhatIsEqual compares real books: what was
// paid, declined and lost is the same in both; what the core did by another hand is
// found, once, by whichever reconciler.
func TestSettlement_FindsAGhostAmongWhatIsEqual(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		p := s.startPayment(t)
		listings := "--listing-addr=" + s.core.address(t, "listing")
		r, other := s.startReconciler(t, listings), s.startReconciler(t, listings)
		day := tranid.DateOf(time.Now())
		paid := p.pay(t, "paid", ordinary, 70_000, netCancel)
		p.pay(t, "declined", "22222222222222", 70_000, netCancel)
		p.pay(t, "lost", droppedAccount, 70_000, netCancel)
		if tranid.ID(paid.id()).Date() != day {
			t.Skip("the day ended meanwhile")
		}
		run := r.settle(t, day)
		if run.GetState() != reconciliationv1.RunState_RUN_STATE_SUCCEEDED || run.GetMatchCount() != 3 {
			t.Errorf("settlement of what is equal: %v", run)
		}
		r.dirty, other.dirty = true, true // the ghost is an ERROR
		ghost := tranid.New(day, tranid.MaxNumber)
		s.debit(t, ghost, ordinary)
		for _, r := range []*reconciler{other, r} {
			run := r.settle(t, day)
			if run.GetState() != reconciliationv1.RunState_RUN_STATE_SUCCEEDED || run.GetMatchCount() != 3 || run.GetCoreOnlyCount() != 1 {
				t.Errorf("settlement with a ghost: %v", run)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), callFor)
		defer cancel()
		list, err := other.ListDiscrepancies(ctx, &reconciliationv1.ListDiscrepanciesRequest{})
		if err != nil || len(list.GetDiscrepancies()) != 1 {
			t.Fatalf("%d discrepancies, error %v", len(list.GetDiscrepancies()), err)
		}
		d := list.GetDiscrepancies()[0]
		if d.GetTransactionId() != string(ghost) || d.GetCoreAmount() != 4321 || d.GetCoreState() != "00" ||
			d.GetClass() != reconciliationv1.DiscrepancyClass_DISCREPANCY_CLASS_CORE_ONLY {
			t.Errorf("found %v", d)
		}
		if n := len(other.log.with("msg", "ghost")) + len(r.log.with("msg", "ghost")); n != 1 {
			t.Errorf("the ghost was told %d times", n)
		}
	})
}
