package simulator

import (
	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/frame"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Rules are the bank's switches. The zero Rules are those of a bank that can be
// trusted: it fences and dedupes.
type Rules struct {
	// NoFences makes a net cancel of an unknown debit leave no trace.
	NoFences bool
	// NoDedupe makes a payment debit again under an ID that was used.
	NoDedupe bool
}

// The response codes that the bank gives.
const (
	codeDone      = frame.Done
	codeNoAccount = "0001"
	codeAmount    = "0013"
	codeFunds     = "0051"
	codeUsed      = "0094"
	codeFenced    = "0096"
	codeUnable    = "0099" // a balance that no field could carry
)

// The flags of 0410 (processed) and 0430 (cancel_result).
const (
	processedStands   = "01"
	processedNot      = "02"
	processedCanceled = "03"

	cancelDone = "01"
	cancelNone = "02"
)

// request is a frame of any of the four types.
type request struct {
	mti        string
	tranID     tranid.ID
	account    account.Number // 0100, 0200
	amount     account.Won    // 0100
	connection int64

	// refusal is the code with which a payment or a balance inquiry is declined
	// that the bank would have done; empty for none.
	refusal string
	// instead is the code with which a frame of any type is declined, undone and
	// unjudged; empty for none.
	instead string
}

// decision is what the bank says of a request.
type decision struct {
	code     string
	balance  account.Won // 0210
	flag     string      // 0410, 0430
	approval int64       // 0110

	// What goes into the journal.
	effect  Effect
	account account.Number
	amount  account.Won
	opens   bool
}

// decide applies the rules to one request. It changes nothing. What no rule is
// for is not done.
func (r Rules) decide(s *state, q request) decision {
	if q.instead != "" {
		return decline(s, q)
	}
	switch q.mti {
	case telegram.PaymentRequestMTI:
		return r.decidePayment(s, q)
	case telegram.BalanceRequestMTI:
		return decideBalance(s, q)
	case telegram.StatusRequestMTI:
		return decideStatus(s, q)
	case telegram.CancelRequestMTI:
		return r.decideCancel(s, q)
	default:
		return decision{code: codeUnable, effect: EffectNone}
	}
}

// decline says the code that was ordered, and nothing else.
func decline(s *state, q request) decision {
	d := decision{code: q.instead, effect: EffectNone, account: q.account, amount: q.amount}
	if d.account.IsZero() {
		d.account = s.fates[q.tranID].payment.account
	}
	return d
}

func (r Rules) decidePayment(s *state, q request) decision {
	f := s.fates[q.tranID]
	d := decision{effect: EffectNone, account: q.account, amount: q.amount}
	switch {
	case f.fenced:
		d.code = codeFenced
		return d
	case f.used && !r.NoDedupe:
		d.code = codeUsed
		return d
	case q.account == nobody:
		d.code = codeNoAccount
		return d
	}
	balance, open := s.balance(q.account)
	d.opens = !open
	switch {
	case q.amount <= 0:
		d.code = codeAmount
	case q.refusal != "":
		d.code = q.refusal
	case q.amount > balance:
		d.code = codeFunds
	default:
		d.code, d.effect = codeDone, EffectDebit
		d.approval = approval(s.sequence + 1)
	}
	return d
}

// approval is the approval number of the debit that a journal entry is about:
// 11 digits, ascending, and the same after a restart.
func approval(sequence int64) int64 { return 10_000_000_000 + sequence }

func decideBalance(s *state, q request) decision {
	d := decision{effect: EffectNone, account: q.account}
	if q.account == nobody {
		d.code = codeNoAccount
		return d
	}
	balance, open := s.balance(q.account)
	d.opens = !open
	switch {
	case q.refusal != "":
		d.code = q.refusal
	case balance > MaxBalance:
		d.code = codeUnable
	default:
		d.code, d.balance = codeDone, balance
	}
	return d
}

func decideStatus(s *state, q request) decision {
	f := s.fates[q.tranID]
	d := decision{code: codeDone, effect: EffectNone, account: f.payment.account}
	switch {
	case f.stands:
		d.flag = processedStands
	case f.canceled || f.fenced:
		d.flag = processedCanceled
	default:
		d.flag = processedNot
	}
	return d
}

func (r Rules) decideCancel(s *state, q request) decision {
	f := s.fates[q.tranID]
	d := decision{code: codeDone, effect: EffectNone, account: f.payment.account}
	switch {
	case f.stands:
		sum, err := restorable(s, f)
		if err != nil {
			d.code, d.flag = codeUnable, cancelNone // no evidence beside this code
			return d
		}
		d.flag, d.effect, d.amount = cancelDone, EffectCancel, sum
	case f.canceled:
		d.flag = cancelDone
	case f.fenced || r.NoFences:
		d.flag = cancelNone
	default:
		d.flag, d.effect = cancelNone, EffectFence
	}
	return d
}

// restorable is the sum of the debits that stand, or account.ErrOverflow if an
// account could not hold what it would get back.
func restorable(s *state, f fate) (account.Won, error) {
	sum, err := f.standing()
	if err != nil {
		return 0, err
	}
	// No single account gets back more than the sum of all debits.
	for _, d := range append([]debit{f.payment}, f.again...) {
		if _, err := s.balances[d.account].Add(sum); err != nil {
			return 0, err
		}
	}
	return sum, nil
}
