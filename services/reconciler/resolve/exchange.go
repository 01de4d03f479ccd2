package resolve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/telemetry/span"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Step is one exchange with the core, or one thing that was settled or left
// alone without any. It holds nothing that may not be shown.
type Step struct {
	// MTI is of the telegram that was sent; empty when none was.
	MTI string
	// Request and Response are the frames, masked; Response is what came back,
	// whole or not.
	Request, Response []byte
	// Processed and CancelResult are the flag of the answer, ResponseCode and
	// CoreMessage its code and text; empty when no valid answer came.
	Processed    string
	CancelResult string
	ResponseCode string
	CoreMessage  string
	// Outcome is what followed, in a sentence.
	Outcome string
}

// errEcho says that an answer is another transaction's.
var errEcho = errors.New("the answer is another transaction's")

func echoes(got, want tranid.ID) error {
	if got != want {
		return errEcho
	}
	return nil
}

// inquire asks the core about a transaction: 0400; the row has its place. Its error is a fault of
// ours; a core that does not answer, within the time that the row's turn gives it, is
// an inquiryUnanswered, and one that answers something else an inquiryGarbled.
func (r *Resolver) inquire(ctx context.Context, t turn, id tranid.ID) (inquiry, Step, error) {
	frame, err := telegram.StatusRequest{TranID: id}.AppendTo(nil)
	if err != nil {
		return 0, Step{}, fmt.Errorf("encode the status inquiry about %s: %w", id, err)
	}
	var answer telegram.StatusAnswer
	garbled := false
	within := ctx
	if t.lane != r.operator {
		var stop context.CancelFunc
		within, stop = context.WithTimeout(ctx, r.patience(t, &r.pace))
		defer stop()
	}
	start := r.opts.Now()
	res := r.exchange(within, id, corelink.Call{
		Tx: corelink.TxStatusInquiry, Kind: corelink.Inquiry, Frame: frame, Particular: t.lane != r.operator,
		Check: func(b []byte) error {
			garbled = true // until all of it is right
			var err error
			if answer, err = telegram.ParseStatusAnswer(b); err != nil {
				return err
			}
			return echoes(answer.TranID, id)
		},
	})
	if len(res.Answer) > 0 {
		took := r.opts.Now().Sub(start)
		r.pace.answered(took)
		t.lane.hand.inquired(took)
	}
	step := sentStep(frame, &res)
	if !res.Answered() {
		r.log.InfoContext(ctx, "status inquiry unanswered", "transaction_id", id, "sent", res.Sent.String(), "error", res.Err)
		switch {
		case garbled || len(res.Answer) > 0:
			return inquiryGarbled, step, nil
		case unsent(ctx, &res):
			return inquiryUnsent, step, nil
		}
		r.pace.unanswered()
		return inquiryUnanswered, step, nil
	}
	step.Processed, step.ResponseCode, step.CoreMessage = answer.Processed, answer.ResponseCode, answer.Message.Value
	return inquiryOf(answer.Processed, answer.ResponseCode), step, nil
}

