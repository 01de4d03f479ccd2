package integration

import "testing"

// TestKill_OfAReconcilerMidway kills a reconciler between two of its steps, held
// from outside: another takes the row over, and undoes it once. What the first
// had on its way comes later, and changes nothing.
func TestKill_OfAReconcilerMidway(t *testing.T) {
	// What was fenced off before, the core calls canceled.
	called := fencedOff
	called.status, called.evidence, called.method = netCanceled.status, netCanceled.evidence, netCanceled.method
	for _, moment := range []struct {
		name, held string
		seen       place
		notDone    ending
	}{
		{"before the core hears its inquiry", "0400", fromCaller, fencedOff},
		{"before it hears the answer to its inquiry", "0410", fromCore, fencedOff},
		{"before the core hears its net cancel", "0420", fromCaller, fencedOff},
		{"before it hears the answer to its net cancel", "0430", fromCore, called},
	} {
		t.Run(moment.name, func(t *testing.T) {
			onEachDatabase(t, func(t *testing.T, db *database) {
				s := newStack(t, db)
				p := s.startPayment(t)
				first := s.startReconciler(t, "--read-timeout=500ms", "--connect-timeout=500ms", "--lease=3s")
				held := s.wire.hold(t, moment.held, every)
				rows := map[string]ending{
					p.pay(t, "done", unansweredAccount, 10, netCancel).id():  netCanceled,
					p.pay(t, "not-done", droppedAccount, 10, netCancel).id(): moment.notDone,
				}
				for id := range rows {
					s.wire.await(t, moment.seen, moment.held, id, 1)
				}
				first.kill()
				s.wire.clear()
				s.startReconciler(t)
				for id := range rows {
					p.follow(t, id)
				}
				s.audit(t, p)

				held.release()
				for id := range rows {
					answer := map[string]string{"0400": "0410", "0420": "0430"}[moment.held]
					if answer != "" {
						s.wire.await(t, fromCore, answer, id, 2)
					}
				}
				b := s.audit(t, p)
				for id, want := range rows {
					b.expect(t, id, want)
				}
			})
		})
	}
}
