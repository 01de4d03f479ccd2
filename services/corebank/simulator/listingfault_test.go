package simulator

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/frame"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// listingRequests are a request of each type, and what parses its answer.
func listingRequests(t testing.TB) map[string]struct {
	bytes []byte
	parse func([]byte) error
} {
	t.Helper()
	type request = struct {
		bytes []byte
		parse func([]byte) error
	}
	return map[string]request{
		"0300": {
			encode(t, telegram.HistoryRequest{Account: alice, FromDate: today, ToDate: today, MaxCount: 9}),
			func(b []byte) error { _, err := telegram.ParseHistoryAnswer(b); return err },
		},
		"0500": {
			encode(t, telegram.BookRequest{SettleDate: today}),
			func(b []byte) error { _, err := telegram.ParseBookAnswer(b); return err },
		},
	}
}

// struckListing is all bytes that a request gets over a connection that is
// struck by the fault, until the core falls silent for a minute or ends it.
func struckListing(t *testing.T, f Fault, request []byte) []byte {
	t.Helper()
	c := &clock{today.Start()}
	bank := bankAt(t, NewMemoryBook(), Rules{}, c)
	if _, err := bank.execute(payOf(1)); err != nil {
		t.Fatal(err)
	}
	faults := NewFaults()
	setFault(t, faults, f)
	l := dialListing(t, NewServer(bank, Options{Faults: faults}))
	if err := l.conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	l.send(request)
	got, _ := io.ReadAll(l.conn) // until the deadline, or the end
	return got
}

func TestFault_StrikesListings(t *testing.T) {
	for mti, q := range listingRequests(t) {
		honest := func(t *testing.T) []byte {
			// It strikes another type.
			return struckListing(t, Fault{Action: FaultClose, MTI: "0100"}, q.bytes)
		}
		tests := map[string]struct {
			fault Fault
			want  func(honest []byte) []byte
		}{
			"close before":  {Fault{Action: FaultClose, When: BeforeExecution}, func([]byte) []byte { return nil }},
			"close after":   {Fault{Action: FaultClose}, func([]byte) []byte { return nil }},
			"reset":         {Fault{Action: FaultReset}, func([]byte) []byte { return nil }},
			"half close":    {Fault{Action: FaultHalfClose}, func([]byte) []byte { return nil }},
			"black hole":    {Fault{Action: FaultBlackHole}, func([]byte) []byte { return nil }},
			"delay":         {Fault{Action: FaultDelay, Delay: 2 * time.Second}, func(b []byte) []byte { return b }},
			"truncate":      {Fault{Action: FaultTruncate, Bytes: 50}, func(b []byte) []byte { return b[:50] }},
			"truncate more": {Fault{Action: FaultTruncate, MTI: mti, Bytes: 9989}, func(b []byte) []byte { return b }},
			"extra bytes":   {Fault{Action: FaultExtraBytes, Bytes: 2}, func(b []byte) []byte { return append(b, "##"...) }},
			"split":         {Fault{Action: FaultSplit, Bytes: 1, Gap: time.Millisecond}, func(b []byte) []byte { return b }},
			"duplicate":     {Fault{Action: FaultDuplicateAnswer}, func(b []byte) []byte { return append(b, b...) }},
			"not its own":   {Fault{Action: FaultUnsolicitedFrame}, func(b []byte) []byte { return b }},
			"another ID":    {Fault{Action: FaultClose, TranID: id(1)}, func(b []byte) []byte { return b }},
			"wrong type": {Fault{Action: FaultWrongMTI}, func(b []byte) []byte {
				copy(b[4:], map[string]string{"0300": "0510", "0500": "0310"}[mti])
				return b
			}},
		}
		for name, tt := range tests {
			t.Run(mti+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					want := tt.want(honest(t))
					if got := struckListing(t, tt.fault, q.bytes); !bytes.Equal(got, want) {
						t.Errorf("got %q, want %q", got, want)
					}
				})
			})
		}
	}
}