// netCancel tells the core to cancel a transaction: 0420, once. Its error is a
// fault of ours. One that is given up after a moment is told again like one that was
// lost: the core undoes a payment once, however often it is told.
func (r *Resolver) netCancel(ctx context.Context, t turn, id tranid.ID) (cancel, Step, error) {
	frame, err := telegram.CancelRequest{TranID: id}.AppendTo(nil)
	if err != nil {
		return 0, Step{}, fmt.Errorf("encode the net cancel of %s: %w", id, err)
	}
	if err := t.lane.cancels.enter(ctx); err != nil {
		return cancelUnsent, Step{}, nil // as when there is no way to the core
	}
	defer t.lane.cancels.leave()
	var answer telegram.CancelAnswer
	within := ctx
	if t.brief {
		var stop context.CancelFunc
		within, stop = context.WithTimeout(ctx, r.patience(t, &r.cancelPace))
		defer stop()
	}
	start := r.opts.Now()
	res := r.exchange(within, id, corelink.Call{
		Tx: corelink.TxNetCancel, Kind: corelink.Mutation, Frame: frame, Particular: t.lane != r.operator,
		Check: func(b []byte) error {
			var err error
			if answer, err = telegram.ParseCancelAnswer(b); err != nil {
				return err
			}
			return echoes(answer.TranID, id)
		},
	})
	took := r.opts.Now().Sub(start)
	step := sentStep(frame, &res)
	if !res.Answered() {
		t.lane.hand.unanswered(took)
		r.log.InfoContext(ctx, "net cancel unanswered", "transaction_id", id, "sent", res.Sent.String(), "error", res.Err)
		if unsent(ctx, &res) {
			return cancelUnsent, step, nil
		}
		r.cancelPace.unanswered()
		return cancelUnanswered, step, nil
	}
	r.cancelPace.answered(took)
	t.lane.hand.answered(took)
	step.CancelResult, step.ResponseCode, step.CoreMessage = answer.CancelResult, answer.ResponseCode, answer.Message.Value
	return cancelOf(answer.CancelResult, answer.ResponseCode), step, nil
}

// unsent reports whether there was no way to the core. There may have been no
// patience even to connect, while ctx goes on: then it was the row's turn all the same.
func unsent(ctx context.Context, res *corelink.Result) bool {
	return res.Sent == corelink.SentNone && (ctx.Err() != nil || !errors.Is(res.Err, corelink.ErrAbandoned))
}

// exchange is an exchange about the transaction, in a span of its own.
func (r *Resolver) exchange(ctx context.Context, id tranid.ID, call corelink.Call) corelink.Result {
	call.AnswerLength = telegram.AnswerLength
	call.Deadline = r.opts.Now().Add(r.opts.ExchangeTime)
	ctx, exchange := span.FurtherExchange(ctx, call.Tx, id)
	defer exchange.End()
	res := r.core.Exchange(ctx, call)
	tellExchange(exchange, &res)
	if len(res.Answer) > 0 {
		now := r.opts.Now()
		r.heard.Store(&now)
	}
	return res
}

// patience is how long the answer is waited for to an inquiry, or to a net cancel
// that gets a moment: at most the read time-out, which a moment is as well while the
// core takes long for all. A row that was asked before is not given up until it is
// known how long that takes. Rows that the core ignores, hangs up on or garbles,
// however many, are no reason to refuse all others, so the circuits count none of it;
// a core that hangs altogether is spared by the passes. That there is no connection
// does count.
func (r *Resolver) patience(t turn, p *pace) time.Duration {
	if r.hasty(t, p) {
		return p.moment(r.opts.ReadTimeout)
	}
	return r.opts.ReadTimeout
}

// hasty reports whether an answer is waited for a moment only.
func (r *Resolver) hasty(t turn, p *pace) bool { return t.lane.first || t.brief && p.known() }

// heardSince reports whether the core has said anything, to anyone of this
// process, since then: it does not hang altogether.
func (r *Resolver) heardSince(t time.Time) bool {
	heard := r.heard.Load()
	return heard != nil && !heard.Before(t)
}

// sentStep is the part of a Step that holds whatever the answer means.
func sentStep(frame []byte, res *corelink.Result) Step {
	if res.Sent == corelink.SentNone {
		return Step{}
	}
	step := Step{MTI: telegram.MTI(frame), Request: telegram.Mask(frame)}
	if len(res.Answer) > 0 {
		step.Response = telegram.Mask(res.Answer)
	}
	return step
}

// unsaid is the Outcome of a step without a valid answer.
func unsaid(what string, step *Step) string {
	switch {
	case step.MTI == "":
		return "the " + what + " was not sent: no connection to the core, or its circuit is open (ListCircuits tells)"
	case len(step.Response) == 0:
		return "the core did not answer the " + what
	default:
		return "what came back is no answer to the " + what
	}
}
