package simulator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

var (
	// ErrBook says that the book could not be written. The Bank is out of use
	// from then on, and what it decided last may be in the book or not.
	ErrBook = errors.New("the book cannot be written")
	// ErrNoAccount says that an account does not exist and cannot be opened.
	ErrNoAccount = errors.New("the all-zero account does not exist")
	// ErrBalance says that a balance cannot be set.
	ErrBalance = errors.New("balance must be 0 to 999,999,999,999,999 won")
)

// Account is an account as the bank sees it.
type Account struct {
	Number account.Number
	// Balance is what it has or, before its first use, would be opened with.
	Balance account.Won
	// Exists is false for the all-zero account.
	Exists bool
}

// Bank decides frames. It is safe for concurrent use, starts no goroutine, and
// does not own its book.
type Bank struct {
	book  Book
	rules Rules
	now   func() time.Time

	// writing holds a token while someone commits.
	writing chan struct{}
	failed  chan struct{} // closed when the book could not be written

	mu    sync.Mutex
	state *state
	open  *commit // what is decided and waits to be written
	last  *commit // what the latest decision is in
	err   error   // why the bank is out of use
}

// commit is a batch on its way into the book.
type commit struct {
	batch Batch
	done  chan struct{} // closed when the batch is durable or lost
	err   error         // read it after done
}

func newCommit() *commit { return &commit{done: make(chan struct{})} }

// Open makes a bank of what its book holds. One book serves one Bank at a time.
func Open(ctx context.Context, book Book, rules Rules, now func() time.Time) (*Bank, error) {
	s := newState()
	if err := book.Replay(ctx, s); err != nil {
		return nil, fmt.Errorf("replay the book: %w", err)
	}
	b := &Bank{
		book: book, rules: rules, now: now,
		writing: make(chan struct{}, 1), failed: make(chan struct{}),
		state: s, open: newCommit(), last: newCommit(),
	}
	close(b.last.done) // all that is visible is in the book
	return b, nil
}

// Failed is closed when the bank is out of use because its book could not be
// written; Err says why.
func (b *Bank) Failed() <-chan struct{} { return b.failed }

// Err is nil, or why the bank is out of use.
func (b *Bank) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// Sequence is the number of frames that the bank has decided, ever.
func (b *Bank) Sequence() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state.sequence
}

// Account returns an account without opening it, once all that its balance
// follows from is durable.
func (b *Bank) Account(n account.Number) (Account, error) {
	b.mu.Lock()
	a := Account{Number: n, Exists: n != nobody}
	if a.Exists {
		a.Balance, _ = b.state.balance(n)
	}
	last := b.last
	b.mu.Unlock()
	return a, b.await(last)
}

// accountOf is the account that a transaction ID is about, zero when the bank
// decided no payment under it. It may be learned of a decision that is not
// durable yet, and must not be shown before one that is made after it.
func (b *Bank) accountOf(id tranid.ID) account.Number {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state.fates[id].payment.account
}

// PutAccount sets a balance, durably, and opens the account if need be.
// Errors: ErrNoAccount, ErrBalance, ErrBook.
func (b *Bank) PutAccount(n account.Number, balance account.Won) (Account, error) {
	if n.IsZero() || n == nobody {
		return Account{}, ErrNoAccount
	}
	if balance < 0 || balance > MaxBalance {
		return Account{}, ErrBalance
	}
	b.mu.Lock()
	err := b.set(n, balance, b.now())
	last := b.last
	b.mu.Unlock()
	if err != nil {
		return Account{}, err
	}
	return Account{Number: n, Balance: balance, Exists: true}, b.await(last)
}

// Journal returns a page of what the bank did.
func (b *Bank) Journal(ctx context.Context, f Filter) (Page, error) {
	page, err := b.book.Journal(ctx, f)
	if err != nil {
		return Page{}, fmt.Errorf("read the journal: %w", err)
	}
	return page, nil
}

// execute decides a request and returns once the decision is durable. After an
// error the request may have been decided or not, and nothing may be said of it.
func (b *Bank) execute(q request) (decision, error) {
	b.mu.Lock()
	d, err := b.decide(q)
	last := b.last
	b.mu.Unlock()
	if err != nil {
		return decision{}, err
	}
	return d, b.await(last)
}

// abandon journals a request that is dropped without deciding.
func (b *Bank) abandon(q request) error {
	b.mu.Lock()
	err := b.enter(q, decision{effect: EffectNone, account: q.account, amount: q.amount}, b.now())
	last := b.last
	b.mu.Unlock()
	if err != nil {
		return err
	}
	return b.await(last)
}

// decide decides a request and puts its records into the open commit. The
// caller holds mu.
func (b *Bank) decide(q request) (decision, error) {
	if b.err != nil {
		return decision{}, b.err
	}
	d := b.rules.decide(b.state, q)
	at := b.now()
	if d.opens {
		if err := b.set(q.account, opening(q.account), at); err != nil {
			return decision{}, err
		}
	}
	return d, b.enter(q, d, at)
}

// enter applies an entry and puts it into the open commit. The caller holds mu.
func (b *Bank) enter(q request, d decision, at time.Time) error {
	if b.err != nil {
		return b.err
	}
	e := Entry{
		Sequence: b.state.sequence + 1, At: at, MTI: q.mti, TranID: q.tranID, Account: d.account,
		Amount: d.amount, Effect: d.effect, ResponseCode: d.code, Connection: q.connection,
	}
	if err := b.state.Enter(e); err != nil {
		return fmt.Errorf("apply a decision: %w", err)
	}
	b.open.batch.Entries = append(b.open.batch.Entries, e)
	b.last = b.open
	return nil
}

// set applies a setting and puts it into the open commit. The caller holds mu.
func (b *Bank) set(n account.Number, balance account.Won, at time.Time) error {
	if b.err != nil {
		return b.err
	}
	r := Setting{Account: n, Balance: balance, After: b.state.sequence, At: at}
	if err := b.state.Set(r); err != nil {
		return fmt.Errorf("apply a setting: %w", err)
	}
	b.open.batch.Settings = append(b.open.batch.Settings, r)
	b.last = b.open
	return nil
}

// await returns when a commit is in the book, or lost. Whoever finds the pen
// free writes all that waits, for everybody, so that a lone frame waits for
// nothing and many frames share one sync.
func (b *Bank) await(c *commit) error {
	select {
	case <-c.done:
		return c.err
	case b.writing <- struct{}{}:
	}
	b.write()
	<-b.writing
	<-c.done // c was the open commit, or someone before us wrote it
	return c.err
}

// write writes the open commit. The caller has the token.
func (b *Bank) write() {
	b.mu.Lock()
	c := b.open
	if c.batch.Empty() {
		b.mu.Unlock()
		return
	}
	b.open = newCommit()
	c.err = b.err
	b.mu.Unlock()

	if c.err == nil {
		if err := b.book.Append(c.batch); err != nil {
			c.err = fmt.Errorf("%w: %w", ErrBook, err)
			b.fail(c.err)
		}
	}
	close(c.done)
}

// fail puts the bank out of use. The caller has the token.
func (b *Bank) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
	close(b.failed)
}
