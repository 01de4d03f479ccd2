package integration

import (
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
)

// farAdoption makes a payment service whose rows are adopted only seconds after
// they ought to have ended, so that a test can look at them before.
var farAdoption = []string{"--deadline=6s", "--read-timeout=6s", "--send-window=5s", "--adopt-margin=3s"}

// impatient makes a payment service that waits for the first call of a key only
// so long.
const impatient = "--deadline=2s"

// victim is one payment of a payment service that is about to be killed, and
// what is to become of it.
type victim struct {
	key    string
	policy ledgerv1.ResolutionPolicy
	want   ending
	// replay is the reason of a later call with its key; empty for OK.
	replay string
	answer <-chan told
	row    *ledgerv1.Transaction
}

// strike makes payments on a payment service, in the background.
func strike(t *testing.T, p *payment, victims []*victim) {
	t.Helper()
	for i, v := range victims {
		v.answer = p.begin(t, v.key, ordinary, 10_000+int64(i), v.policy)
	}
}

// identify waits until the intent of each victim is visible to another process.
func identify(t *testing.T, observer *payment, victims []*victim) (ids []string) {
	t.Helper()
	for _, v := range victims {
		v.row = observer.byKey(t, v.key)
		if v.row.GetStatus() != requested {
			t.Fatalf("%s is %s before the moment has come", v.key, v.row.GetStatus())
		}
		ids = append(ids, v.row.GetTransactionId())
	}
	return ids
}

// aftermath checks all that follows when the payment service is gone: the
// callers know nothing, the rows are REQUESTED, the keys are in progress, and
// then everything ends as it should, and only the rows' own frames ever left.
func aftermath(t *testing.T, s *stack, observer *payment, victims []*victim) *books {
	t.Helper()
	var calls sync.WaitGroup
	for i, v := range victims {
		if a := <-v.answer; a.code != codes.Unavailable || a.info != nil {
			t.Errorf("the caller of %s is told %s", v.key, a)
		}
		calls.Go(func() {
			again := observer.pay(t, v.key, ordinary, 10_000+int64(i), v.policy)
			if again.code != codes.Aborted || again.reason() != "IN_PROGRESS" || again.id() != v.row.GetTransactionId() ||
				again.row.GetStatus() != requested || !again.replayed {
				t.Errorf("%s at once again: %s", v.key, again)
			}
		})
	}
	calls.Wait()
	reborn := s.startPayment(t)
	for _, v := range victims {
		reborn.follow(t, v.row.GetTransactionId())
	}
	b := s.audit(t, reborn)
	for i, v := range victims {
		b.expect(t, v.row.GetTransactionId(), v.want)
		again := reborn.pay(t, v.key, ordinary, 10_000+int64(i), v.policy)
		if again.reason() != v.replay || again.id() != v.row.GetTransactionId() || !again.replayed {
			t.Errorf("%s when all is over: %s", v.key, again)
		}
	}
	if len(b.rows) != len(victims) {
		t.Errorf("the ledger has %d rows", len(b.rows))
	}
	return b
}

// TestCrash_AfterTheIntent kills a payment service that has stored its intent
// and cannot get a connection: not one byte has left, and nobody knows that.
func TestCrash_AfterTheIntent(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		observer := s.startPayment(t, impatient)
		s.startReconciler(t)
		p := s.startPayment(t, append(farAdoption, "--core-addr="+deafPort(t), "--connect-timeout=6s")...)
		victims := []*victim{
			{key: "to-cancel", policy: netCancel, want: fencedOff, replay: "NOT_EXECUTED"},
			{key: "to-confirm", policy: confirm, want: fencedOff, replay: "NOT_EXECUTED"},
		}
		strike(t, p, victims)
		identify(t, observer, victims)
		p.kill()
		b := aftermath(t, s, observer, victims)
		for _, v := range victims {
			if n := b.of(v.row.GetTransactionId()).mtis["0100"]; n != 0 {
				t.Errorf("%d payments of %s have come to the core", n, v.key)
			}
		}
	})
}

// TestCrash_WhileTheRequestIsOnItsWay kills a payment service whose request has
// left and is held up in the network until all is over: the fence refuses it.
func TestCrash_WhileTheRequestIsOnItsWay(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		observer := s.startPayment(t, impatient)
		s.startReconciler(t)
		p := s.startPayment(t, farAdoption...)
		victims := []*victim{
			{key: "to-cancel", policy: netCancel, want: fencedOff, replay: "NOT_EXECUTED"},
			{key: "to-confirm", policy: confirm, want: fencedOff, replay: "NOT_EXECUTED"},
		}
		held := s.wire.hold(t, "0100", every)
		strike(t, p, victims)
		ids := identify(t, observer, victims)
		for _, id := range ids {
			s.wire.await(t, fromCaller, "0100", id, 1)
		}
		p.kill()
		aftermath(t, s, observer, victims)

		held.release()
		for _, id := range ids {
			s.wire.await(t, fromCore, "0110", id, 1)
		}
		b := s.audit(t, observer)
		for _, id := range ids {
			entries := b.of(id).entries
			if last := entries[len(entries)-1]; last.GetMti() != "0100" || last.GetResponseCode() != "0096" {
				t.Errorf("the request ended as %v", last)
			}
			b.expect(t, id, fencedOff)
		}
	})
}

// TestCrash_AfterTheRequest kills a payment service that has sent its request,
// which the core has done, and waits for an answer that is held up.
func TestCrash_AfterTheRequest(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		observer := s.startPayment(t, impatient)
		s.startReconciler(t)
		p := s.startPayment(t, farAdoption...)
		victims := []*victim{
			{key: "to-cancel", policy: netCancel, want: netCanceled, replay: "PAYMENT_CANCELED"},
			{key: "to-confirm", policy: confirm, want: confirmed},
		}
		s.wire.hold(t, "0110", every)
		strike(t, p, victims)
		for _, id := range identify(t, observer, victims) {
			s.wire.await(t, fromCore, "0110", id, 1)
		}
		p.kill()
		aftermath(t, s, observer, victims)
	})
}

// TestCrash_BeforeTheOutcome kills a payment service that has the core's answer
// and cannot store it, because another holds a lock on the row.
func TestCrash_BeforeTheOutcome(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		observer := s.startPayment(t, impatient)
		s.startReconciler(t)
		p := s.startPayment(t, farAdoption...)
		victims := []*victim{
			{key: "to-cancel", policy: netCancel, want: netCanceled, replay: "PAYMENT_CANCELED"},
			{key: "to-confirm", policy: confirm, want: confirmed},
		}
		held := s.wire.hold(t, "0110", every)
		strike(t, p, victims)
		ids := identify(t, observer, victims)
		for _, id := range ids {
			s.wire.await(t, fromCore, "0110", id, 1)
		}
		unlock := db.lock(t, ids...)
		held.release()
		for _, id := range ids {
			s.wire.await(t, toCaller, "0110", id, 1)
		}
		if db.kind == "sqlite" {
			p.kill()
		} else {
			db.awaitBlocked(t)
			p.kill()
			db.endBlocked(t)
		}
		unlock()
		aftermath(t, s, observer, victims)
	})
}
