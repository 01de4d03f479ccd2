package settlement

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/corelink/listing"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/corebank/simulator"
	"github.com/gwanmun/gwanmun/services/reconciler/resolve"
)

// town is a ledger, the simulated core, and the reconciler between them, all of it
// real but for the sockets.
type town struct {
	*books
	link *corelink.Link
}

func newTown(t *testing.T) *town {
	t.Helper()
	bank, err := simulator.Open(t.Context(), simulator.NewMemoryBook(), simulator.Rules{}, time.Now)
	must(t, err)
	server := simulator.NewServer(bank, simulator.Options{LateAnswer: 5 * time.Second, Logger: slog.New(&logBook{})})
	ctx, cancel := context.WithCancel(context.Background())
	var conns sync.WaitGroup
	t.Cleanup(func() { cancel(); conns.Wait() })
	flags := corelink.Flags{
		CoreAddr: []string{"core:9099"}, ReadTimeout: 3 * time.Second, ConnectTimeout: 2 * time.Second, PoolSize: 32, PoolWait: time.Second,
	}
	metrics := corelink.NewMetrics(prometheus.NewRegistry())
	link := func(name string, flags corelink.Flags, serve func(context.Context, net.Conn)) *corelink.Link {
		return corelink.New(corelink.Options{
			Flags: flags, Name: name, Now: time.Now, Metrics: metrics,
			Dial: func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				conns.Go(func() { serve(ctx, theirs) })
				return ours, nil
			},
		})
	}
	tn := &town{link: link("core", flags, server.ServeConn)}
	listings := link("listing", (&listing.Flags{ListingAddr: []string{"core:9097"}}).Over(flags), server.ServeListingConn)
	t.Cleanup(func() { _, _ = tn.link.Close(), listings.Close() })
	store := memstore.New(time.Now)
	resolver := resolve.New(store, tn.link, resolve.Options{
		Flags: resolve.Flags{
			SweepInterval: 5 * time.Second, MaxAttempts: 10, CoreFences: true, LateWindow: 10 * time.Minute, Lease: 8 * time.Second,
		},
		ExchangeTime: 5 * time.Second, ReadTimeout: flags.ReadTimeout, Connections: flags.PoolSize, StopGrace: 7 * time.Second,
		Instance: "reconciler-1", Logger: slog.New(&logBook{}), Registry: prometheus.NewRegistry(), Now: time.Now, Random: rand.Float64,
	})
	tn.books = newBooks(store, func(o *Options) {
		o.Book, o.Resolver = CoreBook(listing.New(listings, flags, time.Now)), resolver
	})
	return tn
}

// habits are accounts of the simulator: most payments go well.
var habits = []string{
	"12345678901234", "12345678901235", "12345678901236", "12345678901237", "12345678901238", "12345678901239",
	"22222222222222", // declines
	"99999999999999", // does it, answers late
	"44444444444444", // does it, closes without answering
	"88888888888888", // closes without doing it
	"00000000000000", // does not exist
}

// pay makes a payment over the link, as the payment service does.
func (tn *town) pay(t *testing.T, n int64) {
	t.Helper()
	id, owner := tn.id(n), number(habits[n%int64(len(habits))])
	_, err := tn.store.CreateIntent(t.Context(), ledger.Intent{
		ID: id, Client: "shop", Key: ledger.IdempotencyKey(fmt.Sprint("key-", n)), AccountMasked: owner.Masked(),
		AccountHash: testKey.Account(owner), Amount: account.Won(1000 + n), Policy: ledger.PolicyNetCancel,
		RequestedAt: time.Now(), AdoptAfter: time.Minute, KeyLife: time.Hour, By: payer,
	})
	must(t, err)
	frame, err := telegram.PaymentRequest{TranID: id, Account: owner, Amount: account.Won(1000 + n)}.AppendTo(nil)
	must(t, err)
	var answer telegram.PaymentAnswer
	res := tn.link.Exchange(t.Context(), corelink.Call{
		Tx: corelink.TxPayment, Frame: frame, AnswerLength: telegram.AnswerLength, Deadline: time.Now().Add(5 * time.Second),
		Check: func(b []byte) (err error) { answer, err = telegram.ParsePaymentAnswer(b); return err },
	})
	change := ledger.Change{ID: id, From: ledger.StatusRequested, By: payer, SentAt: res.SentAt}
	switch {
	case !res.Answered():
		change.To = ledger.StatusUnknown
	case answer.ResponseCode == "0000":
		change.To, change.Evidence, change.Answer.Code = ledger.StatusSuccess, ledger.EvidenceAnswered, answer.ResponseCode
	default:
		change.To, change.Evidence, change.Answer.Code = ledger.StatusFailed, ledger.EvidenceAnswered, answer.ResponseCode
	}
	_, err = tn.store.Transition(t.Context(), change)
	must(t, err)
}

// While payments are made, lost and canceled, run after run finds no difference but
// what is not known yet; and in the end all is the same.
func TestSimulator_RunsAmongPaymentsFindNothingFalse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := newTown(t)
		defer running(t, tn.Service)()
		const payments, payers = 1500, 12
		numbers := make(chan int64)
		var paying sync.WaitGroup
		for range payers {
			paying.Go(func() {
				for n := range numbers {
					tn.pay(t, n)
				}
			})
		}
		paid := make(chan struct{})
		go func() {
			defer close(paid)
			for _, n := range rand.New(rand.NewPCG(1, 2)).Perm(payments) {
				numbers <- int64(n)
				time.Sleep(10 * time.Millisecond)
			}
			close(numbers)
			paying.Wait()
		}()
		runs := 0
		for done := false; !done; runs++ {
			select {
			case <-paid:
				done = true
			case <-time.After(time.Second):
			}
			run := tn.succeeds(t)
			if c := run.Counts; c.Mismatch+c.LedgerOnly+c.CoreOnly+c.Unreadable != 0 {
				t.Errorf("run %d: %+v", runs, c)
			}
		}
		run := tn.succeeds(t)
		if run.Counts.Match != payments || run.Counts.Unresolved != 0 || len(tn.found(t)) != 0 || runs < 10 {
			t.Errorf("after %d runs: %+v, found %v", runs, run.Counts, tn.found(t))
		}
	})
}

// The core has done what the ledger was told it had not: an operator's mistake, and
// a debit by another hand.
func TestSimulator_GhostIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := newTown(t)
		defer running(t, tn.Service)()
		id := tranid.New(tn.day, 1)
		frame, err := telegram.PaymentRequest{TranID: id, Account: alice, Amount: 7000}.AppendTo(nil)
		must(t, err)
		res := tn.link.Exchange(t.Context(), corelink.Call{
			Tx: corelink.TxPayment, Frame: frame, AnswerLength: telegram.AnswerLength, Deadline: time.Now().Add(5 * time.Second),
			Check: func([]byte) error { return nil },
		})
		if !res.Answered() {
			t.Fatal(res.Err)
		}
		run := tn.succeeds(t)
		want := ledger.Difference{ID: id, Class: ledger.ClassCoreOnly, CoreState: ledger.CoreDone, CoreAmount: 7000}
		if d := tn.found(t)[1]; run.Counts.CoreOnly != 1 || d.Difference != want {
			t.Errorf("counted %+v, found %+v", run.Counts, d)
		}
	})
}
