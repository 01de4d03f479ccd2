package frame

// longRun is how many digits in a row may be an account number.
const longRun = 7

// mask stands for a digit that is not shown.
const mask = '*'

// hyphen, alone between two digits, joins them.
const hyphen = '-'

// MaskDigits replaces each digit of a run of 7 or more by an asterisk, so that
// text of the core that repeats an account number can be stored and shown.
// Full-width digits count as digits, and a single hyphen between two digits does
// not end a run: accounts are often written with them.
func MaskDigits(s string) string {
	if !hasLongRun(s) {
		return s
	}
	runes := []rune(s)
	for start := 0; start < len(runes); {
		end, digits := runAt(runes, start)
		for i := start; i < end && digits >= longRun; i++ {
			if isDigitRune(runes[i]) {
				runes[i] = mask
			}
		}
		start = max(end, start+1)
	}
	return string(runes)
}

// runAt is the end of the run that begins at start, and how many digits it has;
// start and none if there is no digit.
func runAt(runes []rune, start int) (end, digits int) {
	end = start
	for i := start; i < len(runes); i++ {
		switch {
		case isDigitRune(runes[i]):
			digits++
			end = i + 1
		case runes[i] != hyphen || end != i || digits == 0:
			return end, digits
		}
	}
	return end, digits
}

// hasLongRun reports whether there may be anything to mask. It allocates
// nothing.
func hasLongRun(s string) bool {
	run := 0
	for _, r := range s {
		switch {
		case isDigitRune(r):
			if run++; run == longRun {
				return true
			}
		case r != hyphen:
			run = 0
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
	for start := 0; start < len(field); {
		end, digits := fieldRunAt(field, start)
		if digits == 0 {
			end = start + charSize(field[start:])
		}
		for i := start; i < end && digits >= longRun; {
			size := charSize(field[i:])
			if isDigitChar(field[i : i+size]) {
				HideSecret(field[i : i+size])
			}
			i += size
		}
		start = end
	}
}

// fieldRunAt is runAt over the bytes of a K field.
func fieldRunAt(field []byte, start int) (end, digits int) {
	end = start
	for i := start; i < len(field); {
		size := charSize(field[i:])
		switch {
		case isDigitChar(field[i : i+size]):
			digits++
			end = i + size
		case field[i] != hyphen || end != i || digits == 0:
			return end, digits
		}
		i += size
	}
	return end, digits
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
