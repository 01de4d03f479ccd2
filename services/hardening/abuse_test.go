package hardening

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// untilClosed reads a connection until the server closes it.
func untilClosed(conn net.Conn) error {
	_, err := io.Copy(io.Discard, conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("it is not closed: %w", err)
	}
	return nil // closed, or reset
}

// metric is the value of a metric without labels.
func (p *process) metric(t testing.TB, name string) float64 {
	t.Helper()
	_, page := p.fetch(t, "/metrics", "")
	for line := range strings.Lines(page) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Errorf("read %q: %v", line, err)
			}
			return f
		}
	}
	t.Fatalf("%s has no metric %s", p.name, name)
	return 0
}

// awaitGoroutines waits until the process has no more goroutines than it had.
func (p *process) awaitGoroutines(t testing.TB, most float64) {
	t.Helper()
	await(t, fmt.Sprintf("%s has %v goroutines", p.name, most), func() bool { return p.metric(t, "go_goroutines") <= most })
}

// slack is how many goroutines come and go by themselves.
const slack = 10

// TestRapidReset_CostsNothingThatLasts opens and resets streams as fast as the
// connection takes them. Others are served meanwhile.
func TestRapidReset_CostsNothingThatLasts(t *testing.T) {
	const resets = 20_000
	p := startCore(t)
	p.serves(t)
	before := p.metric(t, "go_goroutines")
	c := p.raw(t)
	read := make(chan error, 1)
	go func() { read <- untilClosed(c.Conn) }()
	all := fields(p.methods(t)[0].path)
	sent := 0
	for ; sent < resets; sent++ {
		if errors.Join(c.open(all), c.framer.WriteRSTStream(c.last, http2.ErrCodeCancel)) != nil {
			break // sent away, which is as good
		}
		if sent == resets/2 {
			p.serves(t)
		}
	}
	if sent < resets/2 {
		t.Logf("sent away after %d", sent)
	}
	p.serves(t)
	_ = c.Close()
	if err := <-read; err != nil {
		t.Error(err)
	}
	p.awaitGoroutines(t, before+slack)
}

// TestPings_TooOftenEndTheConnection sends more pings than anybody needs.
func TestPings_TooOftenEndTheConnection(t *testing.T) {
	p := startCore(t)
	c := p.raw(t)
	defer func() { _ = c.Close() }()
	for i := range 10 {
		if c.framer.WritePing(false, [8]byte{byte(i)}) != nil {
			break // sent away already
		}
	}
	if a := c.answer(); !strings.Contains(a.cut, "ENHANCE_YOUR_CALM") {
		t.Errorf("it ends with %+v", a)
	}
	p.serves(t)
}

// TestHeaders_ThatNeverEnd sends fragments of headers without end: the connection
// is closed long before they are a burden.
func TestHeaders_ThatNeverEnd(t *testing.T) {
	const most = 64 << 20
	p := startCore(t)
	c := p.raw(t)
	defer func() { _ = c.Close() }()
	if err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x86}}); err != nil {
		t.Fatal(err)
	}
	go func() { _ = untilClosed(c.Conn) }()
	part := []byte(strings.Repeat("\x00\x01a\x05bbbbb", 1800)) // fields that no table keeps
	sent := 0
	for c.framer.WriteContinuation(1, false, part) == nil {
		if sent += len(part); sent > most {
			t.Fatalf("%d bytes of headers are taken", sent)
		}
	}
	p.serves(t)
}

// TestSlowConnections_AreClosed opens connections that never get to the point.
func TestSlowConnections_AreClosed(t *testing.T) {
	t.Parallel()
	const handshake = 10 * time.Second
	services := all(t)
	var conns []net.Conn
	var before []float64
	for _, p := range services {
		before = append(before, p.metric(t, "go_goroutines"))
		for _, begun := range []string{"", "P", http2.ClientPreface[:20], http2.ClientPreface, http2.ClientPreface + "\x00\x00"} {
			for range 20 {
				conns = append(conns, begin(t, p.address(t, "grpc"), begun))
			}
		}
	}
	began := time.Now()
	for _, conn := range conns {
		if err := untilClosed(conn); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took > 2*handshake {
		t.Errorf("they are closed after %s", took)
	}
	for i, p := range services {
		p.awaitGoroutines(t, before[i]+slack)
		p.serves(t)
	}
}

// TestAdmin_SlowRequestsAreClosed does the same at the admin port.
func TestAdmin_SlowRequestsAreClosed(t *testing.T) {
	t.Parallel()
	p := startCore(t)
	var conns []net.Conn
	for _, begun := range []string{
		"", "GET /met", "GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: ", "GET /metrics HTTP/1.1\r\nX: " + strings.Repeat("x", 20<<10),
	} {
		conns = append(conns, begin(t, p.address(t, "admin"), begun))
	}
	for _, conn := range conns {
		if err := untilClosed(conn); err != nil {
			t.Error(err)
		}
	}
}

// begin connects and sends the beginning of something.
func begin(t *testing.T, address, begun string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, begun) // what is too long is cut while it is written
	return conn
}
