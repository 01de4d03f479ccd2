package corelink_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gwanmun/gwanmun/pkg/corelink"
)

// trial is a way in which an exchange ends.
type trial struct {
	// behave is the core; nil if nobody is there.
	behave func(conn *net.TCPConn) error
	// dial is in front of the real dialer, if not nil.
	dial corelink.Dialer
	// change makes the call what it is; it may cancel ctx.
	change func(call *corelink.Call, cancel func())
	// readTimeout is a minute if it is zero.
	readTimeout time.Duration
	// err is how the exchange ends; nil for a valid answer. Or is what a machine
	// that is busy elsewhere may make of it.
	err, or error
	// panics says that it must end in a panic.
	panics bool
}

var (
	errSaid   = errors.New("said so")
	errDialed = errors.New("dialed")
	errCalm   = errors.New("no panic")
)

func notReady() error                { return errSaid }
func panicking() error               { panic("asked") }
func checked([]byte) error           { panic("checked") }
func refused([]byte) error           { return errSaid }
func ready(call func()) func() error { return func() error { call(); return nil } }

func trials() map[string]trial {
	good := approval(paymentID)
	return map[string]trial{
		"a valid answer":          {behave: steady},
		"a valid answer and more": {behave: answering(append(bytes.Clone(good), '!'))},
		"nobody listens":          {err: corelink.ErrConnect},
		"the dialer fails": {
			dial: func(context.Context, string, string) (net.Conn, error) { return nil, errDialed },
			err:  corelink.ErrConnect,
		},
		"the dialer panics": {
			dial: func(context.Context, string, string) (net.Conn, error) { panic("dialed") }, panics: true,
		},
		"the caller leaves the dialer": {
			dial: blackHole, err: corelink.ErrAbandoned,
			change: func(_ *corelink.Call, cancel func()) { time.AfterFunc(100*time.Microsecond, cancel) },
		},
		"not ready": {
			behave: steady, err: corelink.ErrNotReady,
			change: func(call *corelink.Call, _ func()) { call.Ready = notReady },
		},
		"Ready panics": {
			behave: steady, panics: true,
			change: func(call *corelink.Call, _ func()) { call.Ready = panicking },
		},
		"the caller leaves before the write": {
			behave: steady, err: corelink.ErrAbandoned,
			change: func(call *corelink.Call, cancel func()) { call.Ready = ready(cancel) },
		},
		"the write fails": {
			dial: (&fakeConn{takes: 7, writeErr: errSaid}).dial(), err: corelink.ErrWrite,
		},
		"no answer in time": {
			behave: untouchedAfter, err: corelink.ErrTimeout, or: corelink.ErrWrite,
			readTimeout: time.Millisecond,
		},
		"the caller leaves before the answer": {
			behave: untouchedAfter, err: corelink.ErrAbandoned,
			change: func(_ *corelink.Call, cancel func()) { time.AfterFunc(200*time.Microsecond, cancel) },
		},
		"no answer":           {behave: sendAndClose(nil), err: corelink.ErrClosed},
		"a reset":             {behave: sendAndReset(nil), err: corelink.ErrClosed},
		"half-close":          {behave: sendAndHalfClose(nil), err: corelink.ErrClosed},
		"a part of an answer": {behave: sendAndClose(good[:60]), err: corelink.ErrClosed},
		"garbage":             {behave: answering(bytes.Repeat([]byte{0xff}, 61)), err: corelink.ErrGarbage},
		"another's answer":    {behave: answering(approval(otherID)), err: corelink.ErrGarbage},
		"Check refuses": {
			behave: steady, err: corelink.ErrGarbage,
			change: func(call *corelink.Call, _ func()) { call.Check = refused },
		},
		"Check panics": {
			behave: steady, panics: true,
			change: func(call *corelink.Call, _ func()) { call.Check = checked },
		},
		"no time": {
			behave: steady, err: corelink.ErrNoTime,
			change: func(call *corelink.Call, _ func()) { call.Deadline = time.Now() },
		},
	}
}

// untouchedAfter takes a request and waits for the end.
func untouchedAfter(conn *net.TCPConn) error {
	if err := take(conn); err != nil {
		return err
	}
	return outlast(conn)
}

// However an exchange ends, its place is there for the next one, and nothing of
// it is left. The link has one place and nobody waits for it: a single one that
// is kept would end the next exchange in ErrSaturated.
func TestExchange_GivesBackWhatItTook(t *testing.T) {
	const times = 1000
	for name, c := range trials() {
		t.Run(name, func(t *testing.T) {
			running := goleak.IgnoreCurrent()
			refusing(t) // the network poller has its descriptors from here on
			files := openFiles(t)

			addr, stop := refusing(t), func() {}
			if c.behave != nil {
				h := serve(t, c.behave)
				addr, stop = h.addr, h.stop
			}
			flags := keeping(addr)
			flags.PoolSize, flags.PoolWait = 1, 0
			if c.readTimeout > 0 {
				flags.ReadTimeout = c.readTimeout
			}
			dial := dialer()
			if c.dial != nil {
				dial = c.dial
			}
			link, metric := newCounted(t, flags, dial)
			for n := range times {
				err := attempt(t, link, c)
				if c.or != nil && errors.Is(err, c.or) {
					continue
				}
				if !errors.Is(err, c.err) || (c.err == nil) != (err == nil) {
					t.Fatalf("exchange %d: %v, want %v", n, err, c.err)
				}
			}
			if metric("active") != 0 || metric("opened") != metric("destroyed")+metric("idle") {
				t.Errorf("%d active, %d opened, %d destroyed, %d idle",
					metric("active"), metric("opened"), metric("destroyed"), metric("idle"))
			}
			if err := link.Close(); err != nil {
				t.Error(err)
			}
			stop()
			if after := openFiles(t); after != files {
				t.Errorf("%d descriptors before, %d after", files, after)
			}
			goleak.VerifyNone(t, running)
		})
	}
}

// attempt makes one exchange and returns how it ended; nil for a panic that had
// to be.
func attempt(t *testing.T, link *corelink.Link, c trial) (err error) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	call := callFor(t, paymentID)
	if c.change != nil {
		c.change(&call, cancel)
	}
	if c.panics {
		defer func() {
			if recover() == nil {
				err = errCalm
			}
		}()
	}
	return link.Exchange(ctx, call).Err
}
