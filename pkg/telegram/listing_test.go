package telegram_test

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/frame"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

var goldenHistoryRequest = []part{
	{"30303430", "prefix 40"},
	{"30333030", "mti 0300"},
	{"3131303132333435363738393031", "account 11012345678901"},
	{"3230323631313031", "from_date 2026-11-01"},
	{"3230323631313330", "to_date 2026-11-30"},
	{"313831", "max_count 181"},
	{"202020", "filler, 3 spaces"},
}

var goldenHistoryAnswer = []part{
	{"30313430", "prefix 140: 30 + 2 x 55"},
	{"30333130", "mti 0310"},
	{"3131303132333435363738393031", "account 11012345678901"},
	{"303032", "record_count 2"},
	{"3030313430", "total_length 140"},
	{"30303030", "response_code 0000"},

	{"303031", "seq 1"},
	{"3230323631313132", "date 2026-11-12"},
	{"c3e2b1dd", "type 출금"},
	{"303030303030303439393030", "amount 49,900 in 12 digits"},
	{"303030303030303031343530313030", "balance_after 1,450,100 in 15 digits"},
	{"b0e1c1a6 2020202020202020", "summary 결제 and 8 spaces"},
	{"20", "filler, a space"},

	{"303032", "seq 2"},
	{"3230323631313131", "date 2026-11-11"},
	{"c0d4b1dd", "type 입금"},
	{"303030303031353030303030", "amount 1,500,000 in 12 digits"},
	{"303030303030303031353030303030", "balance_after 1,500,000 in 15 digits"},
	{"4f50454e 2020202020202020", "summary OPEN and 8 spaces"},
	{"20", "filler, a space"},
}

var goldenHistoryDecline = []part{
	{"30303330", "prefix 30"},
	{"30333130", "mti 0310"},
	{"3030303030303030303030303030", "account 0, padded to 14 digits"},
	{"303030", "record_count 0"},
	{"3030303330", "total_length 30"},
	{"30303031", "response_code 0001"},
}

var goldenBookRequest = []part{
	{"30303230", "prefix 20"},
	{"30353030", "mti 0500"},
	{"3230323631313132", "settle_date 2026-11-12"},
	{"3030303030303037", "page 7"},
}

var goldenBookAnswer = []part{
	{"30313332", "prefix 132: 32 + 2 x 50"},
	{"30353130", "mti 0510"},
	{"3230323631313132", "settle_date 2026-11-12"},
	{"3030303030303037", "page 7"},
	{"303032", "record_count 2"},
	{"3030313332", "total_length 132"},
	{"30303030", "response_code 0000"},

	{idHex, "tran_id"},
	{"3131303132333435363738393031", "account 11012345678901"},
	{"303030303030303439393030", "amount 49,900 in 12 digits"},
	{"3030", "state 00"},

	{"47574d4e55 3230323631313132 303030303030303433", "tran_id of the next number"},
	{"3030303030303030303030313233", "account 123, padded to 14 digits"},
	{"393939393939393939393939", "amount 999,999,999,999"},
	{"3939", "state 99"},
}

