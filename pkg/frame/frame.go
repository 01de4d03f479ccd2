// Package frame is what the generated telegrams stand on: it writes and reads
// the fields of a frame by their kinds (X text, N digits, K text in EUC-KR), and
// hides what must not be shown. A frame is of fixed length, or a Listing.
//
// It stands above account and tranid and knows no telegram; the layouts are in
// telegram.proto, and protoc-gen-telegram writes the calls. Writing is
// fail-closed: a value that does not fit its field, or that the core would read
// as another, is an error before a byte is returned. Reading is strict in
// whatever decides an outcome and lenient in text for humans.
package frame

import "errors"

// Done is the response code of a telegram whose request was done. Every other
// one is a decline.
const Done = "0000"

// MaxDigits is the widest N field: any 18 digits fit an int64.
const MaxDigits = 18

// MaxText is the widest K field.
const MaxText = 128

var (
	// ErrEncode says that a value cannot be written into its field. Nothing was
	// written.
	ErrEncode = errors.New("telegram cannot be encoded")
	// ErrDecode says that bytes are no frame of the telegram: they are garbage
	// and answer nothing.
	ErrDecode = errors.New("frame is garbage")
)

// Reason is why a field was refused. It never holds anything of the value.
type Reason string

const (
	// ReasonLength says that the frame is shorter or longer than the telegram.
	ReasonLength Reason = "wrong length"
	// ReasonConstant says that a constant of the telegram is another text.
	ReasonConstant Reason = "not the constant"
	// ReasonEmpty says that a value is missing that cannot be.
	ReasonEmpty Reason = "empty"
	// ReasonTooLong says that a value needs more bytes than its field has.
	ReasonTooLong Reason = "too long"
	// ReasonNegative says that a number or an amount is below zero.
	ReasonNegative Reason = "negative"
	// ReasonNotDigits says that there is something else than the digits 0-9.
	ReasonNotDigits Reason = "not digits"
	// ReasonNotPrintable says that there is something else than printable ASCII.
	ReasonNotPrintable Reason = "not printable ASCII"
	// ReasonSpace says that there is a space where the padding would swallow it,
	// or in a transaction ID.
	ReasonSpace Reason = "misplaced space"
	// ReasonControl says that text has a control character, NUL among them.
	ReasonControl Reason = "control character"
	// ReasonNotDate says that there is no day of the calendar from 2000 on.
	ReasonNotDate Reason = "not a day"
	// ReasonCount says that the record count is not that of the records.
	ReasonCount Reason = "not the count of the records"
	// ReasonTooMany says that there are more records than the telegram may have.
	ReasonTooMany Reason = "too many records"
	// ReasonCharset says that text has a character that EUC-KR lacks.
	ReasonCharset Reason = "character outside EUC-KR"
)

// FieldError says which field was refused and why, never its value. It wraps
// ErrEncode or ErrDecode.
type FieldError struct {
	// Field is the field's name in telegram.proto, or "frame" for the whole.
	Field string
	// Reason is what is wrong with it.
	Reason Reason

	kind error
}

// Error names the field and the reason.
func (e *FieldError) Error() string {
	return e.kind.Error() + ": " + e.Field + ": " + string(e.Reason)
}

// Unwrap is ErrEncode or ErrDecode.
func (e *FieldError) Unwrap() error { return e.kind }

// whole is the name of the frame itself in a FieldError.
const whole = "frame"

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

func isPrintable(b byte) bool { return b >= ' ' && b <= '~' }

func isCode(s string) bool {
	return len(s) == len(Done) && isDigit(s[0]) && isDigit(s[1]) && isDigit(s[2]) && isDigit(s[3])
}
