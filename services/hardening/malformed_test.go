package hardening

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// broken are requests that no library sends; most are a message of no type.
var broken = map[string][]byte{
	"nothing":                     {},
	"a tag alone":                 {0x0a},
	"a text that is cut":          {0x0a, 200, 'x'},
	"a text of 4 GB":              {0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f},
	"a negative length":           {0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
	"an endless number":           []byte("\x18" + strings.Repeat("\xff", 20)),
	"a group that never ends":     {0x0b},
	"a group that never began":    {0x0c},
	"a field number of 0":         {0x02, 0},
	"a wire type that is none":    {0x0f},
	"deep groups":                 []byte(strings.Repeat("\x0b", 20_000)),
	"deep messages":               []byte(strings.Repeat("\x0a\x7f", 20_000)),
	"a text that is no UTF-8":     {0x0a, 2, 0xff, 0xfe},
	"thousands of unknown fields": []byte(strings.Repeat("\xf8\x07\x01", 20_000)),
	"thousands of empty items":    []byte(strings.Repeat("\x0a\x00", 30_000)),
	"a number in place of a text": {0x08, 1},
	"JSON":                        []byte(`{"accountNumber":"12345678901234"}`),
}

// mutants is how many random requests each method gets, of maxMutant bytes at
// most.
const (
	mutants   = 40
	maxMutant = 200
)

// TestMethods_TakeAnyBytes sends each method what is broken, and random bytes. It
// is the caller's fault each time, and said to be.
func TestMethods_TakeAnyBytes(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for _, p := range all(t) {
		conn := p.dial(t)
		for _, m := range p.methods(t) {
			for what, request := range broken {
				if err := m.call(context.Background(), conn, request); !sane(err) {
					t.Errorf("%s with %s: %v", m.path, what, err)
				}
			}
			for range mutants {
				request := make([]byte, random.IntN(maxMutant))
				for i := range request {
					request[i] = byte(random.Uint32())
				}
				if len(request) > 1 && random.IntN(2) == 0 { // as if of the first field
					request[0], request[1] = 0x0a, byte(len(request)-2)
				}
				if err := m.call(context.Background(), conn, request); !sane(err) {
					t.Errorf("seed %d: %s with %x: %v", seed, m.path, request, err)
				}
			}
			err := m.call(context.Background(), conn, make([]byte, 4<<20))
			if status.Code(err) != codes.ResourceExhausted {
				t.Errorf("%s with 4 MiB: %v", m.path, err)
			}
		}
	}
}

// oddCall is a call that is no call.
type oddCall struct {
	fields []hpack.HeaderField
	// http is the HTTP status of the answer, status gRPC's; a call that is cut has
	// neither.
	http, status string
}

// oddCalls are calls in ways that HTTP/2 allows and gRPC does not, or neither.
func oddCalls(path string) map[string]oddCall {
	h := func(name, value string) hpack.HeaderField { return hpack.HeaderField{Name: name, Value: value} }
	many := make([]hpack.HeaderField, 600)
	for i := range many {
		many[i] = h("x-many", strings.Repeat("v", 30))
	}
	return map[string]oddCall{
		"no path":               {fields(""), "200", "12"},
		"the path *":            {fields("*"), "200", "12"},
		"the path /":            {fields("/"), "200", "12"},
		"the path //":           {fields("//"), "200", "12"},
		"a path of dots":        {fields("/../../etc/passwd"), "200", "12"},
		"a path with a query":   {fields(path + "?x=1"), "200", "12"},
		"a path of 8 kB":        {fields("/" + strings.Repeat("p", 8<<10) + "/x"), "200", "12"},
		"a path in capitals":    {fields(strings.ToUpper(path)), "200", "12"},
		"a path with a host":    {fields("http://hardening" + path), "200", "12"},
		"JSON":                  {fields(path, h("content-type", "application/json")), "415", ""},
		"text":                  {fields(path, h("content-type", "text/plain")), "415", ""},
		"almost gRPC":           {fields(path, h("content-type", "application/grpcx")), "415", ""},
		"GET":                   {fields(path, h(":method", "GET")), "405", ""},
		"a compression of none": {fields(path, h("grpc-encoding", "zip-bomb")), "200", "12"},
		"a timeout of no time":  {fields(path, h("grpc-timeout", "soon")), "400", "13"},
		"a header of 20 kB":     {fields(path, h("x-huge", strings.Repeat("v", 20<<10))), "", ""},
		"600 headers":           {fields(path, many...), "", ""},
		"binary that is none":   {fields(path, h("x-bin", "%%%")), "400", "13"},
	}
}

// TestCalls_ThatAreNone opens each on a connection of its own. The server answers
// or cuts, and goes on.
func TestCalls_ThatAreNone(t *testing.T) {
	for _, p := range all(t) {
		path := p.methods(t)[0].path
		for what, odd := range oddCalls(path) {
			c := p.raw(t)
			_ = c.call(odd.fields) // what is too large may be cut while it is written
			a := c.answer()
			if a.field(":status") != odd.http && a.cut == "" || odd.status != "" && a.field("grpc-status") != odd.status {
				t.Errorf("%s, %s: %v", p.name, what, a)
			}
			_ = c.Close()
		}
		p.serves(t)
	}
}

// serves fails the test if a call on a new connection is not answered.
func (p *process) serves(t testing.TB) {
	t.Helper()
	if err := p.methods(t)[0].call(context.Background(), p.dial(t), []byte{0x0a}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("%s does not serve: %v", p.name, err)
	}
}

// TestConnections_ThatAreNoHTTP2 are closed.
func TestConnections_ThatAreNoHTTP2(t *testing.T) {
	for _, p := range all(t) {
		for what, sent := range map[string]string{
			"HTTP/1.1":                "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
			"HTTP/1.1 upgrading":      "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
			"a greeting of TLS":       "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x5a", 600),
			"a telegram":              "0100GWMNU2026010200000000112345678901234000000050000",
			"random":                  strings.Repeat("\xde\xad\xbe\xef", 1000),
			"a preface, and no frame": http2.ClientPreface + strings.Repeat("\xff", 64),
			"a preface, and a huge frame": http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + // settings
				"\xff\xff\xff\x00\x00\x00\x00\x00\x01" + strings.Repeat("x", 1000),
		} {
			conn := p.dialTCP(t)
			if _, err := conn.Write([]byte(sent)); err != nil {
				t.Errorf("%s, %s: %v", p.name, what, err)
			}
			if err := untilClosed(conn); err != nil {
				t.Errorf("%s, %s: %v", p.name, what, err)
			}
			_ = conn.Close()
		}
		p.serves(t)
	}
}
