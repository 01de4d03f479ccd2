package corelink_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
)

// kept is a dialer that keeps what it opened.
type kept struct{ conns []*net.TCPConn }

func (k *kept) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := dialer()(ctx, network, addr)
	if err == nil {
		k.conns = append(k.conns, conn.(*net.TCPConn))
	}
	return conn, err
}

// arrived returns when a byte or an end is there to be read, and reads nothing.
func arrived(t *testing.T, conn *net.TCPConn) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return !errors.Is(err, syscall.EAGAIN)
	}); err != nil {
		t.Fatal(err)
	}
}

// A connection that is not silent is given up before a byte leaves on it, and
// the exchange goes over another one.
func TestPool_TrustsNoIdleConnectionBlindly(t *testing.T) {
	reset := func(conn *net.TCPConn) error { return conn.SetLinger(0) }
	say := func(b []byte) func(*net.TCPConn) error {
		return func(conn *net.TCPConn) error {
			if _, err := conn.Write(b); err != nil {
				return err
			}
			return outlast(conn)
		}
	}
	cases := map[string]struct {
		while func(conn *net.TCPConn) error
		// end is what the core sees of the connection, if it looks.
		end error
	}{
		"a byte waits":  {say([]byte("0")), syscall.ECONNRESET},
		"a frame waits": {say(approval(otherID)), syscall.ECONNRESET},
		"the very answer to the next request waits": {say(approval(nth(2))), syscall.ECONNRESET},
		"the core closed":      {func(*net.TCPConn) error { return nil }, nil},
		"the core half-closed": {func(conn *net.TCPConn) error { _ = conn.CloseWrite(); return outlast(conn) }, syscall.ECONNRESET},
		"the core reset it":    {reset, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			idle := make(chan struct{})
			h := serve(t, inTurn(func(conn *net.TCPConn) error {
				if err := take(conn); err != nil {
					return err
				}
				if _, err := conn.Write(approval(nth(1))); err != nil {
					return err
				}
				<-idle
				return c.while(conn)
			}, steady))
			var conns kept
			link, metric := newCounted(t, keeping(h.addr), conns.dial)
			answered(t, link, nth(1))
			close(idle)
			arrived(t, conns.conns[0])

			answered(t, link, nth(2))
			// Outlast has seen that no byte of a request came.
			if err := <-h.ends; !errors.Is(err, c.end) || (c.end == nil) != (err == nil) {
				t.Errorf("the core saw the first connection end with %v, want %v", err, c.end)
			}
			if len(conns.conns) != 2 || metric("destroyed") != 1 || metric("reused") != 0 {
				t.Errorf("%d connections, %d destroyed, %d reused", len(conns.conns), metric("destroyed"), metric("reused"))
			}
			answered(t, link, nth(3))
			if metric("reused") != 1 {
				t.Error("the second connection was not kept")
			}
		})
	}
}

// All that are idle may be dead, as after a restart of the core: none of them
// costs an exchange.
func TestPool_CoreThatRestarted(t *testing.T) {
	const size = 5
	restarted := make(chan struct{})
	mortal := func(conn *net.TCPConn) error {
		id, err := asked(conn)
		if err != nil {
			return ended(err)
		}
		_, err = conn.Write(approval(id))
		<-restarted
		return err
	}
	h := serve(t, inTurn(append(slices.Repeat([]func(*net.TCPConn) error{mortal}, size), steady)...))
	flags := keeping(h.addr)
	flags.PoolSize = size
	var conns kept
	link, metric := newCounted(t, flags, conns.dial)
	spread(t, link, size)
	close(restarted)
	for _, conn := range conns.conns {
		arrived(t, conn)
	}
	answered(t, link, nth(9))
	if metric("opened") != size+1 || metric("destroyed") != size || metric("idle") != 1 {
		t.Errorf("%d opened, %d destroyed, %d idle", metric("opened"), metric("destroyed"), metric("idle"))
	}
}

// The same over a pipe, which has no kernel to ask.
func TestPool_TrustsNoIdlePipeBlindly(t *testing.T) {
	for name, while := range map[string]func(conn net.Conn){
		"a frame waits": func(conn net.Conn) { _, _ = conn.Write(approval(nth(2))) },
		"it is closed":  func(net.Conn) {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				link, metric := newCounted(t, keeping("core"), pipedInTurn(func(conn net.Conn) {
					if take(conn) == nil {
						_, _ = conn.Write(approval(nth(1)))
						while(conn)
					}
				}, obliging))
				answered(t, link, nth(1))
				answered(t, link, nth(2))
				if metric("destroyed") != 1 || metric("opened") != 2 {
					t.Errorf("%d destroyed of %d", metric("destroyed"), metric("opened"))
				}
			})
		})
	}
}

