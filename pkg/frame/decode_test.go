package frame_test

import (
	"testing"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/frame"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

func TestDecoder_RefusesWhatIsNotOfItsKind(t *testing.T) {
	text := func(d *frame.Decoder, width int) any { return d.Text("f", 0, width) }
	number := func(d *frame.Decoder, width int) any { return d.Number("f", 0, width) }
	won := func(d *frame.Decoder, width int) any { return d.Won("f", 0, width) }
	id := func(d *frame.Decoder, width int) any { return d.TransactionID("f", 0, width) }
	code := func(d *frame.Decoder, _ int) any { return d.ResponseCode("f", 0) }
	number14 := func(d *frame.Decoder, _ int) any { return d.Account("f", 0) }
	constant := func(d *frame.Decoder, _ int) any { d.Constant("f", 0, "IN01"); return nil }
	tests := map[string]struct {
		in   string
		read func(*frame.Decoder, int) any
		want frame.Reason
		zero any
	}{
		"text with NUL":                  {"a\x00  ", text, frame.ReasonNotPrintable, ""},
		"text with ESC":                  {"a\x1b  ", text, frame.ReasonNotPrintable, ""},
		"text beyond ASCII":              {"\xb0\xa1  ", text, frame.ReasonNotPrintable, ""},
		"number with a plus":             {"+000000000000100", number, frame.ReasonNotDigits, int64(0)},
		"number with a minus":            {"-000000000000100", number, frame.ReasonNotDigits, int64(0)},
		"number padded with spaces":      {"    100", number, frame.ReasonNotDigits, int64(0)},
		"number of spaces":               {"       ", number, frame.ReasonNotDigits, int64(0)},
		"number with a letter":           {"00000O0", number, frame.ReasonNotDigits, int64(0)},
		"number in full-width digits":    {"\xa3\xb1\xa3\xb2", number, frame.ReasonNotDigits, int64(0)},
		"amount with a minus":            {"-00000000000100", won, frame.ReasonNotDigits, account.Won(0)},
		"ID of spaces":                   {"    ", id, frame.ReasonEmpty, tranid.ID("")},
		"ID behind a space":              {" abc", id, frame.ReasonSpace, tranid.ID("")},
		"ID with a space":                {"a bc", id, frame.ReasonSpace, tranid.ID("")},
		"ID with NUL":                    {"abc\x00", id, frame.ReasonNotPrintable, tranid.ID("")},
		"response code of spaces":        {"    ", code, frame.ReasonNotDigits, ""},
		"response code with a letter":    {"00A1", code, frame.ReasonNotDigits, ""},
		"response code with a sign":      {"-001", code, frame.ReasonNotDigits, ""},
		"response code with a NUL":       {"000\x00", code, frame.ReasonNotDigits, ""},
		"account padded with spaces":     {"123           ", number14, frame.ReasonNotDigits, account.Number{}},
		"account with a letter":          {"1234567890123X", number14, frame.ReasonNotDigits, account.Number{}},
		"constant that is another":       {"ST01", constant, frame.ReasonConstant, nil},
		"constant in lower case letters": {"in01", constant, frame.ReasonConstant, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := frame.Decode([]byte(tt.in), len(tt.in))
			got := tt.read(&d, len(tt.in))
			checkRefused(t, d.Err(), frame.ErrDecode, "f", tt.want)
			if got != tt.zero {
				t.Errorf("returned %v beside the error, want %v", got, tt.zero)
			}
		})
	}
}

func TestDecoder_ReadsWhatTheEncoderWrites(t *testing.T) {
	in := []byte("0100" + "abc  " + "00000000000123" + "00042" + "0051" + "a b ")
	d := frame.Decode(in, len(in))
	d.Constant("mti", 0, "0100")
	if got := d.TransactionID("id", 4, 5); got != "abc" {
		t.Errorf("ID %q", got)
	}
	if got := d.Account("account", 9); got != mustParse(t, "123") {
		t.Errorf("account %v", got)
	}
	if got := d.Won("amount", 23, 5); got != 42 {
		t.Errorf("amount %d", got)
	}
	if got := d.ResponseCode("code", 28); got != "0051" {
		t.Errorf("response code %q", got)
	}
	if got := d.Text("text", 32, 4); got != "a b" {
		t.Errorf("text %q", got)
	}
	if err := d.Err(); err != nil {
		t.Error(err)
	}
}

func TestDecoder_RefusesAFrameOfAnotherLength(t *testing.T) {
	for _, in := range []string{"", "010", "01000"} {
		d := frame.Decode([]byte(in), 4)
		// None of these may look at bytes that are not there.
		d.Constant("f", 0, "0100")
		_ = d.TransactionID("f", 0, 4)
		_ = d.Account("f", 0)
		_ = d.Won("f", 0, 4)
		_ = d.ResponseCode("f", 0)
		_ = d.Korean(0, 4)
		checkRefused(t, d.Err(), frame.ErrDecode, "frame", frame.ReasonLength)
	}
}

func TestDecoder_DoneOnlyToleratesBesideADecline(t *testing.T) {
	const in = "12x4\x00\x00"
	d := frame.Decode([]byte(in), len(in))
	d.DoneOnly("0051")
	if n, s := d.Number("n", 0, 4), d.Text("s", 4, 2); n != 0 || s != "" || d.Err() != nil {
		t.Errorf("beside a decline: %d, %q, %v", n, s, d.Err())
	}
	d = frame.Decode([]byte(in), len(in))
	d.DoneOnly(frame.Done)
	_ = d.Number("n", 0, 4)
	checkRefused(t, d.Err(), frame.ErrDecode, "n", frame.ReasonNotDigits)
}

func TestDecoder_DoneOnlyForgivesNothingBeforeIt(t *testing.T) {
	d := frame.Decode([]byte("x001"), 4)
	code := d.ResponseCode("code", 0)
	d.DoneOnly(code)
	_ = d.Number("n", 0, 4)
	checkRefused(t, d.Err(), frame.ErrDecode, "code", frame.ReasonNotDigits)
}
