package frame_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/frame"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// write is a frame of one field.
func write(width int, field func(*frame.Encoder)) ([]byte, error) {
	e := frame.Append(nil, width)
	field(&e)
	return e.Finish(width)
}

func mustParse(t *testing.T, digits string) account.Number {
	t.Helper()
	n, err := account.Parse(digits)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestEncoder_PadsEachKindOnItsOwnSide(t *testing.T) {
	tests := map[string]struct {
		width int
		field func(*frame.Encoder)
		want  string
	}{
		"text to the left":           {4, func(e *frame.Encoder) { e.Text("f", "ab", 4) }, "ab  "},
		"empty text":                 {2, func(e *frame.Encoder) { e.Text("f", "", 2) }, "  "},
		"text with a leading space":  {3, func(e *frame.Encoder) { e.Text("f", " a", 3) }, " a "},
		"full text":                  {2, func(e *frame.Encoder) { e.Text("f", "~!", 2) }, "~!"},
		"ID to the left":             {4, func(e *frame.Encoder) { e.TransactionID("f", "x", 4) }, "x   "},
		"number to the right":        {5, func(e *frame.Encoder) { e.Number("f", 42, 5) }, "00042"},
		"zero":                       {3, func(e *frame.Encoder) { e.Number("f", 0, 3) }, "000"},
		"the largest number":         {18, func(e *frame.Encoder) { e.Number("f", 999999999999999999, 18) }, strings.Repeat("9", 18)},
		"the largest amount":         {15, func(e *frame.Encoder) { e.Won("f", 999_999_999_999_999, 15) }, strings.Repeat("9", 15)},
		"response code":              {4, func(e *frame.Encoder) { e.ResponseCode("f", "0051") }, "0051"},
		"Korean to the left":         {6, func(e *frame.Encoder) { e.Korean("f", frame.Text{Value: "가a"}, 6) }, "\xb0\xa1a   "},
		"Korean that fills the rest": {5, func(e *frame.Encoder) { e.Korean("f", frame.Text{Value: "a가가"}, 5) }, "a\xb0\xa1\xb0\xa1"},
		"no Korean":                  {3, func(e *frame.Encoder) { e.Korean("f", frame.Text{}, 3) }, "   "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := write(tt.width, tt.field)
			if err != nil || string(got) != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestEncoder_WritesAllDigitsOfAnAccount(t *testing.T) {
	number := mustParse(t, "123")
	got, err := write(account.MaxDigits, func(e *frame.Encoder) { e.Account("f", number) })
	if err != nil || string(got) != "00000000000123" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestEncoder_RefusesWhatDoesNotFit(t *testing.T) {
	text := func(s string) func(*frame.Encoder) {
		return func(e *frame.Encoder) { e.Text("f", s, 4) }
	}
	number := func(n int64) func(*frame.Encoder) {
		return func(e *frame.Encoder) { e.Number("f", n, 4) }
	}
	won := func(n account.Won) func(*frame.Encoder) {
		return func(e *frame.Encoder) { e.Won("f", n, 4) }
	}
	id := func(s tranid.ID) func(*frame.Encoder) {
		return func(e *frame.Encoder) { e.TransactionID("f", s, 4) }
	}
	code := func(s string) func(*frame.Encoder) {
		return func(e *frame.Encoder) { e.ResponseCode("f", s) }
	}
	tests := map[string]struct {
		field func(*frame.Encoder)
		want  frame.Reason
	}{
		"text too long":               {text("abcde"), frame.ReasonTooLong},
		"text with NUL":               {text("a\x00"), frame.ReasonNotPrintable},
		"text with a line feed":       {text("a\n"), frame.ReasonNotPrintable},
		"text with DEL":               {text("a\x7f"), frame.ReasonNotPrintable},
		"text beyond ASCII":           {text("é"), frame.ReasonNotPrintable},
		"text that ends in a space":   {text("a "), frame.ReasonSpace},
		"number below zero":           {number(-1), frame.ReasonNegative},
		"the lowest number":           {number(math.MinInt64), frame.ReasonNegative},
		"number of a digit too many":  {number(10000), frame.ReasonTooLong},
		"the highest number":          {number(math.MaxInt64), frame.ReasonTooLong},
		"amount below zero":           {won(-1), frame.ReasonNegative},
		"amount of a digit too many":  {won(10000), frame.ReasonTooLong},
		"amount of 2^53+1":            {won(1<<53 + 1), frame.ReasonTooLong},
		"no ID":                       {id(""), frame.ReasonEmpty},
		"ID too long":                 {id("abcde"), frame.ReasonTooLong},
		"ID that starts with a space": {id(" a"), frame.ReasonSpace},
		"ID that ends in a space":     {id("a "), frame.ReasonSpace},
		"ID with a space":             {id("a b"), frame.ReasonSpace},
		"ID with a tab":               {id("a\tb"), frame.ReasonNotPrintable},
		"ID beyond ASCII":             {id("가"), frame.ReasonNotPrintable},
		"no response code":            {code(""), frame.ReasonNotDigits},
		"response code too short":     {code("000"), frame.ReasonNotDigits},
		"response code too long":      {code("00000"), frame.ReasonNotDigits},
		"response code of letters":    {code("00A0"), frame.ReasonNotDigits},
		"response code with a sign":   {code("+000"), frame.ReasonNotDigits},
		"no account":                  {func(e *frame.Encoder) { e.Account("f", account.Number{}) }, frame.ReasonEmpty},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := write(4, tt.field)
			checkRefused(t, err, frame.ErrEncode, "f", tt.want)
			if len(got) != 0 {
				t.Errorf("returned %q beside the error", got)
			}
		})
	}
}

// checkRefused checks that an error is a refusal of a field for a reason.
func checkRefused(t *testing.T, err, kind error, field string, reason frame.Reason) {
	t.Helper()
	var refused *frame.FieldError
	if !errors.As(err, &refused) {
		t.Fatalf("error is %v, want a FieldError", err)
	}
	if !errors.Is(err, kind) || refused.Field != field || refused.Reason != reason {
		t.Errorf("error is %v, want %v for %s: %s", err, kind, field, reason)
	}
}

func TestEncoder_RefusesAFrameOfAnotherLength(t *testing.T) {
	for name, width := range map[string]int{"short": 3, "long": 5} {
		t.Run(name, func(t *testing.T) {
			e := frame.Append([]byte("before"), 4)
			e.Text("f", "", width)
			got, err := e.Finish(4)
			checkRefused(t, err, frame.ErrEncode, "frame", frame.ReasonLength)
			if string(got) != "before" {
				t.Errorf("returned %q", got)
			}
		})
	}
}

func TestEncoder_KeepsTheFirstRefusalAndWritesNoMore(t *testing.T) {
	e := frame.Append(nil, 12)
	e.Constant("0100")
	e.Number("first", -1, 4)
	e.Text("second", "\x00", 4)
	e.Won("third", -1, 4)
	e.TransactionID("fourth", "", 4)
	e.Account("fifth", account.Number{})
	e.ResponseCode("sixth", "")
	e.Korean("seventh", frame.Text{Value: "\x00"}, 4)
	_, err := e.Finish(12)
	checkRefused(t, err, frame.ErrEncode, "first", frame.ReasonNegative)
}

func TestEncoder_LeavesWhatStandsBeforeTheFrame(t *testing.T) {
	before := make([]byte, 3, 64)
	copy(before, "abc")
	e := frame.Append(before, 4)
	e.Text("f", "x", 4)
	got, err := e.Finish(4)
	if err != nil || string(got) != "abcx   " {
		t.Fatalf("got %q, %v", got, err)
	}
	e = frame.Append(got, 4)
	e.Text("f", "too long", 4)
	again, err := e.Finish(4)
	if err == nil || !bytes.Equal(again, got) {
		t.Errorf("after a refusal got %q, %v, want %q and an error", again, err, got)
	}
}

func TestFieldError_NeverHoldsTheValue(t *testing.T) {
	const secret = "98765432109876"
	_, err := write(4, func(e *frame.Encoder) { e.Text("f", secret, 4) })
	if strings.Contains(err.Error(), secret) {
		t.Errorf("error shows the value: %v", err)
	}
	d := frame.Decode([]byte(secret+"x"), len(secret)+1)
	d.Number("f", 0, len(secret)+1)
	if strings.Contains(d.Err().Error(), secret) {
		t.Errorf("error shows the value: %v", d.Err())
	}
}