// What came behind a valid answer was meant for nobody. The answer counts, and
// the connection ends at once.
func TestPool_AnswerAndMoreEndsTheConnection(t *testing.T) {
	good := approval(nth(1))
	for name, more := range map[string][]byte{
		"one byte":         {'!'},
		"the answer again": good,
		"the next answer":  approval(nth(2)),
	} {
		t.Run(name, func(t *testing.T) {
			h := serve(t, inTurn(answering(slices.Concat(good, more)), steady))
			link, metric := newCounted(t, keeping(h.addr), dialer())
			res := link.Exchange(t.Context(), callFor(t, nth(1)))
			expect(t, res, want{corelink.SentAll, nil, 61})
			if !bytes.Equal(res.Answer, good) || cap(res.Answer) != len(good) {
				t.Errorf("answer %q", res.Answer[:cap(res.Answer)])
			}
			if err := <-h.ends; !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the core saw the connection end with %v, want a reset", err)
			}
			if metric("destroyed") != 1 || metric("idle") != 0 {
				t.Errorf("%d destroyed, %d idle", metric("destroyed"), metric("idle"))
			}
			answered(t, link, nth(2))
		})
	}
}

// A pool of one, and the same account twice: the answer to the first request
// comes when the second waits, and does not reach it.
func TestPool_LateAnswerReachesNobody(t *testing.T) {
	second := make(chan struct{})
	h := serve(t, inTurn(func(conn *net.TCPConn) error {
		if err := take(conn); err != nil {
			return err
		}
		<-second
		_, err := conn.Write(approval(nth(1)))
		return err
	}, func(conn *net.TCPConn) error {
		id, err := asked(conn)
		if err != nil {
			return err
		}
		close(second)
		if _, err := conn.Write(approval(id)); err != nil {
			return err
		}
		return outlast(conn)
	}))
	flags := keeping(h.addr)
	flags.PoolSize = 1
	link := newLink(t, flags, dialer())
	late := callFor(t, nth(1))
	late.Deadline = time.Now().Add(200 * time.Millisecond)
	expect(t, link.Exchange(t.Context(), late), want{corelink.SentAll, corelink.ErrTimeout, 0})
	res := link.Exchange(t.Context(), callFor(t, nth(2)))
	expect(t, res, want{corelink.SentAll, nil, 61})
	if !bytes.Equal(res.Answer, approval(nth(2))) {
		t.Errorf("answer %q", res.Answer)
	}
}

// After each anomaly the connection is reset, as the core sees it, and the next
// exchange goes over another one.
func TestPool_AnomalyDoesNotReachTheNext(t *testing.T) {
	good := approval(nth(1))
	cases := map[string]struct {
		first func(conn *net.TCPConn) error
		err   error
	}{
		"no answer in time":       {untouchedAfter, corelink.ErrTimeout},
		"one byte too few":        {answering(good[:60]), corelink.ErrTimeout},
		"one byte too many ahead": {answering(slices.Concat([]byte{'0'}, good)), corelink.ErrGarbage},
		"one byte too many":       {answering(slices.Concat(good, []byte{'0'})), nil},
		"twice":                   {answering(slices.Concat(good, good)), nil},
		"another's answer":        {answering(approval(nth(2))), corelink.ErrGarbage},
		"garbage":                 {answering(bytes.Repeat([]byte{0xff}, 61)), corelink.ErrGarbage},
		"too short, and an end":   {sendAndHalfClose(good[:60]), corelink.ErrClosed},
		"half-close":              {sendAndHalfClose(nil), corelink.ErrClosed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := serve(t, inTurn(c.first, steady))
			flags := keeping(h.addr)
			flags.PoolSize = 1
			link, metric := newCounted(t, flags, dialer())
			call := callFor(t, nth(1))
			if errors.Is(c.err, corelink.ErrTimeout) {
				call.Deadline = time.Now().Add(200 * time.Millisecond)
			}
			expect(t, link.Exchange(t.Context(), call), want{corelink.SentAll, c.err, anyBytes})
			for n := range 3 {
				answered(t, link, nth(2+n))
			}
			if err := <-h.ends; !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the core saw the connection end with %v, want a reset", err)
			}
			if metric("opened") != 2 || metric("destroyed") != 1 || metric("reused") != 2 {
				t.Errorf("%d opened, %d destroyed, %d reused", metric("opened"), metric("destroyed"), metric("reused"))
			}
		})
	}
}
