package integration

import (
	"context"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
	simulatorv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/simulator/v1"
)

// TestSIGTERM_UnderLoadLosesNothing stops a payment service that is busy with a
// slow core. What is under way comes to its end; every caller is told the truth.
func TestSIGTERM_UnderLoadLosesNothing(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		observer, p := s.startPayment(t), s.startPayment(t, "--read-timeout=3s")
		s.wire.delay("0110", every, 300*time.Millisecond)
		l := startLoad(t, p, "load")
		l.awaitPaid(t, 2*loaders)
		if code := p.terminate(t); code != 0 {
			t.Errorf("it ends with exit code %d", code)
		}
		l.stop()
		// Nobody has resolved anything: this is what it left.
		b := s.read(t, observer)
		for id, row := range b.rows {
			if row.GetStatus() == requested {
				t.Errorf("%s was left REQUESTED", id)
			}
		}
		s.startReconciler(t)
		l.check(t, s.audit(t, observer))
	})
}

// TestSIGTERM_TheSecondEndsAtOnce sends SIGTERM twice to a payment service that
// waits for an answer. The first is patient, the second is not; what is left
// behind is resolved.
func TestSIGTERM_TheSecondEndsAtOnce(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		observer := s.startPayment(t)
		p := s.startPayment(t, "--read-timeout=8s", "--deadline=8s", "--send-window=5s", "--shutdown-timeout=30s")
		s.wire.hold(t, "0110", 1)
		answer := p.begin(t, "key", ordinary, 10, confirm)
		s.wire.await(t, fromCore, "0110", "", 1)
		p.signal(syscall.SIGTERM)
		eventually(t, "it says that it stops", func(ctx context.Context) error {
			if code, _ := p.fetch(ctx, t, "/readyz"); code != http.StatusServiceUnavailable {
				return fmt.Errorf("/readyz answers %d", code)
			}
			return nil
		})
		if code := p.probe(t, "/livez"); code != http.StatusOK {
			t.Errorf("while it stops, /livez answers %d", code)
		}
		p.signal(syscall.SIGTERM)
		p.dirty = true // the last line is for a human
		if code := p.wait(t, 5*time.Second); code != 1 {
			t.Errorf("after the second signal it ends with exit code %d", code)
		}
		if a := <-answer; a.code != codes.Unavailable || a.info != nil {
			t.Errorf("the caller is told %s", a)
		}
		s.startReconciler(t)
		id := observer.byKey(t, "key").GetTransactionId()
		observer.follow(t, id)
		s.audit(t, observer).expect(t, id, confirmed)
	})
}

// TestSIGTERM_OfACallerWhoHangsUp has a caller leave while his payment is under
// way, and stops the service: the payment comes to its end and is recorded.
func TestSIGTERM_OfACallerWhoHangsUp(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		observer := s.startPayment(t)
		p := s.startPayment(t, "--read-timeout=10s", "--deadline=12s")
		held := s.wire.hold(t, "0110", 1)
		ctx, hangUp := context.WithCancel(context.Background())
		defer hangUp()
		ended := make(chan told, 1)
		go func() {
			ended <- p.payWith(ctx, t, &paymentv1.CreatePaymentRequest{IdempotencyKey: "key", AccountNumber: ordinary, Amount: 10})
		}()
		s.wire.await(t, fromCore, "0110", "", 1)
		hangUp()
		if a := <-ended; a.code != codes.Canceled {
			t.Errorf("who hung up is told %s", a)
		}
		p.signal(syscall.SIGTERM)
		eventually(t, "it says that it stops", func(ctx context.Context) error {
			if code, _ := p.fetch(ctx, t, "/readyz"); code == http.StatusOK {
				return errUnseen
			}
			return nil
		})
		held.release()
		if code := p.wait(t, stopWithin); code != 0 {
			t.Errorf("it ends with exit code %d", code)
		}
		id := observer.byKey(t, "key").GetTransactionId()
		s.audit(t, observer).expect(t, id, done)
	})
}

// TestSIGTERM_EndsAWatch stops a payment service while a payment is watched: the
// watcher is sent away and holds up nothing.
func TestSIGTERM_EndsAWatch(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		observer, p := s.startPayment(t), s.startPayment(t)
		a := p.pay(t, "key", unansweredAccount, 10, netCancel)
		stream, err := p.WatchPayment(context.Background(), &paymentv1.WatchPaymentRequest{TransactionId: a.id()})
		if err != nil {
			t.Fatal(err)
		}
		if state, err := stream.Recv(); err != nil || state.GetTransaction().GetStatus() != unknown {
			t.Fatalf("the first state is %v, %v", state, err)
		}
		if code := p.terminate(t); code != 0 {
			t.Errorf("it ends with exit code %d", code)
		}
		if state, err := stream.Recv(); hear(t, err, nil).code != codes.Unavailable {
			t.Errorf("the watcher is told %v, %v", state, err)
		}
		s.startReconciler(t)
		s.audit(t, observer).expect(t, a.id(), netCanceled)
	})
}

