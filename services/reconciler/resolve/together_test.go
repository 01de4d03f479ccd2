package resolve

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/corebank/simulator"
)

// acting is a party that does something else than a sweep's attempt, in steps.
func (tn *town) acting(act func(r *Resolver) error) *party {
	p := &party{store: tn.store, core: tn.core, stands: make(chan struct{}), on: make(chan struct{}), ended: make(chan error, 1)}
	r := newResolver(tn.halting(p), p, testFlags(), time.Now, tn.logs, prometheus.NewRegistry())
	go func() {
		p.stand()
		p.ended <- act(r)
	}()
	<-p.stands
	return p
}

// halting is the town's ledger to a party that stands still before it changes
// anything.
func (tn *town) halting(p *party) ledger.Store {
	store := &faultyStore{Store: tn.store}
	store.decide = func(ctx context.Context, id tranid.ID, by ledger.Actor, detail string) (ledger.Transaction, error) {
		p.stand()
		return tn.store.Decide(ctx, id, by, detail)
	}
	store.transition = func(ctx context.Context, c ledger.Change) (ledger.Transaction, error) {
		p.stand()
		return tn.store.Transition(ctx, c)
	}
	store.postpone = func(ctx context.Context, p2 ledger.Postponement) error {
		p.stand()
		return tn.store.Postpone(ctx, p2)
	}
	return store
}

// all are who may be at one row at the same instant: two that sweep, one of whom is
// stopped and goes on when the others have ended; a hint; two operators, of whom
// one asks and one settles; and who sends what is owed then.
func (tn *town) all(id tranid.ID, verdict ledger.Status) []*party {
	sweep := func(r *Resolver) error {
		claim, err := tn.store.ClaimOne(context.Background(), id, time.Minute, r.sweeper())
		if err != nil || claim.Token == "" {
			return err
		}
		_, err = r.attempt(context.Background(), r.operator.turn(), claim, r.sweeper())
		return err
	}
	hint := func(r *Resolver) error {
		if err := r.hints.lane.inquiries.enter(context.Background()); err != nil {
			return err
		}
		turn := r.hints.lane.turn()
		defer turn.leave()
		_, err := r.resolveInTurn(context.Background(), turn, id, ledger.Actor{Name: ledger.ActorCallback})
		return err
	}
	ask := func(r *Resolver) error {
		_, err := r.ResolveOne(context.Background(), id, operatorKim)
		return err
	}
	settle := func(r *Resolver) error {
		_, err := r.Settle(context.Background(), id, verdict, "the bank was called", operatorKim)
		if errors.Is(err, ledger.ErrLost) {
			return nil
		}
		return err
	}
	return []*party{tn.acting(sweep), tn.acting(sweep), tn.acting(hint), tn.acting(ask), tn.acting(settle), tn.acting(sweep)}
}

// Callback, sweep, operators, a second reconciler and a paused one are at one row at
// the same instant, in thousands of orders: the row makes one transition, what the
// core did is undone at most once and never after SUCCESS, and nothing is owed in
// the end but what a sweep then sends.
func TestResolution_CallbackSweepOperatorAndAPausedOneMakeOneTransition(t *testing.T) {
	const orders = 150
	ends := map[string]int{}
	for _, digits := range []string{"44444444444444", "88888888888888"} {
		for _, policy := range []ledger.Policy{ledger.PolicyNetCancel, ledger.PolicyConfirm} {
			for _, verdict := range []ledger.Status{ledger.StatusSuccess, ledger.StatusFailed, ledger.StatusCanceled} {
				t.Run(fmt.Sprintf("%s %s %s", digits, policy, verdict), func(t *testing.T) {
					tn := newTown(t, testFlags(), simulator.Options{})
					for seed := range uint64(orders) {
						id := tn.pay(t, int64(seed)+1, digits, policy)
						review(t, tn.house, id)
						tn.play(t, seed, tn.all(id, verdict))
						tn.inAgreement(t, id, policy)
						row := get(t, tn.store, id)
						ends[row.Status.String()+" "+row.Evidence.String()]++
						if t.Failed() {
							t.Fatalf("seed %d", seed)
						}
					}
				})
			}
		}
	}
	for _, end := range []string{
		"SUCCESS PROCESSED", "SUCCESS OPERATOR", "FAILED OPERATOR", "FAILED FENCED", "CANCELED OPERATOR", "CANCELED CANCEL_CONFIRMED",
	} {
		if ends[end] == 0 {
			t.Errorf("no order ended in %s: %v", end, ends)
		}
	}
}

// play lets the parties take their steps in an order that the seed makes. The first
// is paused after some of its own, and goes on when the others have ended.
func (tn *town) play(t *testing.T, seed uint64, parties []*party) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // an order that replays
	sleeper, awake := parties[0], parties[1:]
	for range random.IntN(steps + 1) {
		sleeper.step(t)
	}
	for len(awake) > 0 {
		i := random.IntN(len(awake))
		if awake[i].step(t); awake[i].over {
			awake[i] = awake[len(awake)-1]
			awake = awake[:len(awake)-1]
		}
	}
	sleeper.finish(t)
}

// inAgreement checks the row against what the core did, before and after what is
// owed was sent.
func (tn *town) inAgreement(t *testing.T, id tranid.ID, policy ledger.Policy) {
	t.Helper()
	events, err := tn.store.Events(t.Context(), id)
	must(t, err)
	moves := 0
	for _, e := range events {
		moves += count(e.From == ledger.StatusUnknown && e.To != ledger.StatusUnknown)
	}
	row := get(t, tn.store, id)
	report, err := tn.ResolveOne(t.Context(), id, operatorKim)
	must(t, err)
	debits, cancels := tn.effects(t, id, "DEBIT"), tn.effects(t, id, "CANCEL")
	byOperator := row.Evidence == ledger.EvidenceOperator
	switch {
	case moves != 1 || !row.Status.Final() || report.Transaction.Owed() || report.Transaction.Status != row.Status:
		t.Errorf("%s after %d transitions, owed %t", row.Status, moves, report.Transaction.Owed())
	case row.Status == ledger.StatusSuccess && (cancels != 0 || row.Decision != 0 || !byOperator && (debits != 1 || policy != ledger.PolicyConfirm)):
		t.Errorf("SUCCESS, decision %q, and the core did %v", row.Decision, tn.journal(t, id))
	case row.Status != ledger.StatusSuccess && (cancels != debits || row.Decision != ledger.DecisionCancel):
		t.Errorf("%s, decision %q, and the core did %v", row.Status, row.Decision, tn.journal(t, id))
	}
}
