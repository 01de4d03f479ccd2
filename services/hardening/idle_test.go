package hardening

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

const (
	// idleMemory is what a service may hold that does nothing.
	idleMemory = 50 << 20
	// connectionMemory is what an idle connection may cost.
	connectionMemory = 40 << 10
	// idleConnections is how many there may be.
	idleConnections = 10_000
)

// TestIdle_CostsLittle measures services that do nothing.
func TestIdle_CostsLittle(t *testing.T) {
	for _, p := range all(t) {
		rss := p.metric(t, "process_resident_memory_bytes")
		t.Logf("%s: %.1f MB, %v goroutines", p.name, rss/1e6, p.metric(t, "go_goroutines"))
		if rss > idleMemory {
			t.Errorf("%s holds %.0f bytes and does nothing", p.name, rss)
		}
	}
}

// TestConnections_IdleOnesCostLittle holds ten thousand of them.
func TestConnections_IdleOnesCostLittle(t *testing.T) {
	p := startCore(t)
	p.serves(t)
	count := idleConnections
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if room := int(limit.Cur) - 1000; room < count {
		count = room
		t.Logf("only %d connections: this machine allows %d open files", count, limit.Cur)
	}
	memory, goroutines := p.metric(t, "process_resident_memory_bytes"), p.metric(t, "go_goroutines")
	conns := make([]net.Conn, 0, count)
	for range count {
		conns = append(conns, p.raw(t).Conn)
	}
	var each float64
	await(t, "all connections stand", func() bool {
		each = (p.metric(t, "go_goroutines") - goroutines) / float64(count)
		return each > 2.9
	})
	p.serves(t)
	grown := (p.metric(t, "process_resident_memory_bytes") - memory) / float64(count)
	t.Logf("%d connections: %.0f bytes and %.2f goroutines each", count, grown, each)
	if grown > connectionMemory || each > 3.1 {
		t.Errorf("%.0f bytes and %.2f goroutines each", grown, each)
	}
	var failed error
	for _, conn := range conns {
		failed = errors.Join(failed, conn.Close())
	}
	if failed != nil {
		t.Error(failed)
	}
	p.awaitGoroutines(t, goroutines+slack)
}
