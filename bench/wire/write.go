package wire

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// writer is what leaves a connection. The connection's lock guards it.
type writer struct {
	// framer writes to pending; spare is what was pending before, and is written
	// without the lock.
	framer         *http2.Framer
	pending, spare buffer
	// due is signaled when there is something to write, or never will be.
	due     sync.Cond
	headers headers

	// What the server allows: to send in all, and for each call; how large a frame
	// is; and how many calls there are at once.
	window, streamWindow int64
	frame                int
	streams              int64
}

// buffer is a slice to write to.
type buffer []byte

// Write appends, and never fails.
func (b *buffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// init begins with the client's half of the handshake.
func (w *writer) init(authority string, timeout time.Duration) error {
	w.framer = http2.NewFramer(&w.pending, nil)
	w.headers.init(authority, timeout)
	w.window, w.streamWindow, w.frame, w.streams = defaultWindow, defaultWindow, defaultFrame, lastStream
	w.pending = append(w.pending, http2.ClientPreface...)
	return errors.Join(
		w.framer.WriteSettings(
			http2.Setting{ID: http2.SettingEnablePush, Val: 0},
			http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow},
			http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: maxHeaders},
		),
		w.framer.WriteWindowUpdate(0, connWindow-defaultWindow),
	)
}

// send puts a call behind what is to be written.
func (c *Conn) send(method string, call *Caller) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.admit(len(call.request)); err != nil {
		return err
	}
	block, err := c.out.headers.block(method)
	if err != nil {
		return err
	}
	if len(block) > c.out.frame {
		// The block is not sent, and the server's table lacks what ours has got.
		c.leaving = fmt.Errorf("%w: headers of %d bytes, in frames of %d", ErrRefused, len(block), c.out.frame)
		return c.leaving
	}
	id := c.next
	c.next += 2
	if err := c.out.call(id, block, call.request); err != nil {
		return err
	}
	c.calls[id] = call
	call.began = c.looked
	c.out.due.Signal()
	return nil
}

// admit says whether one more call, with a request so large, may be sent. All of
// it is sent at once, so that a call has nothing to send later.
func (c *Conn) admit(size int) error {
	switch w := &c.out; {
	case c.leaving != nil:
		return c.leaving
	case c.next > lastStream:
		return fmt.Errorf("%w: it has had %d calls, and no stream is left", ErrRefused, c.next/2)
	case int64(len(c.calls)) >= w.streams:
		return fmt.Errorf("%w: %d calls wait, and the server takes %d at once", ErrRefused, len(c.calls), w.streams)
	case int64(size) > w.streamWindow:
		return fmt.Errorf("%w: a request of %d bytes, and the server takes %d of a call", ErrRefused, size, max(w.streamWindow, 0))
	case int64(size) > w.window:
		return fmt.Errorf("%w: a request of %d bytes, and the server takes %d now", ErrRefused, size, w.window)
	}
	return nil
}

// call writes a call's frames.
func (w *writer) call(id uint32, block, request []byte) error {
	err := w.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true})
	w.window -= int64(len(request))
	for err == nil && len(request) > 0 {
		n := min(len(request), w.frame)
		err = w.framer.WriteData(id, n == len(request), request[:n])
		request = request[n:]
	}
	return err
}

// control is called after a frame was written that is not a call's. It needs the
// lock.
func (c *Conn) control(err error) error {
	if err == nil && len(c.out.pending) > maxPending {
		return fmt.Errorf("%w: the server does not read: %d bytes wait", ErrLost, len(c.out.pending))
	}
	c.out.due.Signal()
	return err
}

// write writes what is pending, whenever something is.
func (c *Conn) write() {
	for c.pends() {
		// Let those who are about to make a call do so: a write costs more than
		// what it carries.
		runtime.Gosched()
		if _, err := c.socket.Write(c.take()); err != nil {
			c.end(fmt.Errorf("%w: write: %w", ErrLost, err))
		}
	}
}

// pends waits until something is to be written. It returns false when nothing ever
// will be.
func (c *Conn) pends() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.out.pending) == 0 && c.ended == nil {
		c.out.due.Wait()
	}
	return c.ended == nil
}

// take is all that is pending. It is good until the next time.
func (c *Conn) take() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.pending, c.out.spare = c.out.spare[:0], c.out.pending
	return c.out.spare
}

// headers writes the headers of requests.
type headers struct {
	fields  []hpack.HeaderField
	path    int
	buf     buffer
	encoder *hpack.Encoder
	// stable has the blocks, by method, that refer to the tables alone. They are
	// right until the table changes.
	stable map[string][]byte
}

func (h *headers) init(authority string, timeout time.Duration) {
	h.fields = []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path"},
		{Name: ":authority", Value: authority},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "user-agent", Value: "gwanmun-bench"},
		{Name: "te", Value: "trailers"},
		{Name: "grpc-timeout", Value: timeoutText(timeout)},
	}
	h.path = 2
	h.encoder = hpack.NewEncoder(&h.buf)
	h.stable = map[string][]byte{}
}

// timeoutText is a timeout as gRPC writes it, in microseconds as long as the eight
// digits suffice.
func timeoutText(d time.Duration) string {
	const most = 99_999_999
	if us := d.Microseconds(); us <= most {
		return fmt.Sprintf("%du", max(us, 1))
	}
	return fmt.Sprintf("%dm", min(d.Milliseconds(), most))
}

// block is the headers of a call, for the connection's next request. What it
// returns is good until it is called again.
func (h *headers) block(method string) ([]byte, error) {
	if block := h.stable[method]; block != nil {
		return block, nil
	}
	h.buf = h.buf[:0]
	h.fields[h.path].Value = method
	indexed := true
	for _, field := range h.fields {
		began := len(h.buf)
		if err := h.encoder.WriteField(field); err != nil {
			return nil, fmt.Errorf("write header %s: %w", field.Name, err)
		}
		indexed = indexed && h.buf[began]&0x80 != 0
	}
	if indexed {
		h.stable[method] = append([]byte(nil), h.buf...)
	} else {
		clear(h.stable) // what is new in the table moves the rest of it
	}
	return h.buf, nil
}

// resize obeys a server that allows a table of another size.
func (h *headers) resize(size uint32) {
	h.encoder.SetMaxDynamicTableSizeLimit(size)
	clear(h.stable)
}
