package integration

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
)

// Where things are in a 0110, as telegram.proto has them.
const (
	answerMTI, answerID, answerCode, answerApproval = 0, 4, 26, 50
)

// TestOutcome_ByWhatHappensOnTheWire makes one payment after the other, each
// with another thing happening to its frames, and looks what is said of it at
// once and in the end.
func TestOutcome_ByWhatHappensOnTheWire(t *testing.T) {
	write := func(at int, text string) func([]byte) {
		return func(frame []byte) { copy(frame[at:], text) }
	}
	rows := []struct {
		name string
		on   func(w *wire)
		want ending
	}{
		{"nothing", func(*wire) {}, done},
		{"the request is lost, and the connection stands", func(w *wire) { w.swallow("0100", 1) }, fencedOff},
		{"the request is cut", func(w *wire) { w.cut("0100", 1, 51) }, fencedOff},
		{"the request is lost, and the connection closed", func(w *wire) { w.cut("0100", 1, 0) }, fencedOff},
		{"the answer is lost, and the connection stands", func(w *wire) { w.swallow("0110", 1) }, netCanceled},
		{"the answer is lost, and the connection closed", func(w *wire) { w.cut("0110", 1, 0) }, netCanceled},
		{"the answer is lost, and the connection reset", func(w *wire) { w.reset("0110", 1) }, netCanceled},
		{"the answer is cut", func(w *wire) { w.cut("0110", 1, 60) }, netCanceled},
		{"the answer is late", func(w *wire) { w.delay("0110", 1, 4*time.Second) }, netCanceled},
		{"the answer is another transaction's", func(w *wire) { w.bend("0110", 1, write(answerID, "GWMNU20260102000000001")) }, netCanceled},
		{"the answer is of another type", func(w *wire) { w.bend("0110", 1, write(answerMTI, "0210")) }, netCanceled},
		{"the answer has no code", func(w *wire) { w.bend("0110", 1, write(answerCode, "00OO")) }, netCanceled},
		{"the answer has letters for an approval number", func(w *wire) { w.bend("0110", 1, write(answerApproval, "1234567890X")) }, netCanceled},
	}
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		p := s.startPayment(t)
		s.startReconciler(t)
		made := map[string]ending{}
		for i, row := range rows {
			row.on(s.wire)
			a := p.pay(t, "key-"+string(rune('a'+i)), ordinary, 100, netCancel)
			a.expect(t, row.name, row.want)
			made[a.id()] = row.want
			s.wire.clear()
		}
		b := s.audit(t, p)
		for id, want := range made {
			b.expect(t, id, want)
		}
	})
}

// TestOutcome_OfAnIDThatIsUsed has the core refuse the ID of a payment (0094):
// whose it is, nobody can tell, so nobody asks and nobody cancels.
func TestOutcome_OfAnIDThatIsUsed(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		p := s.startPayment(t)
		r := s.startReconciler(t)
		s.wire.bend("0110", 1, func(frame []byte) { copy(frame[answerCode:], "0094") })
		a := p.pay(t, "used", ordinary, 100, netCancel)
		if a.code != codes.DeadlineExceeded || a.reason() != "OUTCOME_UNKNOWN" || a.row.GetResponseCode() != "0094" ||
			!a.row.GetNeedsReview() || a.row.GetNextResolveAt() != nil {
			t.Errorf("the caller is told %s", a)
		}
		// One that comes after it is resolved, so it was passed over.
		after := p.pay(t, "after", unansweredAccount, 100, netCancel)
		p.follow(t, after.id())
		resp := r.resolve(t, a.id())
		if resp.GetBefore() != unknown || resp.GetAfter() != unknown {
			t.Errorf("an operator is told %v", resp)
		}
		if row := p.row(t, a.id()); row.GetStatus() != unknown || !row.GetNeedsReview() {
			t.Errorf("the row is %v", row)
		}
		if n := len(s.wire.sightings(fromCaller, "0400", a.id())) + len(s.wire.sightings(fromCaller, "0420", a.id())); n != 0 {
			t.Errorf("%d frames were spent on it", n)
		}
		s.unsettled = a.id()
		s.audit(t, p).expect(t, after.id(), netCanceled)
	})
}

// TestNotSent_WithoutAConnection tries to pay where no connection comes about:
// refused, or not answered at all.
func TestNotSent_WithoutAConnection(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		refused := s.startPayment(t)
		hung := s.startPayment(t, "--core-addr="+deafPort(t), "--connect-timeout=500ms")
		unreachable := ending{
			code: codes.Unavailable, reason: "CORE_UNREACHABLE", first: "FAILED", status: "FAILED", evidence: "NOT_SENT",
		}
		s.wire.down()
		made := []told{
			refused.pay(t, "refused", ordinary, 100, netCancel),
			hung.pay(t, "hung", ordinary, 100, confirm),
			refused.ask(t, ordinary),
		}
		s.wire.open(t)
		b := s.audit(t, refused)
		for _, a := range made {
			a.expect(t, "without a connection", unreachable)
			b.expect(t, a.id(), unreachable)
		}
		if n := s.wire.requests(); n != 0 || len(b.journal) != 0 {
			t.Errorf("%d frames left", n)
		}
	})
}

// TestSendWindow_ASlowConnectionSendsNothing has the connection come about only
// when it is too late to send.
func TestSendWindow_ASlowConnectionSendsNothing(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		observer := s.startPayment(t)
		s.startReconciler(t)
		fd, address := bindPort(t)
		t.Cleanup(func() { _ = unix.Close(fd) })
		release := fillBacklog(t, fd, address)
		p := s.startPayment(t, "--core-addr="+address, "--send-window=6s", "--deadline=30s", "--connect-timeout=30s")
		answer := p.begin(t, "key", ordinary, 100, netCancel)
		row := observer.byKey(t, "key")
		eventually(t, "the window is over", func(context.Context) error {
			if time.Since(row.GetRequestedAt().AsTime()) < 6500*time.Millisecond {
				return errUnseen
			}
			return nil
		})
		release()
		a := <-answer
		want := ending{
			code: codes.Unavailable, reason: "SEND_WINDOW_MISSED", first: "FAILED", status: "FAILED", evidence: "NOT_SENT",
		}
		a.expect(t, "when the window is over", want)
		s.audit(t, observer).expect(t, a.id(), want)
	})
}
