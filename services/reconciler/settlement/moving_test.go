package settlement

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// pays makes a payment while a run is under way, as the payment service does: the
// intent, the core, the outcome, with turns of the run between them.
func (b *books) pays(t *testing.T, n int64, pause func()) {
	t.Helper()
	id := b.id(n)
	_, err := b.store.CreateIntent(t.Context(), ledger.Intent{
		ID: id, Client: "shop", Key: ledger.IdempotencyKey("key-" + string(id)), AccountMasked: alice.Masked(),
		AccountHash: testKey.Account(alice), Amount: 1000, Policy: ledger.PolicyNetCancel,
		RequestedAt: time.Now(), AdoptAfter: time.Hour, KeyLife: time.Hour, By: payer,
	})
	must(t, err)
	pause()
	switch n % 4 {
	case 0: // declined
		pause()
		b.move(t, id, ledger.StatusRequested, "FAILED")
	case 1: // answered too late, and canceled
		b.lists(n, ledger.CoreDone)
		pause()
		b.move(t, id, ledger.StatusRequested, "UNKNOWN")
		pause()
		b.lists(n, ledger.CoreCanceled)
		pause()
		b.move(t, id, ledger.StatusUnknown, "CANCELED")
	default:
		b.lists(n, ledger.CoreDone)
		pause()
		b.move(t, id, ledger.StatusRequested, "SUCCESS")
	}
}

// Whatever payments do between any two pages, they make no difference.
func TestSettlement_PaymentsDuringTheRunMakeNoDifference(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { settleAmongPayments(t, seed) })
		})
	}
}

func settleAmongPayments(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	b := newBooks(nil)
	defer running(t, b.Service)()
	const before = 300
	numbers := random.Perm(4 * before)
	for _, n := range numbers[:before] {
		b.pay(t, int64(n), "SUCCESS")
		b.lists(int64(n), ledger.CoreDone)
	}
	pages := make(chan struct{})
	var pauses [4 * before]time.Duration
	for i := range pauses {
		pauses[i] = time.Duration(1+random.IntN(25)) * time.Millisecond
	}
	b.core.turn = func(reads, _ int) { time.Sleep(pauses[reads%len(pauses)]) }
	ended := make(chan struct{})
	go func() {
		defer close(pages)
		payers := make(chan struct{}, 16)
		for _, n := range numbers[before : 3*before] {
			payers <- struct{}{}
			go func() {
				defer func() { <-payers }()
				b.pays(t, int64(n), func() { time.Sleep(pauses[n]) })
			}()
			select {
			case <-ended:
			case <-time.After(time.Millisecond / 4):
			}
		}
		for range cap(payers) {
			payers <- struct{}{}
		}
	}()
	run := b.succeeds(t)
	close(ended)
	c := run.Counts
	if c.Mismatch+c.LedgerOnly+c.CoreOnly+c.Unresolved+c.Unreadable != 0 || c.Match < before || len(b.found(t)) != 0 {
		t.Errorf("counted %+v", c)
	}
	if c.Match == before {
		t.Error("no payment was made during the run")
	}
	<-pages
	b.core.turn = nil
	run = b.succeeds(t)
	if run.Counts.Match != 3*before || len(b.found(t)) != 0 {
		t.Errorf("afterwards counted %+v", run.Counts)
	}
}

// A payment that comes before the place of the reader moves a record from the end
// of one page to the beginning of the next.
func TestSettlement_RecordThatMovesToTheNextPageIsReadOnce(t *testing.T) {
	for _, come := range []int64{1, 5, PageSize, PageSize + 1, 3 * PageSize} {
		synctest.Test(t, func(t *testing.T) {
			b := newBooks(nil)
			defer running(t, b.Service)()
			const base, size = 10_000, 2*PageSize + 50
			for n := range int64(size) {
				b.pay(t, base+n, "SUCCESS")
				b.lists(base+n, ledger.CoreDone)
			}
			b.core.turn = func(reads, _ int) {
				if reads == 1 { // the first page is read
					for n := range come {
						b.pay(t, n, "SUCCESS")
						b.lists(n, ledger.CoreDone)
					}
				}
			}
			run := b.succeeds(t)
			if run.Counts.Records < size || run.Counts.Match < size || len(b.found(t)) != 0 || run.Counts.CoreOnly != 0 {
				t.Errorf("%d came: counted %+v, found %v", come, run.Counts, b.found(t))
			}
		})
	}
}

