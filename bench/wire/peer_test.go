package wire

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"  //nolint:depguard // what the client is for
	"google.golang.org/grpc/status" //nolint:depguard // what the client is for
	"google.golang.org/protobuf/proto"
)

// peer is a server that does what no library would.
type peer struct {
	*http2.Framer
	t       *testing.T
	socket  net.Conn
	block   buffer
	encoder *hpack.Encoder
	decoder *hpack.Decoder
	// path is that of the last request.
	path string
}

// meet is a connection and its peer, which has said its settings.
func meet(t *testing.T, timeout time.Duration, settings ...http2.Setting) (*Conn, *peer) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t}
	accepted := make(chan error, 1)
	go func() {
		socket, err := listener.Accept()
		if err == nil {
			p.socket = socket
			p.Framer = http2.NewFramer(socket, socket)
			err = errors.Join(p.WriteSettings(settings...), listener.Close())
		}
		accepted <- err
	}()
	c := dial(t, listener.Addr().String(), timeout)
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.socket.Close() })
	p.encoder = hpack.NewEncoder(&p.block)
	p.decoder = hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if f.Name == ":path" {
			p.path = f.Value
		}
	})
	for _, s := range settings {
		if s.ID == http2.SettingHeaderTableSize {
			p.decoder.SetAllowedMaxDynamicTableSize(s.Val)
		}
	}
	if _, err := io.ReadFull(p.socket, make([]byte, len(http2.ClientPreface))); err != nil {
		t.Fatal(err)
	}
	return c, p
}

// until reads until the client has sent such a frame.
func (p *peer) until(want http2.FrameType) http2.Frame {
	p.t.Helper()
	for {
		f, err := p.ReadFrame()
		if err != nil {
			p.t.Fatal(err)
		}
		if h, ok := f.(*http2.HeadersFrame); ok {
			if _, err := p.decoder.Write(h.HeaderBlockFragment()); err != nil {
				p.t.Fatal(err)
			}
		}
		if f.Header().Type == want {
			return f
		}
	}
}

// request reads a request, and returns its stream.
func (p *peer) request() uint32 {
	p.t.Helper()
	id := p.until(http2.FrameHeaders).Header().StreamID
	for {
		f := p.until(http2.FrameData)
		if f.Header().StreamID != id {
			p.t.Fatalf("a frame of stream %d amid %d", f.Header().StreamID, id)
		}
		if f.Header().Flags.Has(http2.FlagDataEndStream) {
			return id
		}
	}
}

// fields is a block of headers: names and values.
func (p *peer) fields(pairs ...string) []byte {
	p.block = p.block[:0]
	for i := 0; i < len(pairs); i += 2 {
		p.must(p.encoder.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]}))
	}
	return p.block
}

func (p *peer) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// head sends a block of headers for a stream.
func (p *peer) head(id uint32, ends bool, pairs ...string) {
	p.t.Helper()
	p.must(p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.fields(pairs...), EndHeaders: true, EndStream: ends}))
}

// good sends a reply in its simplest form.
func (p *peer) good(id uint32, text string) {
	p.t.Helper()
	p.head(id, false, ":status", "200", "content-type", "application/grpc+proto")
	p.must(p.WriteData(id, false, message(p.t, text)))
	p.head(id, true, "grpc-status", "0")
}

// message is a reply with its prefix.
func message(t *testing.T, id string) []byte {
	t.Helper()
	m, err := proto.Marshal(balance(id))
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte{0, 0, 0, byte(len(m) >> 8), byte(len(m))}, m...)
}

// answer is what a caller got.
type answer struct {
	id  string
	err error
}

func asking(c *Caller, account string) <-chan answer {
	got := make(chan answer, 1)
	go func() {
		id, err := ask(c, account)
		got <- answer{id, err}
	}()
	return got
}