func day(t testing.TB, text string) tranid.Date {
	t.Helper()
	d, err := tranid.ParseDate(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func history(t testing.TB) telegram.HistoryAnswer {
	t.Helper()
	return telegram.HistoryAnswer{
		Account: number(t, "11012345678901"), ResponseCode: "0000",
		Records: []telegram.HistoryRecord{
			{
				Seq: 1, Date: day(t, "2026-11-12"), Type: frame.Text{Value: "출금"}, Amount: 49_900,
				BalanceAfter: 1_450_100, Summary: frame.Text{Value: "결제"},
			},
			{
				Seq: 2, Date: day(t, "2026-11-11"), Type: frame.Text{Value: "입금"}, Amount: 1_500_000,
				BalanceAfter: 1_500_000, Summary: frame.Text{Value: "OPEN"},
			},
		},
	}
}

func book(t testing.TB) telegram.BookAnswer {
	t.Helper()
	return telegram.BookAnswer{
		SettleDate: day(t, "2026-11-12"), Page: 7, ResponseCode: "0000",
		Records: []telegram.BookRecord{
			{TranID: id, Account: number(t, "11012345678901"), Amount: 49_900, State: "00"},
			{TranID: "GWMNU20261112000000043", Account: number(t, "123"), Amount: account.MaxPayment, State: "99"},
		},
	}
}

// checkListing is checkGolden for telegrams that cannot be compared by ==.
func checkListing[T appender](t *testing.T, parts []part, value T, parse func([]byte) (T, error)) {
	t.Helper()
	want := golden(t, parts)
	if got, err := value.AppendTo([]byte("before")); err != nil || string(got) != "before"+string(want) {
		t.Errorf("written as\n%x, %v, want\n%x", got, err, want)
	}
	got, err := parse(want)
	if diff := cmp.Diff(value, got, exact); err != nil || diff != "" {
		t.Errorf("%v, read (-want +got):\n%s", err, diff)
	}
}

// exact compares the values that hide what is in them.
var exact = cmpopts.EquateComparable(account.Number{}, tranid.Date{})

func TestListings_AreTheBankBytes(t *testing.T) {
	t.Run("0300", func(t *testing.T) {
		checkListing(t, goldenHistoryRequest, telegram.HistoryRequest{
			Account: number(t, "11012345678901"), FromDate: day(t, "2026-11-01"), ToDate: day(t, "2026-11-30"), MaxCount: 181,
		}, telegram.ParseHistoryRequest)
	})
	t.Run("0310", func(t *testing.T) { checkListing(t, goldenHistoryAnswer, history(t), telegram.ParseHistoryAnswer) })
	t.Run("0310 declined", func(t *testing.T) {
		checkListing(t, goldenHistoryDecline,
			telegram.HistoryAnswer{Account: number(t, "0"), ResponseCode: "0001"}, telegram.ParseHistoryAnswer)
	})
	t.Run("0500", func(t *testing.T) {
		checkListing(t, goldenBookRequest,
			telegram.BookRequest{SettleDate: day(t, "2026-11-12"), Page: 7}, telegram.ParseBookRequest)
	})
	t.Run("0510", func(t *testing.T) { checkListing(t, goldenBookAnswer, book(t), telegram.ParseBookAnswer) })
}

func TestListings_HaveTheBankNumbers(t *testing.T) {
	for name, n := range map[string][2]int{
		"0300":              {telegram.HistoryRequestLength, 44},
		"0500":              {telegram.BookRequestLength, 24},
		"0310 empty":        {telegram.HistoryAnswerMinLength, 34},
		"0510 empty":        {telegram.BookAnswerMinLength, 36},
		"0310 records":      {telegram.HistoryAnswerMaxRecords, 181},
		"0510 records":      {telegram.BookAnswerMaxRecords, 199},
		"a history record":  {telegram.HistoryRecordLength, 55},
		"a book record":     {telegram.BookRecordLength, 50},
		"0310 full, prefix": {telegram.HistoryAnswerMaxLength, 4 + 30 + 181*55},
		"0510 full, prefix": {telegram.BookAnswerMaxLength, 4 + 32 + 199*50},
	} {
		if n[0] != n[1] {
			t.Errorf("%s: %d, want %d", name, n[0], n[1])
		}
	}
}

func TestListings_RefuseEveryOtherLengthAndType(t *testing.T) {
	parses := map[string]func([]byte) error{
		"0300": func(b []byte) error { _, err := telegram.ParseHistoryRequest(b); return err },
		"0310": func(b []byte) error { _, err := telegram.ParseHistoryAnswer(b); return err },
		"0500": func(b []byte) error { _, err := telegram.ParseBookRequest(b); return err },
		"0510": func(b []byte) error { _, err := telegram.ParseBookAnswer(b); return err },
	}
	for mti, parts := range map[string][]part{
		"0300": goldenHistoryRequest, "0310": goldenHistoryAnswer, "0500": goldenBookRequest, "0510": goldenBookAnswer,
	} {
		whole := golden(t, parts)
		for n := range len(whole) {
			checkRefused(t, parses[mti](whole[:n]), frame.ErrDecode, "frame")
		}
		checkRefused(t, parses[mti](append(slices.Clone(whole), ' ')), frame.ErrDecode, "frame")
		for other := range parses {
			if other != mti {
				checkRefused(t, parses[mti](with(whole, 4, other)), frame.ErrDecode, "mti")
			}
		}
	}
}

func TestListings_RefuseWhatDoesNotAgree(t *testing.T) {
	tests := map[string]struct {
		offset int
		text   string
		field  string
	}{
		"one record too many":      {22, "003", "record_count"},
		"one record too few":       {22, "001", "record_count"},
		"count in spaces":          {22, "  2", "record_count"},
		"total with the prefix":    {25, "00144", "total_length"},
		"total of the records":     {25, "00110", "total_length"},
		"prefix of more":           {0, "0141", "frame"},
		"prefix of a record less":  {0, "0085", "frame"},
		"prefix with the prefix":   {0, "0144", "frame"},
		"account of letters":       {8, "1101234567890x", "account"},
		"code of letters":          {30, "OK  ", "response_code"},
		"a day that is none":       {34 + 3, "20261131", "date"},
		"amount with a minus":      {34 + 55 + 15, "-00000000001", "amount"},
		"balance of letters":       {34 + 55 + 27, "00000000000000O", "balance_after"},
		"seq of the second record": {34 + 55, " 2 ", "seq"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := telegram.ParseHistoryAnswer(with(golden(t, goldenHistoryAnswer), tt.offset, tt.text))
			checkRefused(t, err, frame.ErrDecode, tt.field)
			if got.Records != nil || got.ResponseCode != "" {
				t.Errorf("returned %+v beside the error", got)
			}
		})
	}
}

func TestListings_ReadNoRecordBesideADecline(t *testing.T) {
	b := with(with(golden(t, goldenHistoryAnswer), 30, "0051"), 34, strings.Repeat("\xff", 110))
	got, err := telegram.ParseHistoryAnswer(b)
	if err != nil || got.ResponseCode != "0051" || got.Records != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestListings_DamagedTextRefusesNothing(t *testing.T) {
	got, err := telegram.ParseHistoryAnswer(with(with(golden(t, goldenHistoryAnswer), 34+11, "\x94\xee\xff\x00"), 34+42, "11012345678901"[:12]))
	if err != nil || !got.Records[0].Type.Damaged || got.Records[0].Amount != 49_900 {
		t.Errorf("got %+v, %v", got, err)
	}
	if got.Records[0].Summary.Value != strings.Repeat("*", 12) {
		t.Errorf("summary %q shows an account", got.Records[0].Summary.Value)
	}
}

func TestListings_AreRefusedBeforeAByteIsReturned(t *testing.T) {
	broken := func(change func(*telegram.HistoryAnswer)) telegram.HistoryAnswer {
		h := history(t)
		change(&h)
		return h
	}
	tests := map[string]struct {
		value appender
		field string
	}{
		"182 records":             {telegram.HistoryAnswer{Account: number(t, "1"), ResponseCode: "0000", Records: make([]telegram.HistoryRecord, 182)}, "records"},
		"200 payments":            {telegram.BookAnswer{SettleDate: day(t, "2026-11-12"), ResponseCode: "0000", Records: make([]telegram.BookRecord, 200)}, "records"},
		"no account":              {broken(func(h *telegram.HistoryAnswer) { h.Account = account.Number{} }), "account"},
		"no day in the last":      {broken(func(h *telegram.HistoryAnswer) { h.Records[1].Date = tranid.Date{} }), "date"},
		"CP949 in a summary":      {broken(func(h *telegram.HistoryAnswer) { h.Records[1].Summary.Value = "뷁" }), "summary"},
		"type of three letters":   {broken(func(h *telegram.HistoryAnswer) { h.Records[0].Type.Value = "입출금" }), "type"},
		"amount of 13 digits":     {broken(func(h *telegram.HistoryAnswer) { h.Records[0].Amount = 1e12 }), "amount"},
		"balance below zero":      {broken(func(h *telegram.HistoryAnswer) { h.Records[0].BalanceAfter = -1 }), "balance_after"},
		"seq of 4 digits":         {broken(func(h *telegram.HistoryAnswer) { h.Records[0].Seq = 1000 }), "seq"},
		"history without days":    {telegram.HistoryRequest{Account: number(t, "1"), MaxCount: 1}, "from_date"},
		"page below zero":         {telegram.BookRequest{SettleDate: day(t, "2026-11-12"), Page: -1}, "page"},
		"page of 9 digits":        {telegram.BookRequest{SettleDate: day(t, "2026-11-12"), Page: 1e8}, "page"},
		"history of 1000 records": {telegram.HistoryRequest{Account: number(t, "1"), FromDate: day(t, "2026-11-12"), ToDate: day(t, "2026-11-12"), MaxCount: 1000}, "max_count"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := tt.value.AppendTo(append(make([]byte, 0, 256), "before"...))
			checkRefused(t, err, frame.ErrEncode, tt.field)
			if string(got) != "before" {
				t.Errorf("returned %q, want dst as it was", got)
			}
		})
	}
}

func TestListings_HoldAllRecordsThatTheyMay(t *testing.T) {
	full := book(t)
	full.Records = nil
	for n := range telegram.BookAnswerMaxRecords {
		full.Records = append(full.Records, telegram.BookRecord{
			TranID: tranid.New(full.SettleDate, int64(n)), Account: number(t, strconv.Itoa(n)), Amount: account.Won(n), State: "00",
		})
	}
	b, err := full.AppendTo(nil)
	if err != nil || len(b) != telegram.BookAnswerMaxLength || string(b[:4]) != "9982" {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	got, err := telegram.ParseBookAnswer(b)
	if diff := cmp.Diff(full, got, exact); err != nil || diff != "" {
		t.Errorf("%v, read (-want +got):\n%s", err, diff)
	}
}

func TestListings_AreReadAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := telegram.HistoryAnswer{Account: accounts.Draw(t, "account"), ResponseCode: codes.Draw(t, "code")}
		if want.ResponseCode == frame.Done {
			for range rapid.IntRange(0, 20).Draw(t, "records") {
				want.Records = append(want.Records, telegram.HistoryRecord{
					Seq:  rapid.Int64Range(0, 999).Draw(t, "seq"),
					Date: tranid.DateOf(tranid.Date{}.Start().AddDate(rapid.IntRange(2001, 9000).Draw(t, "year"), 0, rapid.IntRange(1, 366).Draw(t, "day"))),
					Type: drawText(t, 4), Amount: amounts.Draw(t, "amount"), BalanceAfter: balances.Draw(t, "balance"), Summary: drawText(t, 12),
				})
			}
		}
		b, err := want.AppendTo(nil)
		if err != nil {
			t.Fatalf("%+v: %v", want, err)
		}
		got, err := telegram.ParseHistoryAnswer(b)
		if diff := cmp.Diff(want, got, exact); err != nil || diff != "" {
			t.Fatalf("%v, by %q, read (-want +got):\n%s", err, b, diff)
		}
	})
}

