package telegram_test

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/frame"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

// part is bytes of a frame and what they say. Both were written by hand, from
// the bank's tables.
type part struct{ hex, meaning string }

const (
	// The same 22 bytes stand in every frame: GWMNU, 2026-11-12, 000000042.
	idHex = "47574d4e55 3230323631313132 303030303030303432"
	id    = "GWMNU20261112000000042"
)

var goldenBalanceRequest = []part{
	{"30323030", "mti 0200"},
	{idHex, "tran_id"},
	{"3131303132333435363738393031", "account 11012345678901"},
	{"494e3031", "tx_code IN01"},
	{"2020202020202020", "filler, 8 spaces"},
}

var goldenBalanceAnswer = []part{
	{"30323130", "mti 0210"},
	{idHex, "tran_id"},
	{"303030303030303031353030303030", "balance 1,500,000 in 15 digits"},
	{"30303030", "response_code 0000"},
	{"c1b6c8b8bfcfb7e1 2020202020202020", "message 조회완료 and 8 spaces"},
}

var goldenPaymentRequest = []part{
	{"30313030", "mti 0100"},
	{idHex, "tran_id"},
	{"3030303030303030303030313233", "account 123, padded to 14 digits"},
	{"303030303030303439393030", "amount 49,900 in 12 digits"},
}

var goldenPaymentAnswer = []part{
	{"30313130", "mti 0110"},
	{idHex, "tran_id"},
	{"30303030", "response_code 0000"},
	{"c1a4bbf3c3b3b8ae 4f4b 20202020202020202020", "message 정상처리OK and 10 spaces"},
	{"3030303030373738383939", "approval_no 778899 in 11 digits"},
}

var goldenPaymentDecline = []part{
	{"30313130", "mti 0110"},
	{idHex, "tran_id"},
	{"30303531", "response_code 0051"},
	{"c0dcbed7bacec1b7 202020202020202020202020", "message 잔액부족 and 12 spaces"},
	{"3030303030303030303030", "approval_no 0"},
}

var goldenStatusRequest = []part{
	{"30343030", "mti 0400"},
	{idHex, "tran_id of the original"},
	{"53543031", "tx_code ST01"},
	{"20202020202020202020202020202020202020202020", "filler, 22 spaces"},
}

var goldenStatusAnswer = []part{
	{"30343130", "mti 0410"},
	{idHex, "tran_id of the original"},
	{"53543031", "tx_code ST01"},
	{"3031", "processed 01"},
	{"30303030", "response_code 0000"},
	{"c1b6c8b8bfcfb7e1 202020202020202020202020", "message 조회완료 and 12 spaces"},
	{"2020202020", "filler, 5 spaces"},
}

var goldenCancelRequest = []part{
	{"30343230", "mti 0420"},
	{idHex, "tran_id of the original"},
	{"4e433031", "tx_code NC01"},
	{"20202020202020202020202020202020202020202020", "filler, 22 spaces"},
}

var goldenCancelAnswer = []part{
	{"30343330", "mti 0430"},
	{idHex, "tran_id of the original"},
	{"4e433031", "tx_code NC01"},
	{"3032", "cancel_result 02"},
	{"30303030", "response_code 0000"},
	{"c3ebbcd2bfcfb7e1 202020202020202020202020", "message 취소완료 and 12 spaces"},
	{"2020202020", "filler, 5 spaces"},
}

// golden is the bytes of the parts.
func golden(t testing.TB, parts []part) []byte {
	t.Helper()
	var out []byte
	for _, p := range parts {
		b, err := hex.DecodeString(strings.ReplaceAll(p.hex, " ", ""))
		if err != nil {
			t.Fatalf("%s: %v", p.meaning, err)
		}
		out = append(out, b...)
	}
	return out
}

func number(t testing.TB, digits string) account.Number {
	t.Helper()
	n, err := account.Parse(digits)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// message is what every telegram is.
type message interface {
	comparable
	AppendTo(dst []byte) ([]byte, error)
}

func checkGolden[T message](t *testing.T, parts []part, length int, value T, parse func([]byte) (T, error)) {
	t.Helper()
	want := golden(t, parts)
	if len(want) != length {
		t.Fatalf("the golden frame has %d bytes, want %d", len(want), length)
	}
	if got, err := value.AppendTo(nil); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%+v is written as\n%x, %v, want\n%x", value, got, err, want)
	}
	if got, err := parse(want); err != nil || got != value {
		t.Errorf("read %+v, %v, want %+v", got, err, value)
	}
}

