package corelink_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
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
		CoreAddr: addrs, ReadTimeout: time.Minute, ConnectTimeout: time.Minute,
		PoolSize: 1024, PoolWait: time.Minute,
	}
}

func newLink(flags corelink.Flags, dial corelink.Dialer) *corelink.Link {
	return corelink.New(corelink.Options{
		Flags: flags, Name: "test", Dial: dial, Now: time.Now, Metrics: corelink.NewMetrics(prometheus.NewRegistry()),
	})
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
}

// serve starts a host that does with each connection what behave says. What
// behave returns goes to ends.
func serve(t *testing.T, behave func(conn *net.TCPConn) error) *host {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &host{addr: listener.Addr().String(), ends: make(chan error, 1000)}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer func() { _ = conn.Close() }()
				h.ends <- behave(conn.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() { _ = listener.Close(); work.Wait() })
	return h
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
	if err == nil && n > 0 {
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
