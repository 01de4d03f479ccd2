package simulator

import (
	"bytes"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/account"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

// script is a list of frames under one ID and what the bank says to each:
// `pay AMOUNT` is debited from alice, `pay0` from nobody, `ask` and `cancel` are
// 0400 and 0420. The answer is the code, or the flag of a 0410 or 0430.
type script []struct{ frame, want string }

func TestBank_Rules(t *testing.T) {
	noFences, noDedupe := Rules{NoFences: true}, Rules{NoDedupe: true}
	tests := []struct {
		name    string
		rules   Rules
		script  script
		journal []string
		debited account.Won // what alice is short of in the end
	}{
		{
			name: "a debit stands", script: script{{"pay", "0000"}, {"ask", "01"}},
			journal: []string{"0100 DEBIT 0000", "0400 NONE 0000"}, debited: 1000,
		},
		{
			name:    "the all-zero account does not exist, and uses the ID",
			script:  script{{"pay0", "0001"}, {"ask", "02"}, {"pay", "0094"}},
			journal: []string{"0100 NONE 0001", "0400 NONE 0000", "0100 NONE 0094"},
		},
		{
			name:    "a declined payment was not done, and uses the ID",
			script:  script{{"pay max", "0051"}, {"ask", "02"}, {"pay", "0094"}},
			journal: []string{"0100 NONE 0051", "0400 NONE 0000", "0100 NONE 0094"},
		},
		{
			name: "an amount of nothing is declined", script: script{{"pay nothing", "0013"}},
			journal: []string{"0100 NONE 0013"},
		},
		{
			name:    "a used ID is refused",
			script:  script{{"pay", "0000"}, {"pay", "0094"}, {"pay0", "0094"}, {"ask", "01"}},
			journal: []string{"0100 DEBIT 0000", "0100 NONE 0094", "0100 NONE 0094", "0400 NONE 0000"}, debited: 1000,
		},
		{
			name:   "a cancel undoes the debit, and says so again",
			script: script{{"pay", "0000"}, {"cancel", "01"}, {"ask", "03"}, {"cancel", "01"}, {"pay", "0094"}},
			journal: []string{
				"0100 DEBIT 0000", "0420 CANCEL 0000", "0400 NONE 0000", "0420 NONE 0000", "0100 NONE 0094",
			},
		},
		{
			name:   "a cancel of nothing fences for ever",
			script: script{{"ask", "02"}, {"cancel", "02"}, {"ask", "03"}, {"pay", "0096"}, {"pay", "0096"}, {"cancel", "02"}},
			journal: []string{
				"0400 NONE 0000", "0420 FENCE 0000", "0400 NONE 0000", "0100 NONE 0096", "0100 NONE 0096", "0420 NONE 0000",
			},
		},
		{
			name:    "a cancel of a declined payment fences",
			script:  script{{"pay max", "0051"}, {"cancel", "02"}, {"pay", "0096"}},
			journal: []string{"0100 NONE 0051", "0420 FENCE 0000", "0100 NONE 0096"},
		},
		{
			name: "without fences a cancel of nothing leaves no trace", rules: noFences,
			script:  script{{"cancel", "02"}, {"ask", "02"}, {"pay", "0000"}, {"cancel", "01"}},
			journal: []string{"0420 NONE 0000", "0400 NONE 0000", "0100 DEBIT 0000", "0420 CANCEL 0000"},
		},
		{
			name: "without dedupe a used ID debits again, and one cancel undoes it all", rules: noDedupe,
			script: script{{"pay", "0000"}, {"pay", "0000"}, {"pay", "0000"}, {"cancel", "01"}, {"ask", "03"}},
			journal: []string{
				"0100 DEBIT 0000", "0100 DEBIT 0000", "0100 DEBIT 0000", "0420 CANCEL 0000", "0400 NONE 0000",
			},
		},
		{
			name: "without dedupe a canceled ID debits again", rules: noDedupe,
			script:  script{{"pay", "0000"}, {"cancel", "01"}, {"pay", "0000"}, {"ask", "01"}},
			journal: []string{"0100 DEBIT 0000", "0420 CANCEL 0000", "0100 DEBIT 0000", "0400 NONE 0000"}, debited: 1000,
		},
		{
			name: "without dedupe the fence still holds", rules: noDedupe,
			script:  script{{"cancel", "02"}, {"pay", "0096"}},
			journal: []string{"0420 FENCE 0000", "0100 NONE 0096"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bank, book := newBank(t, tt.rules)
			playScript(t, bank, tt.script)
			wantJournal(t, book, tt.journal...)
			got, err := bank.Account(alice)
			if err != nil {
				t.Fatal(err)
			}
			if want := opening(alice) - tt.debited; got.Balance != want {
				t.Errorf("balance is %d, want %d", got.Balance, want)
			}
			wantSameAfterReplay(t, bank, book)
		})
	}
}

func playScript(t *testing.T, bank *Bank, s script) {
	t.Helper()
	for i, step := range s {
		q := request{mti: telegram.PaymentRequestMTI, tranID: id(1), account: alice, amount: 1000}
		switch step.frame {
		case "pay":
		case "pay0":
			q.account = nobody
		case "pay max":
			q.amount = account.MaxPayment
		case "pay nothing":
			q.amount = 0
		case "ask":
			q = request{mti: telegram.StatusRequestMTI, tranID: id(1)}
		case "cancel":
			q = request{mti: telegram.CancelRequestMTI, tranID: id(1)}
		default:
			t.Fatalf("no frame %q", step.frame)
		}
		d, err := bank.execute(q)
		if err != nil {
			t.Fatalf("%d %s: %v", i, step.frame, err)
		}
		got := d.code
		if d.flag != "" && d.code == codeDone {
			got = d.flag
		}
		if got != step.want {
			t.Errorf("%d %s: got %s, want %s", i, step.frame, got, step.want)
		}
	}
}

// wantSameAfterReplay fails unless the book makes the very state that the bank
// has.
func wantSameAfterReplay(t *testing.T, bank *Bank, book Book) {
	t.Helper()
	replayed := openBank(t, book, bank.rules)
	if diff := diffStates(bank.state, replayed.state); diff != "" {
		t.Errorf("replayed state (-was +is):\n%s", diff)
	}
}

func TestBank_CancelUndoesDebitsOnSeveralAccounts(t *testing.T) {
	bank, book := newBank(t, Rules{NoDedupe: true})
	for _, d := range []debit{{alice, 1000}, {bob, 200}, {alice, 30}} {
		execute(t, bank, request{mti: telegram.PaymentRequestMTI, tranID: id(1), account: d.account, amount: d.amount})
	}
	execute(t, bank, request{mti: telegram.CancelRequestMTI, tranID: id(1)})

	entries := journal(t, book)
	if last := entries[len(entries)-1]; last.Amount != 1230 || last.Account != alice {
		t.Errorf("the cancel restored %d won, account %s; want 1230 and the first debit's", last.Amount, last.Account)
	}
	for _, n := range []account.Number{alice, bob} {
		if a, err := bank.Account(n); err != nil || a.Balance != opening(n) {
			t.Errorf("%s has %d won (%v), want %d", n, a.Balance, err, opening(n))
		}
	}
	wantSameAfterReplay(t, bank, book)
}

func TestBank_CancelThatNoBalanceCouldHoldIsNoEvidence(t *testing.T) {
	bank, _ := newBank(t, Rules{})
	execute(t, bank, request{mti: telegram.PaymentRequestMTI, tranID: id(1), account: alice, amount: 1000})
	bank.state.balances[alice] = 1<<63 - 500

	d := execute(t, bank, request{mti: telegram.CancelRequestMTI, tranID: id(1)})
	if d.code != codeUnable || d.effect != EffectNone {
		t.Errorf("got %s and effect %s, want %s and nothing done", d.code, d.effect, codeUnable)
	}
}

func TestBank_BalanceThatFitsNoFieldIsDeclined(t *testing.T) {
	bank, _ := newBank(t, Rules{})
	execute(t, bank, request{mti: telegram.PaymentRequestMTI, tranID: id(1), account: alice, amount: 1000})
	if _, err := bank.PutAccount(alice, MaxBalance); err != nil {
		t.Fatal(err)
	}
	execute(t, bank, request{mti: telegram.CancelRequestMTI, tranID: id(1)})

	if d := execute(t, bank, request{mti: telegram.BalanceRequestMTI, tranID: id(2), account: alice}); d.code != codeUnable {
		t.Errorf("got %s, want %s", d.code, codeUnable)
	}
}

func TestBank_ApprovalNumbersHaveElevenDigitsAndAscend(t *testing.T) {
	bank, book := newBank(t, Rules{})
	var last int64
	for n := range int64(3) {
		if n == 2 {
			bank = openBank(t, book, Rules{}) // restarted
		}
		d := execute(t, bank, request{mti: telegram.PaymentRequestMTI, tranID: id(n), account: alice, amount: 1})
		if d.approval <= last || d.approval < 10_000_000_000 || d.approval > 99_999_999_999 {
			t.Errorf("approval number %d after %d", d.approval, last)
		}
		last = d.approval
	}
}

func TestOpening_IsTheSameEachTimeAndLessThanTheLargestPayment(t *testing.T) {
	for _, digits := range []string{"1", "99999999999999", "12345678901234"} {
		n := mustAccount(digits)
		balance := opening(n)
		if balance != opening(mustAccount(digits)) || balance < openingBalance || balance >= account.MaxPayment {
			t.Errorf("%s is opened with %d", n, balance)
		}
	}
	if opening(alice) == opening(bob) {
		t.Error("two accounts are opened with the same balance")
	}
}

func TestBank_AccountDoesNotOpen(t *testing.T) {
	bank, book := newBank(t, Rules{})
	got, err := bank.Account(alice)
	if err != nil || !got.Exists || got.Balance != opening(alice) {
		t.Errorf("got %+v and %v", got, err)
	}
	if none, err := bank.Account(nobody); err != nil || none.Exists || none.Balance != 0 {
		t.Errorf("the all-zero account: got %+v and %v", none, err)
	}
	if len(book.settings) != 0 {
		t.Errorf("an account was opened: %v", book.settings)
	}
}

func TestBank_PutAccountRefusesWhatNoAccountCanHave(t *testing.T) {
	bank, book := newBank(t, Rules{})
	tests := []struct {
		n       account.Number
		balance account.Won
		want    error
	}{
		{nobody, 1, ErrNoAccount},
		{account.Number{}, 1, ErrNoAccount},
		{alice, -1, ErrBalance},
		{alice, MaxBalance + 1, ErrBalance},
		{alice, MaxBalance, nil},
		{alice, 0, nil},
	}
	for _, tt := range tests {
		if _, err := bank.PutAccount(tt.n, tt.balance); !isError(err, tt.want) {
			t.Errorf("%s, %d won: got %v, want %v", tt.n, tt.balance, err, tt.want)
		}
	}
	if d := execute(t, bank, request{mti: telegram.PaymentRequestMTI, tranID: id(1), account: alice, amount: 1}); d.code != codeFunds {
		t.Errorf("an account set to 0 paid: %s", d.code)
	}
	wantSameAfterReplay(t, bank, book)
}

func TestAnswer_WordsFitEveryAnswerInStrictEUCKR(t *testing.T) {
	codes := []string{codeDone, codeNoAccount, codeAmount, codeFunds, codeUsed, codeFenced, codeUnable, "1234"}
	flags := []string{"01", "02", "03"}
	mtis := []string{
		telegram.PaymentRequestMTI, telegram.BalanceRequestMTI, telegram.StatusRequestMTI, telegram.CancelRequestMTI,
	}
	for _, mti := range mtis {
		for _, code := range codes {
			for _, flag := range flags {
				b, err := answer(nil, request{mti: mti, tranID: id(1)}, decision{code: code, flag: flag})
				if err != nil || len(b) != telegram.AnswerLength {
					t.Errorf("answer to %s, code %s, flag %s: %d bytes, %v", mti, code, flag, len(b), err)
				}
				if bytes.IndexFunc(b, func(r rune) bool { return r > '~' }) < 0 {
					t.Errorf("answer to %s, code %s says nothing in Korean: %q", mti, code, b)
				}
			}
		}
	}
}
