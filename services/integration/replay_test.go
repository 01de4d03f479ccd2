package integration

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

// standing is a payment whose key is used again.
type standing struct {
	key, number string
	// code and reason are what a call with the same key and body is told.
	code   codes.Code
	reason string
	status ledgerv1.TransactionStatus

	id string
}

// request is the body that its key is bound to.
func (k *standing) request() *paymentv1.CreatePaymentRequest {
	return &paymentv1.CreatePaymentRequest{IdempotencyKey: k.key, AccountNumber: k.number, Amount: 5_000}
}

// replay calls again with the key of a payment: with the same body, told the
// same in other words, and with other bodies. Nothing may leave.
func (k *standing) replay(t *testing.T, s *stack, p *payment) {
	t.Helper()
	sent := s.wire.requests()
	same := []*paymentv1.CreatePaymentRequest{k.request(), k.request(), k.request()}
	same[1].ResolutionPolicy = netCancel // which is what unset means
	same[2].AccountNumber = unpadded(k.number)
	for _, req := range same {
		a := p.payOnce(t, req)
		if a.code != k.code || a.reason() != k.reason || a.id() != k.id || a.row.GetStatus() != k.status || !a.replayed {
			t.Errorf("%s again: %s", k.key, a)
		}
	}
	other := []*paymentv1.CreatePaymentRequest{k.request(), k.request(), k.request()}
	other[0].Amount++
	other[1].AccountNumber = "12345678901235"
	other[2].ResolutionPolicy = confirm
	for i, req := range other {
		a := p.payOnce(t, req)
		if a.code != codes.AlreadyExists || a.reason() != "IDEMPOTENCY_KEY_REUSED" || a.row != nil {
			t.Errorf("%s with other body %d: %s", k.key, i, a)
		}
	}
	if now := s.wire.requests(); now != sent {
		t.Errorf("%s again: %d frames left", k.key, now-sent)
	}
}

// unpadded is a number without leading zeros, but for a last one.
func unpadded(number string) string {
	for len(number) > 1 && number[0] == '0' {
		number = number[1:]
	}
	return number
}

// payOnce makes a payment for a caller who waits for as long as it takes.
func (p *payment) payOnce(t testing.TB, req *paymentv1.CreatePaymentRequest) told {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callFor)
	defer cancel()
	return p.payWith(ctx, t, req)
}

// payBriefly makes a payment for a caller with little time. He is answered 100 ms
// before his time is up; where the machine is too slow for that, he tries again.
func (p *payment) payBriefly(t testing.TB, req *paymentv1.CreatePaymentRequest) told {
	t.Helper()
	for try := 1; ; try++ {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		a := p.payWith(ctx, t, req)
		cancel()
		if a.info != nil || a.err == nil || try == briefTries {
			return a
		}
	}
}

// briefTries is how often a caller with little time tries.
const briefTries = 4

// TestReplay_InEveryFinalState uses the keys of payments again that are over.
func TestReplay_InEveryFinalState(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		p, another := s.startPayment(t), s.startPayment(t)
		s.startReconciler(t)
		all := []*standing{
			{key: "done", number: "00012345678901", code: codes.OK, status: success},
			{key: "no-account", number: "00000000000000", code: codes.NotFound, reason: "ACCOUNT_NOT_FOUND", status: failed},
			{key: "declined", number: "22222222222222", code: codes.FailedPrecondition, reason: "DECLINED", status: failed},
			{key: "fenced", number: droppedAccount, code: codes.FailedPrecondition, reason: "NOT_EXECUTED", status: failed},
			{key: "canceled", number: unansweredAccount, code: codes.FailedPrecondition, reason: "PAYMENT_CANCELED", status: canceled},
		}
		for _, k := range all {
			k.id = p.payOnce(t, k.request()).id()
		}
		s.audit(t, p)
		for _, k := range all {
			k.replay(t, s, another)
		}
		if b := s.audit(t, p); len(b.rows) != len(all) {
			t.Errorf("the ledger has %d rows", len(b.rows))
		}
	})
}

