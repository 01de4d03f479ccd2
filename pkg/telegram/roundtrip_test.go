package telegram_test

import (
	"testing"
	"unicode/utf8"

	"golang.org/x/text/encoding/korean"
	"pgregory.net/rapid"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/frame"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

var (
	ids       = rapid.Map(rapid.StringMatching(`[!-~]{1,22}`), func(s string) tranid.ID { return tranid.ID(s) })
	codes     = rapid.StringMatching(`[0-9]{4}`)
	flags     = rapid.StringMatching(`|[!-~]|[ -~][!-~]`)
	accounts  = rapid.Custom(drawAccount)
	amounts   = rapid.Map(rapid.Int64Range(0, 999_999_999_999), func(n int64) account.Won { return account.Won(n) })
	balances  = rapid.Map(rapid.Int64Range(0, 999_999_999_999_999), func(n int64) account.Won { return account.Won(n) })
	approvals = rapid.Int64Range(0, 99_999_999_999)
)

func drawAccount(t *rapid.T) account.Number {
	n, err := account.Parse(rapid.StringMatching(`[0-9]{1,14}`).Draw(t, "digits"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// drawText is text that fits a K field and that reading does not mask: letters
// of ASCII and any strict pair of EUC-KR, digits excepted.
func drawText(t *rapid.T, width int) frame.Text {
	pair := rapid.Custom(func(t *rapid.T) string {
		lead := rapid.Uint8Range(0xA1, 0xFE).Draw(t, "lead")
		trail := rapid.Uint8Range(0xA1, 0xFE).Draw(t, "trail")
		char, err := korean.EUCKR.NewDecoder().String(string([]byte{lead, trail}))
		if r, _ := utf8.DecodeRuneInString(char); err != nil || r == utf8.RuneError || r >= '０' && r <= '９' {
			return "가"
		}
		return char
	})
	letter := rapid.StringMatching(`[!-/:-~]`)
	text := ""
	for left := width; left > 1; {
		if rapid.Bool().Draw(t, "end") {
			break
		}
		char := rapid.OneOf(pair, letter).Draw(t, "char")
		text += char
		left -= min(len(char), 2)
	}
	return frame.Text{Value: text}
}

func checkRoundTrip[T message](t *rapid.T, length int, value T, parse func([]byte) (T, error)) {
	t.Helper()
	b, err := value.AppendTo(nil)
	if err != nil {
		t.Fatalf("%+v: %v", value, err)
	}
	if len(b) != length {
		t.Fatalf("%+v has %d bytes", value, len(b))
	}
	got, err := parse(b)
	if err != nil || got != value {
		t.Fatalf("%+v became %+v, %v by %q", value, got, err, b)
	}
}

func TestTelegrams_AreReadAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tranID, number, code := ids.Draw(t, "id"), accounts.Draw(t, "account"), codes.Draw(t, "code")
		text16, text20 := drawText(t, 16), drawText(t, 20)
		checkRoundTrip(t, 52, telegram.BalanceRequest{TranID: tranID, Account: number}, telegram.ParseBalanceRequest)
		checkRoundTrip(t, 61, telegram.BalanceAnswer{
			TranID: tranID, Balance: balances.Draw(t, "balance"), ResponseCode: code, Message: text16,
		}, telegram.ParseBalanceAnswer)
		checkRoundTrip(t, 52, telegram.PaymentRequest{
			TranID: tranID, Account: number, Amount: amounts.Draw(t, "amount"),
		}, telegram.ParsePaymentRequest)
		checkRoundTrip(t, 61, telegram.PaymentAnswer{
			TranID: tranID, ResponseCode: code, Message: text20, ApprovalNo: approvals.Draw(t, "approval"),
		}, telegram.ParsePaymentAnswer)
		checkRoundTrip(t, 52, telegram.StatusRequest{TranID: tranID}, telegram.ParseStatusRequest)
		checkRoundTrip(t, 61, telegram.StatusAnswer{
			TranID: tranID, Processed: flags.Draw(t, "processed"), ResponseCode: code, Message: text20,
		}, telegram.ParseStatusAnswer)
		checkRoundTrip(t, 52, telegram.CancelRequest{TranID: tranID}, telegram.ParseCancelRequest)
		checkRoundTrip(t, 61, telegram.CancelAnswer{
			TranID: tranID, CancelResult: flags.Draw(t, "result"), ResponseCode: code, Message: text20,
		}, telegram.ParseCancelAnswer)
	})
}
