package telegram_test

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/frame"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

// appender is a telegram of any type.
type appender interface {
	AppendTo(dst []byte) ([]byte, error)
}

func checkRefused(t *testing.T, err, kind error, field string) {
	t.Helper()
	var refused *frame.FieldError
	if !errors.As(err, &refused) || !errors.Is(err, kind) {
		t.Fatalf("error is %v, want a FieldError that is %v", err, kind)
	}
	if refused.Field != field {
		t.Errorf("refused %s: %v, want %s", refused.Field, err, field)
	}
}

func TestAppendTo_RefusesBeforeAByteIsReturned(t *testing.T) {
	some := number(t, "123")
	korean := func(s string) frame.Text { return frame.Text{Value: s} }
	tests := map[string]struct {
		value appender
		field string
	}{
		"payment without account":     {telegram.PaymentRequest{TranID: id, Amount: 1}, "account"},
		"payment without ID":          {telegram.PaymentRequest{Account: some, Amount: 1}, "tran_id"},
		"payment with ID of 23":       {telegram.PaymentRequest{TranID: id + "0", Account: some}, "tran_id"},
		"payment with ID cut by NUL":  {telegram.PaymentRequest{TranID: "GWMNU\x00", Account: some}, "tran_id"},
		"payment below zero":          {telegram.PaymentRequest{TranID: id, Account: some, Amount: -1}, "amount"},
		"payment of 13 digits":        {telegram.PaymentRequest{TranID: id, Account: some, Amount: account.MaxPayment + 1}, "amount"},
		"payment of everything":       {telegram.PaymentRequest{TranID: id, Account: some, Amount: math.MaxInt64}, "amount"},
		"balance inquiry, no account": {telegram.BalanceRequest{TranID: id}, "account"},
		"balance below zero":          {telegram.BalanceAnswer{TranID: id, Balance: -1, ResponseCode: "0000"}, "balance"},
		"balance of 16 digits":        {telegram.BalanceAnswer{TranID: id, Balance: 1e15, ResponseCode: "0000"}, "balance"},
		"balance answer, 17 bytes":    {telegram.BalanceAnswer{TranID: id, ResponseCode: "0000", Message: korean("조회가완료되었다a")}, "message"},
		"no response code":            {telegram.PaymentAnswer{TranID: id}, "response_code"},
		"response code of letters":    {telegram.PaymentAnswer{TranID: id, ResponseCode: "00A1"}, "response_code"},
		"approval number of 12":       {telegram.PaymentAnswer{TranID: id, ResponseCode: "0000", ApprovalNo: 1e11}, "approval_no"},
		"approval number below zero":  {telegram.PaymentAnswer{TranID: id, ResponseCode: "0000", ApprovalNo: -1}, "approval_no"},
		"message of CP949":            {telegram.PaymentAnswer{TranID: id, ResponseCode: "0000", Message: korean("뷁")}, "message"},
		"message with NUL":            {telegram.PaymentAnswer{TranID: id, ResponseCode: "0000", Message: korean("a\x00")}, "message"},
		"processed of 3":              {telegram.StatusAnswer{TranID: id, Processed: "001", ResponseCode: "0000"}, "processed"},
		"cancel_result beyond ASCII":  {telegram.CancelAnswer{TranID: id, CancelResult: "é", ResponseCode: "0000"}, "cancel_result"},
		"status inquiry without ID":   {telegram.StatusRequest{}, "tran_id"},
		"net cancel with a space":     {telegram.CancelRequest{TranID: " x"}, "tran_id"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := append(make([]byte, 0, 256), "before"...)
			got, err := tt.value.AppendTo(before)
			checkRefused(t, err, frame.ErrEncode, tt.field)
			if string(got) != "before" {
				t.Errorf("returned %q, want dst as it was", got)
			}
		})
	}
}

// with is a copy of the frame with other bytes at an offset.
func with(b []byte, offset int, text string) []byte {
	out := bytes.Clone(b)
	copy(out[offset:], text)
	return out
}

// parser hides the type of a telegram, to put all of them into one table.
func parser[T message](parse func([]byte) (T, error)) func(*testing.T, []byte) error {
	return func(t *testing.T, b []byte) error {
		t.Helper()
		got, err := parse(b)
		var zero T
		if err != nil && got != zero {
			t.Errorf("returned %+v beside the error", got)
		}
		return err
	}
}

type sample struct {
	parts []part
	parse func(*testing.T, []byte) error
}

