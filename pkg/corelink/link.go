package corelink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/gwanmun/gwanmun/pkg/frame"
)

// Flags are the settings of a link.
type Flags struct {
	CoreAddr       []string      `name:"core-addr" placeholder:"HOST:PORT" default:"127.0.0.1:9099" help:"Where the core listens for telegrams, host:port; of several, the next is tried when one refuses."`
	CoreTLS        bool          `name:"core-tls" help:"Speak TLS to the core, and check its certificate."`
	CoreTLSCA      string        `name:"core-tls-ca" placeholder:"FILE" help:"Who signs the core's certificate, in PEM; unset, those whom this machine trusts."`
	CoreTLSName    string        `name:"core-tls-name" placeholder:"NAME" help:"The name in the core's certificate; unset, the host of --core-addr."`
	ReadTimeout    time.Duration `default:"3s" help:"How long the core may take to answer one telegram."`
	ConnectTimeout time.Duration `default:"2s" help:"How long a connection to the core may take, within the deadline."`

	PoolSize    int           `default:"16" help:"Connections to the core at most, for each of the two circuits."`
	PoolWait    time.Duration `default:"500ms" help:"How long an exchange waits for one of them to be free."`
	PoolIdleTTL time.Duration `name:"pool-idle-ttl" default:"30s" help:"How long an idle connection is kept; shorter than any firewall on the way. 0 opens one for each exchange."`
}

// maxPoolSize bounds what can be set.
const maxPoolSize = 4096

// Validate reports what is wrong with the settings, in one line.
func (f *Flags) Validate() error {
	if err := CheckAddresses("--core-addr", f.CoreAddr); err != nil {
		return err
	}
	switch {
	case f.ReadTimeout <= 0:
		return errors.New("--read-timeout must be positive")
	case f.ConnectTimeout <= 0:
		return errors.New("--connect-timeout must be positive")
	case f.PoolSize < 1 || f.PoolSize > maxPoolSize:
		return fmt.Errorf("--pool-size must be 1 to %d", maxPoolSize)
	case f.PoolWait < 0:
		return errors.New("--pool-wait must not be negative")
	case f.PoolIdleTTL < 0:
		return errors.New("--pool-idle-ttl must not be negative")
	case !f.CoreTLS && (f.CoreTLSCA != "" || f.CoreTLSName != ""):
		return errors.New("--core-tls is missing: --core-tls-ca and --core-tls-name are of no use without it")
	}
	_, err := f.authorities()
	return err
}

// CheckAddresses reports what is wrong with the addresses of a flag, in one line.
func CheckAddresses(flag string, addrs []string) error {
	for _, addr := range addrs {
		_, port, err := net.SplitHostPort(addr)
		if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 {
			return fmt.Errorf("%s: %q is not host:port", flag, addr)
		}
	}
	if len(addrs) == 0 {
		return fmt.Errorf("%s: at least one address is needed", flag)
	}
	return nil
}

// Options are what a Link works with. All are required.
type Options struct {
	// Flags must be valid.
	Flags Flags
	// Name is the label of its pool's metrics; each link has its own.
	Name string
	// Dial opens a connection.
	Dial Dialer
	// Now is the clock of deadlines.
	Now func() time.Time
	// Metrics may be shared by the links of a process.
	Metrics *Metrics
}

// Link makes exchanges with the core, over a pool of connections of its own. It
// is safe for concurrent use.
type Link struct {
	flags   Flags
	now     func() time.Time
	pool    *pool
	metrics *Metrics
}

// New returns a Link. It connects when it is first used.
func New(o Options) *Link {
	p := &pool{
		flags: o.Flags, dial: o.Dial, now: o.Now, count: o.Metrics.pool(o.Name),
		places: make(chan struct{}, o.Flags.PoolSize),
	}
	o.Metrics.watch(o.Name, p.active, p.waiting)
	return &Link{flags: o.Flags, now: o.Now, metrics: o.Metrics, pool: p}
}

// Close ends the connections that are idle, and each other one when its exchange
// has ended.
func (l *Link) Close() error {
	if err := l.pool.close(); err != nil {
		return fmt.Errorf("close idle connections: %w", err)
	}
	return nil
}

// Exchange makes one exchange. It ends by the call's deadline, by the read
// time-out after the request left, or soon after ctx does, whichever is first.
// The deadline is set on the socket once, so a peer that trickles bytes gains
// no time by it.
func (l *Link) Exchange(ctx context.Context, call Call) (res Result) {
	if ctx.Err() != nil {
		return Result{Sent: SentNone, Err: abandoned(ctx)}
	}
	if err := l.pool.enter(ctx, call.Deadline); err != nil {
		return Result{Sent: SentNone, Err: err}
	}
	defer l.pool.leave()
	conn, err := l.pool.take(ctx, call.Deadline)
	if err != nil {
		return Result{Sent: SentNone, Err: err}
	}
	fit := false
	// A panic in Check or Ready must not keep the connection.
	defer func() {
		if fit {
			l.pool.give(conn, res.AnsweredAt)
		} else {
			l.pool.drop(conn)
		}
	}()
	res, fit = l.converse(ctx, conn, &call)
	return res
}

