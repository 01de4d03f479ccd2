package integration

import (
	"io"
	"net"
	"sync"
	"testing"
)

// relay passes bytes between its callers and a server, and knows nothing of
// them. It stands between a service and PostgreSQL.
type relay struct {
	*gate

	network, target string
}

// newRelay opens a relay to a server.
func newRelay(t testing.TB, network, target string) *relay {
	t.Helper()
	r := &relay{network: network, target: target}
	r.gate = newGate(t, r.pass)
	r.open(t)
	return r
}

func (r *relay) pass(conn net.Conn) {
	server, err := net.Dial(r.network, r.target)
	if err != nil {
		resetConn(conn)
		return
	}
	var both sync.WaitGroup
	both.Go(func() { pour(server, conn) })
	both.Go(func() { pour(conn, server) })
	both.Wait()
}

// pour copies until either side ends, and then ends the other.
func pour(to, from net.Conn) {
	_, _ = io.Copy(to, from) // how it ended does not matter
	_ = to.Close()
}
