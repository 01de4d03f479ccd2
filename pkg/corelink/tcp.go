package corelink

import "time"

// keepAlive is how often an idle connection is probed, so that one which is dead
// is known to be before it is used.
const keepAlive = 15 * time.Second

// NewTCP returns a Link over TCP, or TLS where the flags say so, by the machine's
// clock.
func NewTCP(flags Flags, name string, metrics *Metrics) (*Link, error) {
	dial, err := flags.Dialer()
	if err != nil {
		return nil, err
	}
	return New(Options{Flags: flags, Name: name, Dial: dial, Now: time.Now, Metrics: metrics}), nil
}
