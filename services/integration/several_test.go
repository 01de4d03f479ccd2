package integration

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"

	reconciliationv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/reconciliation/v1"
)

// unansweredAccount is done, and closed on without an answer.
const unansweredAccount = "44444444444444"

// resolve has a reconciler resolve a transaction now.
func (r *reconciler) resolve(t testing.TB, id string) *reconciliationv1.ResolveTransactionResponse {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callFor)
	defer cancel()
	resp, err := r.ResolveTransaction(ctx, &reconciliationv1.ResolveTransactionRequest{TransactionId: id})
	if err != nil {
		t.Errorf("resolve %s: %v", id, err)
	}
	return resp
}

// TestTwoReconcilers_SweepEachRowOnce lets two reconcilers on one ledger compete
// for many rows: each is canceled or fenced once.
func TestTwoReconcilers_SweepEachRowOnce(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		const each = 8
		s := newStack(t, db)
		// Three writers on one SQLite file are not fair to each other.
		p := s.startPayment(t, "--send-window=20s", "--deadline=22s")
		for range 2 {
			s.startReconciler(t, "--sweep-interval=200ms")
		}
		var calls sync.WaitGroup
		for i := range each {
			for account, want := range map[string]string{unansweredAccount: "OUTCOME_UNKNOWN", droppedAccount: "OUTCOME_UNKNOWN"} {
				calls.Go(func() {
					if a := p.pay(t, fmt.Sprintf("%s-%d", account[:4], i), account, 500, netCancel); a.reason() != want {
						t.Errorf("the caller is told %s", a)
					}
				})
			}
		}
		calls.Wait()
		b := s.audit(t, p)
		for id, row := range b.rows {
			want := netCanceled
			if row.GetAccountMasked() == "888888****8888" {
				want = fencedOff
			}
			b.expect(t, id, want)
		}
		if len(b.rows) != 2*each {
			t.Errorf("the ledger has %d rows", len(b.rows))
		}
	})
}

// TestTwoReconcilers_AskedAtOnceAgree has two operators resolve one row at the
// same instant, on two reconcilers: both hear of it that it was done before
// either decides, and both send a net cancel. One has an effect.
func TestTwoReconcilers_AskedAtOnceAgree(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		p := s.startPayment(t)
		both := []*reconciler{s.startReconciler(t, idle), s.startReconciler(t, idle)}
		for _, c := range []struct {
			account string
			want    ending
		}{{unansweredAccount, netCanceled}, {droppedAccount, fencedOff}} {
			a := p.pay(t, "key-"+c.want.status, c.account, 900, netCancel)
			if a.reason() != "OUTCOME_UNKNOWN" {
				t.Fatalf("the caller is told %s", a)
			}
			held := s.wire.hold(t, "0410", 2)
			var asking sync.WaitGroup
			answers := make([]*reconciliationv1.ResolveTransactionResponse, len(both))
			for i, r := range both {
				asking.Go(func() { answers[i] = r.resolve(t, a.id()) })
			}
			s.wire.await(t, fromCore, "0410", a.id(), 2)
			held.release()
			asking.Wait()
			for _, resp := range answers {
				if resp.GetBefore() != unknown || statusName(resp.GetTransaction()) != c.want.status {
					t.Errorf("one is told %v", resp)
				}
			}
			b := s.audit(t, p)
			b.expect(t, a.id(), c.want)
			if n := b.of(a.id()).mtis["0420"]; n < 1 || n > len(both) {
				t.Errorf("%d net cancels were sent", n)
			}
			sent := s.wire.requests()
			again := both[0].resolve(t, a.id())
			if again.GetBefore() != again.GetAfter() || len(again.GetSteps()) != 0 || s.wire.requests() != sent {
				t.Errorf("of a final row one is told %v", again)
			}
		}
	})
}

// TestTwoReconcilers_OneIsOvertaken holds up what one reconciler hears, until
// another has made the row final: the first changes nothing any more.
func TestTwoReconcilers_OneIsOvertaken(t *testing.T) {
	for _, mti := range []string{"0410", "0430"} {
		t.Run("between "+mti+" and what follows", func(t *testing.T) {
			onEachDatabase(t, func(t *testing.T, db *database) {
				s := newStack(t, db)
				p := s.startPayment(t)
				slow := s.startReconciler(t, idle, "--read-timeout=20s", "--lease=60s")
				swift := s.startReconciler(t, idle)
				a := p.pay(t, "key", unansweredAccount, 900, netCancel)

				held := s.wire.hold(t, mti, 1)
				answer := make(chan *reconciliationv1.ResolveTransactionResponse, 1)
				go func() { answer <- slow.resolve(t, a.id()) }()
				s.wire.await(t, fromCore, mti, a.id(), 1)
				if resp := swift.resolve(t, a.id()); resp.GetAfter() != canceled {
					t.Errorf("the swift one is told %v", resp)
				}
				held.release()
				if resp := <-answer; resp.GetBefore() != unknown || resp.GetAfter() != canceled {
					t.Errorf("the one that was held up is told %v", resp)
				}
				s.audit(t, p).expect(t, a.id(), netCanceled)
			})
		})
	}
}

