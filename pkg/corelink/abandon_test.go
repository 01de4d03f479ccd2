package corelink_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
)

// An exchange whose context ends is over at once, wherever it stands, and says
// what had left by then.
func TestExchange_Abandoned(t *testing.T) {
	cases := map[string]struct {
		dial corelink.Dialer
		want want
	}{
		"while it connects":     {blackHole, want{corelink.SentNone, corelink.ErrAbandoned, 0}},
		"before a byte is gone": {piped(stalling(0)), want{corelink.SentNone, corelink.ErrAbandoned, 0}},
		"while it writes":       {piped(stalling(51)), want{corelink.SentSome, corelink.ErrAbandoned, 0}},
		"while it waits":        {piped(silent), want{corelink.SentAll, corelink.ErrAbandoned, 0}},
		"while it reads": {piped(func(conn net.Conn) {
			if take(conn) == nil {
				_, _ = conn.Write(approval(paymentID)[:30])
				silent(conn)
			}
		}), want{corelink.SentAll, corelink.ErrAbandoned, 30}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(time.Second, cancel)
				link := newLink(t, customary("a", "b"), c.dial)
				took(ctx, t, link, callWithin(t, 5*time.Second), time.Second, c.want)
			})
		})
	}
}

func TestExchange_AbandonedBeforeTheWriteSendsNothing(t *testing.T) {
	conn := &fakeConn{}
	ctx, cancel := context.WithCancel(t.Context())
	call := callFor(t, paymentID)
	call.Ready = func() error { cancel(); return nil }
	res := newLink(t, patient("core"), conn.dial()).Exchange(ctx, call)
	expect(t, res, want{corelink.SentNone, corelink.ErrAbandoned, 0})
	if !errors.Is(res.Err, context.Canceled) || conn.writes != 0 || conn.closed != 1 {
		t.Errorf("error %v, %d writes, %d closes", res.Err, conn.writes, conn.closed)
	}
}

func TestExchange_AbandonedOnASocketIsReset(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h := serve(t, func(conn *net.TCPConn) error {
		if err := take(conn); err != nil {
			return err
		}
		cancel()
		return outlast(conn)
	})
	res := newLink(t, patient(h.addr), dialer()).Exchange(ctx, callFor(t, paymentID))
	expect(t, res, want{corelink.SentAll, corelink.ErrAbandoned, 0})
	if err := <-h.ends; err == nil {
		t.Error("the core saw an orderly end, want a reset")
	}
}

// The answer that came before the context ended counts.
func TestExchange_AnswerBeforeTheCallerLeavesCounts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	h := serve(t, answering(approval(paymentID)))
	call := callFor(t, paymentID)
	valid := call.Check
	call.Check = func(b []byte) error { cancel(); return valid(b) }
	res := newLink(t, patient(h.addr), dialer()).Exchange(ctx, call)
	expect(t, res, want{corelink.SentAll, nil, 61})
}
