package frame

import (
	"bytes"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Decoder reads the fields of one frame, each at its offset. The first field
// that is refused ends it: the calls after that return zero values, and Err says
// why. Its errors wrap ErrDecode.
type Decoder struct {
	frame    []byte
	prefix   int // digits before the frame itself
	records  int
	tolerant bool
	err      *FieldError
}

// Decode starts reading a frame, which must be of exactly this length.
func Decode(frame []byte, length int) Decoder {
	d := Decoder{frame: frame}
	if len(frame) != length {
		d.err = &FieldError{Field: whole, Reason: ReasonLength, kind: ErrDecode}
	}
	return d
}

// Err is the first refusal, or nil.
func (d *Decoder) Err() error {
	if d.err == nil {
		return nil
	}
	return d.err
}

// DoneOnly says that the fields read from here on are filled in only when the
// request was done: beside any code but Done, what cannot be read is zero and
// refuses nothing.
func (d *Decoder) DoneOnly(responseCode string) { d.tolerant = responseCode != Done }

// Constant refuses the frame unless the text stands there.
func (d *Decoder) Constant(field string, offset int, text string) {
	if d.err == nil && string(d.frame[offset:offset+len(text)]) != text {
		d.refuse(field, ReasonConstant)
	}
}

// TransactionID reads an ID: printable characters, then nothing but padding.
func (d *Decoder) TransactionID(field string, offset, width int) tranid.ID {
	text := d.Text(field, offset, width)
	if d.err != nil {
		return ""
	}
	if text == "" {
		d.refuse(field, ReasonEmpty)
		return ""
	}
	for i := range len(text) {
		if text[i] == ' ' {
			d.refuse(field, ReasonSpace)
			return ""
		}
	}
	return tranid.ID(text)
}

// Account reads an account number: digits only.
func (d *Decoder) Account(field string, offset int) account.Number {
	if d.err != nil {
		return account.Number{}
	}
	n, err := account.Parse(string(d.frame[offset : offset+account.MaxDigits]))
	if err != nil {
		d.refuse(field, ReasonNotDigits)
	}
	return n
}

// Won reads an amount: digits only, no sign, no space.
func (d *Decoder) Won(field string, offset, width int) account.Won {
	return account.Won(d.Number(field, offset, width))
}

// Number reads a number: digits only, no sign, no space.
func (d *Decoder) Number(field string, offset, width int) int64 {
	if d.err != nil {
		return 0
	}
	var n int64
	for _, b := range d.frame[offset : offset+width] {
		if !isDigit(b) {
			d.refuse(field, ReasonNotDigits)
			return 0
		}
		n = n*10 + int64(b-'0')
	}
	return n
}

// Date reads a day, yyyymmdd.
func (d *Decoder) Date(field string, offset int) tranid.Date {
	if d.err != nil {
		return tranid.Date{}
	}
	// It has the width of the layout, so ParseDate takes no other form.
	day, err := tranid.ParseDate(string(d.frame[offset : offset+len(dateLayout)]))
	if err != nil {
		d.refuse(field, ReasonNotDate)
		return tranid.Date{}
	}
	return day
}

// ResponseCode reads a code, which must be four digits: anything else is
// garbage, never a decline.
func (d *Decoder) ResponseCode(field string, offset int) string {
	if d.err != nil {
		return ""
	}
	code := d.frame[offset : offset+len(Done)]
	if string(code) == Done {
		return Done // spares an allocation
	}
	text := string(code)
	if !isCode(text) {
		d.refuse(field, ReasonNotDigits)
		return ""
	}
	return text
}

// Text reads printable ASCII and drops the padding.
func (d *Decoder) Text(field string, offset, width int) string {
	if d.err != nil {
		return ""
	}
	text := bytes.TrimRight(d.frame[offset:offset+width], " ")
	for _, b := range text {
		if !isPrintable(b) {
			d.refuse(field, ReasonNotPrintable)
			return ""
		}
	}
	return string(text)
}

// Korean reads text for humans. It refuses nothing: see Text.
func (d *Decoder) Korean(offset, width int) Text {
	if d.err != nil {
		return Text{}
	}
	return decodeKorean(d.frame[offset : offset+width])
}

// refuse keeps the first refusal, unless what cannot be read does not matter.
func (d *Decoder) refuse(field string, reason Reason) {
	if d.err == nil && !d.tolerant {
		d.err = &FieldError{Field: field, Reason: reason, kind: ErrDecode}
	}
}
