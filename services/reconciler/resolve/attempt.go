package resolve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/telemetry/span"
)

// reply says what the core did about an attempt. The zero reply is that there
// was nothing to ask.
type reply uint8

const (
	replyUnsent   reply = iota + 1 // nothing could be sent: no connection, an open circuit
	replySilent                    // asked, and nothing came back, to nobody
	replyHasty                     // the same, in the moment that it was given
	replyIgnored                   // nothing came back to this row, which says nothing of the core
	replyAnswered                  // something came back, be it garbage
)

// heardWindow is how long before an inquiry the core may have been heard for its
// silence to be about the row: a connection that it closes at once leaves no time
// to hear anything meanwhile.
const heardWindow = 3 * time.Second

// attempt is one try to make one claimed row final. It belongs to one
// goroutine.
type attempt struct {
	r     *Resolver
	turn  turn
	claim ledger.Claim
	by    ledger.Actor

	// row is the transaction as last read.
	row   ledger.Transaction
	steps []Step
	reply reply
	// asked is when the inquiry began.
	asked time.Time
	// What the core said, for the case that another was faster.
	inquiry inquiry
	cancel  cancel
}

// attempt tries to make a claimed row final. When it returns without error, the
// claim has ended: the row is final or postponed, or another has it; or nothing
// could be sent, and the claim is to be given back. A panic is a *PanicError.
func (r *Resolver) attempt(ctx context.Context, t turn, claim ledger.Claim, by ledger.Actor) (*attempt, error) {
	ctx, resolution := span.Resolution(ctx, r.opts.Tracer, claim.Transaction.ID, claim.Transaction.TraceID)
	defer resolution.End()
	by.TraceID = span.TraceID(ctx)
	a := &attempt{r: r, turn: t, claim: claim, by: by, row: claim.Transaction}
	err := guarded(func() error { return a.run(ctx) })
	a.tell(resolution, err)
	return a, err
}

func (a *attempt) run(ctx context.Context) error {
	if a.row.Owed() {
		return a.repay(ctx)
	}
	if v, ok := beforeAsking(&a.row); ok {
		a.steps = append(a.steps, Step{Outcome: v.why})
		return a.conclude(ctx, v)
	}
	v, err := a.ask(ctx)
	if err != nil {
		return err
	}
	if v.next == nextSettle {
		settled, err := a.settle(ctx, v)
		if settled || err != nil || !a.decided() {
			return err
		}
		// Lost to another's decision to cancel: the same answer now means that.
		v = afterInquiry(&a.row, a.inquiry)
		a.note("another has decided to cancel it meanwhile")
	}
	if v.next != nextCancel {
		return a.conclude(ctx, v)
	}
	return a.undo(ctx, v)
}

// decided reports whether the row, as last read, waits for a net cancel.
func (a *attempt) decided() bool {
	return a.row.Status == ledger.StatusUnknown && a.row.Decision == ledger.DecisionCancel && !a.row.OperatorOnly()
}

// ask makes the status inquiry.
func (a *attempt) ask(ctx context.Context) (verdict, error) {
	a.asked = a.r.opts.Now()
	since := a.asked.Add(-heardWindow)
	said, step, err := a.r.inquire(ctx, a.turn, a.row.ID)
	a.turn.leave()
	if err != nil {
		return verdict{}, err
	}
	a.inquiry, a.reply = said, replyAnswered
	v := afterInquiry(&a.row, said)
	step.Outcome = v.why
	if said == inquiryUnsent || said == inquiryUnanswered {
		step.Outcome = unsaid("status inquiry", &step)
		a.unanswered(&v, said, a.r.heardSince(since))
	}
	a.steps = append(a.steps, step)
	return v, nil
}

// unanswered says what it is worth that an inquiry was not answered.
func (a *attempt) unanswered(v *verdict, said inquiry, othersWere bool) {
	switch {
	case said == inquiryUnsent:
		a.reply = replyUnsent
	case a.turn.lane.first:
		// It had a moment. Its next inquiry has more, and is worth more.
		a.reply, v.soon = replyIgnored, true
	case a.r.hasty(a.turn, &a.r.pace):
		a.reply, v.soon = replyHasty, true
		if othersWere {
			a.reply = replyIgnored
		}
	case othersWere:
		// It is this row that it does not answer: that spends an attempt.
		a.reply, v.answered = replyIgnored, true
		v.why = "the core did not answer the status inquiry, and answered others meanwhile"
	default:
		a.reply = replySilent
	}
}

// undo decides to cancel, irrevocably and durably, and only then sends the net
// cancel, once.
func (a *attempt) undo(ctx context.Context, v verdict) error {
	deciding, decide := span.Start(ctx, "decide")
	row, err := a.r.store.Decide(deciding, a.row.ID, a.by, v.why)
	decide.End()
	if err != nil {
		return a.unlessOvertaken(ctx, fmt.Errorf("decide to cancel %s: %w", a.row.ID, err))
	}
	a.row = row
	if !a.decided() {
		return fmt.Errorf("decide to cancel %s: the ledger took it for a row that is %s", row.ID, row.Status)
	}
	said, step, err := a.r.netCancel(ctx, a.turn, row.ID)
	if err != nil {
		return err
	}
	a.cancel = said
	rules, err := a.rules(ctx)
	if err != nil {
		return err
	}
	v = rules.afterCancel(&a.row, a.claim.At, a.inquiry, said)
	step.Outcome = v.why
	switch said {
	case cancelUnsent:
		// Nothing is spent, and the row is where it was.
		step.Outcome, a.reply = unsaid("net cancel", &step), replyUnsent
	case cancelUnanswered:
		step.Outcome = unsaid("net cancel", &step)
		if a.r.hasty(a.turn, &a.r.cancelPace) && len(step.Response) == 0 {
			// It had a moment, like an inquiry.
			v.answered, v.soon = false, true
		}
	default: // it was answered
	}
	a.steps = append(a.steps, step)
	return a.conclude(ctx, v)
}

