package wire

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// reader is what comes in on a connection. It belongs to the goroutine that reads.
type reader struct {
	framer  *http2.Framer
	decoder *hpack.Decoder
	// block is the one whose frames are coming.
	block block
	// taken is what the connection's window lacks.
	taken uint32
	// greeted is set once the server has sent its settings.
	greeted bool
}

// block is a block of headers: what a call wants to know of them.
type block struct {
	stream uint32
	// ends is set if the call ends with it.
	ends bool
	// size is what it takes, as SETTINGS_MAX_HEADER_LIST_SIZE counts it.
	size uint32

	status, contentType     string
	grpcStatus, grpcMessage string
}

func (r *reader) init(from *bufio.Reader) {
	r.framer = http2.NewFramer(nil, from)
	r.framer.SetReuseFrames()
	r.framer.SetMaxReadFrameSize(defaultFrame)
	r.decoder = hpack.NewDecoder(4096, r.block.field)
	r.decoder.SetMaxStringLength(maxHeaders)
}

func (b *block) field(f hpack.HeaderField) {
	b.size += f.Size()
	switch f.Name {
	case ":status":
		b.status = f.Value
	case "content-type":
		b.contentType = f.Value
	case "grpc-status":
		b.grpcStatus = f.Value
	case "grpc-message":
		b.grpcMessage = f.Value
	}
}

// errProtocol says that a server does what HTTP/2 forbids.
var errProtocol = errors.New("the server violates the protocol")

// read reads until the connection ends.
func (c *Conn) read() {
	for {
		frame, err := c.in.framer.ReadFrame()
		if err == nil {
			err = c.receive(frame)
		}
		if err != nil {
			c.end(fmt.Errorf("%w: read: %w", ErrLost, err))
			return
		}
	}
}