// TestSIGTERM_StoresWhatTheLedgerWouldNotTake stops a payment service that has
// an outcome which the ledger does not take: its caller was told that it is not
// known. The service tries until the ledger takes it, and ends only then.
func TestSIGTERM_StoresWhatTheLedgerWouldNotTake(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		observer := s.startPayment(t)
		p := s.startPayment(t, "--deadline=5s", "--send-window=5s", "--adopt-margin=1m")
		p.dirty = true // an outcome that cannot be stored is an ERROR
		held := s.wire.hold(t, "0110", 1)
		answer := p.begin(t, "key", ordinary, 10, netCancel)
		id := s.wire.await(t, fromCore, "0110", "", 1).tranID
		unlock := db.lock(t, id)
		held.release()
		if a := <-answer; a.reason() != "OUTCOME_UNKNOWN" || a.id() != id {
			t.Errorf("the caller is told %s", a)
		}
		p.signal(syscall.SIGTERM)
		eventually(t, "it says that it stops", func(ctx context.Context) error {
			if code, body := p.fetch(ctx, t, "/readyz"); code != 0 && body != "stopping\n" {
				return fmt.Errorf("/readyz says %q", body)
			}
			return nil
		})
		unlock()
		if code := p.wait(t, stopWithin); code != 0 {
			t.Errorf("it ends with exit code %d", code)
		}
		s.audit(t, observer).expect(t, id, done)
	})
}

// TestSIGTERM_OfAReconcilerGivesItsRowsBack stops a reconciler that has claimed
// more rows than it is working on, and has another finish them long before the
// first one's lease ends.
func TestSIGTERM_OfAReconcilerGivesItsRowsBack(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		const rows, atATime = 16, 8
		s := newStack(t, db)
		p := s.startPayment(t)
		answers := make([]<-chan told, 0, rows)
		for i := range rows {
			answers = append(answers, p.begin(t, fmt.Sprintf("key-%d", i), unansweredAccount, 10, netCancel))
		}
		made := make([]string, 0, rows)
		for _, answer := range answers {
			made = append(made, (<-answer).id())
		}
		s.wire.hold(t, "0410", every)
		first := s.startReconciler(t, "--lease=10m", "--sweep-interval=2s")
		s.wire.await(t, fromCore, "0410", "", atATime)
		if code := first.terminate(t); code != 0 {
			t.Errorf("it ends with exit code %d", code)
		}
		s.wire.clear()
		s.startReconciler(t)
		b := s.audit(t, p)
		for _, id := range made {
			b.expect(t, id, netCanceled)
		}
	})
}

// TestSIGTERM_OfTheCoreUnderLoad stops the core while payments come in, and
// starts it again on its book.
func TestSIGTERM_OfTheCoreUnderLoad(t *testing.T) {
	restartCore(t, func(t *testing.T, s *stack) {
		if code := s.core.terminate(t); code != 0 {
			t.Errorf("it ends with exit code %d", code)
		}
	})
}

// TestKill_OfTheCoreUnderLoad kills the core while payments come in, and starts
// it again on its book.
func TestKill_OfTheCoreUnderLoad(t *testing.T) {
	restartCore(t, func(_ *testing.T, s *stack) { s.core.kill() })
}

// restartCore ends a core under load and starts it again: it knows all that it
// had answered, and what it had not is found out.
func restartCore(t *testing.T, end func(t *testing.T, s *stack)) {
	t.Helper()
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		p := s.startPayment(t)
		s.startReconciler(t)
		before := s.balance(t, ordinary)
		l := startLoad(t, p, "load")
		l.awaitPaid(t, loaders)
		end(t, s)
		// It is missed before it comes back.
		a := p.pay(t, "meanwhile", ordinary, 10, netCancel)
		if a.code == codes.OK {
			t.Errorf("without a core: %s", a)
		}
		s.startCore(t)
		l.awaitPaid(t, l.count.Load()+loaders)
		l.stop()
		b := s.audit(t, p)
		l.check(t, b)
		stand := int64(0)
		for _, f := range b.fates {
			for _, e := range f.entries {
				if e.GetEffect() == debited {
					stand += e.GetAmount() * int64(f.stands())
				}
			}
		}
		if paid := before - s.balance(t, ordinary); paid != stand {
			t.Errorf("%d won have left the account, and debits of %d won stand", paid, stand)
		}
	})
}

// balance is what the bank says of an account.
func (s *stack) balance(t testing.TB, number string) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callFor)
	defer cancel()
	resp, err := s.core.GetAccount(ctx, &simulatorv1.GetAccountRequest{AccountNumber: number})
	if err != nil {
		t.Fatalf("ask the bank: %v", err)
	}
	return resp.GetAccount().GetBalance()
}
