package integration

import (
	"fmt"
	"net"
	"slices"
	"testing"
	"time"
)

// freeAddress is where nobody listens, and nobody else is about to.
func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// TestCallback_MakesWhatWasLateFinalAtOnce has a core that is late and calls back:
// once, twice, early, out of order, and about what nobody knows. The reconciler
// sweeps at its start and never again; what is final is a hint's doing.
func TestCallback_MakesWhatWasLateFinalAtOnce(t *testing.T) {
	const late = 3 * time.Second
	for _, mode := range []string{"once", "twice", "early", "reversed", "stray"} {
		t.Run(mode, func(t *testing.T) {
			onEachDatabase(t, func(t *testing.T, db *database) {
				address := freeAddress(t)
				s := newStack(t, db, "--late-answer="+late.String(), "--callback-addr="+address, "--callback-mode="+mode)
				p := s.startPayment(t, "--read-timeout=500ms")
				s.startReconciler(t, idle, "--grpc-addr="+address)

				paid := p.pay(t, "paid", heldAccount, 70_000, confirm)
				undone := p.pay(t, "undone", heldAccount, 80_000, netCancel)
				for _, a := range []told{paid, undone} {
					if a.reason() != "OUTCOME_UNKNOWN" {
						t.Fatalf("the caller is told %s", a)
					}
					row := p.follow(t, a.id())
					done := s.read(t, p).of(a.id()).entries[0].GetAt().AsTime()
					took := row.GetResolvedAt().AsTime().Sub(done)
					t.Logf("%s %s after it was done", row.GetStatus(), took)
					if took > time.Second {
						t.Errorf("%s is %s only %s after the core was done", a.id(), row.GetStatus(), took)
					}
				}
				b := s.audit(t, p)
				b.expect(t, undone.id(), netCanceled)
				if row := p.follow(t, paid.id()); row.GetStatus() != success {
					t.Errorf("%v", row)
				}
			})
		})
	}
}

// TestCallback_ABurstIsFinalWellBeforeASweep has a core that comes to the end of two
// hundred payments at once, most of which the reconciler has nobody free for.
func TestCallback_ABurstIsFinalWellBeforeASweep(t *testing.T) {
	const payments, late = 200, 8 * time.Second
	onEachDatabase(t, func(t *testing.T, db *database) {
		address := freeAddress(t)
		s := newStack(t, db, "--late-answer="+late.String(), "--callback-addr="+address)
		p := s.startPayment(t, "--read-timeout=500ms", fmt.Sprintf("--pool-size=%d", payments))
		s.startReconciler(t, "--sweep-interval=60s", "--grpc-addr="+address)

		answers := make([]<-chan told, payments)
		for i := range answers {
			policy := confirm
			if i%2 == 0 {
				policy = netCancel
			}
			answers[i] = p.begin(t, fmt.Sprintf("key-%d", i), heldAccount, 1000, policy)
		}
		var ids []string
		for _, answer := range answers {
			if a := <-answer; a.reason() == "OUTCOME_UNKNOWN" {
				ids = append(ids, a.id())
			}
		}
		if len(ids) < payments*9/10 {
			t.Fatalf("%d payments are late", len(ids))
		}
		took := make([]time.Duration, len(ids))
		for _, id := range ids {
			p.follow(t, id)
		}
		b := s.audit(t, p)
		for i, id := range ids {
			took[i] = b.rows[id].GetResolvedAt().AsTime().Sub(b.of(id).entries[0].GetAt().AsTime())
		}
		slices.Sort(took)
		t.Logf("%d are final: half within %s, all within %s after the core was done", len(ids), took[len(took)/2], took[len(took)-1])
		if longest := took[len(took)-1]; longest > 20*time.Second {
			t.Errorf("one is final only %s after the core was done", longest)
		}
	})
}
