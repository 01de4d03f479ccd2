package simulator

import (
	"fmt"
	"hash/fnv"

	"github.com/gwanmun/gwanmun/pkg/account"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// MaxBalance is the largest balance that a 0210 can carry.
const MaxBalance account.Won = 999_999_999_999_999

// An account is opened with openingBalance and up to openingSpread more.
const (
	openingBalance account.Won = 10_000_000_000
	openingSpread  uint32      = 1_000_000
)

// nobody is the all-zero account, which does not exist.
var nobody = mustAccount("0")

func mustAccount(digits string) account.Number {
	n, err := account.Parse(digits)
	if err != nil {
		panic(err) // a constant of this package is wrong
	}
	return n
}

// opening is the balance that an account is opened with: the same each time,
// enough for ten million payments of 1,000 won, and less than the largest
// payment. The number cannot be read from it.
func opening(n account.Number) account.Won {
	h := fnv.New32a()
	// A hash.Hash never returns an error.
	_, _ = h.Write(n.AppendDigits(nil))
	return openingBalance + account.Won(h.Sum32()%openingSpread)
}

// debit is money that left an account.
type debit struct {
	account account.Number
	amount  account.Won
}

// fate is what the bank knows of one transaction ID: about 175 bytes of memory
// for each, for as long as the bank runs.
type fate struct {
	// payment is the first debit that stands; where none does, the account is
	// that of the last payment that was decided, and zero if there was none.
	payment debit
	// again are the debits after the first that stand: a bank that does not
	// dedupe alone has any.
	again []debit

	used     bool // a payment was decided
	stands   bool // a debit was done and not canceled
	canceled bool // a debit was canceled
	fenced   bool // payments are refused
}

// standing is the sum of the debits that stand.
func (f fate) standing() (account.Won, error) {
	if !f.stands {
		return 0, nil
	}
	sum := f.payment.amount
	for _, d := range f.again {
		var err error
		if sum, err = sum.Add(d.amount); err != nil {
			return 0, err
		}
	}
	return sum, nil
}

// state is all that the bank decides by. It is made of a book's records and of
// nothing else.
type state struct {
	sequence int64
	balances map[account.Number]account.Won
	fates    map[tranid.ID]fate
	// What listings tell; nothing is decided by it.
	statements map[account.Number]*statement
	days       map[tranid.Date]*dayBook
}

func newState() *state {
	return &state{
		balances: make(map[account.Number]account.Won), fates: make(map[tranid.ID]fate),
		statements: make(map[account.Number]*statement), days: make(map[tranid.Date]*dayBook),
	}
}

// balance is the account's, and whether it is open; one that is not has what it
// would be opened with.
func (s *state) balance(n account.Number) (account.Won, bool) {
	if balance, open := s.balances[n]; open {
		return balance, true
	}
	return opening(n), false
}

// Set applies a setting.
func (s *state) Set(r Setting) error {
	if r.After != s.sequence {
		return fmt.Errorf("setting after entry %d stands after entry %d", r.After, s.sequence)
	}
	if r.Account.IsZero() || r.Account == nobody || r.Balance < 0 {
		return fmt.Errorf("setting after entry %d is of no account or negative", r.After)
	}
	why := causeSet
	if _, open := s.balances[r.Account]; !open {
		why = causeOpened
	}
	s.move(r.Account, r.Balance, why, r.At)
	return nil
}

// Enter applies an entry. An error means that the entry contradicts what was
// before it; nothing is changed then.
func (s *state) Enter(e Entry) error {
	if e.Sequence != s.sequence+1 {
		return fmt.Errorf("journal entry %d follows entry %d", e.Sequence, s.sequence)
	}
	if err := s.apply(e); err != nil {
		return fmt.Errorf("journal entry %d: %w", e.Sequence, err)
	}
	s.sequence = e.Sequence
	return nil
}

func (s *state) apply(e Entry) error {
	switch e.Effect {
	case EffectNone:
		s.applyNone(e)
		return nil
	case EffectDebit:
		return s.applyDebit(e)
	case EffectCancel:
		return s.applyCancel(e)
	case EffectFence:
		return s.applyFence(e)
	default:
		return fmt.Errorf("effect %s", e.Effect)
	}
}

func (s *state) applyNone(e Entry) {
	if e.MTI != telegram.PaymentRequestMTI || e.ResponseCode == "" {
		return
	}
	f := s.fates[e.TranID]
	f.used = true
	if !f.stands {
		f.payment = debit{account: e.Account}
	}
	s.fates[e.TranID] = f
}

func (s *state) applyDebit(e Entry) error {
	balance, open := s.balances[e.Account]
	f := s.fates[e.TranID]
	switch {
	case e.MTI != telegram.PaymentRequestMTI:
		return fmt.Errorf("debit by a %s", e.MTI)
	case !open:
		return fmt.Errorf("debit of an account that is not open")
	case e.Amount <= 0 || e.Amount > balance:
		return fmt.Errorf("debit of %d won from %d", e.Amount, balance)
	case f.fenced:
		return fmt.Errorf("debit behind the fence")
	}
	s.move(e.Account, balance-e.Amount, causeDebit, e.At)
	if line := s.bookOf(e.TranID); line != nil {
		if !f.stands { // the first of those that stand names the account
			*line = bookLine{number: line.number, account: e.Account}
		}
		line.amount += e.Amount
	}
	d := debit{account: e.Account, amount: e.Amount}
	if f.stands {
		f.again = append(f.again, d)
	} else {
		f.payment = d
	}
	f.used, f.stands = true, true
	s.fates[e.TranID] = f
	return nil
}

func (s *state) applyCancel(e Entry) error {
	f := s.fates[e.TranID]
	sum, err := f.standing()
	if err != nil {
		return err
	}
	if e.MTI != telegram.CancelRequestMTI || !f.stands || sum != e.Amount {
		return fmt.Errorf("cancel of %d won by a %s, where %d won stand", e.Amount, e.MTI, sum)
	}
	for _, d := range append([]debit{f.payment}, f.again...) {
		s.move(d.account, s.balances[d.account]+d.amount, causeCancel, e.At)
	}
	if line := s.bookOf(e.TranID); line != nil {
		line.canceled, line.amount = true, e.Amount
	}
	f.payment.amount, f.again = 0, nil
	f.stands, f.canceled = false, true
	s.fates[e.TranID] = f
	return nil
}

func (s *state) applyFence(e Entry) error {
	f := s.fates[e.TranID]
	if e.MTI != telegram.CancelRequestMTI || f.stands || f.canceled {
		return fmt.Errorf("fence by a %s of an ID that was debited", e.MTI)
	}
	f.fenced = true
	s.fates[e.TranID] = f
	return nil
}
