package resilience

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/frame"
)

func TestJudge(t *testing.T) {
	stranger := errors.New("nobody named this")
	for name, v := range map[string]struct {
		res  corelink.Result
		want outcome
	}{
		"answer":                       {answered(), success},
		"connect":                      {unsent(corelink.ErrConnect), failure},
		"time-out":                     {lost(corelink.ErrTimeout), failure},
		"closed":                       {lost(corelink.ErrClosed), failure},
		"garbage":                      {lost(corelink.ErrGarbage), failure},
		"partial write":                {corelink.Result{Sent: corelink.SentSome, Err: corelink.ErrWrite}, failure},
		"write took nothing":           {unsent(corelink.ErrWrite), failure},
		"no time":                      {unsent(corelink.ErrNoTime), neutral},
		"send window gone":             {unsent(corelink.ErrNotReady), neutral},
		"abandoned before the send":    {unsent(corelink.ErrAbandoned), neutral},
		"abandoned after the send":     {lost(corelink.ErrAbandoned), neutral},
		"pool exhausted":               {unsent(corelink.ErrSaturated), neutral},
		"not encoded":                  {unsent(frame.ErrEncode), neutral},
		"unnamed, nothing left":        {unsent(stranger), neutral},
		"unnamed, it had left":         {lost(stranger), failure},
		"ours wins over theirs":        {unsent(fmt.Errorf("%w: %w", corelink.ErrConnect, corelink.ErrAbandoned)), neutral},
		"no end at all":                {sane(corelink.Result{}), failure},
		"no answer, no error, no byte": {sane(corelink.Result{Sent: corelink.SentNone}), neutral},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judge(&v.res, false); got.outcome != v.want {
				t.Errorf("%+v is %v, want %v", v.res, got.outcome, v.want)
			}
			// Of a caller who has gone, only an answer counts.
			want := neutral
			if v.want == success {
				want = success
			}
			if got := judge(&v.res, true); got.outcome != want {
				t.Errorf("%+v of a caller who has gone is %v, want %v", v.res, got.outcome, want)
			}
		})
	}
}

func TestSane_NothingOddLooksLikeAnAnswerOrLikeNothingSent(t *testing.T) {
	for _, odd := range []corelink.Result{{}, {Sent: corelink.SentSome}, {Sent: corelink.SentAll + 1}} {
		res := sane(odd)
		if res.Answered() || res.Sent == corelink.SentNone {
			t.Errorf("%+v became %+v", odd, res)
		}
	}
}

// At the caller's deadline the context may not have heard of it yet.
func TestGone_GoesByTheClockToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deadline := time.Now().Add(time.Second)
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		defer cancel()
		if gone(ctx, deadline.Add(-1)) {
			t.Error("gone before the deadline")
		}
		if ctx.Err() != nil || !gone(ctx, deadline) {
			t.Error("not gone at the deadline")
		}
		cancel()
		if !gone(ctx, time.Now()) {
			t.Error("not gone when canceled")
		}
		if gone(context.Background(), deadline) {
			t.Error("a caller without deadline has gone")
		}
	})
}

// A call that is particular fails for itself, once there is a connection; that
// there is none is the core's.
func TestJudge_FailureOfAParticularCallDoesNotCount(t *testing.T) {
	for _, c := range []struct {
		err     error
		counted bool
	}{
		{corelink.ErrClosed, false},
		{corelink.ErrGarbage, false},
		{corelink.ErrTimeout, false},
		{corelink.ErrWrite, false},
		{corelink.ErrConnect, true},
	} {
		f := standard()
		f.Retries = 0
		h := build(t, f, func(context.Context, corelink.Call) corelink.Result {
			sent := corelink.SentAll
			if errors.Is(c.err, corelink.ErrConnect) {
				sent = corelink.SentNone
			}
			return corelink.Result{Sent: sent, Err: c.err}
		})
		for range f.CircuitMinCalls {
			h.Exchange(t.Context(), corelink.Call{Kind: corelink.Inquiry, Particular: true, Deadline: time.Now().Add(time.Minute)})
		}
		stats := h.Circuits()[1]
		if opened := stats.State == Open; opened != c.counted {
			t.Errorf("%v: the circuit is %v after %d calls, %d neutral", c.err, stats.State, f.CircuitMinCalls, stats.Neutral)
		}
	}
}