// TestReplay_InProgressAndUnknown uses the key of a payment again while its
// exchange is under way, while it is UNKNOWN, and when it is confirmed.
func TestReplay_InProgressAndUnknown(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		p, another := s.startPayment(t, "--read-timeout=12s", "--deadline=14s"), s.startPayment(t)
		k := &standing{key: "key", number: ordinary, code: codes.Aborted, reason: "IN_PROGRESS", status: requested}
		s.wire.cut("0110", 1, 0)
		held := s.wire.hold(t, "0100", 1)
		answer := p.begin(t, k.key, k.number, 5_000, netCancel)
		k.id = another.byKey(t, k.key).GetTransactionId()
		s.wire.await(t, fromCaller, "0100", k.id, 1)

		if a := another.payBriefly(t, k.request()); a.code != codes.Aborted || a.reason() != "IN_PROGRESS" || a.id() != k.id {
			t.Errorf("while it is under way: %s", a)
		}
		held.release()
		if a := <-answer; a.reason() != "OUTCOME_UNKNOWN" || a.id() != k.id || a.replayed {
			t.Fatalf("the first caller is told %s", a)
		}
		k.code, k.reason, k.status = codes.DeadlineExceeded, "OUTCOME_UNKNOWN", unknown
		k.replay(t, s, another)

		s.startReconciler(t)
		another.follow(t, k.id)
		k.code, k.reason, k.status = codes.FailedPrecondition, "PAYMENT_CANCELED", canceled
		k.replay(t, s, another)
		s.audit(t, p).expect(t, k.id, netCanceled)
	})
}

// TestReplay_WaitsForTheFirstCall has a second call, on another instance, wait
// for the first and be told the same.
func TestReplay_WaitsForTheFirstCall(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		flags := []string{"--read-timeout=10s", "--deadline=12s"}
		p, another := s.startPayment(t, flags...), s.startPayment(t, flags...)
		held := s.wire.hold(t, "0110", 1)
		first := p.begin(t, "key", ordinary, 5_000, netCancel)
		s.wire.await(t, fromCore, "0110", "", 1)
		second := another.begin(t, "key", ordinary, 5_000, netCancel)
		another.awaitCalls(t, "CreatePayment", 1)
		held.release()
		a, b := <-first, <-second
		if a.code != codes.OK || b.code != codes.OK || a.id() != b.id() || a.replayed || !b.replayed {
			t.Errorf("the first is told %s, the second %s", a, b)
		}
		s.audit(t, p).expect(t, a.id(), done)
	})
}

// TestReplay_OfWhatNeverLeftRunsAgain uses the key of a payment again of which
// not one byte left, with another body: it is a payment of its own.
func TestReplay_OfWhatNeverLeftRunsAgain(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		p := s.startPayment(t)
		s.wire.down()
		first := p.pay(t, "key", ordinary, 5_000, netCancel)
		again := p.pay(t, "key", ordinary, 5_000, netCancel)
		for _, a := range []told{first, again} {
			if a.code != codes.Unavailable || a.reason() != "CORE_UNREACHABLE" || a.row.GetStatus() != failed || a.replayed {
				t.Errorf("without a connection: %s", a)
			}
		}
		s.wire.open(t)
		last := p.pay(t, "key", ordinary, 6_000, confirm)
		if last.code != codes.OK || last.replayed || last.row.GetAmount() != 6_000 {
			t.Errorf("with a connection: %s", last)
		}
		if a := p.pay(t, "key", ordinary, 5_000, netCancel); a.reason() != "IDEMPOTENCY_KEY_REUSED" {
			t.Errorf("the first body again: %s", a)
		}
		b := s.audit(t, p)
		for _, a := range []told{first, again} {
			b.expect(t, a.id(), ending{status: "FAILED", evidence: "NOT_SENT"})
		}
		b.expect(t, last.id(), done)
		if first.id() == again.id() || again.id() == last.id() || len(b.rows) != 3 {
			t.Errorf("%s, %s and %s are of one key; the ledger has %d rows", first.id(), again.id(), last.id(), len(b.rows))
		}
	})
}