var samples = map[string]sample{
	"0200": {goldenBalanceRequest, parser(telegram.ParseBalanceRequest)},
	"0210": {goldenBalanceAnswer, parser(telegram.ParseBalanceAnswer)},
	"0100": {goldenPaymentRequest, parser(telegram.ParsePaymentRequest)},
	"0110": {goldenPaymentAnswer, parser(telegram.ParsePaymentAnswer)},
	"0400": {goldenStatusRequest, parser(telegram.ParseStatusRequest)},
	"0410": {goldenStatusAnswer, parser(telegram.ParseStatusAnswer)},
	"0420": {goldenCancelRequest, parser(telegram.ParseCancelRequest)},
	"0430": {goldenCancelAnswer, parser(telegram.ParseCancelAnswer)},
}

func TestParse_RefusesEveryOtherLengthAndType(t *testing.T) {
	for mti, s := range samples {
		t.Run(mti, func(t *testing.T) {
			whole := golden(t, s.parts)
			for n := range len(whole) {
				checkRefused(t, s.parse(t, whole[:n]), frame.ErrDecode, "frame")
			}
			checkRefused(t, s.parse(t, nil), frame.ErrDecode, "frame")
			checkRefused(t, s.parse(t, append(slices.Clone(whole), ' ')), frame.ErrDecode, "frame")
			for other := range samples {
				if other != mti {
					checkRefused(t, s.parse(t, with(whole, 0, other)), frame.ErrDecode, "mti")
				}
			}
			checkRefused(t, s.parse(t, append(whole[1:], ' ')), frame.ErrDecode, "mti")
		})
	}
}

func TestParse_RefusesGarbageInWhatMustBeRight(t *testing.T) {
	tests := map[string]struct {
		mti    string
		offset int
		text   string
		field  string
	}{
		"no tran_id":                   {"0110", 4, "                      ", "tran_id"},
		"tran_id behind a space":       {"0110", 4, " WMNU", "tran_id"},
		"tran_id with NUL":             {"0110", 8, "\x00", "tran_id"},
		"tran_id in Korean":            {"0110", 8, "\xb0\xa1", "tran_id"},
		"account with a sign":          {"0100", 26, "+0000000000123", "account"},
		"account of spaces":            {"0200", 26, "              ", "account"},
		"account padded with spaces":   {"0200", 26, "           123", "account"},
		"amount with a minus":          {"0100", 40, "-00000000100", "amount"},
		"amount with a letter":         {"0100", 51, "x", "amount"},
		"another tx_code":              {"0200", 40, "IN02", "tx_code"},
		"tx_code of the net cancel":    {"0410", 26, "NC01", "tx_code"},
		"tx_code of the inquiry":       {"0430", 26, "ST01", "tx_code"},
		"tx_code in small letters":     {"0400", 26, "st01", "tx_code"},
		"no tx_code":                   {"0420", 26, "    ", "tx_code"},
		"response code of letters":     {"0110", 26, "E001", "response_code"},
		"response code of spaces":      {"0110", 26, "    ", "response_code"},
		"response code of 3 digits":    {"0210", 41, "000 ", "response_code"},
		"response code with a sign":    {"0410", 32, "-001", "response_code"},
		"response code in NULs":        {"0430", 32, "\x00\x00\x00\x00", "response_code"},
		"balance with a minus":         {"0210", 26, "-00000000000100", "balance"},
		"balance with a plus":          {"0210", 26, "+00000000000100", "balance"},
		"balance of spaces":            {"0210", 26, "               ", "balance"},
		"balance with letters":         {"0210", 26, "00000000ABCDEFG", "balance"},
		"balance in full-width digits": {"0210", 27, "\xa3\xb1\xa3\xb2\xa3\xb3\xa3\xb4\xa3\xb5\xa3\xb6\xa3\xb7", "balance"},
		"approval number with letters": {"0110", 50, "A0000000001", "approval_no"},
		"processed with NUL":           {"0410", 30, "0\x00", "processed"},
		"cancel_result in Korean":      {"0430", 30, "\xb0\xa1", "cancel_result"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := samples[tt.mti]
			err := s.parse(t, with(golden(t, s.parts), tt.offset, tt.text))
			checkRefused(t, err, frame.ErrDecode, tt.field)
		})
	}
}

