package frame

import (
	"slices"
	"strings"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Encoder appends one frame, field by field and in order. The first field that
// is refused ends it: the calls after that do nothing, and Finish says why. Its
// errors wrap ErrEncode.
type Encoder struct {
	orig []byte // as given, to be returned when something is refused
	buf  []byte
	err  *FieldError
}

// Append starts a frame of length bytes behind dst.
func Append(dst []byte, length int) Encoder {
	return Encoder{orig: dst, buf: slices.Grow(dst, length)}
}

// Finish returns dst with exactly length bytes more, or dst as it was and the
// error.
func (e *Encoder) Finish(length int) ([]byte, error) {
	if e.err == nil && len(e.buf) != len(e.orig)+length {
		e.refuse(whole, ReasonLength)
	}
	if e.err != nil {
		return e.orig, e.err
	}
	return e.buf, nil
}

// Constant appends a text as it is: constants and fillers, padded by the
// generator.
func (e *Encoder) Constant(text string) {
	if e.err == nil {
		e.buf = append(e.buf, text...)
	}
}

// TransactionID appends an ID of 1 to width printable characters without any
// space.
func (e *Encoder) TransactionID(field string, id tranid.ID, width int) {
	switch {
	case id == "":
		e.refuse(field, ReasonEmpty)
	case strings.IndexByte(string(id), ' ') >= 0:
		e.refuse(field, ReasonSpace)
	default:
		e.Text(field, string(id), width)
	}
}

// Account appends the digits of an account. The zero Number is refused.
func (e *Encoder) Account(field string, n account.Number) {
	if e.err != nil {
		return
	}
	if n.IsZero() {
		e.refuse(field, ReasonEmpty)
		return
	}
	e.buf = n.AppendDigits(e.buf)
}

// Won appends an amount, zero-padded. One below zero or of more than width
// digits is refused.
func (e *Encoder) Won(field string, amount account.Won, width int) {
	e.Number(field, int64(amount), width)
}

// Number appends a number, zero-padded. One below zero or of more than width
// digits is refused.
func (e *Encoder) Number(field string, n int64, width int) {
	if e.err != nil {
		return
	}
	if n < 0 {
		e.refuse(field, ReasonNegative)
		return
	}
	start := len(e.buf)
	e.pad('0', width)
	for i := len(e.buf) - 1; i >= start; i-- {
		e.buf[i] = byte('0' + n%10)
		n /= 10
	}
	if n != 0 {
		e.refuse(field, ReasonTooLong)
	}
}

// Date appends a day as yyyymmdd. The zero Date is refused.
func (e *Encoder) Date(field string, day tranid.Date) {
	switch {
	case e.err != nil:
	case day.IsZero():
		e.refuse(field, ReasonEmpty)
	default:
		e.buf = day.Start().AppendFormat(e.buf, dateLayout)
	}
}

// ResponseCode appends a code of exactly four digits.
func (e *Encoder) ResponseCode(field, code string) {
	if !isCode(code) {
		e.refuse(field, ReasonNotDigits)
		return
	}
	e.Constant(code)
}

// Text appends printable ASCII, padded with spaces. A space at the end of it,
// which the padding would swallow, is refused.
func (e *Encoder) Text(field, text string, width int) {
	if e.err != nil {
		return
	}
	if len(text) > width {
		e.refuse(field, ReasonTooLong)
		return
	}
	for i := range len(text) {
		if !isPrintable(text[i]) {
			e.refuse(field, ReasonNotPrintable)
			return
		}
	}
	if text != "" && text[len(text)-1] == ' ' {
		e.refuse(field, ReasonSpace)
		return
	}
	e.buf = append(e.buf, text...)
	e.pad(' ', width-len(text))
}

// Korean appends text in EUC-KR, padded with spaces. It is never cut: text of
// more than width bytes is refused.
func (e *Encoder) Korean(field string, text Text, width int) {
	if e.err != nil {
		return
	}
	buf, reason := appendKorean(e.buf, text.Value, width)
	if reason != "" {
		e.refuse(field, reason)
		return
	}
	padding := width - (len(buf) - len(e.buf))
	e.buf = buf
	e.pad(' ', padding)
}

func (e *Encoder) pad(b byte, n int) {
	for range n {
		e.buf = append(e.buf, b)
	}
}

// refuse keeps the first refusal.
func (e *Encoder) refuse(field string, reason Reason) {
	if e.err == nil {
		e.err = &FieldError{Field: field, Reason: reason, kind: ErrEncode}
	}
}
