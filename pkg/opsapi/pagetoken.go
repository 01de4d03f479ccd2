package opsapi

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// A page token is where the page before ended, and a fingerprint of the filters
// it was made under, so that it cannot be used under others: the pages would
// not belong together. It is no secret and not signed: whoever makes one up
// sees a page that he could have asked for anyway.
//
// Bytes: version 1, fingerprint 8, requested_at in microseconds 8, ID 22; in
// URL-safe base64.
const tokenVersion = 1

const tokenLength = 1 + fingerprintLength + 8 + tranid.Length

const fingerprintLength = 8

// fingerprint tells filters apart.
type fingerprint [fingerprintLength]byte

var errPageToken = errors.New("must be the next_page_token of a page under the same filters")

// fingerprintOf is the fingerprint of a filter without its page. An account is
// in it by its keyed digest alone, so that a token tells nothing of it.
func fingerprintOf(f ledger.Filter) fingerprint {
	f.Limit, f.After = 0, nil
	f.RequestedFrom, f.RequestedTo = f.RequestedFrom.UTC(), f.RequestedTo.UTC()
	text, err := json.Marshal(f)
	if err != nil {
		// A Filter is numbers, texts and valid times.
		panic("marshal a filter: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return fingerprint(sum[:fingerprintLength])
}

// formatPageToken is the token for what comes after next; empty for nil.
func formatPageToken(next *ledger.Cursor, filters fingerprint) string {
	if next == nil {
		return ""
	}
	b := make([]byte, 0, tokenLength)
	b = append(b, tokenVersion)
	b = append(b, filters[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(next.RequestedAt.UnixMicro()))
	b = append(b, next.ID...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// parsePageToken is where the page of the token begins; nil for no token, and
// an error for one that is not of this fingerprint.
func parsePageToken(token string, filters fingerprint) (*ledger.Cursor, error) {
	if token == "" {
		return nil, nil // no token is the first page
	}
	if len(token) != base64.RawURLEncoding.EncodedLen(tokenLength) {
		return nil, errPageToken // the decoder overlooks line feeds
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) != tokenLength || b[0] != tokenVersion {
		return nil, errPageToken
	}
	b = b[1:]
	if fingerprint(b[:fingerprintLength]) != filters {
		return nil, errPageToken
	}
	b = b[fingerprintLength:]
	id, err := tranid.Parse(string(b[8:]))
	if err != nil {
		return nil, errPageToken
	}
	at := time.UnixMicro(int64(binary.BigEndian.Uint64(b))).UTC()
	if at.Year() < 1 || at.Year() > 9999 {
		return nil, errPageToken
	}
	return &ledger.Cursor{RequestedAt: at, ID: id}, nil
}
