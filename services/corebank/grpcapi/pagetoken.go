package grpcapi

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math"

	"github.com/gwanmun/gwanmun/services/corebank/simulator"
)

// A page token is the sequence behind which the page starts, and a fingerprint
// of the filters it was made under, so that it is not taken for a place among
// other entries. It is no secret.
//
// Bytes: version 1, fingerprint 4, sequence 8; in URL-safe base64.
const (
	tokenVersion = 1
	tokenLength  = 1 + 4 + 8
)

var errPageToken = errors.New("must be the next_page_token of a page under the same filters")

func fingerprint(f simulator.Filter) uint32 {
	h := fnv.New32a()
	// A hash.Hash never returns an error.
	_, _ = h.Write([]byte(f.MTI + "\x00" + string(f.TranID)))
	return h.Sum32()
}

func formatPageToken(after int64, f simulator.Filter) string {
	b := append(make([]byte, 0, tokenLength), tokenVersion)
	b = binary.BigEndian.AppendUint32(b, fingerprint(f))
	b = binary.BigEndian.AppendUint64(b, uint64(after))
	return base64.RawURLEncoding.EncodeToString(b)
}

// parsePageToken is the sequence behind which the page starts; 0 for no token.
func parsePageToken(token string, f simulator.Filter) (int64, error) {
	if token == "" {
		return 0, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) != tokenLength || b[0] != tokenVersion ||
		binary.BigEndian.Uint32(b[1:]) != fingerprint(f) {
		return 0, errPageToken
	}
	after := binary.BigEndian.Uint64(b[5:])
	if after > math.MaxInt64 {
		return 0, errPageToken
	}
	return int64(after), nil
}
