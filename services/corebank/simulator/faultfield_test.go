package simulator

import (
	"bytes"
	"errors"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/frame"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

func TestFault_CorruptsEveryFieldThatAnAnswerHas(t *testing.T) {
	parsers := map[string]func([]byte) error{
		"0100": func(b []byte) error { _, err := telegram.ParsePaymentAnswer(b); return err },
		"0200": func(b []byte) error { _, err := telegram.ParseBalanceAnswer(b); return err },
		"0400": func(b []byte) error { _, err := telegram.ParseStatusAnswer(b); return err },
		"0420": func(b []byte) error { _, err := telegram.ParseCancelAnswer(b); return err },
	}
	for mti, request := range requestsOfEachType(t) {
		clean := honestAnswer(t, mti, request.bytes)
		covered := make([]int, telegram.AnswerLength)
		for field, place := range answerFields[answerTypes[mti]] {
			bank, _ := newBank(t, Rules{})
			prepare(t, bank, mti)
			faults := NewFaults()
			setFault(t, faults, Fault{Action: FaultCorruptField, Field: field, MTI: mti})
			c := dial(t, NewServer(bank, Options{Faults: faults}))
			c.send(request.bytes)
			got := c.receive()
			for i := range got {
				if got[i] != clean[i] {
					covered[i]++
				}
			}
			if n := bytes.Count(got, []byte{0xFF}); n != place.width {
				t.Errorf("%s of the answer to %s: %d bytes are spoilt", field, mti, n)
			}
			err := parsers[mti](got)
			var wrong *frame.FieldError
			switch {
			case field == "message" || field == "filler": // readers let them pass
				if err != nil {
					t.Errorf("%s of the answer to %s: %v", field, mti, err)
				}
			case !errors.As(err, &wrong) || wrong.Field != field:
				t.Errorf("%s of the answer to %s: parsing says %v", field, mti, err)
			}
		}
		for i, n := range covered {
			if n != 1 {
				t.Errorf("byte %d of the answer to %s is in %d fields", i, mti, n)
			}
		}
	}
}

func TestFault_CorruptMessageIsDamagedText(t *testing.T) {
	bank, _ := newBank(t, Rules{})
	faults := NewFaults()
	setFault(t, faults, Fault{Action: FaultCorruptField, Field: "message"})
	if got := dial(t, NewServer(bank, Options{Faults: faults})).pay(id(1), alice, 1); !got.Message.Damaged {
		t.Errorf("the message is %+v", got.Message)
	}
}

func TestFault_WrongEchoOfAForeignIDIsNeverThatID(t *testing.T) {
	for _, foreign := range []tranid.ID{"A", "~", "GWMNU20260302000000001", "GWMNU90260302000000001", "GWMNU2026030200000000~"} {
		honest := encode(t, telegram.StatusAnswer{TranID: foreign, Processed: "01", ResponseCode: "0000"})
		got := parse(t, telegram.ParseStatusAnswer, underAnotherID(honest)).TranID
		_, wasOurs := tranid.Parse(string(foreign))
		_, isOurs := tranid.Parse(string(got))
		if got == foreign || len(got) != len(foreign) || (wasOurs == nil) != (isOurs == nil) {
			t.Errorf("%s becomes %s", foreign, got)
		}
	}
}
