package resolve

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/corebank/simulator"
)

// party resolves one row in steps: before each thing it does to the ledger or the
// core it stands still until it is let on.
type party struct {
	store ledger.Store
	core  Core
	// stands tells that it stands still, on lets it go on, ended that it is done.
	stands, on chan struct{}
	ended      chan error
	over       bool
}

// steps are those of a whole attempt: claim, 0400, decision, 0420, outcome.
const steps = 5

func (tn *town) party(id tranid.ID) *party {
	p := &party{store: tn.store, core: tn.core, stands: make(chan struct{}), on: make(chan struct{}), ended: make(chan error, 1)}
	store := &faultyStore{Store: tn.store}
	store.decide = func(ctx context.Context, id tranid.ID, by ledger.Actor, detail string) (ledger.Transaction, error) {
		p.stand()
		return tn.store.Decide(ctx, id, by, detail)
	}
	store.transition = func(ctx context.Context, c ledger.Change) (ledger.Transaction, error) {
		p.stand()
		return tn.store.Transition(ctx, c)
	}
	r := newResolver(store, p, testFlags(), time.Now, tn.logs, prometheus.NewRegistry())
	go func() {
		p.stand()
		claim, err := tn.store.ClaimOne(context.Background(), id, time.Minute, r.sweeper())
		if err == nil && claim.Token != "" {
			_, err = r.attempt(context.Background(), r.operator.turn(), claim, r.sweeper())
		}
		p.ended <- err
	}()
	<-p.stands
	return p
}

// Exchange implements Core.
func (p *party) Exchange(ctx context.Context, call corelink.Call) corelink.Result {
	p.stand()
	return p.core.Exchange(ctx, call)
}

func (p *party) stand() {
	p.stands <- struct{}{}
	<-p.on
}

// step lets it do one thing, unless it is done.
func (p *party) step(t *testing.T) {
	t.Helper()
	if p.over {
		return
	}
	p.on <- struct{}{}
	select {
	case <-p.stands:
	case err := <-p.ended:
		p.over = true
		if err != nil {
			t.Errorf("attempt: %v", err)
		}
	}
}

func (p *party) finish(t *testing.T) {
	t.Helper()
	for !p.over {
		p.step(t)
	}
}

// Two reconcilers take their steps in every order there is, while a third is
// stopped after each of its own and goes on when the others have ended. The row
// makes one transition, the core cancels at most once, and both books agree.
func TestResolution_EveryInterleavingIsOneTransitionAndOneCancelInEffect(t *testing.T) {
	for _, digits := range []string{"44444444444444", "88888888888888"} {
		for _, policy := range []ledger.Policy{ledger.PolicyNetCancel, ledger.PolicyConfirm} {
			t.Run(fmt.Sprintf("%s %s", digits, policy), func(t *testing.T) {
				tn := newTown(t, testFlags(), simulator.Options{})
				number := int64(0)
				for paused := range steps {
					for order := range 1 << (2 * steps) {
						if ones(order) != steps {
							continue
						}
						number++
						id := tn.pay(t, number, digits, policy)
						sleeper, both := tn.party(id), [2]*party{tn.party(id), tn.party(id)}
						for range paused {
							sleeper.step(t)
						}
						for i := range 2 * steps {
							both[order>>i&1].step(t)
						}
						both[0].finish(t)
						both[1].finish(t)
						sleeper.finish(t)
						tn.agree(t, id, policy)
						if t.Failed() {
							t.Fatalf("stopped after %d steps, order %010b", paused, order)
						}
					}
				}
			})
		}
	}
}

func ones(n int) (count int) {
	for ; n > 0; n >>= 1 {
		count += n & 1
	}
	return count
}

// agree checks what the ledger and the core say of a row in the end.
func (tn *town) agree(t *testing.T, id tranid.ID, policy ledger.Policy) {
	t.Helper()
	events, err := tn.store.Events(t.Context(), id)
	must(t, err)
	moves := 0
	for _, e := range events {
		moves += count(e.From == ledger.StatusUnknown && e.To != ledger.StatusUnknown)
	}
	row := get(t, tn.store, id)
	debits, cancels := tn.effects(t, id, "DEBIT"), tn.effects(t, id, "CANCEL")
	want := debits
	if row.Status == ledger.StatusSuccess {
		want = 0
	}
	if moves != 1 || cancels != want || row.Status == ledger.StatusSuccess && (debits != 1 || policy != ledger.PolicyConfirm) {
		t.Errorf("%s after %d transitions, and the core did %v", row.Status, moves, tn.journal(t, id))
	}
}