func TestFault_OfAnAccountStrikesItsHistoryAlone(t *testing.T) {
	requests := listingRequests(t)
	for mti, want := range map[string]bool{"0300": false, "0500": true} {
		synctest.Test(t, func(t *testing.T) {
			got := struckListing(t, Fault{Action: FaultClose, Account: alice}, requests[mti].bytes)
			if answered := len(got) > 0; answered != want {
				t.Errorf("%s answered: %t", mti, answered)
			}
		})
	}
}

func TestFault_EchoesAnotherQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := listingRequests(t)
		history, err := telegram.ParseHistoryAnswer(struckListing(t, Fault{Action: FaultWrongEcho}, requests["0300"].bytes))
		if err != nil || history.Account == alice || len(history.Records) != 2 {
			t.Errorf("history %+v, %v", history, err)
		}
		book, err := telegram.ParseBookAnswer(struckListing(t, Fault{Action: FaultWrongEcho}, requests["0500"].bytes))
		if err != nil || book.SettleDate == today || len(book.Records) != 1 {
			t.Errorf("book %+v, %v", book, err)
		}
	})
}

func TestFault_DeclinesAListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, when := range []FaultPoint{BeforeExecution, AfterExecution} {
			f := Fault{Action: FaultResponseCode, ResponseCode: "0091", When: when}
			history, err := telegram.ParseHistoryAnswer(struckListing(t, f, listingRequests(t)["0300"].bytes))
			if err != nil || history.ResponseCode != "0091" || history.Records != nil {
				t.Errorf("history %+v, %v", history, err)
			}
			book, err := telegram.ParseBookAnswer(struckListing(t, f, listingRequests(t)["0500"].bytes))
			if err != nil || book.ResponseCode != "0091" || book.Records != nil {
				t.Errorf("book %+v, %v", book, err)
			}
		}
	})
}

// The names and places of the fields are those of telegram.proto: what is
// spoilt is refused under the name that was asked for.
func TestFault_CorruptsEveryFieldOfAListing(t *testing.T) {
	for mti, q := range listingRequests(t) {
		synctest.Test(t, func(t *testing.T) {
			header := 0
			for field, place := range answerFields[answerTypes[mti]] {
				header += place.width
				got := struckListing(t, Fault{Action: FaultCorruptField, MTI: mti, Field: field}, q.bytes)
				var wrong *frame.FieldError
				err := q.parse(got)
				if want := map[bool]string{true: "frame", false: field}[field == "prefix"]; !errors.As(err, &wrong) || wrong.Field != want {
					t.Errorf("%s of the answer to %s: parsing says %v", field, mti, err)
				}
			}
			if want := map[string]int{"0300": telegram.HistoryAnswerMinLength, "0500": telegram.BookAnswerMinLength}[mti]; header != want {
				t.Errorf("the fields of the answer to %s have %d bytes, want %d", mti, header, want)
			}
		})
	}
}

// Habits are for payments and balances; a history is told of such accounts too.
func TestListings_KnowNoHabits(t *testing.T) {
	for _, digits := range []string{"99999999999999", "88888888888888", "77777777777777", "66666666666666", "22222222222222"} {
		bank, _ := newBank(t, Rules{})
		put(t, bank, mustAccount(digits), 5)
		day := func(d time.Duration) time.Time { return time.Now().Add(d) }
		l := dialListing(t, NewServer(bank, Options{}))
		m := telegram.HistoryRequest{
			Account: mustAccount(digits), FromDate: tranid.DateOf(day(-time.Hour)), ToDate: tranid.DateOf(day(time.Hour)), MaxCount: 1,
		}
		l.send(encode(t, m))
		if got := parse(t, telegram.ParseHistoryAnswer, l.receiveListing()); len(got.Records) != 1 || got.Records[0].Amount != account.Won(5) {
			t.Errorf("%s: %+v", digits, got)
		}
	}
}
