package corelink_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

func TestExchange_ValidAnswer(t *testing.T) {
	got := make(chan []byte, 1)
	h := serve(t, func(conn *net.TCPConn) error {
		b := make([]byte, telegram.RequestLength)
		if _, err := io.ReadFull(conn, b); err != nil {
			return err
		}
		got <- b
		if _, err := conn.Write(approval(paymentID)); err != nil {
			return err
		}
		return outlast(conn)
	})
	before := time.Now()
	res := newLink(t, patient(h.addr), dialer()).Exchange(t.Context(), callFor(t, paymentID))
	expect(t, res, want{corelink.SentAll, nil, telegram.AnswerLength})
	if !bytes.Equal(res.Answer, approval(paymentID)) {
		t.Errorf("answer %q", res.Answer)
	}
	if b := <-got; !bytes.Equal(b, request(t, paymentID)) {
		t.Errorf("the core got %q", b)
	}
	if res.SentAt.Before(before) || res.AnsweredAt.After(time.Now()) {
		t.Errorf("sent at %v, answered at %v", res.SentAt, res.AnsweredAt)
	}
	if err := <-h.ends; err != nil {
		t.Errorf("the core saw the connection end with %v, want an orderly end", err)
	}
}

// Each way in which a core may answer wrongly or not at all, on a real socket.
// The request had left whole in every one of them.
func TestExchange_NoValidAnswer(t *testing.T) {
	good := approval(paymentID)
	replaced := func(at int, with string) []byte {
		b := bytes.Clone(good)
		copy(b[at:], with)
		return b
	}
	cases := map[string]struct {
		behave func(conn *net.TCPConn) error
		want   want
	}{
		"closes at once": {
			func(*net.TCPConn) error { return nil },
			want{corelink.SentAll, corelink.ErrClosed, 0},
		},
		"closes when it has the request": {
			sendAndClose(nil), want{corelink.SentAll, corelink.ErrClosed, 0},
		},
		"closes after one byte": {
			sendAndClose(good[:1]), want{corelink.SentAll, corelink.ErrClosed, 1},
		},
		"closes one byte short": {
			sendAndClose(good[:60]), want{corelink.SentAll, corelink.ErrClosed, 60},
		},
		"half-closes without answer": {
			sendAndHalfClose(nil), want{corelink.SentAll, corelink.ErrClosed, 0},
		},
		"half-closes in the answer": {
			sendAndHalfClose(good[:30]), want{corelink.SentAll, corelink.ErrClosed, 30},
		},
		"resets without answer": {
			sendAndReset(nil), want{corelink.SentAll, corelink.ErrClosed, 0},
		},
		"resets in the answer": {
			// What came before a reset may be lost with it.
			sendAndReset(good[:30]), want{corelink.SentAll, corelink.ErrClosed, anyBytes},
		},
		"garbage":      {answering(bytes.Repeat([]byte{0xff}, 61)), want{corelink.SentAll, corelink.ErrGarbage, 61}},
		"wrong MTI":    {answering(replaced(0, "0210")), want{corelink.SentAll, corelink.ErrGarbage, 61}},
		"wrong echo":   {answering(approval(otherID)), want{corelink.SentAll, corelink.ErrGarbage, 61}},
		"wrong code":   {answering(replaced(26, "00O0")), want{corelink.SentAll, corelink.ErrGarbage, 61}},
		"wrong digits": {answering(replaced(50, "abc")), want{corelink.SentAll, corelink.ErrGarbage, 61}},
		"one byte too early": {
			answering(append([]byte{'0'}, good...)), want{corelink.SentAll, corelink.ErrGarbage, 61},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := serve(t, c.behave)
			res := newLink(t, patient(h.addr), dialer()).Exchange(t.Context(), callFor(t, paymentID))
			expect(t, res, c.want)
		})
	}
}

func sendAndClose(b []byte) func(*net.TCPConn) error {
	return func(conn *net.TCPConn) error {
		if err := take(conn); err != nil {
			return err
		}
		_, err := conn.Write(b)
		return err
	}
}

func sendAndHalfClose(b []byte) func(*net.TCPConn) error {
	return func(conn *net.TCPConn) error {
		if err := sendAndClose(b)(conn); err != nil {
			return err
		}
		if err := conn.CloseWrite(); err != nil {
			return err
		}
		return outlast(conn)
	}
}

func sendAndReset(b []byte) func(*net.TCPConn) error {
	return func(conn *net.TCPConn) error {
		if err := sendAndClose(b)(conn); err != nil {
			return err
		}
		return conn.SetLinger(0)
	}
}

// What the core does after a whole answer takes nothing away from it.
func TestExchange_WholeAnswerStands(t *testing.T) {
	good := approval(paymentID)
	cases := map[string]func(*net.TCPConn) error{
		"closes behind it":      sendAndClose(good),
		"half-closes behind it": sendAndHalfClose(good),
		"sends more":            answering(append(bytes.Clone(good), "and more"...)),
		"answers twice":         answering(append(bytes.Clone(good), good...)),
	}
	for name, behave := range cases {
		t.Run(name, func(t *testing.T) {
			h := serve(t, behave)
			res := newLink(t, patient(h.addr), dialer()).Exchange(t.Context(), callFor(t, paymentID))
			expect(t, res, want{corelink.SentAll, nil, telegram.AnswerLength})
			if !bytes.Equal(res.Answer, good) {
				t.Errorf("answer %q", res.Answer)
			}
		})
	}
}

// After an anomaly nothing of a connection may be of use to anyone: it is reset.
func TestExchange_AnomalyResetsTheConnection(t *testing.T) {
	silent := func(conn *net.TCPConn) error {
		if err := take(conn); err != nil {
			return err
		}
		return outlast(conn)
	}
	cases := map[string]struct {
		behave func(*net.TCPConn) error
		err    error
	}{
		"no answer in time": {silent, corelink.ErrTimeout},
		"garbage":           {answering(bytes.Repeat([]byte{'9'}, 61)), corelink.ErrGarbage},
		"half-close":        {sendAndHalfClose(nil), corelink.ErrClosed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := serve(t, c.behave)
			flags := patient(h.addr)
			flags.ReadTimeout = 50 * time.Millisecond
			res := newLink(t, flags, dialer()).Exchange(t.Context(), callFor(t, paymentID))
			expect(t, res, want{corelink.SentAll, c.err, anyBytes})
			if err := <-h.ends; !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the core saw the connection end with %v, want a reset", err)
			}
		})
	}
}

func TestExchange_PassesWhatCheckSaid(t *testing.T) {
	h := serve(t, answering(approval(otherID)))
	res := newLink(t, patient(h.addr), dialer()).Exchange(t.Context(), callFor(t, paymentID))
	if !errors.Is(res.Err, errEcho) {
		t.Errorf("error %v does not wrap that of Check", res.Err)
	}
}

func TestExchange_AnswerLengthIsTheCallers(t *testing.T) {
	h := serve(t, answering([]byte("short")))
	call := callFor(t, paymentID)
	call.AnswerLength = 5
	call.Check = func(b []byte) error {
		if string(b) != "short" {
			return errEcho
		}
		return nil
	}
	res := newLink(t, patient(h.addr), dialer()).Exchange(t.Context(), call)
	if !res.Answered() {
		t.Errorf("sent %s, error %v", res.Sent, res.Err)
	}
}