// What only seems to differ, because a page was read earlier than the row, does not
// at the second look, though it has moved by then.
func TestSettlement_DifferenceThatPassesIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks(nil)
		defer running(t, b.Service)()
		for n := range int64(3 * PageSize) {
			b.pay(t, 2*n, "SUCCESS")
			if n%3 != 0 {
				b.lists(2*n, ledger.CoreDone)
			}
		}
		b.core.turn = func(reads, _ int) {
			if reads == 3 { // both pages of the first look are read, and that there is no other
				for n := range int64(3 * PageSize) {
					b.lists(2*n, ledger.CoreDone)
					b.pay(t, 2*n+1, "FAILED")
				}
			}
		}
		run := b.succeeds(t)
		if c := run.Counts; c.Match != 3*PageSize || len(b.found(t)) != 0 {
			t.Errorf("counted %+v, found %v", c, b.found(t))
		}
	})
}

// A payment that began after the run and has not ended is of no concern to it; one
// that began before is.
func TestSettlement_InFlightIsUnresolvedOnlyIfItBeganBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks(nil)
		defer running(t, b.Service)()
		b.pay(t, 1, "REQUESTED")
		b.core.turn = func(reads, _ int) {
			if reads != 0 {
				return
			}
			_, err := b.store.CreateIntent(t.Context(), ledger.Intent{
				ID: b.id(2), Client: "shop", Key: "late", AccountMasked: "****", Amount: 1, Policy: ledger.PolicyConfirm,
				RequestedAt: time.Now(), AdoptAfter: time.Hour, KeyLife: time.Hour, By: payer,
			})
			must(t, err)
			b.lists(2, ledger.CoreDone)
		}
		// The first row is read before the first page.
		b.pay(t, 0, "SUCCESS")
		b.lists(0, ledger.CoreDone)
		time.Sleep(time.Second)
		run := b.succeeds(t)
		if run.Counts.Unresolved != 1 || run.Counts.CoreOnly != 0 {
			t.Errorf("counted %+v", run.Counts)
		}
		if found := b.found(t); len(found) != 1 || found[1].Class != ledger.ClassUnresolved {
			t.Errorf("found %v", found)
		}
	})
}

func TestSeeker_FindsWhatHasMovedAndWhatIsNotThere(t *testing.T) {
	day := tranid.DateOf(time.Date(2026, 7, 25, 3, 0, 0, 0, time.UTC))
	book := &paperBook{}
	for n := range int64(5 * PageSize) {
		book.put(Record{ID: tranid.New(day, 2*n), Account: alice, Amount: 1, State: ledger.CoreDone})
	}
	for _, hint := range []int{0, 1, 2, 4, 5, 9} {
		s := seeker{pages: &pages{book: book, day: day, patience: bookPatience}}
		for n := range int64(10*PageSize + 5) {
			got, err := s.find(context.Background(), tranid.New(day, n), hint)
			if err != nil {
				t.Fatal(err)
			}
			if want := n%2 == 0 && n < 10*PageSize; (got != nil) != want || got != nil && numberOf(got.ID) != n {
				t.Fatalf("hint %d: number %d is %v", hint, n, got)
			}
		}
	}
}

// Between the look at a page and the look at the one before it, a record may move
// from there to here.
func TestSeeker_RecordThatMovesBehindItIsFound(t *testing.T) {
	day := tranid.DateOf(time.Date(2026, 7, 25, 3, 0, 0, 0, time.UTC))
	book := &paperBook{}
	for n := range int64(2 * PageSize) {
		book.put(Record{ID: tranid.New(day, 1000+n), Account: alice, Amount: 1, State: ledger.CoreDone})
	}
	wanted := tranid.New(day, 1000+PageSize-1) // the last of the first page
	book.turn = func(reads, page int) {
		if reads == 1 && page == 0 {
			book.put(Record{ID: tranid.New(day, 1), Account: alice, Amount: 1, State: ledger.CoreDone})
		}
	}
	s := seeker{pages: &pages{book: book, day: day, patience: bookPatience}}
	got, err := s.find(context.Background(), wanted, 1)
	if err != nil || got == nil || got.ID != wanted {
		t.Errorf("found %v, error %v", got, err)
	}
}

// canceling is a ledger in which a payment becomes canceled, on both sides, just
// before its row is read alone.
type canceling struct {
	ledger.Store
	cancel func(id tranid.ID)
}

func (s *canceling) Get(ctx context.Context, id tranid.ID) (ledger.Transaction, error) {
	s.cancel(id)
	return s.Store.Get(ctx, id)
}

// The second look is at the row first: a page that was read before it would still
// have the payment done, and make a ghost of it.
func TestSettlement_SecondLookIsAtTheRowFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &canceling{Store: memstore.New(time.Now)}
		b := newBooks(store)
		defer running(t, b.Service)()
		b.pay(t, 1, "UNKNOWN")
		b.lists(1, ledger.CoreDone)
		store.cancel = func(id tranid.ID) {
			b.lists(1, ledger.CoreCanceled)
			b.move(t, id, ledger.StatusUnknown, "CANCELED")
		}
		if run := b.succeeds(t); run.Counts.Match != 1 || len(b.found(t)) != 0 {
			t.Errorf("counted %+v, found %v", run.Counts, b.found(t))
		}
	})
}
