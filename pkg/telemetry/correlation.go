package telemetry

import (
	"context"
	"crypto/rand"

	"github.com/oklog/ulid/v2"
)

// maxCorrelationID is the longest correlation ID that is taken over.
const maxCorrelationID = 64

type correlationKey struct{}

// WithCorrelationID returns a context whose log lines carry the ID. The ID must
// satisfy ValidCorrelationID.
func WithCorrelationID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, correlationKey{}, id)
}

// CorrelationID is the ID that ctx carries; empty if it carries none.
func CorrelationID(ctx context.Context) string {
	id, _ := ctx.Value(correlationKey{}).(string)
	return id
}

// NewCorrelationID makes an ID, a ULID: 48 bits of time, in milliseconds, and 80 that
// are random. IDs that ascend are entered at the end of the ledger's index, in place
// of a page of it that was not touched for days.
func NewCorrelationID() string { return ulid.MustNew(ulid.Now(), rand.Reader).String() }

// ValidCorrelationID reports whether an ID from outside may be taken over: 1 to
// 64 of A-Z, a-z, 0-9, dot, underscore and hyphen.
func ValidCorrelationID(id string) bool {
	if len(id) < 1 || len(id) > maxCorrelationID {
		return false
	}
	for i := range len(id) {
		if !plain(id[i]) && id[i] != '.' && id[i] != '_' {
			return false
		}
	}
	return true
}

// plain reports whether c is a letter, a digit or a hyphen of ASCII.
func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-'
}