func TestParse_ForgivesBesideADeclineWhatOnlyADoneRequestFills(t *testing.T) {
	payment, err := telegram.ParsePaymentAnswer(with(golden(t, goldenPaymentDecline), 50, "garbage\x00\x01\x02\x03"))
	want := telegram.PaymentAnswer{TranID: id, ResponseCode: "0051", Message: frame.Text{Value: "잔액부족"}}
	if err != nil || payment != want {
		t.Errorf("payment: %+v, %v, want %+v", payment, err, want)
	}
	balance, err := telegram.ParseBalanceAnswer(with(golden(t, goldenBalanceAnswer), 26, "-00000000000100"+"0001"))
	if err != nil || balance.ResponseCode != "0001" || balance.Balance != 0 {
		t.Errorf("balance: %+v, %v", balance, err)
	}
	status, err := telegram.ParseStatusAnswer(with(golden(t, goldenStatusAnswer), 30, "\x00\x00"+"0096"))
	if err != nil || status.ResponseCode != "0096" || status.Processed != "" {
		t.Errorf("status: %+v, %v", status, err)
	}
	cancel, err := telegram.ParseCancelAnswer(with(golden(t, goldenCancelAnswer), 30, "\xff\xff"+"0096"))
	if err != nil || cancel.ResponseCode != "0096" || cancel.CancelResult != "" {
		t.Errorf("cancel: %+v, %v", cancel, err)
	}
}

func TestParse_LeavesTheFlagsToTheCaller(t *testing.T) {
	for in, want := range map[string]string{"01": "01", "99": "99", "??": "??", "1 ": "1", "  ": "", " 1": " 1"} {
		status, err := telegram.ParseStatusAnswer(with(golden(t, goldenStatusAnswer), 30, in))
		if err != nil || status.Processed != want {
			t.Errorf("processed %q is read as %q, %v", in, status.Processed, err)
		}
		cancel, err := telegram.ParseCancelAnswer(with(golden(t, goldenCancelAnswer), 30, in))
		if err != nil || cancel.CancelResult != want {
			t.Errorf("cancel_result %q is read as %q, %v", in, cancel.CancelResult, err)
		}
	}
}

func TestParse_IgnoresWhatAFillerHolds(t *testing.T) {
	for mti, offset := range map[string]int{"0200": 44, "0400": 30, "0410": 56, "0420": 30, "0430": 56} {
		s := samples[mti]
		if err := s.parse(t, with(golden(t, s.parts), offset, "\x00\xffx1 ")); err != nil {
			t.Errorf("%s: %v", mti, err)
		}
	}
}

func TestParse_DamagedTextNeverChangesTheOutcome(t *testing.T) {
	texts := map[string]string{
		"CP949":         "\x94\xee\x94\xee\x94\xee",
		"NUL":           "\x00\x00\x00\x00",
		"substitute":    "\x1a",
		"escape":        "\x1b[2J",
		"C1":            "\x80\x9f",
		"0xFF":          "\xff\xff",
		"cut character": "\xb0   ",
		"line feed":     "\n{}",
	}
	for name, text := range texts {
		for _, code := range []string{"0000", "0051"} {
			t.Run(name+" "+code, func(t *testing.T) {
				b := with(with(golden(t, goldenPaymentAnswer), 26, code), 30, text)
				got, err := telegram.ParsePaymentAnswer(b)
				if err != nil || got.ResponseCode != code || got.ApprovalNo != 778899 || got.TranID != id {
					t.Errorf("got %+v, %v", got, err)
				}
				if !got.Message.Damaged {
					t.Errorf("message %q is not flagged", got.Message.Value)
				}
			})
		}
	}
}

func TestParse_CutsACharacterAtTheEndOfTheField(t *testing.T) {
	got, err := telegram.ParsePaymentAnswer(with(golden(t, goldenPaymentAnswer), 49, "\xb0"))
	if err != nil || got.ResponseCode != "0000" || got.ApprovalNo != 778899 {
		t.Fatalf("got %+v, %v", got, err)
	}
	if !got.Message.Damaged || got.Message.Value != "정상처리OK         �" {
		t.Errorf("message %+v", got.Message)
	}
}

func TestParse_MasksAnAccountInTheText(t *testing.T) {
	got, err := telegram.ParsePaymentAnswer(with(golden(t, goldenPaymentAnswer), 30, "no 11012345678901   "))
	if err != nil || got.Message.Value != "no **************" {
		t.Errorf("got %+v, %v", got, err)
	}
}
