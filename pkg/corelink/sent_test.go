package corelink_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

// recorded wraps a dialer and keeps the addresses that were dialed.
func recorded(dial corelink.Dialer, to *[]string) corelink.Dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		*to = append(*to, addr)
		return dial(ctx, network, addr)
	}
}

func TestExchange_DialRefused(t *testing.T) {
	res := newLink(t, patient(refusing(t)), dialer()).Exchange(t.Context(), callFor(t, paymentID))
	expect(t, res, want{corelink.SentNone, corelink.ErrConnect, 0})
	if !errors.Is(res.Err, syscall.ECONNREFUSED) {
		t.Errorf("error %v does not say why", res.Err)
	}
}

func TestExchange_NextAddressWhenOneRefuses(t *testing.T) {
	h := serve(t, answering(approval(paymentID)))
	first := refusing(t)
	var dialed []string
	link := newLink(t, patient(first, h.addr, refusing(t)), recorded(dialer(), &dialed))
	res := link.Exchange(t.Context(), callFor(t, paymentID))
	expect(t, res, want{corelink.SentAll, nil, telegram.AnswerLength})
	if !slices.Equal(dialed, []string{first, h.addr}) {
		t.Errorf("dialed %v, want %s and then %s, and no more", dialed, first, h.addr)
	}
}

func TestExchange_AllAddressesRefuse(t *testing.T) {
	var dialed []string
	link := newLink(t, patient(refusing(t), refusing(t), refusing(t)), recorded(dialer(), &dialed))
	expect(t, link.Exchange(t.Context(), callFor(t, paymentID)), want{corelink.SentNone, corelink.ErrConnect, 0})
	if len(dialed) != 3 {
		t.Errorf("dialed %v, want all three once", dialed)
	}
}

// An address that took the connection is the only one: what failed on it may
// have been executed, so nothing of it is tried elsewhere.
func TestExchange_NothingIsSentTwice(t *testing.T) {
	first := serve(t, sendAndClose(nil))
	var dialed []string
	link := newLink(t, patient(first.addr, refusing(t)), recorded(dialer(), &dialed))
	call := callFor(t, paymentID)
	call.Kind = corelink.Inquiry
	expect(t, link.Exchange(t.Context(), call), want{corelink.SentAll, corelink.ErrClosed, 0})
	if accepted, _ := first.seen(); len(dialed) != 1 || accepted != 1 {
		t.Errorf("dialed %v, %d connections", dialed, accepted)
	}
}

func TestExchange_DeadlineGoneBeforeItBegins(t *testing.T) {
	var dialed []string
	call := callFor(t, paymentID)
	call.Deadline = time.Now()
	res := newLink(t, patient("core"), recorded(dialer(), &dialed)).Exchange(t.Context(), call)
	expect(t, res, want{corelink.SentNone, corelink.ErrNoTime, 0})
	if len(dialed) != 0 {
		t.Errorf("dialed %v", dialed)
	}
}

// untouched is a behaviour: no byte may come.
func untouched(conn *net.TCPConn) error {
	n, _ := io.Copy(io.Discard, conn)
	if n > 0 {
		return errors.New("a byte came")
	}
	return nil
}

func TestExchange_NotReady(t *testing.T) {
	h := serve(t, untouched)
	errMissed := errors.New("window missed")
	connected, asked := false, 0
	link := newLink(t, patient(h.addr), func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dialer()(ctx, network, addr)
		connected = err == nil
		return conn, err
	})
	call := callFor(t, paymentID)
	call.Ready = func() error {
		asked++
		if !connected {
			t.Error("asked before the connection was there")
		}
		return errMissed
	}
	res := link.Exchange(t.Context(), call)
	expect(t, res, want{corelink.SentNone, corelink.ErrNotReady, 0})
	if !errors.Is(res.Err, errMissed) || asked != 1 {
		t.Errorf("error %v, asked %d times", res.Err, asked)
	}
	if err := <-h.ends; err != nil {
		t.Error(err)
	}
}