// rules are what is declared about the core and, where it does not fence, since
// when the row has been UNKNOWN.
func (a *attempt) rules(ctx context.Context) (rules, error) {
	known := a.r.rules
	if known.fences {
		return known, nil
	}
	events, err := a.r.store.Events(ctx, a.row.ID)
	if err != nil {
		return rules{}, fmt.Errorf("read the history of %s: %w", a.row.ID, err)
	}
	for _, e := range events {
		if e.From == ledger.StatusRequested && e.To == ledger.StatusUnknown {
			known.leftBy = e.At
		}
	}
	return known, nil
}

// conclude carries out the last verdict of an attempt.
func (a *attempt) conclude(ctx context.Context, v verdict) error {
	switch v.next {
	case nextSettle:
		_, err := a.settle(ctx, v)
		return err
	case nextWait:
		if a.reply == replyUnsent {
			// It stays due, and as fresh as it was: its claim is given back.
			return nil
		}
		return a.postpone(ctx, v)
	case nextLeave:
		// No postponement: it would make due a row that must never be.
		return nil
	default:
		return fmt.Errorf("resolve %s: verdict %d leads nowhere", a.row.ID, v.next)
	}
}

// settle makes the row final. It reports false, and knows the row's state, when
// another was faster.
func (a *attempt) settle(ctx context.Context, v verdict) (bool, error) {
	settling, final := span.Start(ctx, "final")
	after, err := a.r.store.Transition(settling, ledger.Change{
		ID: a.row.ID, From: ledger.StatusUnknown, To: v.to,
		Evidence: v.evidence, Method: v.method, Reason: v.why, By: a.by,
	})
	final.End()
	if err != nil {
		return false, a.unlessOvertaken(ctx, fmt.Errorf("make %s %s: %w", a.row.ID, v.to, err))
	}
	a.row = after
	if v.method != ledger.MethodNone {
		a.r.sense()
	}
	a.r.metrics.resolved(v.to, v.method)
	a.r.log.InfoContext(ctx, "transaction resolved", "transaction_id", after.ID,
		"from", ledger.StatusUnknown.String(), "to", v.to.String(),
		"evidence", v.evidence.String(), "method", v.method.String(), "actor", a.by.Name)
	return true, nil
}

// postpone ends the claim of a row that stays UNKNOWN.
func (a *attempt) postpone(ctx context.Context, v verdict) error {
	p := a.r.plan.postponement(&a.claim, v)
	if a.turn.hinted {
		p = unspent(&a.claim, v)
	}
	again := a.r.hints.outdated(a.row.ID, a.asked, a.claim.At.Add(p.Delay))
	if again {
		p.Delay = 0
	}
	p.By = a.by
	raised := p.NeedsReview && !a.row.NeedsReview
	if raised {
		p.Detail += "; the attempts are used up: needs review"
	}
	postponing, later := span.Start(ctx, "postpone")
	err := a.r.store.Postpone(postponing, p)
	later.End()
	if err != nil {
		return a.unlessOvertaken(ctx, fmt.Errorf("postpone %s: %w", a.row.ID, err))
	}
	if v.answered && !v.expected && !a.turn.hinted {
		a.r.setbacks.add(a.row.ID, a.r.opts.Now())
	}
	if again {
		after := a.row
		after.Asked, after.NeedsReview = true, after.NeedsReview || raised
		a.r.hints.stir(a.r.laneOf(&after))
	}
	if raised {
		a.r.log.WarnContext(ctx, "transaction needs review", "transaction_id", a.row.ID,
			"attempts", a.row.ResolveAttempts+1, "detail", v.why)
	}
	return nil
}

// unlessOvertaken turns a lost compare-and-set into what won: that is no error.
// The winner's row is compared with what the core told this attempt.
func (a *attempt) unlessOvertaken(ctx context.Context, err error) error {
	var lost *ledger.LostError
	if !errors.As(err, &lost) {
		return err
	}
	a.row = lost.Current
	if !a.row.Status.Final() {
		return nil
	}
	a.note(fmt.Sprintf("another was faster: it is %s", a.row.Status))
	evidence, said := contradiction(a.row.Status, a.inquiry, a.cancel)
	if evidence == 0 {
		return nil
	}
	return a.ghost(ctx, evidence, said)
}

// ghost alarms on evidence that a final row is wrong, and keeps it. It is never
// applied: final is final, and people repair what is left.
func (a *attempt) ghost(ctx context.Context, evidence ledger.Evidence, said string) error {
	a.alarm(ctx, said)
	detail := fmt.Sprintf("ghost: the core said %s of a transaction that is %s", said, a.row.Status)
	a.note(detail)
	if err := a.r.store.AppendEvent(ctx, a.row.ID, evidence, a.by, detail); err != nil {
		return fmt.Errorf("keep the evidence against %s: %w", a.row.ID, err)
	}
	return nil
}

// alarm tells people that a final row is wrong.
func (a *attempt) alarm(ctx context.Context, said string) {
	a.r.metrics.ghosts.Inc()
	a.r.log.ErrorContext(ctx, "ghost", "transaction_id", a.row.ID, "status", a.row.Status.String(),
		"row_evidence", a.row.Evidence.String(), "core_said", said)
}

// note adds a step that took no exchange.
func (a *attempt) note(outcome string) { a.steps = append(a.steps, Step{Outcome: outcome}) }
