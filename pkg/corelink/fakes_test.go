package corelink_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/frame"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

const (
	paymentID = tranid.ID("GWMNU20260301000000001")
	otherID   = tranid.ID("GWMNU20260301000000002")
)

// request is a 0100 under id.
func request(t testing.TB, id tranid.ID) []byte {
	t.Helper()
	number, err := account.Parse("12345678901234")
	if err != nil {
		t.Fatal(err)
	}
	b, err := telegram.PaymentRequest{TranID: id, Account: number, Amount: 1000}.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// approval is the 0110 that approves id.
func approval(id tranid.ID) []byte {
	b, err := telegram.PaymentAnswer{
		TranID: id, ResponseCode: "0000", Message: frame.Text{Value: "정상처리"}, ApprovalNo: 7,
	}.AppendTo(nil)
	if err != nil {
		panic(err)
	}
	return b
}

var errEcho = errors.New("another transaction's answer")

// check is what a caller makes of an answer: the telegram is right, and it is
// this transaction's.
func check(id tranid.ID) func([]byte) error {
	return func(b []byte) error {
		m, err := telegram.ParsePaymentAnswer(b)
		if err != nil {
			return fmt.Errorf("parse payment answer: %w", err)
		}
		if m.TranID != id {
			return errEcho
		}
		return nil
	}
}

// callFor is a payment that may take a minute.
func callFor(t testing.TB, id tranid.ID) corelink.Call {
	t.Helper()
	return corelink.Call{
		Tx: corelink.TxPayment, Frame: request(t, id), AnswerLength: telegram.AnswerLength,
		Check: check(id), Deadline: time.Now().Add(time.Minute),
	}
}

// patient are the settings of a link whose time-outs play no part in a test.
func patient(addrs ...string) corelink.Flags {
	return corelink.Flags{
		CoreAddr: addrs, ReadTimeout: 20 * time.Second, ConnectTimeout: 20 * time.Second,
		PoolSize: 1024, PoolWait: time.Minute,
	}
}

// keeping are the same for a link that keeps its connections.
func keeping(addrs ...string) corelink.Flags {
	flags := patient(addrs...)
	flags.PoolIdleTTL = time.Minute
	return flags
}

func newLink(t testing.TB, flags corelink.Flags, dial corelink.Dialer) *corelink.Link {
	t.Helper()
	link, _ := newCounted(t, flags, dial)
	return link
}

// newCounted returns a link that is closed when the test ends, and what reads a
// metric of its pool by the short name, such as opened.
func newCounted(t testing.TB, flags corelink.Flags, dial corelink.Dialer) (link *corelink.Link, metric func(name string) int) {
	t.Helper()
	registry := prometheus.NewRegistry()
	link = corelink.New(corelink.Options{
		Flags: flags, Name: "test", Dial: dial, Now: time.Now, Metrics: corelink.NewMetrics(registry),
	})
	t.Cleanup(func() { _ = link.Close() })
	return link, func(name string) int {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() == "gwanmun_pool_"+name || family.GetName() == "gwanmun_pool_"+name+"_total" {
				m := family.GetMetric()[0]
				return int(m.GetCounter().GetValue() + m.GetGauge().GetValue())
			}
		}
		t.Fatalf("no metric %q", name)
		return 0
	}
}

// want is how an exchange ended.
type want struct {
	sent corelink.Sent
	// err is the sentinel; nil for a valid answer.
	err error
	// answer is how many bytes came, or anyBytes.
	answer int
}

const anyBytes = -1

// expect checks an end, and what is true of each: what left, when, what came
// and whether it counts never contradict one another.
func expect(t *testing.T, res corelink.Result, w want) {
	t.Helper()
	if res.Sent != w.sent || !errors.Is(res.Err, w.err) || (w.err == nil) != (res.Err == nil) {
		t.Fatalf("sent %s, error %v; want sent %s, error %v", res.Sent, res.Err, w.sent, w.err)
	}
	if w.answer != anyBytes && len(res.Answer) != w.answer {
		t.Errorf("%d bytes came, want %d", len(res.Answer), w.answer)
	}
	if res.Answered() != (res.Err == nil) {
		t.Errorf("Answered() is %t with error %v", res.Answered(), res.Err)
	}
	if res.SentAt.IsZero() != (res.Sent == corelink.SentNone) {
		t.Errorf("sent %s at %v", res.Sent, res.SentAt)
	}
	if whole := len(res.Answer) == telegram.AnswerLength; res.AnsweredAt.IsZero() == whole {
		t.Errorf("%d bytes came, answered at %v", len(res.Answer), res.AnsweredAt)
	}
	if res.AnsweredAt.Before(res.SentAt) && !res.AnsweredAt.IsZero() {
		t.Errorf("answered at %v, sent at %v", res.AnsweredAt, res.SentAt)
	}
}

// host is a core on a real socket. It tells how each connection ended, as it
// saw it: nil for an orderly end.
type host struct {
	addr string
	ends chan error
	// stop ends the listener and waits until every connection has been ended by
	// the other side, or by its behaviour. One that is not, fails the test.
	stop func()

	mu       sync.Mutex
	open     map[net.Conn]bool
	peak     int
	accepted int
}

