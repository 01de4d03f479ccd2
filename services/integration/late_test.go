package integration

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	simulatorv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/simulator/v1"
)

const (
	// heldAccount is done `--late-answer` late, even if the caller is gone.
	heldAccount = "55555555555555"
	// droppedAccount is closed on without being done or answered.
	droppedAccount = "88888888888888"
)

// TestLateOriginal_IsRefusedByTheFence has the core hold a payment until long
// after it was taken for lost. It is FAILED by the fence before it comes, and
// refused when it does.
func TestLateOriginal_IsRefusedByTheFence(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		const late = 15 * time.Second
		s := newStack(t, db, "--late-answer="+late.String())
		p := s.startPayment(t, "--read-timeout=500ms")
		s.startReconciler(t, "--sweep-interval=200ms")

		a := p.pay(t, "late", heldAccount, 70_000, confirm)
		if a.reason() != "OUTCOME_UNKNOWN" {
			t.Fatalf("the caller is told %s", a)
		}
		row := p.follow(t, a.id())
		if got := s.read(t, p).of(a.id()); row.GetStatus() != failed || got.mtis["0100"] != 0 {
			t.Fatalf("before the original has come, the row is %v, and the core has %v", row, got.entries)
		}

		s.wire.await(t, fromCore, "0110", a.id(), 1)
		b := s.audit(t, p)
		b.expect(t, a.id(), fencedOff)
		entries := b.of(a.id()).entries
		last := entries[len(entries)-1]
		if last.GetMti() != "0100" || last.GetResponseCode() != "0096" || last.GetEffect() != noEffect {
			t.Errorf("the original ended as %v", last)
		}
		if !wasFencedBefore(entries, last) {
			t.Errorf("the fence does not stand before the original: %v", entries)
		}
		if again := p.pay(t, "late", heldAccount, 70_000, confirm); again.reason() != "NOT_EXECUTED" || again.id() != a.id() {
			t.Errorf("the same key again: %s", again)
		}
	})
}

func wasFencedBefore(entries []*simulatorv1.JournalEntry, original *simulatorv1.JournalEntry) bool {
	for _, e := range entries {
		if e.GetEffect() == fenced && e.GetMti() == "0420" {
			return e.GetSequence() < original.GetSequence()
		}
	}
	return false
}

// TestCoreWithoutFence_FailsOnlyAfterTheLateWindow has a core that forgets what
// it was told to cancel. What comes late, within the window, is found and
// undone; what never comes is FAILED when the window has passed.
func TestCoreWithoutFence_FailsOnlyAfterTheLateWindow(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		const late, window = 5 * time.Second, 12 * time.Second
		s := newStack(t, db, "--late-answer="+late.String(), "--no-core-fences")
		p := s.startPayment(t)
		s.startReconciler(t, "--core-fences=false", "--late-window="+window.String())

		begin := time.Now()
		held := p.pay(t, "held", heldAccount, 1_000, netCancel)
		dropped := p.pay(t, "dropped", droppedAccount, 2_000, confirm)
		for _, a := range []told{held, dropped} {
			if a.code != codes.DeadlineExceeded || a.reason() != "OUTCOME_UNKNOWN" {
				t.Fatalf("the caller is told %s", a)
			}
		}
		if row := p.follow(t, dropped.id()); time.Since(begin) < window {
			t.Errorf("within the late window it is %v", row)
		}
		b := s.audit(t, p)
		b.expect(t, held.id(), netCanceled)
		b.expect(t, dropped.id(), ending{
			code: dropped.code, status: "FAILED", evidence: "WINDOW_ELAPSED", method: "STATUS_INQUIRY",
		})
	})
}
