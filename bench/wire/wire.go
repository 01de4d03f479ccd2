// Package wire is a client of unary gRPC calls that costs its machine little: what
// a bench's callers use beside the thing they measure cannot be told from it. It
// speaks HTTP/2 in cleartext with prior knowledge, and its calls have no context,
// no timer and no goroutine of their own: requests that come together leave with
// one write, one reader wakes each caller once, and one clock watches all of them.
//
// To a server its calls are what those of grpc-go's client are: the same headers,
// indexed once they were seen, and a deadline. Pings are answered at once.
//
// It is for benches and no more: it neither connects again nor retries, and where
// gRPC would queue (streams, windows) it refuses.
package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

const (
	// maxReply is how large a reply may be, as in grpc-go.
	maxReply = 4 << 20
	// streamWindow is what the server may send of one call. It is larger than a
	// reply may be, and therefore never replenished.
	streamWindow = 2 * maxReply
	// connWindow is what the server may send in all until it is replenished, which
	// is done when so much as replenishAt was taken.
	connWindow  = 1 << 30
	replenishAt = 16 << 20
	// maxHeaders is how large a block of headers may be.
	maxHeaders = 64 << 10
	// maxPending is how much may wait for a server that does not read.
	maxPending = 64 << 20
	// readBuffer is how much is read at once.
	readBuffer = 64 << 10
	// lastStream is the last that a connection can have.
	lastStream = 1<<31 - 1
	// looks is how often a call is looked at until it is too late. It may be given
	// so small a part of its time more, and once again that much.
	looks = 20
)

// What HTTP/2 says of a server that has not said anything else.
const (
	defaultWindow = 1<<16 - 1
	defaultFrame  = 1 << 14
	maxWindow     = 1<<31 - 1
)

var (
	// ErrClosed fails calls on a connection that was closed by this side.
	ErrClosed = errors.New("the connection was closed")
	// ErrLost fails calls whose connection was closed by the server, or broke.
	ErrLost = errors.New("the connection is lost")
	// ErrGoAway fails calls that the server will not take any more.
	ErrGoAway = errors.New("the server takes no more calls on this connection")
	// ErrTimeout fails calls that were not answered in time.
	ErrTimeout = errors.New("no answer in time")
	// ErrRefused fails calls that would violate what HTTP/2 or the server allows.
	// Nothing of them was sent.
	ErrRefused = errors.New("not allowed on this connection")
	// ErrAnswer fails calls whose answer is not gRPC, or none.
	ErrAnswer = errors.New("the answer is not one to a unary call")
)

// Conn is a connection to a server. Many may use it at once, each with a Caller of
// its own. It works until it is closed or lost; then every call fails, those that
// wait at once.
type Conn struct {
	socket net.Conn
	// period is how often calls are looked at until timeout is over.
	timeout, period time.Duration

	in reader
	// settled is closed when the server has sent its settings, over when the
	// connection has ended.
	settled, over chan struct{}
	work          sync.WaitGroup

	mu    sync.Mutex
	out   writer
	calls map[uint32]*Caller
	// next is the stream of the next call.
	next uint32
	// looked is when the waiting calls were looked at, the clock of all calls.
	looked time.Time
	// leaving is why no call may begin, ended why none may end well.
	leaving, ended error
}

// Dial connects to a server of HTTP/2 in cleartext, and waits for its settings. Its
// calls fail if they are not answered in timeout, which their server is told too.
func Dial(ctx context.Context, addr string, timeout time.Duration) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	socket, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	c := &Conn{
		socket: socket, timeout: timeout, period: max(timeout/looks, time.Millisecond), looked: time.Now(),
		settled: make(chan struct{}), over: make(chan struct{}),
		calls: map[uint32]*Caller{}, next: 1,
	}
	c.in.init(bufio.NewReaderSize(socket, readBuffer))
	if err := c.out.init(addr, timeout); err != nil {
		return nil, errors.Join(fmt.Errorf("greet: %w", err), socket.Close())
	}
	c.out.due.L = &c.mu
	c.work.Go(c.write)
	c.work.Go(c.read)
	c.work.Go(c.watch)
	select {
	case <-c.settled:
		return c, nil
	case <-c.over:
		err = c.ended
	case <-ctx.Done():
		err = ctx.Err()
	}
	c.Close()
	return nil, fmt.Errorf("wait for settings: %w", err)
}

// Close ends the connection and what runs for it.
func (c *Conn) Close() {
	c.end(ErrClosed)
	c.work.Wait()
}

// end is the end of the connection: whoever waits is told why, once.
func (c *Conn) end(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil {
		return
	}
	c.ended, c.leaving = why, why
	close(c.over)
	for id := range c.calls {
		c.finish(id, why)
	}
	c.out.due.Signal()
	_ = c.socket.Close() // nobody wants what it still holds
}

// finish ends a call and wakes its caller. It needs the lock.
func (c *Conn) finish(id uint32, err error) {
	call := c.calls[id]
	delete(c.calls, id)
	call.err = err
	call.done <- struct{}{} // has room: there is one for each call that was sent
}

// abort ends a call that the server may still be busy with. It needs the lock.
func (c *Conn) abort(id uint32, err error) error {
	c.finish(id, err)
	return c.control(c.out.framer.WriteRSTStream(id, http2.ErrCodeCancel))
}

// watch ends the calls that are too late.
func (c *Conn) watch() {
	look := time.NewTicker(c.period)
	defer look.Stop()
	for {
		select {
		case now := <-look.C:
			if err := c.expire(now); err != nil {
				c.end(err)
			}
		case <-c.over:
			return
		}
	}
}

func (c *Conn) expire(now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looked = now
	for id, call := range c.calls {
		// It may have begun as much as a period after it seems to have.
		if now.Sub(call.began) <= c.timeout+c.period {
			continue
		}
		if err := c.abort(id, fmt.Errorf("%w: %v", ErrTimeout, c.timeout)); err != nil {
			return err
		}
	}
	return nil
}
