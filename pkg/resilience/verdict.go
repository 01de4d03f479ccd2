package resilience

import (
	"context"
	"errors"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
)

// outcome is what the end of an attempt says of the core. The zero value is a
// legal one on purpose: what ends without a verdict, by a panic for one, must
// count for nothing.
type outcome uint8

const (
	// neutral: the core had no part in how it ended, or none that can be told
	// from ours.
	neutral outcome = iota
	// success: the core answered; a decline is an answer.
	success
	// failure: the core did not answer, or not with an answer.
	failure
)

// verdict is an outcome and, of a failure, which kind.
type verdict struct {
	outcome outcome
	// cause is one of corelink's sentinels, never an error with input in it.
	cause error
	// own is a failure that does not count: the call's, not the core's.
	own bool
}

var (
	// errNoEnd is what an Exchanger made of a Result that neither answers nor
	// errs: a fault of ours.
	errNoEnd = errors.New("the exchange ended without an answer and without an error")
	// errOther is the cause of a failure that corelink has no name for.
	errOther = errors.New("no valid answer")
)

// ours are the ends that say nothing of the core. They are looked for first.
var ours = []error{
	corelink.ErrNoTime, corelink.ErrNotReady, corelink.ErrAbandoned, corelink.ErrSaturated,
}

// theirs are the ends that the core, or the way to it, is to blame for.
var theirs = []error{
	corelink.ErrConnect, corelink.ErrTimeout, corelink.ErrClosed, corelink.ErrGarbage, corelink.ErrWrite,
}

// judge says what a Result says of the core. gone is whether the caller had
// left by then: it may have been the caller who ended it, so that only an
// answer counts.
//
// Of an error that nobody named, what left decides: if something did, the core
// had it and gave no answer; if nothing did, the fault may well be ours (a frame
// that could not be encoded is one), and a circuit that opened for it would
// blame a healthy core.
func judge(res *corelink.Result, gone bool) verdict {
	switch {
	case res.Answered():
		return verdict{outcome: success}
	case gone || which(res.Err, ours) != nil:
		return verdict{}
	}
	if cause := which(res.Err, theirs); cause != nil {
		return verdict{outcome: failure, cause: cause}
	}
	if res.Sent == corelink.SentNone {
		return verdict{}
	}
	return verdict{outcome: failure, cause: errOther}
}

// which is the first of the sentinels that err is; nil if it is none.
func which(err error, sentinels []error) error {
	for _, s := range sentinels {
		if errors.Is(err, s) {
			return s
		}
	}
	return nil
}

// gone reports whether the caller has left. The clock is asked too: a socket
// deadline and the caller's fall on the same instant, and the context may not
// have heard of it yet.
func gone(ctx context.Context, now time.Time) bool {
	if ctx.Err() != nil {
		return true
	}
	deadline, ok := ctx.Deadline()
	return ok && !now.Before(deadline)
}

// sane makes a Result keep what corelink promises of one, so that no slip of an
// Exchanger looks like an answer or like nothing sent.
func sane(res corelink.Result) corelink.Result {
	if res.Err == nil && res.Sent != corelink.SentAll {
		res.Err = errNoEnd
	}
	if res.Sent < corelink.SentNone || res.Sent > corelink.SentAll {
		res.Sent = corelink.SentAll
	}
	return res
}