// TestOneKey_ManyCallsOnTwoInstances calls with one key fifty times at once, on
// two payment services: one payment leaves, and all are told of it.
func TestOneKey_ManyCallsOnTwoInstances(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		const many = 50
		s := newStack(t, db)
		// Fifty writers on one SQLite file, and a loaded machine, take their time.
		patient := []string{"--deadline=20s", "--read-timeout=20s", "--send-window=20s"}
		both := []*payment{s.startPayment(t, patient...), s.startPayment(t, patient...)}
		s.startReconciler(t)

		held := s.wire.hold(t, "0110", every)
		answers := make([]told, many)
		var calls sync.WaitGroup
		for i := range many {
			calls.Go(func() { answers[i] = both[i%2].pay(t, "one-key", ordinary, 12_345, netCancel) })
		}
		s.wire.await(t, fromCore, "0110", "", 1)
		// Every call is there before the first one ends.
		for _, p := range both {
			p.awaitCalls(t, "CreatePayment", many/2)
		}
		held.release()
		calls.Wait()

		fresh := 0
		for _, a := range answers {
			if a.code != codes.OK || a.id() != answers[0].id() || a.row.GetStatus() != success {
				t.Errorf("one is told %s", a)
			}
			if a.code == codes.OK && !a.replayed {
				fresh++
			}
		}
		if fresh != 1 {
			t.Errorf("%d calls are told that they made the payment", fresh)
		}
		b := s.audit(t, both[0])
		b.expect(t, answers[0].id(), done)
		if n := len(s.wire.sightings(fromCaller, "0100", "")); n != 1 || len(b.rows) != 1 {
			t.Errorf("%d payments left, and the ledger has %d rows", n, len(b.rows))
		}
	})
}

// TestPausedPayment_WakesToWhatWasResolved stops a payment service with SIGSTOP
// while its answer is on the way, until its row has been resolved. Awake, it
// applies nothing, and tells its caller what the row says.
func TestPausedPayment_WakesToWhatWasResolved(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		observer := s.startPayment(t)
		s.startReconciler(t)
		p := s.startPayment(t, "--deadline=5s", "--send-window=5s")

		held := s.wire.hold(t, "0110", 1)
		answer := p.begin(t, "paused", ordinary, 777, netCancel)
		id := observer.byKey(t, "paused").GetTransactionId()
		s.wire.await(t, fromCore, "0110", id, 1)
		db.pause(t, p.process)
		held.release()
		observer.follow(t, id)
		p.signal(syscall.SIGCONT)
		a := <-answer
		if a.reason() != "PAYMENT_CANCELED" || a.id() != id || a.replayed {
			t.Errorf("the caller is told %s", a)
		}
		if code := p.probe(t, "/readyz"); code != http.StatusOK {
			t.Errorf("awake, /readyz answers %d", code)
		}
		s.audit(t, observer).expect(t, id, netCanceled)
	})
}

// TestPausedPayment_KeepsNobodyFromItsRow stops a payment service with SIGSTOP
// while its outcome waits for the lock of the row, as a machine does that lost its
// power. The outcome is one statement, commit and all: PostgreSQL brings it to its
// end without the one who sent it, who keeps no lock.
func TestPausedPayment_KeepsNobodyFromItsRow(t *testing.T) {
	t.Parallel()
	db := newPostgreSQL(t)
	s := newStack(t, db)
	observer := s.startPayment(t)
	s.startReconciler(t)
	p := s.startPayment(t, "--deadline=5s", "--send-window=5s")

	held := s.wire.hold(t, "0110", 1)
	answer := p.begin(t, "paused", ordinary, 777, netCancel)
	id := s.wire.await(t, fromCore, "0110", "", 1).tranID
	unlock := db.lock(t, id)
	held.release()
	s.wire.await(t, toCaller, "0110", id, 1)
	db.awaitBlocked(t)
	p.stop(t)
	unlock()
	if row := observer.follow(t, id); row.GetStatus() != success {
		t.Errorf("while the one is paused the row is %v", row)
	}
	p.signal(syscall.SIGCONT)
	if a := <-answer; a.code != codes.OK || a.id() != id {
		t.Errorf("the caller is told %s", a)
	}
	s.audit(t, observer).expect(t, id, done)
}
