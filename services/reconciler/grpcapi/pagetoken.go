package grpcapi

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"
)

// place is where a page of settlement ended. Its token has a fingerprint of the
// filters it was made under, so that it cannot be used under others: the pages
// would not belong together. It is no secret and not signed: whoever makes one up
// sees a page that he could have asked for anyway.
//
// Bytes: version 1, fingerprint 8, time in microseconds 8, the rest is the ID; in
// URL-safe base64.
type place struct {
	at time.Time
	id string
}

const (
	tokenVersion      = 1
	fingerprintLength = 8
	tokenHead         = 1 + fingerprintLength + 8
	// maxTokenID is the longest name of a run or a discrepancy.
	maxTokenID = 64
)

var errPageToken = errors.New("must be the next_page_token of a page under the same filters")

func fingerprintOf(filters string) string {
	sum := sha256.Sum256([]byte(filters))
	return string(sum[:fingerprintLength])
}

func (p place) token(filters string) string {
	b := append(make([]byte, 0, tokenHead+len(p.id)), tokenVersion)
	b = append(b, fingerprintOf(filters)...)
	b = binary.BigEndian.AppendUint64(b, uint64(p.at.UnixMicro()))
	return base64.RawURLEncoding.EncodeToString(append(b, p.id...))
}

// parsePageToken is where the page of a token begins; nil for no token, and an
// error for one that was not made under these filters.
func parsePageToken(token, filters string) (*place, error) {
	if token == "" {
		return nil, nil //nolint:nilnil // no token is the first page
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) <= tokenHead || len(b) > tokenHead+maxTokenID || b[0] != tokenVersion ||
		base64.RawURLEncoding.EncodedLen(len(b)) != len(token) || // the decoder overlooks line feeds
		string(b[1:1+fingerprintLength]) != fingerprintOf(filters) {
		return nil, errPageToken
	}
	at := time.UnixMicro(int64(binary.BigEndian.Uint64(b[1+fingerprintLength:]))).UTC()
	if at.Year() < 1 || at.Year() > 9999 {
		return nil, errPageToken
	}
	for _, c := range b[tokenHead:] {
		if c < '0' || c > 'Z' {
			return nil, errPageToken // no ID of ours, and no database must read it
		}
	}
	return &place{at: at, id: string(b[tokenHead:])}, nil
}