// converse writes the request and reads the answer. It reports whether the
// connection is fit for another exchange.
func (l *Link) converse(ctx context.Context, conn *session, call *Call) (res Result, fit bool) {
	start := conn.taken
	if call.Ready != nil {
		if err := call.Ready(); err != nil {
			return Result{Sent: SentNone, Err: fmt.Errorf("%w: %w", ErrNotReady, err)}, true
		}
		start = l.now()
	}
	if ctx.Err() != nil {
		return Result{Sent: SentNone, Err: abandoned(ctx)}, true
	}
	end := start.Add(l.flags.ReadTimeout)
	if call.Deadline.Before(end) {
		end = call.Deadline
	}
	if !end.After(start) {
		return Result{Sent: SentNone, Err: ErrNoTime}, true
	}
	if err := conn.SetDeadline(end); err != nil {
		return Result{Sent: SentNone, Err: fmt.Errorf("%w: %w", ErrConnect, err)}, false
	}
	if ctx.Done() != nil {
		// An expired socket deadline wakes whatever the exchange waits in.
		// Should it have begun to expire, it would wake the next exchange too.
		stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
		defer func() { fit = stop() && fit }()
	}

	res = l.write(ctx, conn, call.Frame, start)
	if res.Sent == SentNone {
		return res, false
	}
	if res.Sent == SentAll {
		fit = l.read(ctx, conn, call, &res)
	}
	end = res.AnsweredAt
	if end.IsZero() {
		end = l.now()
	}
	l.metrics.took(ctx, call.Tx, end.Sub(start))
	return res, fit
}

// abandoned says that, and why, a context has ended.
func abandoned(ctx context.Context) error {
	return fmt.Errorf("%w: %w", ErrAbandoned, ctx.Err())
}

// write hands the request to the kernel, in one call, once.
func (l *Link) write(ctx context.Context, conn net.Conn, request []byte, at time.Time) Result {
	n, err := conn.Write(request)
	if n == len(request) && err == nil {
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
		return Result{Sent: SentSome, SentAt: at, Err: fmt.Errorf("%w: %d of %d bytes: %w", kind, n, len(request), err)}
	}
}

// read takes the answer and has it checked. It reports whether the answer is
// valid and all that came: a byte behind it was meant for nobody, which takes
// nothing from the answer, but the connection is not fit any more.
func (l *Link) read(ctx context.Context, conn net.Conn, call *Call, res *Result) (clean bool) {
	length, came, err := call.AnswerLength, []byte(nil), error(nil)
	if call.Prefix > 0 {
		came, length, err = readPrefix(conn, call)
	}
	n := len(came)
	if err == nil {
		// To see a byte too many without asking the kernel again, it has room
		// for one.
		buf := append(make([]byte, 0, length+1), came...)[:length+1]
		var more int
		more, err = io.ReadAtLeast(conn, buf[n:], length-n)
		n += more
		came = buf[:min(n, length):length]
	}
	res.Answer = came
	switch {
	case err == nil:
		res.AnsweredAt = l.now()
		if err := call.Check(res.Answer); err != nil {
			res.Err = fmt.Errorf("%w: %w", ErrGarbage, err)
		}
	case errors.Is(err, errPrefix):
		res.Err = fmt.Errorf("%w: %w", ErrGarbage, err)
	case ctx.Err() != nil:
		res.Err = abandoned(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		res.Err = fmt.Errorf("%w: %d of %d bytes came", ErrTimeout, n, length)
	default:
		res.Err = fmt.Errorf("%w: %d of %d bytes came: %w", ErrClosed, n, length, err)
	}
	return res.Err == nil && n == length
}

// errPrefix says that the first bytes of an answer do not tell a length that it
// may have. What came behind them is not read.
var errPrefix = errors.New("the prefix tells no length of an answer")

// readPrefix reads the digits before an answer and no byte more, and the length
// that the answer has with them.
func readPrefix(conn net.Conn, call *Call) (digits []byte, length int, err error) {
	digits = make([]byte, call.Prefix)
	n, err := io.ReadFull(conn, digits)
	if err != nil {
		return digits[:n], call.Prefix, err
	}
	behind, ok := frame.PrefixValue(digits)
	if length = call.Prefix + behind; !ok || length > call.AnswerLength {
		return digits, length, errPrefix
	}
	return digits, length, nil
}
