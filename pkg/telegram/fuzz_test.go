package telegram_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gwanmun/gwanmun/pkg/frame"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

// fuzz checks a parser on any bytes: it returns a value or an error, and what it
// read can be written and is read again as the same, unless the text is damaged.
func fuzz[T message](f *testing.F, parse func([]byte) (T, error), text func(T) frame.Text) {
	f.Add([]byte{})
	for _, s := range samples {
		f.Add(golden(f, s.parts))
	}
	f.Add(golden(f, goldenPaymentDecline))
	f.Fuzz(func(t *testing.T, b []byte) {
		checkMask(t, b)
		value, err := parse(b)
		if err != nil {
			var zero T
			if !errors.Is(err, frame.ErrDecode) || value != zero {
				t.Fatalf("refused with %+v, %v", value, err)
			}
			return
		}
		again, err := value.AppendTo(nil)
		if err != nil {
			if text(value).Damaged && errors.Is(err, frame.ErrEncode) {
				return
			}
			t.Fatalf("%+v cannot be written: %v", value, err)
		}
		if len(again) != len(b) {
			t.Fatalf("%+v is written in %d bytes", value, len(again))
		}
		if second, err := parse(again); err != nil || second != value {
			t.Fatalf("%+v became %+v, %v", value, second, err)
		}
	})
}

func checkMask(t *testing.T, b []byte) {
	t.Helper()
	before := bytes.Clone(b)
	shown := telegram.Mask(b)
	if !bytes.Equal(b, before) || len(shown) != len(b) {
		t.Fatalf("masking changed %q, to %q", b, shown)
	}
	if mti := telegram.MTI(b); mti != "" && string(shown[:4]) != mti {
		t.Fatalf("masking hid the type of %q", b)
	}
}

func noText[T any](T) frame.Text { return frame.Text{} }

func FuzzParseBalanceRequest(f *testing.F) {
	fuzz(f, telegram.ParseBalanceRequest, noText[telegram.BalanceRequest])
}

func FuzzParseBalanceAnswer(f *testing.F) {
	fuzz(f, telegram.ParseBalanceAnswer, func(m telegram.BalanceAnswer) frame.Text { return m.Message })
}

func FuzzParsePaymentRequest(f *testing.F) {
	fuzz(f, telegram.ParsePaymentRequest, noText[telegram.PaymentRequest])
}

func FuzzParsePaymentAnswer(f *testing.F) {
	fuzz(f, telegram.ParsePaymentAnswer, func(m telegram.PaymentAnswer) frame.Text { return m.Message })
}

func FuzzParseStatusRequest(f *testing.F) {
	fuzz(f, telegram.ParseStatusRequest, noText[telegram.StatusRequest])
}

func FuzzParseStatusAnswer(f *testing.F) {
	fuzz(f, telegram.ParseStatusAnswer, func(m telegram.StatusAnswer) frame.Text { return m.Message })
}

func FuzzParseCancelRequest(f *testing.F) {
	fuzz(f, telegram.ParseCancelRequest, noText[telegram.CancelRequest])
}

func FuzzParseCancelAnswer(f *testing.F) {
	fuzz(f, telegram.ParseCancelAnswer, func(m telegram.CancelAnswer) frame.Text { return m.Message })
}

// fuzzListing is fuzz for telegrams that cannot be compared by ==. What a
// decline's records hold is not read, and text that is damaged not written.
func fuzzListing[T appender](f *testing.F, parse func([]byte) (T, error)) {
	f.Add([]byte{})
	for _, parts := range [][]part{
		goldenHistoryRequest, goldenHistoryAnswer, goldenHistoryDecline, goldenBookRequest, goldenBookAnswer,
	} {
		f.Add(golden(f, parts))
	}
	var zero T
	f.Fuzz(func(t *testing.T, b []byte) {
		checkMask(t, b)
		value, err := parse(b)
		if err != nil {
			if !errors.Is(err, frame.ErrDecode) || !cmp.Equal(value, zero, exact) {
				t.Fatalf("refused with %+v, %v", value, err)
			}
			return
		}
		again, err := value.AppendTo(nil)
		if err != nil {
			if errors.Is(err, frame.ErrEncode) && damaged(value) {
				return
			}
			t.Fatalf("%+v cannot be written: %v", value, err)
		}
		if len(again) > len(b) {
			t.Fatalf("%+v is written in %d bytes", value, len(again))
		}
		if second, err := parse(again); err != nil || !cmp.Equal(second, value, exact) {
			t.Fatalf("%+v became %+v, %v", value, second, err)
		}
	})
}

func damaged(value any) bool {
	h, ok := value.(telegram.HistoryAnswer)
	return ok && slices.ContainsFunc(h.Records, func(r telegram.HistoryRecord) bool {
		return r.Type.Damaged || r.Summary.Damaged
	})
}

func FuzzParseHistoryRequest(f *testing.F) { fuzzListing(f, telegram.ParseHistoryRequest) }

func FuzzParseHistoryAnswer(f *testing.F) { fuzzListing(f, telegram.ParseHistoryAnswer) }

func FuzzParseBookRequest(f *testing.F) { fuzzListing(f, telegram.ParseBookRequest) }

func FuzzParseBookAnswer(f *testing.F) { fuzzListing(f, telegram.ParseBookAnswer) }