func TestMask_HidesEveryAccountOfAListing(t *testing.T) {
	hidden := strings.Repeat("*", 14)
	for name, tt := range map[string]struct {
		parts []part
		want  string
	}{
		"0300": {goldenHistoryRequest, "00400300" + hidden + "2026110120261130181   "},
		"0500": {goldenBookRequest, "002005002026111200000007"},
		"0510": {goldenBookAnswer, "013205102026111200000007002001320000" +
			id + hidden + "00000004990000" + "GWMNU20261112000000043" + hidden + "99999999999999"},
		"0310": {goldenHistoryAnswer, "01400310" + hidden + "002001400000" +
			"00120261112\xc3\xe2\xb1\xdd000000049900000000001450100\xb0\xe1\xc1\xa6         " +
			"00220261111\xc0\xd4\xb1\xdd000001500000000000001500000OPEN         "},
	} {
		b := golden(t, tt.parts)
		before := bytes.Clone(b)
		if got := telegram.Mask(b); string(got) != tt.want {
			t.Errorf("%s is shown as\n%q, want\n%q", name, got, tt.want)
		}
		if !bytes.Equal(b, before) {
			t.Errorf("%s: the frame itself was changed", name)
		}
		for n := range len(b) {
			if cut := telegram.Mask(b[:n]); n > 4 && bytes.ContainsAny(cut[4:], "0123456789") {
				t.Fatalf("%s, cut to %d bytes, is shown as %q", name, n, cut)
			}
		}
	}
	summary := with(golden(t, goldenHistoryAnswer), 34+42, "110123456789")
	if got := telegram.Mask(summary); bytes.Contains(got, []byte("1101234")) {
		t.Errorf("a summary is shown as %q", got)
	}
}
