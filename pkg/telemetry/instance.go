package telemetry

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
)

// maxHost is how much of a host's name goes into an instance's.
const maxHost = 32

// NewInstance names this process in events and leases, as in
// payment-web1-4711-9f3c. It has letters, digits and hyphens only. The last
// four digits are random, so that a restarted process is another instance even
// where host and process ID are the same, as they are in a container.
func NewInstance(service string) string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%s-%d-%s", hyphened(service), hyphened(host), os.Getpid(), randomHex())
}

func randomHex() string {
	var b [2]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

// hyphened is the text with everything but letters, digits and hyphens of ASCII
// replaced by a hyphen, and cut to maxHost bytes.
func hyphened(s string) string {
	b := []byte(s[:min(len(s), maxHost)])
	for i, c := range b {
		if !plain(c) {
			b[i] = '-'
		}
	}
	return string(b)
}
