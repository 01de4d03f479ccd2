package telemetry

import (
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// plainWriter writes lines of JSON with the characters escaped that
// encoding/json lets through and that a terminal or a reader could still be
// fooled by: DEL, the C1 controls (U+009B starts an escape sequence) and what
// is invisible or turns the direction of text. In JSON such characters occur in
// strings only, so an escape is always in its place.
type plainWriter struct {
	w io.Writer
}

// Write writes one line. It reports the length of what it was given.
func (p plainWriter) Write(line []byte) (int, error) {
	out := line
	if suspicious(line) {
		out = escaped(line)
	}
	if _, err := p.w.Write(out); err != nil {
		return 0, fmt.Errorf("write the log: %w", err)
	}
	return len(line), nil
}

// suspicious reports whether there is anything but printable ASCII before the
// line's end.
func suspicious(line []byte) bool {
	for _, c := range line {
		if c >= 0x7f {
			return true
		}
	}
	return false
}

func escaped(line []byte) []byte {
	out := make([]byte, 0, len(line)+len(line)/4)
	for len(line) > 0 {
		r, size := utf8.DecodeRune(line)
		switch {
		case r < 0x7f, !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r):
			out = append(out, line[:size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		line = line[size:]
	}
	return out
}
