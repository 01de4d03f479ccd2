package simulator

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gwanmun/gwanmun/pkg/account"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

func execute(t testing.TB, bank *Bank, q request) decision {
	t.Helper()
	d, err := bank.execute(q)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func isError(err, want error) bool {
	if want == nil {
		return err == nil
	}
	return errors.Is(err, want)
}

func diffStates(was, is *state) string {
	return cmp.Diff(was, is,
		cmp.AllowUnexported(state{}, fate{}, debit{}, statement{}, movement{}, dayBook{}, bookLine{}),
		cmp.Comparer(func(a, b account.Number) bool { return a == b }),
		cmp.Comparer(func(a, b tranid.Date) bool { return a == b }))
}

func TestState_RefusesAJournalThatContradictsItself(t *testing.T) {
	open := Setting{Account: alice, Balance: 5000}
	paid := Entry{
		Sequence: 1, MTI: telegram.PaymentRequestMTI, TranID: id(1), Account: alice, Amount: 1000,
		Effect: EffectDebit, ResponseCode: codeDone,
	}
	next := func(e Entry) Entry { e.Sequence = 2; return e }
	cancel := Entry{MTI: telegram.CancelRequestMTI, TranID: id(1), Amount: 1000, Effect: EffectCancel}
	fence := Entry{MTI: telegram.CancelRequestMTI, TranID: id(1), Effect: EffectFence}
	with := func(e Entry, change func(*Entry)) Entry { change(&e); return e }

	tests := []struct {
		name string
		bad  Entry
	}{
		{"a gap", with(paid, func(e *Entry) { e.Sequence = 3 })},
		{"a repetition", paid},
		{"an unknown effect", next(with(paid, func(e *Entry) { e.Effect = 9 }))},
		{"no effect", next(with(paid, func(e *Entry) { e.Effect = 0 }))},
		{"a debit of more than there is", next(with(paid, func(e *Entry) { e.Amount = 4001 }))},
		{"a debit of nothing", next(with(paid, func(e *Entry) { e.Amount = 0 }))},
		{"a debit of an account that was not opened", next(with(paid, func(e *Entry) { e.Account = bob }))},
		{"a debit by an inquiry", next(with(paid, func(e *Entry) { e.MTI = telegram.StatusRequestMTI }))},
		{"a cancel of another amount", next(with(cancel, func(e *Entry) { e.Amount = 999 }))},
		{"a cancel of no debit", next(with(cancel, func(e *Entry) { e.TranID = id(2) }))},
		{"a cancel by a payment", next(with(cancel, func(e *Entry) { e.MTI = telegram.PaymentRequestMTI }))},
		{"a fence over a debit that stands", next(fence)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newState()
			if err := errors.Join(s.Set(open), s.Enter(paid)); err != nil {
				t.Fatal(err)
			}
			before := newState()
			if err := errors.Join(before.Set(open), before.Enter(paid)); err != nil {
				t.Fatal(err)
			}
			if err := s.Enter(tt.bad); err == nil {
				t.Error("the entry was applied")
			}
			if diff := diffStates(before, s); diff != "" {
				t.Errorf("the refused entry changed the state (-before +after):\n%s", diff)
			}
		})
	}
	t.Run("a debit behind the fence", func(t *testing.T) {
		s := newState()
		fence := with(fence, func(e *Entry) { e.Sequence = 1 })
		if err := errors.Join(s.Set(open), s.Enter(fence)); err != nil {
			t.Fatal(err)
		}
		if err := s.Enter(next(paid)); err == nil {
			t.Error("the entry was applied")
		}
	})
	t.Run("a setting out of its place", func(t *testing.T) {
		if err := newState().Set(Setting{Account: alice, After: 1}); err == nil {
			t.Error("the setting was applied")
		}
	})
}