func TestTelegrams_AreTheBankBytes(t *testing.T) {
	t.Run("0200", func(t *testing.T) {
		checkGolden(t, goldenBalanceRequest, 52,
			telegram.BalanceRequest{TranID: id, Account: number(t, "11012345678901")},
			telegram.ParseBalanceRequest)
	})
	t.Run("0210", func(t *testing.T) {
		checkGolden(t, goldenBalanceAnswer, 61,
			telegram.BalanceAnswer{TranID: id, Balance: 1_500_000, ResponseCode: "0000", Message: frame.Text{Value: "조회완료"}},
			telegram.ParseBalanceAnswer)
	})
	t.Run("0100", func(t *testing.T) {
		checkGolden(t, goldenPaymentRequest, 52,
			telegram.PaymentRequest{TranID: id, Account: number(t, "123"), Amount: 49_900},
			telegram.ParsePaymentRequest)
	})
	t.Run("0110", func(t *testing.T) {
		checkGolden(t, goldenPaymentAnswer, 61,
			telegram.PaymentAnswer{TranID: id, ResponseCode: "0000", Message: frame.Text{Value: "정상처리OK"}, ApprovalNo: 778899},
			telegram.ParsePaymentAnswer)
	})
	t.Run("0110 declined", func(t *testing.T) {
		checkGolden(t, goldenPaymentDecline, 61,
			telegram.PaymentAnswer{TranID: id, ResponseCode: "0051", Message: frame.Text{Value: "잔액부족"}},
			telegram.ParsePaymentAnswer)
	})
	t.Run("0400", func(t *testing.T) {
		checkGolden(t, goldenStatusRequest, 52, telegram.StatusRequest{TranID: id}, telegram.ParseStatusRequest)
	})
	t.Run("0410", func(t *testing.T) {
		checkGolden(t, goldenStatusAnswer, 61,
			telegram.StatusAnswer{TranID: id, Processed: "01", ResponseCode: "0000", Message: frame.Text{Value: "조회완료"}},
			telegram.ParseStatusAnswer)
	})
	t.Run("0420", func(t *testing.T) {
		checkGolden(t, goldenCancelRequest, 52, telegram.CancelRequest{TranID: id}, telegram.ParseCancelRequest)
	})
	t.Run("0430", func(t *testing.T) {
		checkGolden(t, goldenCancelAnswer, 61,
			telegram.CancelAnswer{TranID: id, CancelResult: "02", ResponseCode: "0000", Message: frame.Text{Value: "취소완료"}},
			telegram.ParseCancelAnswer)
	})
}

func TestConstants_AreTheBankNumbers(t *testing.T) {
	for got, want := range map[string]string{
		telegram.BalanceRequestMTI: "0200", telegram.BalanceAnswerMTI: "0210",
		telegram.PaymentRequestMTI: "0100", telegram.PaymentAnswerMTI: "0110",
		telegram.StatusRequestMTI: "0400", telegram.StatusAnswerMTI: "0410",
		telegram.CancelRequestMTI: "0420", telegram.CancelAnswerMTI: "0430",
	} {
		if got != want {
			t.Errorf("MTI %s, want %s", got, want)
		}
	}
	if telegram.RequestLength != 52 || telegram.AnswerLength != 61 {
		t.Errorf("lengths %d and %d", telegram.RequestLength, telegram.AnswerLength)
	}
}

func TestMTI_IsTheFirstFourDigits(t *testing.T) {
	for in, want := range map[string]string{
		"0100": "0100", "0110xyz": "0110", "9999": "9999",
		"": "", "010": "", "01\x0000": "", "abcd": "", "\xb0\xa101": "",
	} {
		if got := telegram.MTI([]byte(in)); got != want {
			t.Errorf("MTI of %q is %q, want %q", in, got, want)
		}
	}
}