func TestRead_AnswersInEveryForm(t *testing.T) {
	const head, kind = ":status", "content-type"
	cases := map[string]struct {
		send func(p *peer, id uint32)
		want error
	}{
		"simple": {func(p *peer, id uint32) { p.good(id, "id") }, nil},
		"in pieces": {func(p *peer, id uint32) {
			block := p.fields(head, "200", kind, "application/grpc", "filler", "from here on")
			p.must(p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block[:1]}))
			p.must(p.WriteContinuation(id, false, block[1:2]))
			p.must(p.WriteContinuation(id, true, block[2:]))
			m := message(p.t, "id")
			p.must(p.WriteDataPadded(id, false, m[:3], make([]byte, 100)))
			p.must(p.WriteData(id, false, nil))
			for _, b := range m[3:] {
				p.must(p.WriteData(id, false, []byte{b}))
			}
			p.must(p.WritePing(false, [8]byte{1}))
			p.head(id, true, "grpc-status", "0")
		}, nil},
		"told to wait": {func(p *peer, id uint32) {
			p.head(id, false, head, "103")
			p.must(p.WriteRawFrame(0x42, 0, id, []byte("what is this")))
			p.good(id, "id")
		}, nil},
		"an empty message where one is wanted": {func(p *peer, id uint32) {
			p.head(id, true, head, "200", kind, "application/grpc", "grpc-status", "0")
		}, ErrAnswer},
		"half a message": {func(p *peer, id uint32) {
			p.head(id, false, head, "200", kind, "application/grpc")
			p.must(p.WriteData(id, false, message(p.t, "id")[:8]))
			p.head(id, true, "grpc-status", "0")
		}, ErrAnswer},
		"two messages": {func(p *peer, id uint32) {
			p.head(id, false, head, "200", kind, "application/grpc")
			p.must(p.WriteData(id, false, append(message(p.t, "id"), message(p.t, "id")...)))
			p.head(id, true, "grpc-status", "0")
		}, ErrAnswer},
		"more than its length": {func(p *peer, id uint32) {
			p.head(id, false, head, "200", kind, "application/grpc")
			p.must(p.WriteData(id, false, append([]byte{0, 0, 0, 0, 0}, message(p.t, "id")[prefix:]...)))
			p.head(id, true, "grpc-status", "0")
		}, ErrAnswer},
		"compressed": {func(p *peer, id uint32) {
			p.head(id, false, head, "200", kind, "application/grpc")
			p.must(p.WriteData(id, false, []byte{1, 0, 0, 0, 0}))
			p.head(id, true, "grpc-status", "0")
		}, ErrAnswer},
		"no protobuf": {func(p *peer, id uint32) {
			p.head(id, false, head, "200", kind, "application/grpc")
			p.must(p.WriteData(id, false, []byte{0, 0, 0, 0, 1, 0xff}))
			p.head(id, true, "grpc-status", "0")
		}, ErrAnswer},
		"no status": {func(p *peer, id uint32) {
			p.head(id, false, head, "200", kind, "application/grpc")
			p.must(p.WriteData(id, false, message(p.t, "id")))
			p.head(id, true, "else", "0")
		}, ErrAnswer},
		"no trailers": {func(p *peer, id uint32) {
			p.head(id, false, head, "200", kind, "application/grpc")
			p.must(p.WriteData(id, true, message(p.t, "id")))
		}, ErrAnswer},
		"no headers": {func(p *peer, id uint32) {
			p.must(p.WriteData(id, false, message(p.t, "id")))
			p.head(id, true, "grpc-status", "0")
		}, ErrAnswer},
		"not found": {func(p *peer, id uint32) {
			p.head(id, true, head, "404", kind, "text/html", "grpc-status", "0")
		}, ErrAnswer},
		"a web page": {func(p *peer, id uint32) {
			p.head(id, false, head, "200", kind, "text/html")
			p.must(p.WriteData(id, false, message(p.t, "id")))
			p.head(id, true, "grpc-status", "0")
		}, ErrAnswer},
		"headers twice": {func(p *peer, id uint32) {
			p.head(id, false, head, "200", kind, "application/grpc")
			p.head(id, false, head, "200", kind, "application/grpc")
		}, ErrAnswer},
		"given up": {func(p *peer, id uint32) { p.must(p.WriteRSTStream(id, http2.ErrCodeRefusedStream)) }, ErrAnswer},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			conn, p := meet(t, patience)
			caller := conn.Caller()
			for range 2 { // the connection and its tables go on
				got := asking(caller, "1")
				c.send(p, p.request())
				if a := <-got; !errors.Is(a.err, c.want) || (c.want == nil) != (a.err == nil) || (a.err == nil && a.id != "id") {
					t.Errorf("%+v, want %v", a, c.want)
				}
			}
			got := asking(caller, "1")
			p.good(p.request(), "next")
			if a := <-got; a.err != nil || a.id != "next" {
				t.Errorf("%+v", a)
			}
		})
	}
}

