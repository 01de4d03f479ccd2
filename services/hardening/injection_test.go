package hardening

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
)

const (
	// mark is in everything hostile that is sent here, and may be in no log.
	mark = "zq7mark"
	// maxLine is how long a line of a log may be, in bytes.
	maxLine = 4 << 10
)

// hostile are texts that would do something to a log, or to who reads it.
var hostile = map[string]string{
	"a line of its own":   mark + "\r\n{\"level\":\"ERROR\",\"msg\":\"" + mark + "\"}\n",
	"a line feed":         mark + "\n" + mark,
	"a carriage return":   mark + "\r" + mark,
	"an escape sequence":  "\x1b[31m" + mark + "\x1b]0;" + mark + "\x07",
	"a C1 escape":         "\u009b31m" + mark,
	"a NUL":               mark + "\x00" + mark,
	"DEL and backspaces":  mark + "\x7f\b\b\b\b",
	"a quote and a brace": mark + `"},{"msg":"` + mark + `"}`,
	"line separators":     mark + "\u2028" + mark + "\u2029\u0085",
	"text turned around":  mark + "\u202e" + mark + "\u2066\ufeff",
	"16 kB":               strings.Repeat(mark, 16<<10/len(mark)),
	"bad UTF-8":           mark + "\xff\xfe\xc3\x28\xed\xa0\x80" + mark,
	"a format":            mark + "%s%n%!d(" + mark + ")",
}

// inspect holds a log to be lines of JSON without anything that was sent.
func (p *process) inspect(t *testing.T) {
	t.Helper()
	for line := range strings.Lines(p.log.text()) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil || object["msg"] == nil || object["service"] != p.name {
			t.Errorf("%s: %v in the line %q", p.name, err, line)
		}
		if len(line) > maxLine {
			t.Errorf("%s: a line of %d bytes: %q", p.name, len(line), line[:200])
		}
		if strings.Contains(line, mark) {
			t.Errorf("%s: what was sent is in the line %q", p.name, line)
		}
		if i := strings.IndexFunc(line[:len(line)-1], unsafe); i >= 0 {
			t.Errorf("%s: something unsafe is at %d of the line %q", p.name, i, line)
		}
	}
}

// unsafe reports whether a character is nothing to see, or no character.
func unsafe(r rune) bool {
	return r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// TestLog_NoRequestBreaksALine sends every hostile text in every text field of
// every rpc.
func TestLog_NoRequestBreaksALine(t *testing.T) {
	for _, p := range all(t, "--log-level=debug") {
		conn := p.dial(t)
		calls := 0
		for _, m := range p.methods(t) {
			for name, text := range hostile {
				textFields(m.input, text, func(field string, msg proto.Message) {
					// It is bytes that are sent: what is no UTF-8 goes through, too.
					wire, err := proto.MarshalOptions{AllowPartial: true}.Marshal(msg)
					if err != nil {
						wire = marshalBadText(t, msg, text)
					}
					calls++
					if err := m.call(context.Background(), conn, wire); !sane(err) {
						t.Errorf("%s, %s with %s: %v", m.path, field, name, err)
					}
				})
			}
		}
		if calls < 2*len(hostile) {
			t.Errorf("%s: only %d calls", p.name, calls)
		}
		await(t, "a line for each call", func() bool { return len(p.log.of("rpc")) >= calls })
		p.inspect(t)
	}
}

// marshalBadText is the message with the text that no library would marshal.
func marshalBadText(t *testing.T, msg proto.Message, text string) []byte {
	t.Helper()
	stand := strings.Repeat("?", len(text))
	wire, err := proto.Marshal(replaced(msg, text, stand))
	if err != nil {
		t.Fatal(err)
	}
	return []byte(strings.Replace(string(wire), stand, text, 1))
}

// headers in which a caller may write anything.
var headers = []string{
	":path", ":authority", "content-type", "user-agent", "x-correlation-id", "authorization", "x-api-key", "grpc-timeout", "grpc-encoding",
	"traceparent", "tracestate", "baggage", "x-" + mark,
}

// TestLog_NoHeaderBreaksALine sends every hostile text in every header, to
// services that know their clients.
func TestLog_NoHeaderBreaksALine(t *testing.T) {
	for _, p := range all(t, "--log-level=debug", "--clients-file="+clientsFile(t)) {
		for _, name := range headers {
			for what, text := range hostile {
				for _, f := range []hpack.HeaderField{{Name: name, Value: text}, {Name: name, Value: "Bearer " + text}} {
					c := p.raw(t)
					all := fields(p.methods(t)[0].path, f)
					if name == ":path" {
						all = fields("/"+text, f)
					}
					if err := c.call(all); err != nil {
						t.Errorf("%s: %s with %s cannot be sent: %v", p.name, name, what, err)
					}
					if a := c.answer(); a.field("grpc-status") == "0" { // that gRPC tells him what he sent is his matter
						t.Errorf("%s: %s with %s is answered %v", p.name, name, what, a)
					}
					_ = c.Close()
				}
			}
		}
		if len(p.log.of("rpc")) < len(headers) {
			t.Errorf("%s: %d lines", p.name, len(p.log.of("rpc")))
		}
		p.inspect(t)
	}
}

// clientsFile lists one client, of whose key only the digest is known.
func clientsFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "clients.json")
	text := `{"clients": [{"id": "shop", "key_sha256": "` + strings.Repeat("ab", 32) + `", "roles": ["payment", "ops", "core"]}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
