package resolve

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/corebank/simulator"
)

// town is a house whose core is the simulator, over the real link, in memory.
type town struct {
	*house
	bank *simulator.Bank
	link *corelink.Link
	// down refuses connections; lose drops the answers of that MTI.
	down atomic.Bool
	lose atomic.Pointer[string]
}

func newTown(t *testing.T, flags Flags, o simulator.Options) *town {
	t.Helper()
	bank, err := simulator.Open(t.Context(), simulator.NewMemoryBook(), simulator.Rules{NoFences: !flags.CoreFences}, time.Now)
	must(t, err)
	server := simulator.NewServer(bank, o)
	tn := &town{bank: bank}
	ctx, cancel := context.WithCancel(context.Background())
	var conns sync.WaitGroup
	dial := func(context.Context, string, string) (net.Conn, error) {
		if tn.down.Load() {
			return nil, fmt.Errorf("dial: refused")
		}
		ours, theirs := net.Pipe()
		conns.Go(func() { server.ServeConn(ctx, theirs) })
		return ours, nil
	}
	t.Cleanup(func() { cancel(); conns.Wait() })
	tn.link = corelink.New(corelink.Options{
		Flags: corelink.Flags{
			CoreAddr: []string{"core:9099"}, ReadTimeout: 3 * time.Second, ConnectTimeout: 2 * time.Second, PoolSize: 16,
		},
		Name: "test", Dial: dial, Now: time.Now, Metrics: corelink.NewMetrics(prometheus.NewRegistry()),
	})
	tn.house = newHouse(memstore.New(time.Now), flags, time.Now)
	tn.core.answers(func(ctx context.Context, call corelink.Call, mti string, _ tranid.ID) corelink.Result {
		res := tn.link.Exchange(ctx, call)
		if lose := tn.lose.Load(); lose != nil && *lose == mti {
			return corelink.Result{Sent: res.Sent, Err: corelink.ErrClosed}
		}
		return res
	})
	return tn
}

// pay sends a payment as the payment service does, and stores what became of
// it; only what is UNKNOWN is of interest here.
func (tn *town) pay(t *testing.T, number int64, digits string, policy ledger.Policy) tranid.ID {
	t.Helper()
	id := request(t, tn.store, time.Now, unknown{number: number, policy: policy})
	n, err := account.Parse(digits)
	must(t, err)
	frame, err := telegram.PaymentRequest{TranID: id, Account: n, Amount: 1000}.AppendTo(nil)
	must(t, err)
	res := tn.link.Exchange(t.Context(), corelink.Call{
		Tx: corelink.TxPayment, Frame: frame, AnswerLength: telegram.AnswerLength, Deadline: time.Now().Add(5 * time.Second),
		Check: func(b []byte) error { _, err := telegram.ParsePaymentAnswer(b); return err },
	})
	if res.Err == nil || res.Sent == corelink.SentNone {
		t.Fatalf("payment %d is not UNKNOWN: %+v", number, res)
	}
	_, err = tn.store.Transition(t.Context(), ledger.Change{
		ID: id, From: ledger.StatusRequested, To: ledger.StatusUnknown, SentAt: res.SentAt, By: payment, Reason: "no answer in time",
	})
	must(t, err)
	return id
}

// journal is what the core did about a transaction: "0100 DEBIT", and so on.
func (tn *town) journal(t *testing.T, id tranid.ID) []string {
	t.Helper()
	page, err := tn.bank.Journal(t.Context(), simulator.Filter{TranID: id, Limit: 100})
	must(t, err)
	out := make([]string, 0, len(page.Entries))
	for _, e := range page.Entries {
		out = append(out, fmt.Sprintf("%s %s %s", e.MTI, e.Effect, e.ResponseCode))
	}
	return out
}

func (tn *town) effects(t *testing.T, id tranid.ID, effect string) int {
	t.Helper()
	n := 0
	for _, line := range tn.journal(t, id) {
		n += count(strings.Contains(line, " "+effect+" "))
	}
	return n
}

// Status is what the ledger says in the end, debits and cancels what the core
// did: SUCCESS has one live debit, FAILED and CANCELED none.
func TestSimulator_EveryLostPaymentEndsAsTheCoreHasIt(t *testing.T) {
	for _, tc := range []struct {
		name, account           string
		policy                  ledger.Policy
		status                  ledger.Status
		evidence                ledger.Evidence
		debits, cancels, fences int
	}{
		{"answered late", "99999999999999", ledger.PolicyNetCancel, ledger.StatusCanceled, ledger.EvidenceCancelConfirmed, 1, 1, 0},
		{"answered late, CONFIRM", "99999999999999", ledger.PolicyConfirm, ledger.StatusSuccess, ledger.EvidenceProcessed, 1, 0, 0},
		{"dropped undone", "88888888888888", ledger.PolicyNetCancel, ledger.StatusFailed, ledger.EvidenceFenced, 0, 0, 1},
		{"dropped undone, CONFIRM", "88888888888888", ledger.PolicyConfirm, ledger.StatusFailed, ledger.EvidenceFenced, 0, 0, 1},
		{"answered with garbage", "77777777777777", ledger.PolicyNetCancel, ledger.StatusCanceled, ledger.EvidenceCancelConfirmed, 1, 1, 0},
		{"dropped done", "44444444444444", ledger.PolicyConfirm, ledger.StatusSuccess, ledger.EvidenceProcessed, 1, 0, 0},
		{"done later than asked about", "55555555555555", ledger.PolicyConfirm, ledger.StatusFailed, ledger.EvidenceFenced, 0, 0, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tn := newTown(t, testFlags(), simulator.Options{LateAnswer: 15 * time.Second})
				id := tn.pay(t, 1, tc.account, tc.policy)
				defer tn.running(t)()
				settledWithin(t, tn.store, promise, id)
				row := get(t, tn.store, id)
				time.Sleep(time.Minute) // what is late has come by now
				if row.Status != tc.status || row.Evidence != tc.evidence || get(t, tn.store, id) != row {
					t.Errorf("%s %s, want %s %s, for good", row.Status, row.Evidence, tc.status, tc.evidence)
				}
				if d, c, f := tn.effects(t, id, "DEBIT"), tn.effects(t, id, "CANCEL"), tn.effects(t, id, "FENCE"); d != tc.debits || c != tc.cancels || f != tc.fences {
					t.Errorf("the core did %v", tn.journal(t, id))
				}
			})
		})
	}
}

