// Package account holds the two values that a careless line must never get
// wrong: an account number, which hides itself wherever Go can print it, and an
// amount in won.
//
// It stands at the bottom of the house.
package account

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"strings"
	"sync"

	"github.com/gwanmun/gwanmun/pkg/veiled"
)

// MaxDigits is the width of an account number at the core.
const MaxDigits = 14

// hidden stands for the digits that are not shown, however many there are, so
// that a mask does not tell how long the number is.
const hidden = "****"

// zeros pads a number to the width that the core knows it by.
const zeros = "00000000000000"

// ErrNumber says that a text is not an account number. It does not repeat the
// text.
var ErrNumber = errors.New("account number must be 1 to 14 digits 0-9")

// Number is an account number. Every way in which Go prints, logs or marshals a
// value shows it masked; AppendDigits and Hash alone see the digits. Two
// Numbers are == if they name the same account: leading zeros mean nothing.
//
// The zero Number is no account; it is not the all-zero account.
type Number struct {
	// digits are the 14 of them, veiled: not everything that prints a value calls
	// its methods.
	digits veiled.Text
}

// Parse reads 1 to 14 ASCII digits. The error never repeats the input.
func Parse(s string) (Number, error) {
	if len(s) < 1 || len(s) > MaxDigits {
		return Number{}, ErrNumber
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return Number{}, ErrNumber
		}
	}
	return Number{digits: veiled.Of(zeros[len(s):] + s)}, nil
}

// IsZero reports whether n is no account at all.
func (n Number) IsZero() bool { return n == Number{} }

// AppendDigits appends the 14 digits. It is the only way to the number itself,
// for the frame that carries it to the core and for the bank's own book.
func (n Number) AppendDigits(dst []byte) []byte { return n.digits.Append(dst) }

// Hash is the keyed digest under which the ledger looks the account up without
// knowing it.
func (n Number) Hash(key []byte) [sha256.Size]byte {
	d, _ := digesters.Get().(*digester)
	if d == nil || !bytes.Equal(d.key, key) {
		d = &digester{key: bytes.Clone(key), mac: hmac.New(sha256.New, key)}
	}
	defer digesters.Put(d)
	return d.digest(n)
}

// digesters are *digester that wait for the next Hash. A process has one key, and
// to take it in costs as much as to digest an account.
var digesters sync.Pool

// digester digests accounts under its key. It belongs to one goroutine at a time.
type digester struct {
	key []byte
	mac hash.Hash
	// digits and sum are room for one digest.
	digits [MaxDigits]byte
	sum    [sha256.Size]byte
}

func (d *digester) digest(n Number) [sha256.Size]byte {
	d.mac.Reset()
	d.mac.Write(n.AppendDigits(d.digits[:0]))
	clear(d.digits[:])
	d.mac.Sum(d.sum[:0])
	return d.sum
}

// Masked shows at most the first 6 and the last 4 significant digits, at most
// the last 2 of a number of 10 digits or fewer, and always hides at least four.
func (n Number) Masked() string {
	if n.IsZero() {
		return ""
	}
	digits := strings.TrimLeft(string(n.AppendDigits(nil)), "0")
	if len(digits) > 10 {
		head := min(6, len(digits)-8)
		return digits[:head] + hidden + digits[len(digits)-4:]
	}
	tail := max(0, min(2, len(digits)-4))
	return hidden + digits[len(digits)-tail:]
}

// String returns the masked number.
func (n Number) String() string { return n.Masked() }

// GoString returns the masked number.
func (n Number) GoString() string { return "account.Number(" + n.Masked() + ")" }

// Format writes the masked number for every verb.
func (n Number) Format(f fmt.State, verb rune) {
	text := n.Masked()
	switch {
	case verb == 'v' && f.Flag('#'):
		text = n.GoString()
	case verb == 'q':
		text = `"` + text + `"`
	}
	// A fmt.State keeps its own error; there is no one to tell here.
	_, _ = f.Write([]byte(text))
}

// MarshalText returns the masked number; JSON, XML and maps go through it.
func (n Number) MarshalText() ([]byte, error) { return []byte(n.Masked()), nil }

// LogValue logs the masked number.
func (n Number) LogValue() slog.Value { return slog.StringValue(n.Masked()) }
