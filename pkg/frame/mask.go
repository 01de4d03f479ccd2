package frame

import "strings"

// longRun is how many digits in a row may be an account number.
const longRun = 7

// mask stands for a digit that is not shown.
const mask = '*'

// MaskDigits replaces each digit of a run of 7 or more by an asterisk, so that
// text of the core that repeats an account number can be stored and shown.
// Full-width digits count as digits.
func MaskDigits(s string) string {
	if !hasLongRun(s) {
		return s
	}
	var out strings.Builder
	out.Grow(len(s))
	runes := []rune(s)
	for i := 0; i < len(runes); {
		run := 0
		for i+run < len(runes) && isDigitRune(runes[i+run]) {
			run++
		}
		switch {
		case run >= longRun:
			out.WriteString(strings.Repeat(string(mask), run))
			i += run
		case run > 0:
			out.WriteString(string(runes[i : i+run]))
			i += run
		default:
			out.WriteRune(runes[i])
			i++
		}
	}
	return out.String()
}

func hasLongRun(s string) bool {
	run := 0
	for _, r := range s {
		if !isDigitRune(r) {
			run = 0
			continue
		}
		if run++; run == longRun {
			return true
		}
	}
	return false
}

func isDigitRune(r rune) bool {
	return r >= '0' && r <= '9' || r >= '０' && r <= '９'
}

// HideSecret overwrites a field that must not be shown at all.
func HideSecret(field []byte) {
	for i := range field {
		field[i] = mask
	}
}

// HideLongRuns overwrites in a K field what MaskDigits would replace in its
// text, byte for byte: a full-width digit becomes two asterisks.
func HideLongRuns(field []byte) {
	digits, start := 0, 0
	for i := 0; i < len(field); {
		size := charSize(field[i:])
		if !isDigitChar(field[i : i+size]) {
			digits = 0
			i += size
			continue
		}
		if digits == 0 {
			start = i
		}
		i += size
		if digits++; digits >= longRun {
			HideSecret(field[start:i])
		}
	}
}

// HideDigits overwrites every digit, for bytes whose layout is not known.
func HideDigits(b []byte) {
	for i := range b {
		if isDigit(b[i]) {
			b[i] = mask
		} else if i+1 < len(b) && isDigitChar(b[i:i+2]) {
			HideSecret(b[i : i+2])
		}
	}
}

// charSize is how many bytes the decoder takes as one character, as far as it
// matters here: no ASCII digit is ever the second byte of one.
func charSize(b []byte) int {
	if len(b) > 1 && b[0] >= 0x81 && b[0] < badByte && b[1] >= 0x80 {
		return 2
	}
	return 1
}

// isDigitChar reports whether the bytes of one character are a digit, ASCII or
// full-width.
func isDigitChar(b []byte) bool {
	if len(b) == 2 {
		return b[0] == 0xA3 && b[1] >= 0xB0 && b[1] <= 0xB9
	}
	return isDigit(b[0])
}
