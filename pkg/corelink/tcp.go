package corelink

import (
	"net"
	"time"
)

// keepAlive is how often an idle connection is probed, so that one which is dead
// is known to be before it is used.
const keepAlive = 15 * time.Second

// NewTCP returns a Link over TCP, by the machine's clock.
func NewTCP(flags Flags, name string, metrics *Metrics) *Link {
	dialer := net.Dialer{KeepAlive: keepAlive}
	return New(Options{Flags: flags, Name: name, Dial: dialer.DialContext, Now: time.Now, Metrics: metrics})
}
