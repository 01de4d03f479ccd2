package rpcserver

import (
	"net"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// How many connections a port may have at a time. Each costs three goroutines and
// some 17 KB, whether or not anybody has shown a key on it.
const (
	maxConnections      = 16 << 10
	maxAdminConnections = 256
)

// crowd is a listener with room for so many connections. One too many is closed
// at once: its caller tries another server, or later, and waits for nothing.
type crowd struct {
	net.Listener

	most    int64
	open    atomic.Int64
	refused prometheus.Counter
}

// Accept waits for a connection for which there is room.
func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err // its owner words it
		}
		if c.open.Add(1) <= c.most {
			return &admitted{Conn: conn, leave: sync.OnceFunc(func() { c.open.Add(-1) })}, nil
		}
		c.open.Add(-1)
		c.refused.Inc()
		_ = conn.Close() // nothing was said on it
	}
}

// admitted is a connection that makes room when it is closed.
type admitted struct {
	net.Conn

	leave func()
}

// Close closes the connection.
func (a *admitted) Close() error {
	defer a.leave()
	return a.Conn.Close()
}
