package frame

import (
	"bytes"
	"errors"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"
)

// Text is text for humans from a K field, already safe to store and to show:
// valid UTF-8 without control characters, in which runs of 7 or more digits are
// masked. It decides nothing.
type Text struct {
	// Value is the text without its padding. U+FFFD stands where bytes were no
	// character.
	Value string
	// Damaged says that the bytes were not all EUC-KR: Value may not be what was
	// meant. CP949 characters are shown, and flagged. Encoding ignores it.
	Damaged bool
}

// maxInput bounds the UTF-8 that may fit one byte of a field: the longest is
// decomposed Hangul, nine bytes for a character of two.
const maxInput = 5

// badByte is a byte that no charset in question assigns, so that the decoder
// makes it U+FFFD.
const badByte = 0xFF

// codec is one converter in each direction with its buffers. x/text does not
// allow concurrent use of a converter, hence the pool.
type codec struct {
	encoder *encoding.Encoder
	decoder *encoding.Decoder
	in      []byte
	out     [MaxText * utf8.UTFMax]byte
}

var codecs = sync.Pool{New: func() any {
	return &codec{encoder: korean.EUCKR.NewEncoder(), decoder: korean.EUCKR.NewDecoder()}
}}

// appendKorean appends text in EUC-KR without padding, or says why not.
func appendKorean(dst []byte, text string, width int) ([]byte, Reason) {
	if len(text) > width*maxInput {
		return nil, ReasonTooLong
	}
	ascii := true
	for i := range len(text) {
		switch b := text[i]; {
		case b >= utf8.RuneSelf:
			ascii = false
		case !isPrintable(b):
			return nil, ReasonControl
		}
	}
	if ascii {
		if len(text) > width {
			return nil, ReasonTooLong
		}
		return append(dst, text...), ""
	}
	c := codecs.Get().(*codec)
	defer codecs.Put(c)
	encoded, reason := c.encode(text, width)
	return append(dst, encoded...), reason
}

// encode returns a slice of c. Text is taken as it is first: NFC would turn some
// characters of EUC-KR itself (the ohm and angstrom signs, doubled Hanja) into
// others. What EUC-KR lacks, such as decomposed Hangul, is composed.
func (c *codec) encode(text string, width int) ([]byte, Reason) {
	c.in = append(c.in[:0], text...)
	encoded, reason := c.encodeInput(width)
	if reason == ReasonCharset {
		c.in = norm.NFC.AppendString(c.in[:0], text)
		encoded, reason = c.encodeInput(width)
	}
	return encoded, reason
}

func (c *codec) encodeInput(width int) ([]byte, Reason) {
	n, _, err := c.encoder.Transform(c.out[:width], c.in, true)
	switch {
	case errors.Is(err, transform.ErrShortDst):
		return nil, ReasonTooLong
	case err != nil, !isStrict(c.out[:n]):
		return nil, ReasonCharset
	}
	return c.out[:n], ""
}

// isStrict reports whether bytes are EUC-KR and not only CP949, its superset, by
// whose table x/text converts.
func isStrict(b []byte) bool {
	for i := 0; i < len(b); i++ {
		if b[i] < utf8.RuneSelf {
			continue
		}
		if i+1 == len(b) || b[i] < 0xA1 || b[i+1] < 0xA1 {
			return false
		}
		i++
	}
	return true
}

// decodeKorean makes a Text of a K field.
func decodeKorean(field []byte) Text {
	trimmed := bytes.TrimRight(field, " ")
	ascii := true
	for _, b := range trimmed {
		ascii = ascii && isPrintable(b)
	}
	if ascii {
		return Text{Value: MaskDigits(string(trimmed))}
	}
	c := codecs.Get().(*codec)
	defer codecs.Put(c)
	return c.decode(trimmed)
}

func (c *codec) decode(field []byte) Text {
	c.in = append(c.in[:0], field...)
	for i, b := range c.in {
		if b < utf8.RuneSelf && !isPrintable(b) {
			c.in[i] = badByte
		}
	}
	// The decoder never errs for what is wrong in the text, and the buffer is
	// large enough for the widest field.
	n, _, _ := c.decoder.Transform(c.out[:], c.in, true)
	value := c.out[:n]
	damaged := !isStrict(c.in) || bytes.ContainsRune(value, utf8.RuneError)
	return Text{Value: MaskDigits(string(value)), Damaged: damaged}
}
