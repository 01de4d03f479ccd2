package ledger

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"sync"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/veiled"
)

// HashKey is the secret under which the ledger digests what it must recognise
// and may not know. Every way in which Go prints a value shows `***`, or the
// address of what it does not look into.
type HashKey struct {
	key veiled.Text
}

// ErrHashKey says that a text is not a hash key. It does not repeat the text.
var ErrHashKey = errors.New("hash key must be 64 hexadecimal digits")

// ParseHashKey reads 64 hexadecimal digits.
func ParseHashKey(s string) (HashKey, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != sha256.Size {
		return HashKey{}, ErrHashKey
	}
	return HashKey{key: veiled.Of(string(b))}, nil
}

// bytes are the key; the zero HashKey has none.
func (k HashKey) bytes() []byte {
	return k.key.Append(nil)
}

// Account is the digest under which an account is looked up.
func (k HashKey) Account(n account.Number) Hash { return n.Hash(k.bytes()) }

// Payment is the digest of a payment's account, which is that of Account, and its
// fingerprint, the digest of all that it asks for. Two requests with one key are the
// same payment if their fingerprints are the same.
func (k HashKey) Payment(n account.Number, amount account.Won, order OrderID, policy Policy) (of, fingerprint Hash) {
	of = k.Account(n)
	fields := append([]byte("gwanmun payment 1\x00"), of[:]...)
	fields = binary.BigEndian.AppendUint64(fields, uint64(amount))
	fields = append(fields, byte(policy))
	fields = append(fields, order...) // last, so that its length needs no mark
	return of, k.sum(fields)
}

// Check is a digest of nothing secret: a book keeps it to recognise its key.
func (k HashKey) Check() Hash { return k.sum([]byte("gwanmun ledger check 1")) }

func (k HashKey) sum(b []byte) Hash {
	s, _ := summers.Get().(*summer)
	if s == nil || s.key != k {
		s = &summer{key: k, mac: hmac.New(sha256.New, k.bytes())}
	}
	defer summers.Put(s)
	s.mac.Reset()
	s.mac.Write(b)
	s.mac.Sum(s.last[:0])
	return s.last
}

// summers are *summer that wait for the next sum. A process has one key, and to
// take it in costs as much as to digest a payment.
var summers sync.Pool

// summer digests under its key. It belongs to one goroutine at a time.
type summer struct {
	key HashKey
	mac hash.Hash
	// last is room for one digest.
	last Hash
}

const secret = "***"

// String hides the key.
func (k HashKey) String() string { return secret }

// GoString hides the key.
func (k HashKey) GoString() string { return secret }

// Format hides the key for every verb.
func (k HashKey) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(secret)) }

// MarshalText hides the key.
func (k HashKey) MarshalText() ([]byte, error) { return []byte(secret), nil }

// LogValue hides the key.
func (k HashKey) LogValue() slog.Value { return slog.StringValue(secret) }
