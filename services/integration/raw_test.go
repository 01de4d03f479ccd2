package integration

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// rawCodec sends bytes as they are, and reads answers as ever.
type rawCodec struct{}

// Name is that of the codec that servers expect.
func (rawCodec) Name() string { return "proto" }

// Marshal takes bytes.
func (rawCodec) Marshal(v any) ([]byte, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("send a %T: not bytes", v)
	}
	return b, nil
}

// Unmarshal reads an answer.
func (rawCodec) Unmarshal(data []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("receive a %T: not a message", v)
	}
	return proto.Unmarshal(data, m)
}

// sendBytes calls an rpc with a request that may be no message.
func (p *process) sendBytes(t testing.TB, method string, request []byte, answer proto.Message) told {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callFor)
	defer cancel()
	var header metadata.MD
	err := p.dial(t).Invoke(ctx, method, request, answer, grpc.ForceCodec(rawCodec{}), grpc.Header(&header))
	return hear(t, err, header)
}

// headers is what came of an rpc over plain HTTP/2: the fields of the answer, or
// how the server cut it off.
type headers struct {
	fields map[string][]string
	cut    string
}

// sendHeaders calls an rpc over plain HTTP/2 with header fields that no gRPC
// library would send, and an empty request.
func (p *process) sendHeaders(t testing.TB, path string, fields ...hpack.HeaderField) headers {
	t.Helper()
	conn, err := net.DialTimeout("tcp", p.address(t, "grpc"), patience)
	if err != nil {
		t.Fatalf("connect to %s: %v", p.name, err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := writeCall(conn, framer, path, fields); err != nil {
		return headers{cut: err.Error()}
	}
	return readAnswer(framer)
}

func writeCall(w io.Writer, framer *http2.Framer, path string, fields []hpack.HeaderField) error {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	all := append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: path},
		{Name: ":authority", Value: "integration"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	}, fields...)
	for _, f := range all {
		if err := encoder.WriteField(f); err != nil {
			return fmt.Errorf("encode a header: %w", err)
		}
	}
	empty := binary.BigEndian.AppendUint32([]byte{0}, 0)
	_, preface := io.WriteString(w, http2.ClientPreface)
	return errors.Join(preface, framer.WriteSettings(),
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true}),
		framer.WriteData(1, true, empty))
}

// readAnswer reads until the answer's last fields, or until the server has cut
// the call off.
func readAnswer(framer *http2.Framer) headers {
	h := headers{fields: map[string][]string{}}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			h.cut = err.Error()
			return h
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() && framer.WriteSettingsAck() != nil {
				h.cut = "the connection is gone"
				return h
			}
		case *http2.RSTStreamFrame:
			h.cut = f.ErrCode.String()
			return h
		case *http2.GoAwayFrame:
			h.cut = f.ErrCode.String()
			return h
		case *http2.MetaHeadersFrame:
			for _, field := range f.Fields {
				h.fields[field.Name] = append(h.fields[field.Name], field.Value)
			}
			if f.StreamEnded() {
				return h
			}
		}
	}
}