func TestRead_RefusalInTrailersAlone(t *testing.T) {
	conn, p := meet(t, patience)
	got := asking(conn.Caller(), "1")
	p.head(p.request(), true, ":status", "200", "content-type", "application/grpc", "grpc-status", "14", "grpc-message", "50%zz")
	if a := <-got; status.Code(a.err) != codes.Unavailable || status.Convert(a.err).Message() != "50%zz" {
		t.Errorf("%+v", a)
	}
}

// What ends a connection fails all who wait on it.
func TestRead_ViolationsEndTheConnection(t *testing.T) {
	cases := map[string]func(p *peer, id uint32){
		"closed":                   func(p *peer, _ uint32) { p.must(p.socket.Close()) },
		"no HTTP/2":                func(p *peer, _ uint32) { _, _ = io.WriteString(p.socket, "HTTP/1.1 400 Bad Request\r\n\r\n") },
		"a call never made":        func(p *peer, id uint32) { p.head(id+2, true, ":status", "200") },
		"a stream of its own":      func(p *peer, _ uint32) { p.head(2, true, ":status", "200") },
		"a frame that is too long": func(p *peer, id uint32) { p.must(p.WriteData(id, false, make([]byte, defaultFrame+1))) },
		"too much of a window": func(p *peer, _ uint32) {
			p.must(p.WriteWindowUpdate(0, maxWindow))
		},
		"headers that are none": func(p *peer, id uint32) {
			p.must(p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0xff, 0xff, 0x7f}, EndHeaders: true}))
		},
		"headers without end": func(p *peer, id uint32) {
			p.must(p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.fields("a", strings.Repeat("b", 4000))}))
			for range 20 {
				if p.WriteContinuation(id, false, p.fields("a", strings.Repeat("b", 4000))) != nil {
					return // it has hung up
				}
			}
		},
		"a push": func(p *peer, id uint32) {
			p.must(p.WritePushPromise(http2.PushPromiseParam{StreamID: id, PromiseID: 2, BlockFragment: p.fields(":path", "/"), EndHeaders: true}))
		},
		"a setting out of bounds": func(p *peer, _ uint32) {
			p.must(p.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1}))
		},
	}
	for name, violate := range cases {
		t.Run(name, func(t *testing.T) {
			conn, p := meet(t, patience)
			first, second := asking(conn.Caller(), "1"), asking(conn.Caller(), "2")
			p.request()
			violate(p, p.request())
			for _, got := range []<-chan answer{first, second} {
				if a := <-got; !errors.Is(a.err, ErrLost) {
					t.Errorf("%+v", a)
				}
			}
			if _, err := ask(conn.Caller(), "3"); !errors.Is(err, ErrLost) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestDial_ServerMustBeginWithSettings(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go func() {
		if socket, err := listener.Accept(); err == nil {
			_ = http2.NewFramer(socket, nil).WritePing(false, [8]byte{})
			_, _ = io.Copy(io.Discard, socket)
			_ = socket.Close()
		}
	}()
	if c, err := Dial(t.Context(), listener.Addr().String(), patience); !errors.Is(err, errProtocol) {
		t.Errorf("%v, error %v", c, err)
	}
}

// Those the server has not seen fail at once; the others may yet be answered.
func TestRead_GoAwayFailsWhatComesAfterTheLast(t *testing.T) {
	conn, p := meet(t, patience)
	first := asking(conn.Caller(), "1")
	id := p.request()
	second := asking(conn.Caller(), "2")
	p.request()
	p.must(p.WriteGoAway(id, http2.ErrCodeEnhanceYourCalm, []byte("enough")))
	if a := <-second; !errors.Is(a.err, ErrGoAway) || !strings.Contains(a.err.Error(), "enough") {
		t.Errorf("%+v", a)
	}
	if _, err := ask(conn.Caller(), "3"); !errors.Is(err, ErrGoAway) {
		t.Errorf("error %v", err)
	}
	p.good(id, "id")
	if a := <-first; a.err != nil || a.id != "id" {
		t.Errorf("%+v", a)
	}
}

// The late answer belongs to no one, and its headers and bytes count all the same.
func TestCall_LateAnswerIsNoOnes(t *testing.T) {
	conn, p := meet(t, 200*time.Millisecond)
	caller := conn.Caller()
	got := asking(caller, "1")
	late := p.request()
	if a := <-got; !errors.Is(a.err, ErrTimeout) {
		t.Fatalf("%+v", a)
	}
	if f := p.until(http2.FrameRSTStream); f.Header().StreamID != late {
		t.Errorf("stream %d was given up, not %d", f.Header().StreamID, late)
	}
	conn.mu.Lock()
	conn.timeout = patience // nothing else is late
	conn.mu.Unlock()
	got = asking(caller, "1")
	id := p.request()
	p.head(late, false, ":status", "200", "content-type", "application/grpc")
	p.head(id, false, ":status", "200", "content-type", "application/grpc")
	p.must(p.WriteData(late, false, message(t, "late")))
	p.must(p.WriteData(id, false, message(t, "id")))
	p.head(late, true, "grpc-status", "0")
	p.head(id, true, "grpc-status", "0")
	if a := <-got; a.err != nil || a.id != "id" {
		t.Errorf("%+v", a)
	}
}

func TestWrite_AnswersSettingsAndPings(t *testing.T) {
	_, p := meet(t, patience)
	p.must(p.WritePing(false, [8]byte{1, 2, 3}))
	if s := p.until(http2.FrameSettings).(*http2.SettingsFrame); s.IsAck() {
		t.Error("an acknowledgement before its own settings")
	}
	if s := p.until(http2.FrameSettings).(*http2.SettingsFrame); !s.IsAck() {
		t.Error("settings twice")
	}
	if f := p.until(http2.FramePing).(*http2.PingFrame); !f.IsAck() || f.Data != [8]byte{1, 2, 3} {
		t.Errorf("%v", f)
	}
}

// Whatever size of table the server allows, it can read the headers.
func TestWrite_HeadersFitTheServersTable(t *testing.T) {
	for _, size := range []uint32{0, 64, 150, 300, 4096, 65536} {
		conn, p := meet(t, patience, http2.Setting{ID: http2.SettingHeaderTableSize, Val: size})
		caller := conn.Caller()
		for _, method := range []string{"/a/A", "/a/A", "/a/B", "/a/A", "/a/B", "/a/B", "/a/A"} {
			ended := make(chan error, 1)
			go func() { ended <- caller.Call(method, balance("1"), balance("")) }()
			id := p.request()
			if p.path != method {
				t.Errorf("table of %d: %s, want %s", size, p.path, method)
			}
			p.good(id, "id")
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
}

// No more is sent than the server takes, and more once it takes more.
func TestWrite_KeepsToTheWindows(t *testing.T) {
	conn, p := meet(t, patience, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	caller := conn.Caller()
	got := asking(caller, strings.Repeat("1", 40_000))
	p.good(p.request(), "id")
	if a := <-got; a.err != nil {
		t.Fatal(a.err)
	}
	if _, err := ask(caller, strings.Repeat("1", 40_000)); !errors.Is(err, ErrRefused) {
		t.Errorf("error %v", err)
	}
	p.must(p.WriteWindowUpdate(0, 40_000))
	p.must(p.WritePing(false, [8]byte{}))
	p.until(http2.FramePing) // what was before it was read
	got = asking(caller, strings.Repeat("1", 40_000))
	p.good(p.request(), "id")
	if a := <-got; a.err != nil {
		t.Error(a.err)
	}
}

// A server that asks and asks, and does not read the answers, is not waited for.
func TestWrite_WhatWaitsHasABound(t *testing.T) {
	conn, _ := meet(t, patience)
	conn.mu.Lock()
	defer conn.mu.Unlock()
	conn.out.pending = make(buffer, maxPending)
	if err := conn.control(nil); err != nil {
		t.Errorf("error %v", err)
	}
	conn.out.pending = append(conn.out.pending, 0)
	if err := conn.control(nil); !errors.Is(err, ErrLost) {
		t.Errorf("error %v", err)
	}
	conn.out.pending = nil
}

// A path that fits no frame cannot be sent, and the table of headers is lost with it.
func TestWrite_HeadersLargerThanAFrameAreRefused(t *testing.T) {
	conn, _ := meet(t, patience)
	caller := conn.Caller()
	if err := caller.Call("/"+strings.Repeat("~", 2*defaultFrame), balance("1"), balance("")); !errors.Is(err, ErrRefused) {
		t.Errorf("error %v", err)
	}
	if _, err := ask(caller, "1"); !errors.Is(err, ErrRefused) {
		t.Errorf("error %v", err)
	}
}

func TestTimeoutText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "1u", 10 * time.Second: "10000000u", 99 * time.Second: "99000000u", 100 * time.Second: "100000m", 1 << 62: "99999999m",
	} {
		if got := timeoutText(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
