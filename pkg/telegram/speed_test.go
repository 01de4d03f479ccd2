package telegram_test

import (
	"testing"

	"github.com/gwanmun/gwanmun/pkg/frame"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

func benchmarkAppend[T message](b *testing.B, value T) {
	dst := make([]byte, 0, telegram.AnswerLength)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := value.AppendTo(dst); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkParse[T message](b *testing.B, parts []part, parse func([]byte) (T, error)) {
	in := golden(b, parts)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parse(in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendTo(b *testing.B) {
	b.Run("PaymentRequest", func(b *testing.B) {
		benchmarkAppend(b, telegram.PaymentRequest{TranID: id, Account: number(b, "123"), Amount: 49_900})
	})
	b.Run("StatusRequest", func(b *testing.B) { benchmarkAppend(b, telegram.StatusRequest{TranID: id}) })
	b.Run("PaymentAnswer", func(b *testing.B) {
		benchmarkAppend(b, telegram.PaymentAnswer{TranID: id, ResponseCode: "0000", Message: frame.Text{Value: "정상처리"}})
	})
	b.Run("PaymentAnswer/ASCII", func(b *testing.B) {
		benchmarkAppend(b, telegram.PaymentAnswer{TranID: id, ResponseCode: "0000", Message: frame.Text{Value: "OK"}})
	})
}

func BenchmarkParse(b *testing.B) {
	b.Run("PaymentRequest", func(b *testing.B) { benchmarkParse(b, goldenPaymentRequest, telegram.ParsePaymentRequest) })
	b.Run("PaymentAnswer", func(b *testing.B) { benchmarkParse(b, goldenPaymentAnswer, telegram.ParsePaymentAnswer) })
	b.Run("BalanceAnswer", func(b *testing.B) { benchmarkParse(b, goldenBalanceAnswer, telegram.ParseBalanceAnswer) })
	b.Run("StatusAnswer", func(b *testing.B) { benchmarkParse(b, goldenStatusAnswer, telegram.ParseStatusAnswer) })
	b.Run("CancelAnswer", func(b *testing.B) { benchmarkParse(b, goldenCancelAnswer, telegram.ParseCancelAnswer) })
}

func TestAppendTo_DoesNotAllocate(t *testing.T) {
	payment := telegram.PaymentRequest{TranID: id, Account: number(t, "123"), Amount: 49_900}
	answer := telegram.PaymentAnswer{TranID: id, ResponseCode: "0051", Message: frame.Text{Value: "no funds"}}
	dst := make([]byte, 0, telegram.RequestLength+telegram.AnswerLength)
	allocations := testing.AllocsPerRun(100, func() {
		b, _ := payment.AppendTo(dst)
		_, _ = answer.AppendTo(b)
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}
