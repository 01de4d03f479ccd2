package integration

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/gwanmun/gwanmun/pkg/postgrestest"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

const (
	// stallFor is how long the database hangs.
	stallFor = 5 * time.Second
	// askers ask for balances meanwhile, each of them every askEvery.
	askers   = 8
	askEvery = 50 * time.Millisecond
)

// asked is one inquiry.
type asked struct {
	told

	begun time.Time
	took  time.Duration
}

// askFor has askers ask for balances for so long, and returns all they were told.
func askFor(t *testing.T, p *payment, howLong time.Duration) []asked {
	t.Helper()
	var mu sync.Mutex
	var all []asked
	over := time.After(howLong)
	quit := make(chan struct{})
	var asking sync.WaitGroup
	for range askers {
		asking.Go(func() {
			for !closedWithin(quit, askEvery) {
				begun := time.Now()
				a := asked{told: p.ask(t, ordinary), begun: begun, took: time.Since(begun)}
				mu.Lock()
				all = append(all, a)
				mu.Unlock()
			}
		})
	}
	<-over
	close(quit)
	asking.Wait()
	return all
}

// median is the time that half of the inquiries took at most.
func median(all []asked) time.Duration {
	took := make([]time.Duration, len(all))
	for i, a := range all {
		took[i] = a.took
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// TestStalledDatabase_SlowsNoInquiry stops PostgreSQL, every process of it, for
// seconds, as a hung disk does: connections stand and nobody answers. Inquiries
// do not feel it, and have their rows when it goes on; of payments nobody is told
// what is not so, and none is made twice.
func TestStalledDatabase_SlowsNoInquiry(t *testing.T) {
	t.Parallel()
	cluster := postgrestest.Own(t)
	s := newStack(t, onPostgreSQL(cluster.DSN()))
	p := s.startPayment(t, "--send-window=2s", "--deadline=4s", "--adopt-margin=1s")
	p.dirty = true // an outcome that cannot be stored is an ERROR
	s.startReconciler(t).dirty = true
	p.pay(t, "before", ordinary, 10, netCancel).expect(t, "before", done)
	before := askFor(t, p, time.Second)

	cluster.Stall()
	payers := payMeanwhile(t, p)
	during := askFor(t, p, stallFor)
	cluster.Resume()

	for _, a := range slices.Concat(before, during) {
		if a.code != codes.OK || a.balance == 0 {
			t.Errorf("an inquiry: %s", a)
		}
		// One that waited for the ledger would wait for as long as it hangs.
		if a.took > stallFor/2 {
			t.Errorf("an inquiry took %s", a.took)
		}
	}
	t.Logf("%d inquiries before, half of them within %s; %d meanwhile, half of them within %s",
		len(before), median(before), len(during), median(during))
	if quiet, stalled := median(before), median(during); stalled > 10*quiet+100*time.Millisecond {
		t.Errorf("half of the inquiries took %s before and %s meanwhile", quiet, stalled)
	}
	paid := payers()
	p.awaitReady(t)
	b := s.audit(t, p)
	for _, a := range slices.Concat(before, during) {
		if b.rows[a.id()].GetStatus() != success {
			t.Errorf("the row of %s is %v", a.id(), b.rows[a.id()])
		}
	}
	if want := len(before) + len(during) + 1; len(b.rows) < want {
		t.Errorf("%d rows, of %d calls", len(b.rows), want)
	}
	for key, a := range paid {
		row := b.rows[a.id()]
		if row.GetIdempotencyKey() != key || (a.code == codes.OK) != (row.GetStatus() == success) {
			t.Errorf("%s in the end: %s; the row is %v", key, a, row)
		}
	}
}

// payMeanwhile begins payments while the database hangs, each of which is tried
// until it is known; the returned function waits for what the callers were told
// in the end.
func payMeanwhile(t *testing.T, p *payment) func() map[string]told {
	t.Helper()
	const payers = 6
	answers := make([]told, payers)
	var paying sync.WaitGroup
	for i := range payers {
		paying.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			req := &paymentv1.CreatePaymentRequest{
				IdempotencyKey: fmt.Sprintf("meanwhile-%d", i), AccountNumber: ordinary, Amount: 10, ResolutionPolicy: confirm,
			}
			for ctx.Err() == nil {
				a := p.payWith(ctx, t, req)
				answers[i] = a
				switch a.reason() {
				case "LEDGER_UNAVAILABLE", "SEND_WINDOW_MISSED", "IN_PROGRESS", "OUTCOME_UNKNOWN":
					closedWithin(ctx.Done(), 300*time.Millisecond)
				case "", "NOT_EXECUTED": // known: the latter where it was abandoned for too long
					return
				default:
					t.Errorf("a payment meanwhile: %s", a)
					return
				}
			}
		})
	}
	t.Cleanup(paying.Wait)
	return func() map[string]told {
		paying.Wait()
		paid := map[string]told{}
		for i, a := range answers {
			paid[fmt.Sprintf("meanwhile-%d", i)] = a
		}
		return paid
	}
}