// receive does what a frame says. Its error ends the connection.
func (c *Conn) receive(frame http2.Frame) error {
	if _, ok := frame.(*http2.SettingsFrame); !ok && !c.in.greeted {
		return fmt.Errorf("%w: it begins with %v", errProtocol, frame.Header().Type)
	}
	switch f := frame.(type) {
	case *http2.HeadersFrame:
		c.in.block = block{stream: f.StreamID, ends: f.StreamEnded()}
		return c.fragment(f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.ContinuationFrame:
		return c.fragment(f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.DataFrame:
		return c.body(f)
	case *http2.RSTStreamFrame:
		return c.reset(f)
	case *http2.SettingsFrame:
		return c.settings(f)
	case *http2.PingFrame:
		return c.ping(f)
	case *http2.WindowUpdateFrame:
		return c.replenished(f)
	case *http2.GoAwayFrame:
		return c.goAway(f)
	case *http2.PushPromiseFrame:
		return fmt.Errorf("%w: it pushes", errProtocol)
	default: // a priority, or what HTTP/2 may have one day
		return nil
	}
}

// fragment takes a part of a block of headers, and what the block says with its
// last.
func (c *Conn) fragment(part []byte, last bool) error {
	if _, err := c.in.decoder.Write(part); err != nil {
		return fmt.Errorf("read headers: %w", err)
	}
	if c.in.block.size > maxHeaders {
		return fmt.Errorf("%w: headers of more than %d bytes", errProtocol, maxHeaders)
	}
	if !last {
		return nil
	}
	if err := c.in.decoder.Close(); err != nil {
		return fmt.Errorf("read headers: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	call, err := c.find(c.in.block.stream)
	if call == nil {
		return err
	}
	return c.head(call, &c.in.block)
}

// find is the call of a stream; nil if it has ended. It needs the lock.
func (c *Conn) find(id uint32) (*Caller, error) {
	if call := c.calls[id]; call != nil {
		return call, nil
	}
	if id%2 == 0 || id >= c.next {
		return nil, fmt.Errorf("%w: an answer to call %d, which was never made", errProtocol, id)
	}
	return nil, nil //nolint:nilnil // late answers are no one's
}

// head is a block of headers for a call: those before its reply, its trailers, or
// both in one. It needs the lock.
func (c *Conn) head(call *Caller, b *block) error {
	informs := len(b.status) == 3 && b.status[0] == '1'
	switch {
	case call.answered && !b.ends:
		return c.abort(b.stream, fmt.Errorf("%w: headers amid the reply", ErrAnswer))
	case call.answered:
	case informs && !b.ends:
		return nil // a head is yet to come
	case b.status != "200":
		return c.refuse(b, fmt.Errorf("%w: HTTP status %q", ErrAnswer, b.status))
	case !strings.HasPrefix(b.contentType, "application/grpc"):
		return c.refuse(b, fmt.Errorf("%w: content type %q", ErrAnswer, b.contentType))
	}
	call.answered = true
	if b.ends {
		c.finish(b.stream, outcome(b.grpcStatus, b.grpcMessage))
	}
	return nil
}

// refuse ends a call with a head that is no good. It needs the lock.
func (c *Conn) refuse(b *block, err error) error {
	if b.ends {
		c.finish(b.stream, err)
		return nil
	}
	return c.abort(b.stream, err)
}

// body is a part of a reply.
func (c *Conn) body(f *http2.DataFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.replenish(f.Length); err != nil {
		return err
	}
	call, err := c.find(f.StreamID)
	if call == nil {
		return err
	}
	call.reply = append(call.reply, f.Data()...)
	switch {
	case f.StreamEnded():
		c.finish(f.StreamID, fmt.Errorf("%w: it has no status", ErrAnswer))
		return nil
	case !call.answered:
		return c.abort(f.StreamID, fmt.Errorf("%w: a reply without headers", ErrAnswer))
	case len(call.reply) > prefix+maxReply:
		return c.abort(f.StreamID, fmt.Errorf("%w: it has more than %d bytes", ErrAnswer, maxReply))
	}
	return nil
}

// replenish counts what was received, whosever it is, padding included, and gives
// the server its window back now and then. It needs the lock.
func (c *Conn) replenish(taken uint32) error {
	c.in.taken += taken
	if c.in.taken < replenishAt {
		return nil
	}
	given := c.in.taken
	c.in.taken = 0
	return c.control(c.out.framer.WriteWindowUpdate(0, given))
}

// reset is a call that the server gave up.
func (c *Conn) reset(f *http2.RSTStreamFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	call, err := c.find(f.StreamID)
	if call == nil {
		return err
	}
	why := ErrAnswer
	if time.Since(call.began) >= c.timeout {
		why = ErrTimeout // which the server was told, and whose clock was first
	}
	c.finish(f.StreamID, fmt.Errorf("%w: the server has reset it: %v", why, f.ErrCode))
	return nil
}

// settings obeys the server's settings, and says so. They are for calls to come:
// those that wait have sent all they had to.
func (c *Conn) settings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err := f.ForeachSetting(func(s http2.Setting) error {
		if err := s.Valid(); err != nil {
			return fmt.Errorf("%w: %v: %w", errProtocol, s, err)
		}
		switch s.ID { //nolint:exhaustive // the others do not concern a client
		case http2.SettingInitialWindowSize:
			c.out.streamWindow = int64(s.Val)
		case http2.SettingMaxFrameSize:
			c.out.frame = int(s.Val)
		case http2.SettingMaxConcurrentStreams:
			c.out.streams = int64(s.Val)
		case http2.SettingHeaderTableSize:
			c.out.headers.resize(s.Val)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !c.in.greeted {
		c.in.greeted = true
		close(c.settled)
	}
	return c.control(c.out.framer.WriteSettingsAck())
}

// ping answers a ping.
func (c *Conn) ping(f *http2.PingFrame) error {
	if f.IsAck() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.control(c.out.framer.WritePing(true, f.Data))
}

// replenished is more that may be sent in all. That of one call is never used up.
func (c *Conn) replenished(f *http2.WindowUpdateFrame) error {
	if f.StreamID != 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.window += int64(f.Increment)
	if c.out.window > maxWindow {
		return fmt.Errorf("%w: a window of %d", errProtocol, c.out.window)
	}
	return nil
}

// goAway is a server that takes no more calls, and has not seen those after the
// last it names. It may yet answer the others.
func (c *Conn) goAway(f *http2.GoAwayFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	why := fmt.Errorf("%w: %v %q", ErrGoAway, f.ErrCode, f.DebugData())
	c.leaving = why
	for id := range c.calls {
		if id > f.LastStreamID {
			c.finish(id, why)
		}
	}
	return nil
}