func TestExchange_ReadyIsNotAskedWithoutConnection(t *testing.T) {
	call := callFor(t, paymentID)
	call.Ready = func() error { t.Error("asked"); return nil }
	res := newLink(t, patient(refusing(t)), dialer()).Exchange(t.Context(), call)
	expect(t, res, want{corelink.SentNone, corelink.ErrConnect, 0})
}

// The core resets the connection that it has just taken: no byte can leave.
func TestExchange_ResetBeforeTheWrite(t *testing.T) {
	connected := make(chan struct{})
	h := serve(t, func(conn *net.TCPConn) error { <-connected; return conn.SetLinger(0) })
	link := newLink(t, patient(h.addr), func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dialer()(ctx, network, addr)
		close(connected)
		if err != nil {
			return nil, err
		}
		raw, err := conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			return nil, err
		}
		// Wait until the reset is here.
		return conn, raw.Read(func(fd uintptr) bool {
			_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
			return !errors.Is(err, syscall.EAGAIN)
		})
	})
	res := link.Exchange(t.Context(), callFor(t, paymentID))
	expect(t, res, want{corelink.SentNone, corelink.ErrWrite, 0})
}

// fakeConn is a connection that takes a part of what is written.
type fakeConn struct {
	net.Conn
	takes       int
	writeErr    error
	deadlineErr error

	writes int
	linger []int
	closed int
}

func (c *fakeConn) Write([]byte) (int, error)   { c.writes++; return c.takes, c.writeErr }
func (c *fakeConn) Read([]byte) (int, error)    { return 0, io.EOF }
func (c *fakeConn) SetDeadline(time.Time) error { return c.deadlineErr }
func (c *fakeConn) SetLinger(sec int) error     { c.linger = append(c.linger, sec); return nil }
func (c *fakeConn) Close() error                { c.closed++; return nil }
func (c *fakeConn) dial() corelink.Dialer {
	return func(context.Context, string, string) (net.Conn, error) { return c, nil }
}

func TestExchange_WriteNotTakenWhole(t *testing.T) {
	errNet := errors.New("network fell over")
	cases := map[string]struct {
		takes int
		err   error
		want  want
	}{
		"no byte":               {0, errNet, want{corelink.SentNone, errNet, 0}},
		"one byte":              {1, errNet, want{corelink.SentSome, errNet, 0}},
		"all but one":           {telegram.RequestLength - 1, errNet, want{corelink.SentSome, errNet, 0}},
		"all, and an error":     {telegram.RequestLength, errNet, want{corelink.SentSome, errNet, 0}},
		"a part, and no error":  {telegram.RequestLength - 1, nil, want{corelink.SentSome, io.ErrShortWrite, 0}},
		"nothing, and no error": {0, nil, want{corelink.SentSome, io.ErrShortWrite, 0}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			conn := &fakeConn{takes: c.takes, writeErr: c.err}
			res := newLink(t, patient("core"), conn.dial()).Exchange(t.Context(), callFor(t, paymentID))
			expect(t, res, c.want)
			if !errors.Is(res.Err, corelink.ErrWrite) || strings.Contains(res.Err.Error(), "%!") {
				t.Errorf("error %q", res.Err)
			}
			if conn.writes != 1 || conn.closed != 1 || !slices.Equal(conn.linger, []int{0}) {
				t.Errorf("%d writes, %d closes, linger %v; want one write and one close with linger 0", conn.writes, conn.closed, conn.linger)
			}
		})
	}
}

func TestExchange_ConnectionThatTakesNoDeadlineIsNotUsed(t *testing.T) {
	conn := &fakeConn{deadlineErr: net.ErrClosed}
	res := newLink(t, patient("core"), conn.dial()).Exchange(t.Context(), callFor(t, paymentID))
	expect(t, res, want{corelink.SentNone, corelink.ErrConnect, 0})
	if conn.writes != 0 || conn.closed != 1 {
		t.Errorf("%d writes, %d closes", conn.writes, conn.closed)
	}
}
