package operations

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
)

// attacker speaks HTTP/2 as no library would.
type attacker struct {
	conn   net.Conn
	framer *http2.Framer
	block  bytes.Buffer
	fields *hpack.Encoder
}

func newAttacker(t testing.TB, p *process) *attacker {
	t.Helper()
	a := &attacker{conn: dial(t, p.address(t, "grpc"))}
	a.framer = http2.NewFramer(a.conn, a.conn)
	a.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	a.fields = hpack.NewEncoder(&a.block)
	if _, err := io.WriteString(a.conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := a.framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return a
}

// open opens a stream with a path, and sends an empty message on it.
func (a *attacker) open(id uint32, path, key string) error {
	a.block.Reset()
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: path},
		{Name: ":authority", Value: "gwanmun"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
		{Name: "x-api-key", Value: key},
	} {
		if err := a.fields.WriteField(f); err != nil {
			return err
		}
	}
	return errors.Join(
		a.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: a.block.Bytes(), EndHeaders: true}),
		a.framer.WriteData(id, true, binary.BigEndian.AppendUint32([]byte{0}, 0)),
	)
}

// status reads until the end of the stream, and returns its grpc-status; empty if
// the server cut it off, or answered otherwise.
func (a *attacker) status() string {
	for {
		frame, err := a.framer.ReadFrame()
		if err != nil {
			return ""
		}
		switch f := frame.(type) {
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return ""
		case *http2.MetaHeadersFrame:
			if !f.StreamEnded() {
				continue
			}
			for _, field := range f.Fields {
				if field.Name == "grpc-status" {
					return field.Value
				}
			}
			return ""
		}
	}
}

// TestAttack_OddPathsReachNothing sends paths that mean a method to those who
// mend what they read. A key with the wrong role reaches it by none of them, and
// one with the right role by the very name alone.
func TestAttack_OddPathsReachNothing(t *testing.T) {
	t.Parallel()
	p := startTrio(t).reconciler
	const method = "gwanmun.circuit.v1.CircuitService/ListCircuits"
	ask := func(path, key string) string {
		a := newAttacker(t, p)
		if err := a.open(1, path, key); err != nil {
			t.Fatal(err)
		}
		return a.status()
	}
	if got := ask("/"+method, keys["ops"]); got != "0" {
		t.Fatalf("an operator is told %q", got)
	}
	for _, path := range []string{
		method, "//" + method, "/" + method + "/", "/" + method + "?x=y", "/./" + method, "/grpc.health.v1.Health/../" + method,
		"/gwanmun.circuit.v1.CircuitService//ListCircuits", "/GWANMUN.circuit.v1.CircuitService/ListCircuits",
		"/gwanmun.circuit.v1.CircuitService%2FListCircuits", "http://gwanmun/" + method, "*", "/", "",
		"/grpc.health.v1.Health/Check/" + method, "/gwanmun.circuit.v1.CircuitService/ListCircuits\x00", "/gwanmun.circuit.v1.CircuitService",
	} {
		for who, key := range keys {
			if got := ask(path, key); got == "0" {
				t.Errorf("%s reaches something by %q", who, path)
			}
		}
	}
}

// resets is how many streams the attacker opens and resets.
const resets = 10_000

// TestAttack_RapidResetLeavesOthersAlone opens streams and resets each at once. A
// call of somebody else is answered meanwhile and after it, however the server
// gets rid of the attacker.
func TestAttack_RapidResetLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	p := startTrio(t).reconciler
	a := newAttacker(t, p)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, a.conn) // what the server says to it
	}()
	attacked := make(chan struct{})
	go func() {
		defer close(attacked)
		for i := range uint32(resets) {
			id := 2*i + 1
			if errors.Join(a.open(id, "/gwanmun.ledger.v1.LedgerService/SummarizeTransactions", keys["payment"]), a.framer.WriteRSTStream(id, http2.ErrCodeCancel)) != nil {
				return // it was cut off
			}
		}
	}()
	others := dialGRPC(t, p)
	calls, slowest := 0, time.Duration(0)
	pace := time.NewTicker(look) // within the limits of whoever calls
	defer pace.Stop()
	for done := false; !done; calls++ {
		select {
		case <-attacked:
			done = true // one more, after it
		default:
		}
		<-pace.C
		begin := time.Now()
		if code := callEmpty(t, others, "/gwanmun.circuit.v1.CircuitService/ListCircuits", keys["ops"]); code != codes.OK {
			t.Errorf("another is told %s", code)
		}
		slowest = max(slowest, time.Since(begin))
	}
	t.Logf("%d calls of others while %d streams were reset; the slowest took %s", calls, resets, slowest)
	if slowest > patience/3 {
		t.Errorf("a call of another took %s", slowest)
	}
	_ = a.conn.Close()
	<-ended
}
