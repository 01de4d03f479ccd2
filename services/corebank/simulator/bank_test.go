package simulator

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

// gatedBook writes a batch when it is let, with the error that it is let with.
type gatedBook struct {
	*MemoryBook
	let chan error
}

func (g *gatedBook) Append(b Batch) error {
	if err := <-g.let; err != nil {
		return err
	}
	return g.MemoryBook.Append(b)
}

func newGatedBank(t *testing.T) (*Bank, *gatedBook) {
	t.Helper()
	book := &gatedBook{MemoryBook: NewMemoryBook(), let: make(chan error)}
	return openBank(t, book, Rules{}), book
}

func payOf(n int64) request {
	return request{mti: telegram.PaymentRequestMTI, tranID: id(n), account: alice, amount: 1000}
}

func TestBank_SaysNothingBeforeTheBookHasIt(t *testing.T) {
	tests := []struct {
		name string
		say  func(b *Bank) error
	}{
		{"the payment itself", func(b *Bank) error { _, err := b.execute(payOf(2)); return err }},
		{"an inquiry that saw it", func(b *Bank) error {
			_, err := b.execute(request{mti: telegram.StatusRequestMTI, tranID: id(1)})
			return err
		}},
		{"the balance after it", func(b *Bank) error { _, err := b.Account(alice); return err }},
		{"a setting behind it", func(b *Bank) error { _, err := b.PutAccount(bob, 1); return err }},
		{"a dropped frame behind it", func(b *Bank) error { return b.abandon(payOf(3)) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bank, book := newGatedBank(t)
				var speaking sync.WaitGroup
				speaking.Go(func() { execute(t, bank, payOf(1)) })
				synctest.Wait()
				said := false
				speaking.Go(func() {
					if err := tt.say(bank); err != nil {
						t.Error(err)
					}
					said = true
				})
				synctest.Wait()
				if said {
					t.Error("it was said while the book was being written")
				}
				close(book.let)
				speaking.Wait()
			})
		})
	}
}

func TestBank_WritesAtOnceAllThatWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank, book := newGatedBank(t)
		const waiting = 10
		var deciding sync.WaitGroup
		deciding.Go(func() { execute(t, bank, payOf(0)) })
		synctest.Wait()
		for n := range int64(waiting) {
			deciding.Go(func() { execute(t, bank, payOf(n+1)) })
		}
		synctest.Wait()
		book.let <- nil
		synctest.Wait()
		if got := len(journal(t, book)); got != 1 {
			t.Errorf("%d entries after the first write", got)
		}
		book.let <- nil
		deciding.Wait()
		if got := len(journal(t, book)); got != 1+waiting {
			t.Errorf("%d entries after the second write", got)
		}
	})
}

func TestBank_WritesNothingBehindABatchThatWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank, book := newGatedBank(t)
		var deciding sync.WaitGroup
		decide := func(n int64) {
			if _, err := bank.execute(payOf(n)); !errors.Is(err, ErrBook) {
				t.Errorf("payment %d: %v", n, err)
			}
		}
		deciding.Go(func() { decide(1) })
		synctest.Wait()
		deciding.Go(func() { decide(2) })
		synctest.Wait()
		book.let <- errors.New("no space left on device")
		close(book.let) // from now on it could be written
		deciding.Wait()
		decide(3)
		wantJournal(t, book)
	})
}