// The original arrives after the row is FAILED, and is refused.
func TestSimulator_ALateOriginalIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := newTown(t, testFlags(), simulator.Options{LateAnswer: 15 * time.Second})
		id := tn.pay(t, 1, "55555555555555", ledger.PolicyNetCancel)
		defer tn.running(t)()
		settledWithin(t, tn.store, 5*time.Second, id)
		time.Sleep(20 * time.Second)
		lines := tn.journal(t, id)
		if last := lines[len(lines)-1]; last != "0100 NONE 0096" {
			t.Errorf("the core did %v, want the original refused at last", lines)
		}
	})
}

// Without a fence the original may come after two 02; it is found and canceled
// within the window.
func TestSimulator_WithoutAFenceALateOriginalIsFoundAndCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flags := testFlags()
		flags.CoreFences = false
		tn := newTown(t, flags, simulator.Options{LateAnswer: 2 * time.Minute})
		id := tn.pay(t, 1, "55555555555555", ledger.PolicyNetCancel)
		defer tn.running(t)()
		settledWithin(t, tn.store, flags.LateWindow+promise, id)
		row := get(t, tn.store, id)
		if row.Status != ledger.StatusCanceled || tn.effects(t, id, "DEBIT") != 1 || tn.effects(t, id, "CANCEL") != 1 {
			t.Errorf("%s, and the core did %v", row.Status, tn.journal(t, id))
		}
	})
}

func TestSimulator_TwoSweepsOfOneRowMakeOneNetCancelInEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := newTown(t, testFlags(), simulator.Options{})
		id := tn.pay(t, 1, "44444444444444", ledger.PolicyNetCancel)
		claims := make([]ledger.Claim, 4) // each takes the lease from the one before
		for i := range claims {
			var err error
			claims[i], err = tn.store.ClaimOne(t.Context(), id, time.Minute, tn.sweeper())
			must(t, err)
		}
		var all sync.WaitGroup
		for _, claim := range claims {
			all.Go(func() {
				if _, err := tn.attempt(t.Context(), tn.operator.turn(), claim, tn.sweeper()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if row := get(t, tn.store, id); row.Status != ledger.StatusCanceled || tn.effects(t, id, "CANCEL") != 1 {
			t.Errorf("%s, and the core did %v", row.Status, tn.journal(t, id))
		}
		if n := tn.metric(t, "gwanmun_resolutions_total"); n != 1 {
			t.Errorf("%v transitions", n)
		}
	})
}

// A decision that was made, by whomever, is not taken back by CONFIRM.
func TestSimulator_WhatWasDecidedIsNeverConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := newTown(t, testFlags(), simulator.Options{})
		id := tn.pay(t, 1, "44444444444444", ledger.PolicyConfirm)
		_, err := tn.store.Decide(t.Context(), id, payment, "as after an inquiry that said 02")
		must(t, err)
		defer tn.running(t)()
		settledWithin(t, tn.store, promise, id)
		if row := get(t, tn.store, id); row.Status != ledger.StatusCanceled || tn.effects(t, id, "CANCEL") != 1 {
			t.Errorf("%s, and the core did %v", row.Status, tn.journal(t, id))
		}
	})
}

func TestSimulator_ALostAnswerToTheNetCancelCancelsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := newTown(t, testFlags(), simulator.Options{})
		id := tn.pay(t, 1, "44444444444444", ledger.PolicyNetCancel)
		lose := telegram.CancelRequestMTI
		tn.lose.Store(&lose)
		stop := tn.running(t)
		defer stop()
		time.Sleep(time.Second)
		if row := get(t, tn.store, id); row.Status != ledger.StatusUnknown || row.Decision != ledger.DecisionCancel {
			t.Fatalf("%s, decision %s", row.Status, row.Decision)
		}
		tn.lose.Store(nil)
		settledWithin(t, tn.store, promise, id)
		if row := get(t, tn.store, id); row.Status != ledger.StatusCanceled || tn.effects(t, id, "CANCEL") != 1 {
			t.Errorf("%s, and the core did %v", row.Status, tn.journal(t, id))
		}
	})
}

func TestSimulator_AfterAnOutageEverythingIsSettledInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := newTown(t, testFlags(), simulator.Options{})
		ids := make([]tranid.ID, 0, 40)
		for i := range 40 {
			digits := "44444444444444"
			if i%2 == 0 {
				digits = "88888888888888"
			}
			ids = append(ids, tn.pay(t, int64(i), digits, ledger.PolicyNetCancel))
		}
		tn.down.Store(true)
		defer tn.running(t)()
		time.Sleep(10 * time.Minute)
		tn.down.Store(false)
		settledWithin(t, tn.store, promise, ids...)
		for i, id := range ids {
			row := get(t, tn.store, id)
			if want := []ledger.Status{ledger.StatusFailed, ledger.StatusCanceled}[i%2]; row.Status != want || row.ResolveAttempts != 0 {
				t.Errorf("%s after %d attempts, want %s", row.Status, row.ResolveAttempts, want)
			}
		}
	})
}
