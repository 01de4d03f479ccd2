package wire

import (
	"encoding/binary"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"  //nolint:depguard // the load generator's client speaks gRPC
	"google.golang.org/grpc/status" //nolint:depguard // the load generator's client speaks gRPC
	"google.golang.org/protobuf/proto"
)

// prefix is how many bytes gRPC puts before a message: whether it is compressed,
// and its length.
const prefix = 5

// Caller makes calls on a connection, one at a time. What a call needs is kept for
// the next.
type Caller struct {
	conn *Conn
	// request and reply are messages with their prefixes. While a call waits, reply
	// belongs to the connection.
	request, reply []byte
	// done has room for the end of a call, which is err.
	done chan struct{}
	err  error
	// began is when calls had last been looked at when this one was sent.
	began time.Time
	// answered is set once the headers of the answer are here.
	answered bool
}

// Caller is one more that makes calls on the connection.
func (c *Conn) Caller() *Caller {
	return &Caller{conn: c, done: make(chan struct{}, 1)}
}

// Call makes a call, such as /package.Service/Method, and waits for its reply. A
// server's refusal is an error of package status; all others wrap one of this
// package's.
func (c *Caller) Call(method string, request, reply proto.Message) error {
	message, err := proto.MarshalOptions{}.MarshalAppend(append(c.request[:0], make([]byte, prefix)...), request)
	if err != nil {
		return fmt.Errorf("call %s: write the request: %w", method, err)
	}
	binary.BigEndian.PutUint32(message[1:], uint32(len(message)-prefix)) //nolint:gosec // the send window bounds it
	c.request, c.reply, c.answered = message, c.reply[:0], false
	if err := c.conn.send(method, c); err != nil {
		return fmt.Errorf("call %s: %w", method, err)
	}
	<-c.done
	if c.err == nil {
		c.err = c.read(reply)
	}
	if _, refused := status.FromError(c.err); refused {
		return c.err
	}
	return fmt.Errorf("call %s: %w", method, c.err)
}

// read reads the reply, which is one message.
func (c *Caller) read(reply proto.Message) error {
	switch size := len(c.reply); {
	case size < prefix:
		return fmt.Errorf("%w: OK, and %d bytes of a message", ErrAnswer, size)
	case c.reply[0] != 0:
		return fmt.Errorf("%w: it is compressed", ErrAnswer)
	case binary.BigEndian.Uint32(c.reply[1:]) != uint32(size-prefix): //nolint:gosec // at most maxReply
		return fmt.Errorf("%w: a message of %d bytes in %d", ErrAnswer, binary.BigEndian.Uint32(c.reply[1:]), size-prefix)
	}
	if err := proto.Unmarshal(c.reply[prefix:], reply); err != nil {
		return fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return nil
}

// outcome is what the trailers say of a call: nil if it is OK.
func outcome(code, message string) error {
	if code == "0" {
		return nil
	}
	n, err := strconv.ParseUint(code, 10, 32)
	if err != nil || n == 0 {
		return fmt.Errorf("%w: its status is %q", ErrAnswer, code)
	}
	if text, err := url.PathUnescape(message); err == nil {
		message = text // otherwise it is shown as it came, as gRPC wants it
	}
	return status.Error(codes.Code(n), message)
}
