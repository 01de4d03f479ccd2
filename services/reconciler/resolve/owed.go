package resolve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// repay tells the core to cancel a payment that an operator made FAILED or
// CANCELED: 0420, once in a pass, until the core has answered it. What it answers
// changes no status.
func (a *attempt) repay(ctx context.Context) error {
	said, step, err := a.r.tellOwed(ctx, a)
	if err != nil {
		return err
	}
	a.cancel = said
	rules, err := a.rules(ctx)
	if err != nil {
		return err
	}
	v := rules.afterOwed(&a.row, a.claim.At, said)
	if said == cancelUnsent || said == cancelUnanswered {
		v.why = unsaid("net cancel that is owed", &step)
	}
	step.Outcome = v.why
	a.steps = append(a.steps, step)
	switch {
	case v.next == nextSettle:
		return a.repaid(ctx, v)
	case said == cancelUnsent:
		a.reply = replyUnsent // its claim is given back
		return nil
	default:
		return a.putOff(ctx, v)
	}
}

// tellOwed sends the net cancel, and notes what the core's silence is about.
func (r *Resolver) tellOwed(ctx context.Context, a *attempt) (cancel, Step, error) {
	since := r.opts.Now().Add(-heardWindow)
	said, step, err := r.netCancel(ctx, a.turn, a.row.ID)
	a.reply = replyAnswered
	if said == cancelUnanswered && len(step.Response) == 0 {
		a.reply = replySilent
		if r.heardSince(since) {
			a.reply = replyIgnored
		}
	}
	return said, step, err
}

// afterOwed says what follows from the answer to a net cancel that was owed: it
// was told (nextSettle), or is to be told again. That the core has no such debit
// ends it once it refuses the debit for ever, or the debit cannot come any more.
func (r rules) afterOwed(t *ledger.Transaction, at time.Time, c cancel) verdict {
	switch c {
	case cancelConfirmed:
		return verdict{
			next: nextSettle, evidence: ledger.EvidenceCancelConfirmed,
			why: "the core has canceled it (the net cancel that was owed: 01)",
		}
	case cancelNotFound:
		if r.fences {
			return verdict{
				next: nextSettle, evidence: ledger.EvidenceFenced,
				why: "the core has not done it (the net cancel that was owed: 02), and refuses it from now on",
			}
		}
		if end := r.windowEnd(t); !at.After(end) {
			return verdict{next: nextWait, window: end, why: "the core has not done it (02), but it may still be on its way"}
		}
		return verdict{next: nextSettle, why: "the core has not done it (the net cancel that was owed: 02, after the late window)"}
	case cancelUnusable:
		return verdict{next: nextWait, why: "the core answered the net cancel that is owed, and nothing follows from it"}
	default:
		return verdict{next: nextWait, why: "no valid answer to the net cancel that is owed"}
	}
}

// repaid keeps the answer, after which the core is owed nothing. That it had done
// what the ledger calls FAILED is alarmed, and is a discrepancy.
func (a *attempt) repaid(ctx context.Context, v verdict) error {
	undone := a.cancel == cancelConfirmed
	after, err := a.r.store.Repay(ctx, ledger.Repayment{
		ID: a.row.ID, Token: a.claim.Token, Evidence: v.evidence, Detail: v.why, Undone: undone, By: a.by,
	})
	var lost *ledger.LostError
	switch {
	case errors.As(err, &lost):
		return a.repaidBefore(ctx, &lost.Current)
	case err != nil:
		return fmt.Errorf("repay %s: %w", a.row.ID, err)
	}
	a.row = after
	a.r.log.InfoContext(ctx, "net cancel told", "transaction_id", after.ID, "status", after.Status.String(),
		"evidence", v.evidence.String(), "actor", a.by.Name)
	if undone && after.Status == ledger.StatusFailed {
		a.alarm(ctx, "net cancel 01")
		a.note("ghost: the core had done what an operator called FAILED")
	}
	return nil
}

// repaidBefore is how an attempt ends whose claim another has, or has ended. What
// it heard is kept if it contradicts the row and the other has not heard it.
func (a *attempt) repaidBefore(ctx context.Context, current *ledger.Transaction) error {
	a.row = *current
	a.note("another was faster")
	if a.row.Owed() || a.cancel != cancelConfirmed || a.row.Status != ledger.StatusFailed {
		return nil
	}
	events, err := a.r.store.Events(ctx, a.row.ID)
	if err != nil {
		return fmt.Errorf("read the history of %s: %w", a.row.ID, err)
	}
	heard := func(e ledger.Event) bool {
		return e.From == ledger.StatusFailed && e.Evidence == ledger.EvidenceCancelConfirmed
	}
	if slices.ContainsFunc(events, heard) {
		return nil
	}
	return a.ghost(ctx, ledger.EvidenceCancelConfirmed, "net cancel 01")
}

// putOff ends the claim of a net cancel that is to be sent again.
func (a *attempt) putOff(ctx context.Context, v verdict) error {
	age := a.claim.At.Sub(a.row.ResolvedAt)
	p := ledger.Postponement{ID: a.row.ID, Token: a.claim.Token, Delay: a.r.plan.owed(age), By: a.by}
	if !v.window.IsZero() {
		p.Delay = min(p.Delay, max(v.window.Sub(a.claim.At), 0)+time.Millisecond)
	}
	if age < backoffCap { // or the same line would drown the history
		p.Detail = v.why
	}
	err := a.r.store.Postpone(ctx, p)
	var lost *ledger.LostError
	switch {
	case errors.As(err, &lost):
		return a.repaidBefore(ctx, &lost.Current)
	case err != nil:
		return fmt.Errorf("put off the net cancel of %s: %w", a.row.ID, err)
	default:
		return nil
	}
}