// serve starts a host that does with each connection what behave says. What
// behave returns goes to ends.
func serve(t testing.TB, behave func(conn *net.TCPConn) error) *host {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &host{addr: listener.Addr().String(), ends: make(chan error, 10_000), open: make(map[net.Conn]bool)}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			h.begin(conn)
			work.Go(func() {
				err := behave(conn.(*net.TCPConn))
				h.end(conn) // before it is told of: who hears of it may count
				h.ends <- err
			})
		}
	})
	h.stop = sync.OnceFunc(func() {
		_ = listener.Close()
		gone := make(chan struct{})
		go func() { work.Wait(); close(gone) }()
		select {
		case <-gone:
		case <-time.After(10 * time.Second):
			t.Errorf("%d connections were left open", h.abort())
			<-gone
		}
	})
	t.Cleanup(h.stop)
	return h
}

func (h *host) begin(conn net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open[conn] = true
	h.peak = max(h.peak, len(h.open))
	h.accepted++
}

func (h *host) end(conn net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.open, conn)
	_ = conn.Close()
}

// abort closes what is open, and says how many that were.
func (h *host) abort() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for conn := range h.open {
		_ = conn.Close()
	}
	return len(h.open)
}

// seen is how many connections came in all, and at most at once.
func (h *host) seen() (accepted, peak int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.accepted, h.peak
}

// inTurn gives each connection the next behaviour, and the last one to all that
// follow.
func inTurn(behaviours ...func(*net.TCPConn) error) func(*net.TCPConn) error {
	var n atomic.Int64
	return func(conn *net.TCPConn) error {
		return behaviours[min(int(n.Add(1)), len(behaviours))-1](conn)
	}
}

// asked reads one request and returns the ID in it. Without one byte of a
// request the error is io.EOF, or what ended the connection.
func asked(conn net.Conn) (tranid.ID, error) {
	b := make([]byte, telegram.RequestLength)
	if _, err := io.ReadFull(conn, b); err != nil {
		return "", err
	}
	m, err := telegram.ParsePaymentRequest(b)
	return m.TranID, err
}

// ended is nil for an orderly end.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// take reads one request, or says that it did not come.
func take(conn net.Conn) error {
	_, err := io.ReadFull(conn, make([]byte, telegram.RequestLength))
	return err
}

// outlast reads until the other side ends the connection, and returns how: nil
// for an orderly end. More bytes are an error.
func outlast(conn net.Conn) error {
	n, err := io.Copy(io.Discard, conn)
	if n > 0 {
		return fmt.Errorf("%d bytes more than a request", n)
	}
	return err
}

// answering is a behaviour: it takes a request, sends what is given and waits
// for the end.
func answering(answer []byte) func(*net.TCPConn) error {
	return func(conn *net.TCPConn) error {
		if err := take(conn); err != nil {
			return err
		}
		if _, err := conn.Write(answer); err != nil {
			return err
		}
		return outlast(conn)
	}
}

// dialer is a real one.
func dialer() corelink.Dialer { return (&net.Dialer{}).DialContext }

// refusing is an address of this machine at which nobody listens.
func refusing(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return addr
}

// piped is a dialer to a core at the other end of a net.Pipe, for virtual time.
// behave gets the core's end and closes it.
func piped(behave func(conn net.Conn)) corelink.Dialer {
	return func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer func() { _ = far.Close() }()
			behave(far)
		}()
		return near, nil
	}
}

// pipedInTurn gives each connection the next behaviour, and the last one to all
// that follow.
func pipedInTurn(behaviours ...func(conn net.Conn)) corelink.Dialer {
	n := 0
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		n++
		return piped(behaviours[min(n, len(behaviours))-1])(ctx, network, addr)
	}
}

// steady answers every request of a connection with an approval, until the
// other side ends it.
func steady(conn *net.TCPConn) error { return approving(conn) }

// obliging is steady on a pipe.
func obliging(conn net.Conn) { _ = approving(conn) }

func approving(conn net.Conn) error {
	for {
		id, err := asked(conn)
		if err != nil {
			return ended(err)
		}
		if _, err := conn.Write(approval(id)); err != nil {
			return err
		}
	}
}

// nth is the n-th transaction ID of a day.
func nth(n int) tranid.ID { return tranid.ID(fmt.Sprintf("GWMNU20260301%09d", n)) }

// answered makes an exchange that must end well.
func answered(t testing.TB, link *corelink.Link, id tranid.ID) {
	t.Helper()
	if res := link.Exchange(t.Context(), callFor(t, id)); !res.Answered() {
		t.Errorf("exchange of %s: sent %s, error %v", id, res.Sent, res.Err)
	}
}

// spread leaves n connections idle, the one opened first used last: each
// exchange makes the next one while it has its connection.
func spread(t testing.TB, link *corelink.Link, n int) {
	t.Helper()
	call := callFor(t, nth(n))
	call.Ready = func() error {
		if n > 1 {
			spread(t, link, n-1)
		}
		return nil
	}
	if res := link.Exchange(t.Context(), call); !res.Answered() {
		t.Errorf("exchange %d: sent %s, error %v", n, res.Sent, res.Err)
	}
}

// pipedCounting counts the connections.
func pipedCounting(opened *int, behave func(conn net.Conn)) corelink.Dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		*opened++
		return piped(behave)(ctx, network, addr)
	}
}
