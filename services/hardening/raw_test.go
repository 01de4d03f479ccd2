package hardening

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// rawConn is a connection to a gRPC port on which anything may be sent.
type rawConn struct {
	net.Conn

	framer  *http2.Framer
	block   bytes.Buffer
	encoder *hpack.Encoder
	last    uint32 // the last stream that was opened
}

// dialTCP connects to the gRPC port and sends nothing.
func (p *process) dialTCP(t testing.TB) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", p.address(t, "grpc"), patience)
	if err != nil {
		t.Fatalf("connect to %s: %v", p.name, err)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// raw connects to the gRPC port and begins HTTP/2.
func (p *process) raw(t testing.TB) *rawConn {
	t.Helper()
	c := &rawConn{Conn: p.dialTCP(t)}
	c.framer = http2.NewFramer(c.Conn, c.Conn)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.encoder = hpack.NewEncoder(&c.block)
	_, preface := io.WriteString(c.Conn, http2.ClientPreface)
	if err := errors.Join(preface, c.framer.WriteSettings()); err != nil {
		t.Fatalf("begin with %s: %v", p.name, err)
	}
	return c
}

// fields are the headers of a call; those that are given replace those of their
// name.
func fields(path string, given ...hpack.HeaderField) []hpack.HeaderField {
	all := []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: path},
		{Name: ":authority", Value: "hardening"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	}
	usual := len(all)
	for _, f := range given {
		if i := slices.IndexFunc(all[:usual], func(h hpack.HeaderField) bool { return h.Name == f.Name }); i >= 0 {
			all[i] = f
			continue
		}
		all = append(all, f)
	}
	return all
}

// open opens the next stream with these headers, in as many frames as they need.
func (c *rawConn) open(all []hpack.HeaderField) error {
	c.block.Reset()
	for _, f := range all {
		if err := c.encoder.WriteField(f); err != nil {
			return err
		}
	}
	c.last = max(1, c.last+2) | 1
	const most = 16 << 10
	rest := c.block.Bytes()
	first := rest[:min(len(rest), most)]
	rest = rest[len(first):]
	err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: c.last, BlockFragment: first, EndHeaders: len(rest) == 0})
	for err == nil && len(rest) > 0 {
		part := rest[:min(len(rest), most)]
		rest = rest[len(part):]
		err = c.framer.WriteContinuation(c.last, len(rest) == 0, part)
	}
	return err
}

// call opens a stream with these headers and a request of no bytes.
func (c *rawConn) call(all []hpack.HeaderField) error {
	empty := binary.BigEndian.AppendUint32([]byte{0}, 0)
	return errors.Join(c.open(all), c.framer.WriteData(c.last, true, empty))
}

// answer is what came of the last call: the fields of the answer, or how it was
// cut off.
type answer struct {
	fields map[string][]string
	cut    string
}

func (a answer) field(name string) string {
	if len(a.fields[name]) == 0 {
		return ""
	}
	return a.fields[name][0]
}

// answer reads until the last call has ended.
func (c *rawConn) answer() answer {
	a := answer{fields: map[string][]string{}}
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			a.cut = err.Error()
			return a
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = c.framer.WriteSettingsAck() // a dead connection shows at the next read
			}
		case *http2.RSTStreamFrame:
			a.cut = f.ErrCode.String()
			return a
		case *http2.GoAwayFrame:
			a.cut = "GOAWAY " + f.ErrCode.String() + " " + string(f.DebugData())
			return a
		case *http2.MetaHeadersFrame:
			for _, field := range f.Fields {
				a.fields[field.Name] = append(a.fields[field.Name], field.Value)
			}
			if f.StreamEnded() {
				return a
			}
		}
	}
}
