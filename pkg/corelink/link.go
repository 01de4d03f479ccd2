package corelink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Flags are the settings of a link.
type Flags struct {
	CoreAddr       []string      `name:"core-addr" placeholder:"HOST:PORT" default:"127.0.0.1:9099" help:"Where the core listens for telegrams, host:port; of several, the next is tried when one refuses."`
	ReadTimeout    time.Duration `default:"3s" help:"How long the core may take to answer one telegram."`
	ConnectTimeout time.Duration `default:"2s" help:"How long a connection to the core may take, within the deadline."`
}

// Validate reports what is wrong with the settings, in one line.
func (f *Flags) Validate() error {
	for _, addr := range f.CoreAddr {
		if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
			return fmt.Errorf("--core-addr: %q is not host:port", addr)
		}
	}
	switch {
	case len(f.CoreAddr) == 0:
		return errors.New("--core-addr: at least one address is needed")
	case f.ReadTimeout <= 0:
		return errors.New("--read-timeout must be positive")
	case f.ConnectTimeout <= 0:
		return errors.New("--connect-timeout must be positive")
	}
	return nil
}

// Link makes exchanges with the core, each on a connection of its own. It is
// safe for concurrent use.
type Link struct {
	flags     Flags
	dial      Dialer
	now       func() time.Time
	roundtrip *prometheus.HistogramVec
}

// New returns a Link that connects with dial and registers its metrics.
func New(flags Flags, dial Dialer, now func() time.Time, registry prometheus.Registerer) *Link {
	l := &Link{flags: flags, dial: dial, now: now}
	l.roundtrip = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "gwanmun_core_roundtrip_seconds",
		Help:    "Time from the first byte of a request to the end of its exchange with the core.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
	}, []string{"tx"})
	registry.MustRegister(l.roundtrip)
	return l
}

// Exchange makes one exchange. It ends by the call's deadline, by the read
// time-out after the request left, or soon after ctx does, whichever is first.
// The deadline is set on the socket once, so a peer that trickles bytes gains
// no time by it.
func (l *Link) Exchange(ctx context.Context, call Call) Result {
	conn, err := l.connect(ctx, call.Deadline)
	if err != nil {
		return Result{Sent: SentNone, Err: err}
	}
	res := l.converse(ctx, conn, call)
	if res.Err != nil {
		reset(conn)
	}
	// The exchange has ended; how the socket closes changes nothing.
	_ = conn.Close()
	return res
}

// connect tries each address until one takes the connection. Nothing has left
// while it does, so the next address is safe.
func (l *Link) connect(ctx context.Context, deadline time.Time) (net.Conn, error) {
	var last error
	for _, addr := range l.flags.CoreAddr {
		left := min(deadline.Sub(l.now()), l.flags.ConnectTimeout)
		if left <= 0 {
			break
		}
		dialCtx, cancel := context.WithTimeout(ctx, left)
		conn, err := l.dial(dialCtx, "tcp", addr)
		cancel()
		if err == nil {
			return conn, nil
		}
		last = err
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: %w", ErrAbandoned, ctx.Err())
		}
	}
	if last == nil {
		return nil, ErrNoTime
	}
	return nil, fmt.Errorf("%w: %w", ErrConnect, last)
}

// converse writes the request and reads the answer on a fresh connection.
func (l *Link) converse(ctx context.Context, conn net.Conn, call Call) Result {
	if call.Ready != nil {
		if err := call.Ready(); err != nil {
			return Result{Sent: SentNone, Err: fmt.Errorf("%w: %w", ErrNotReady, err)}
		}
	}
	start := l.now()
	end := start.Add(l.flags.ReadTimeout)
	if call.Deadline.Before(end) {
		end = call.Deadline
	}
	if !end.After(start) {
		return Result{Sent: SentNone, Err: ErrNoTime}
	}
	if err := conn.SetDeadline(end); err != nil {
		return Result{Sent: SentNone, Err: fmt.Errorf("%w: %w", ErrConnect, err)}
	}
	// An expired socket deadline wakes whatever the exchange waits in.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if ctx.Err() != nil {
		return Result{Sent: SentNone, Err: fmt.Errorf("%w: %w", ErrAbandoned, ctx.Err())}
	}

	res := l.write(ctx, conn, call.Frame, start)
	if res.Sent == SentNone {
		return res
	}
	if res.Sent == SentAll {
		l.read(ctx, conn, call, &res)
	}
	l.roundtrip.WithLabelValues(call.Tx).Observe(l.now().Sub(start).Seconds())
	return res
}

// write hands the request to the kernel, in one call, once.
func (l *Link) write(ctx context.Context, conn net.Conn, frame []byte, at time.Time) Result {
	n, err := conn.Write(frame)
	if n == len(frame) && err == nil {
		return Result{Sent: SentAll, SentAt: at}
	}
	kind := ErrWrite
	if ctx.Err() != nil {
		kind = ErrAbandoned
	}
	switch {
	case err == nil: // against io.Writer's contract, so n is not believed either
		return Result{Sent: SentSome, SentAt: at, Err: fmt.Errorf("%w: %w", kind, io.ErrShortWrite)}
	case n <= 0:
		return Result{Sent: SentNone, Err: fmt.Errorf("%w: %w", kind, err)}
	default:
		return Result{Sent: SentSome, SentAt: at, Err: fmt.Errorf("%w: %d of %d bytes: %w", kind, n, len(frame), err)}
	}
}

// read takes exactly the answer's bytes, and has them checked.
func (l *Link) read(ctx context.Context, conn net.Conn, call Call, res *Result) {
	buf := make([]byte, call.AnswerLength)
	n, err := io.ReadFull(conn, buf)
	res.Answer = buf[:n]
	switch {
	case err == nil:
		res.AnsweredAt = l.now()
		if err := call.Check(buf); err != nil {
			res.Err = fmt.Errorf("%w: %w", ErrGarbage, err)
		}
	case ctx.Err() != nil:
		res.Err = fmt.Errorf("%w: %w", ErrAbandoned, ctx.Err())
	case errors.Is(err, os.ErrDeadlineExceeded):
		res.Err = fmt.Errorf("%w: %d of %d bytes came", ErrTimeout, n, len(buf))
	default:
		res.Err = fmt.Errorf("%w: %d of %d bytes came: %w", ErrClosed, n, len(buf), err)
	}
}

// reset makes Close discard what is in flight either way: after an anomaly
// nothing of this connection may be of use to anyone.
func reset(conn net.Conn) {
	if tcp, ok := conn.(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(0)
	}
}
