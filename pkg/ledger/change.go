package ledger

import (
	"errors"
	"fmt"
	"time"

	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Change is one move of one transaction, applied by compare-and-set.
type Change struct {
	ID       tranid.ID
	From, To Status
	Evidence Evidence
	Method   Method

	// Answer is stored if its code is set.
	Answer Answer
	// Reason replaces the row's; it is the event's detail too.
	Reason string
	// SentAt, RespondedAt and Elapsed are stored if set.
	SentAt      time.Time
	RespondedAt time.Time
	Elapsed     time.Duration

	By Actor
}

// need is what a move asks of the row's decision.
type need uint8

const (
	undecided need = iota + 1 // no decision is set
	decided                   // DecisionCancel is set
	either
)

// Rule is what a legal move asks of the row it is applied to, besides the
// status.
type Rule struct {
	decision need
	// MoneyOnly and InquiryOnly bind a move to what the kind may do.
	MoneyOnly   bool
	InquiryOnly bool
	// ReviewOnly binds a move to rows that need review, those that only an operator
	// may settle included: no other move is made of these.
	ReviewOnly bool
}

// Undecided reports whether the move needs a row without decision.
func (r Rule) Undecided() bool { return r.decision == undecided }

// Decided reports whether the move needs a row with a decision.
func (r Rule) Decided() bool { return r.decision == decided }

type move struct {
	from, to Status
	evidence Evidence
	method   Method
}

// moves are the legal ones, all of them (DESIGN §5). What is not here cannot be
// stored.
var moves = map[move]Rule{
	{StatusRequested, StatusSuccess, EvidenceAnswered, 0}: {decision: undecided},
	{StatusRequested, StatusFailed, EvidenceAnswered, 0}:  {decision: undecided},
	{StatusRequested, StatusFailed, EvidenceNotSent, 0}:   {decision: undecided},
	{StatusRequested, StatusUnknown, 0, 0}:                {decision: undecided},

	// The exchange's own answer, after the row was adopted.
	{StatusUnknown, StatusSuccess, EvidenceAnswered, 0}: {decision: undecided},
	{StatusUnknown, StatusFailed, EvidenceAnswered, 0}:  {decision: undecided},
	// And an answer from which nothing follows but that no one may ask on.
	{StatusUnknown, StatusUnknown, 0, 0}: {decision: undecided, MoneyOnly: true},

	{StatusUnknown, StatusSuccess, EvidenceProcessed, MethodStatusInquiry}:    {decision: undecided, MoneyOnly: true},
	{StatusUnknown, StatusCanceled, EvidenceCancelConfirmed, MethodNetCancel}: {decision: either, MoneyOnly: true},
	{StatusUnknown, StatusFailed, EvidenceFenced, MethodStatusInquiry}:        {decision: decided, MoneyOnly: true},
	{StatusUnknown, StatusFailed, EvidenceWindowElapsed, MethodStatusInquiry}: {decision: decided, MoneyOnly: true},
	{StatusUnknown, StatusFailed, EvidenceNoEffect, MethodNone}:               {decision: undecided, InquiryOnly: true},

	// An operator's word. The last two set the decision.
	{StatusUnknown, StatusSuccess, EvidenceOperator, MethodOperator}:  {decision: undecided, MoneyOnly: true, ReviewOnly: true},
	{StatusUnknown, StatusFailed, EvidenceOperator, MethodOperator}:   {decision: either, MoneyOnly: true, ReviewOnly: true},
	{StatusUnknown, StatusCanceled, EvidenceOperator, MethodOperator}: {decision: either, MoneyOnly: true, ReviewOnly: true},
}

// Settlement is the move by which an operator makes a payment that needs review
// final: SUCCESS, FAILED or CANCELED; the reason is kept. FAILED and CANCELED set
// DecisionCancel, and the core is then owed a net cancel, unless the row was
// OperatorOnly.
func Settlement(id tranid.ID, to Status, reason string, by Actor) Change {
	return Change{
		ID: id, From: StatusUnknown, To: to, Evidence: EvidenceOperator, Method: MethodOperator, Reason: reason, By: by,
	}
}

// ErrIllegalMove says that no row may ever make this move.
var ErrIllegalMove = errors.New("illegal move")

// Rule returns what the move asks of the row, or ErrIllegalMove.
func (c *Change) Rule() (Rule, error) {
	rule, ok := moves[move{c.From, c.To, c.Evidence, c.Method}]
	if !ok {
		return Rule{}, fmt.Errorf("%w: %s to %s on %s by %s", ErrIllegalMove, c.From, c.To, c.Evidence, c.Method)
	}
	if c.From == StatusUnknown && c.To == StatusUnknown && c.Answer.Code != CodeIDUsed {
		return Rule{}, fmt.Errorf("%w: UNKNOWN to UNKNOWN but for %s", ErrIllegalMove, CodeIDUsed)
	}
	return rule, nil
}

// Permits reports whether the rule lets a move from this status be made by t.
func (r Rule) Permits(t *Transaction, from Status) bool {
	if r.ReviewOnly {
		return t.Status == from && r.fits(t) && t.NeedsReview
	}
	return t.Status == from && r.fits(t) && !t.OperatorOnly()
}

// Apply makes the move on t: the one place that says what each column becomes.
// now is the database's clock. It reports whether the move was made; t is as it
// was if not. A move that would leave a row that no book may hold is an
// ErrIllegalMove too: SUCCESS by an answer that says otherwise, for one.
func (c *Change) Apply(t *Transaction, now time.Time) (bool, error) {
	rule, err := c.Rule()
	if err != nil {
		return false, err
	}
	if !rule.Permits(t, c.From) {
		return false, nil
	}
	before := *t
	*t = c.after(before, Moment(now))
	if err := t.Validate(); err != nil {
		*t = before
		return false, fmt.Errorf("%w: %s to %s: %w", ErrIllegalMove, c.From, c.To, err)
	}
	return true, nil
}

func (c *Change) after(t Transaction, now time.Time) Transaction {
	undone := c.Evidence == EvidenceOperator && c.To != StatusSuccess
	owed := undone && !t.OperatorOnly()
	t.Status, t.Evidence, t.Method, t.Reason = c.To, c.Evidence, c.Method, Text(c.Reason)
	if c.Answer.Code != "" {
		t.Answer = c.Answer
		t.Answer.Message = Text(c.Answer.Message)
	}
	t.SentAt = firstSet(t.SentAt, Moment(c.SentAt))
	t.RespondedAt = firstSet(t.RespondedAt, Moment(c.RespondedAt))
	if c.Elapsed > 0 && t.Elapsed == 0 {
		t.Elapsed = c.Elapsed.Truncate(time.Microsecond)
	}
	t.NeedsReview, t.NextResolveAt = false, time.Time{}
	if undone {
		t.Decision = DecisionCancel
	}
	if owed {
		t.NextResolveAt = now
	}
	switch {
	case c.To.Final() && c.From == StatusUnknown:
		t.ResolvedAt = now
	case c.To == StatusUnknown && t.OperatorOnly():
		t.NeedsReview = true
	case c.To == StatusUnknown:
		t.NextResolveAt = now
	}
	return t
}

func firstSet(a, b time.Time) time.Time {
	if a.IsZero() {
		return b
	}
	return a
}
