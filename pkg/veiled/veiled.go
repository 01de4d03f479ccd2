// Package veiled keeps a secret text out of reach of everything that looks into
// values without asking them how they want to be seen.
//
// It stands at the bottom of the house and imports nothing of it.
package veiled

import (
	"crypto/rand"
	"unique"
)

// Text is a secret text. Two of them are == if they are of the same text; the zero
// Text is none. A type that holds one in an unexported field still has to say how
// it is printed, but what goes round that finds nothing: fmt calls no method of a
// value in an unexported field, nor for %p and %w, and prints the address of a
// handle there; printers that look behind pointers by reflection (go-cmp for two
// values that print alike, spew) find the text under a pad that is another one in
// each process.
//
// It is a veil against accidents. It is no encryption: the pad is in the same
// process.
type Text struct {
	handle unique.Handle[string] // the same for the same text
}

// pad hides a text of any length, being used again where it ends.
var pad = func() (p [64]byte) {
	_, _ = rand.Read(p[:]) // which never fails
	return p
}()

// Of veils a text.
func Of(text string) Text { return Text{handle: unique.Make(string(turn([]byte(text))))} }

// Append appends the text itself to dst; nothing for the zero Text.
func (t Text) Append(dst []byte) []byte {
	if t.IsZero() {
		return dst
	}
	start := len(dst)
	dst = append(dst, t.handle.Value()...)
	turn(dst[start:])
	return dst
}

// IsZero reports whether t is no text at all; that of the empty text is one.
func (t Text) IsZero() bool { return t == Text{} }

// turn veils bytes, or unveils them, in place.
func turn(b []byte) []byte {
	for i := range b {
		b[i] ^= pad[i%len(pad)]
	}
	return b
}
