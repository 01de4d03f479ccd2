package simulator

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/account"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// TestServer_KeepsMoneyTogetherOverManyConnections lets 64 connections pay, pay
// again, cancel and ask about a few IDs and accounts, and adds up the journal.
func TestServer_KeepsMoneyTogetherOverManyConnections(t *testing.T) {
	for name, rules := range map[string]Rules{"strict": {}, "no dedupe": {NoDedupe: true}, "no fences": {NoFences: true}} {
		t.Run(name, func(t *testing.T) {
			forEachBook(t, func(t *testing.T, book Book, reopen func() Book) {
				bank := openBank(t, book, rules)
				address, stop := listen(t, NewServer(bank, Options{}))
				const connections, frames = 64, 30
				seed := rand.Uint64()
				t.Logf("seed %d", seed)
				var calling sync.WaitGroup
				for n := range uint64(connections) {
					c := dialTCP(t, address)
					calling.Go(func() { playAtRandom(c, rand.New(rand.NewPCG(seed, n)), frames) })
				}
				calling.Wait()
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				entries := journal(t, book)
				if len(entries) != connections*frames {
					t.Errorf("%d entries for %d frames", len(entries), connections*frames)
				}
				wantMoneyAddsUp(t, bank, entries)
				wantSameAfterReplay(t, bank, reopen())
			})
		})
	}
}

func playAtRandom(c *client, r *rand.Rand, frames int) {
	for range frames {
		n := id(r.Int64N(40))
		switch r.IntN(4) {
		case 0, 1:
			c.pay(n, []account.Number{alice, bob}[r.IntN(2)], 1+account.Won(r.Int64N(100)))
		case 2:
			c.cancel(n)
		default:
			c.status(n)
		}
	}
}

// wantMoneyAddsUp judges by the journal alone: what each ID has standing, and
// what all accounts have together.
func wantMoneyAddsUp(t *testing.T, bank *Bank, entries []Entry) {
	t.Helper()
	standing := map[tranid.ID]account.Won{}
	fenced := map[tranid.ID]bool{}
	for _, e := range entries {
		switch e.Effect {
		case EffectDebit:
			if standing[e.TranID] > 0 && !bank.rules.NoDedupe {
				t.Errorf("%s was debited twice", e.TranID)
			}
			if fenced[e.TranID] {
				t.Errorf("%s was debited behind the fence", e.TranID)
			}
			standing[e.TranID] += e.Amount
		case EffectCancel:
			if e.Amount != standing[e.TranID] {
				t.Errorf("%s: %d won canceled of %d", e.TranID, e.Amount, standing[e.TranID])
			}
			standing[e.TranID] = 0
		case EffectFence:
			fenced[e.TranID] = true
		default:
		}
	}
	var gone account.Won
	for _, amount := range standing {
		gone += amount
	}
	var left account.Won
	for _, n := range []account.Number{alice, bob} {
		balance, _ := bank.state.balance(n)
		left += balance
	}
	if want := opening(alice) + opening(bob) - gone; left != want {
		t.Errorf("accounts have %d won, want %d", left, want)
	}
}

// TestServer_PaymentAndItsCancelAtOnce races a 0100 with the 0420 of its ID:
// either it is debited and then canceled, or fenced and then refused.
func TestServer_PaymentAndItsCancelAtOnce(t *testing.T) {
	bank, book := newBank(t, Rules{})
	address, stop := listen(t, NewServer(bank, Options{}))
	payer, canceler := dialTCP(t, address), dialTCP(t, address)
	const races = 500
	var debitedFirst int
	for n := range int64(races) {
		var paid telegram.PaymentAnswer
		var canceled telegram.CancelAnswer
		start := make(chan struct{})
		var both sync.WaitGroup
		both.Go(func() { <-start; paid = payer.pay(id(n), alice, 10) })
		both.Go(func() { <-start; canceled = canceler.cancel(id(n)) })
		close(start)
		both.Wait()
		switch {
		case paid.ResponseCode == codeDone && canceled.CancelResult == cancelDone:
			debitedFirst++
		case paid.ResponseCode == codeFenced && canceled.CancelResult == cancelNone:
		default:
			t.Fatalf("race %d: payment %s, cancel %s", n, paid.ResponseCode, canceled.CancelResult)
		}
	}
	t.Logf("%d of %d were debited first", debitedFirst, races)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	wantMoneyAddsUp(t, bank, journal(t, book))
	if got := bank.state.balances[alice]; debitedFirst > 0 && got != opening(alice) {
		t.Errorf("balance is %d, want %d", got, opening(alice))
	}
}
