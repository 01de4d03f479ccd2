package ledger

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// The limits of the texts that come from callers, in characters.
const (
	maxName = 64 // keys, clients, orders, correlation IDs
	maxBy   = 100
)

// codeDone is the core's answer that it did what it was asked.
const codeDone = "0000"

// standing is what a row may say of its status: why, and how it got there.
type standing struct {
	status   Status
	evidence Evidence
	method   Method
}

// standings are all there are (DESIGN §5), those of an operator's settlement
// too, each with what it asks of decision and kind.
var standings = map[standing]Rule{
	{StatusRequested, 0, 0}:                                    {decision: undecided},
	{StatusUnknown, 0, 0}:                                      {decision: either},
	{StatusSuccess, EvidenceAnswered, 0}:                       {decision: undecided},
	{StatusSuccess, EvidenceProcessed, MethodStatusInquiry}:    {decision: undecided, MoneyOnly: true},
	{StatusSuccess, EvidenceOperator, MethodOperator}:          {decision: undecided, MoneyOnly: true},
	{StatusFailed, EvidenceAnswered, 0}:                        {decision: undecided},
	{StatusFailed, EvidenceNotSent, 0}:                         {decision: undecided},
	{StatusFailed, EvidenceFenced, MethodStatusInquiry}:        {decision: decided, MoneyOnly: true},
	{StatusFailed, EvidenceWindowElapsed, MethodStatusInquiry}: {decision: decided, MoneyOnly: true},
	{StatusFailed, EvidenceNoEffect, MethodNone}:               {decision: undecided, InquiryOnly: true},
	{StatusFailed, EvidenceOperator, MethodOperator}:           {decision: decided, MoneyOnly: true},
	{StatusCanceled, EvidenceCancelConfirmed, MethodNetCancel}: {decision: either, MoneyOnly: true},
	{StatusCanceled, EvidenceOperator, MethodOperator}:         {decision: decided, MoneyOnly: true},
}

// invariants are what every row of the book keeps to. The names are those of the
// CHECK constraints that say the same in each store's migrations.
var invariants = []struct {
	name  string
	holds func(t *Transaction) bool
}{
	{"transaction_id", func(t *Transaction) bool { _, err := tranid.Parse(string(t.ID)); return err == nil }},
	{"kind", func(t *Transaction) bool { _, err := ParseKind(t.Kind.String()); return err == nil }},
	{"standing", func(t *Transaction) bool {
		rule, ok := standings[standing{t.Status, t.Evidence, t.Method}]
		return ok && rule.fits(t)
	}},
	{"decision", func(t *Transaction) bool {
		return t.Decision == 0 || t.Decision == DecisionCancel && t.Kind.MovesMoney()
	}},
	{"review", func(t *Transaction) bool { return !t.NeedsReview || t.Status == StatusUnknown }},
	{"policy", func(t *Transaction) bool {
		if t.Kind.MovesMoney() {
			return t.Policy == PolicyNetCancel || t.Policy == PolicyConfirm
		}
		return t.Policy == 0
	}},
	{"amount", func(t *Transaction) bool {
		if t.Kind.MovesMoney() {
			return t.Amount >= 1 && t.Amount <= account.MaxPayment
		}
		return t.Amount == 0
	}},
	{"idempotency_key", func(t *Transaction) bool {
		return (t.Key != "") == t.Kind.MovesMoney() && atMost(maxName, string(t.Key))
	}},
	{"names", func(t *Transaction) bool {
		return t.Client != "" && atMost(maxName, string(t.Client)) && atMost(maxName, string(t.Order)) &&
			atMost(maxName, t.CorrelationID) && (t.TraceID == "" || len(t.TraceID) == 32)
	}},
	{"account_masked", func(t *Transaction) bool { return masked(t.AccountMasked) }},
	{"answer", func(t *Transaction) bool {
		return (t.Answer.Code == "" || digits(4, t.Answer.Code)) &&
			(t.Answer.Approval == "" || digits(11, t.Answer.Approval)) &&
			atMost(MaxText, t.Answer.Message) && atMost(MaxText, t.Reason)
	}},
	{"answered", answered},
	{"times", func(t *Transaction) bool {
		return !t.RequestedAt.IsZero() && t.Elapsed >= 0 &&
			(t.Status != StatusRequested || !t.AdoptAt.IsZero()) &&
			(t.ResolvedAt.IsZero() || t.Status.Final()) &&
			(t.Method == 0 || !t.ResolvedAt.IsZero()) &&
			Holds(t.RequestedAt) && Holds(t.SentAt) && Holds(t.RespondedAt) &&
			Holds(t.ResolvedAt) && Holds(t.AdoptAt) && Holds(t.NextResolveAt)
	}},
	{"due", due},
	{"counters", func(t *Transaction) bool { return t.ResolveAttempts >= 0 && t.NotFound >= 0 }},
	{"asked", func(t *Transaction) bool {
		if t.Asked {
			return t.Status != StatusRequested && t.Evidence != EvidenceNotSent
		}
		return t.ResolveAttempts == 0 && t.NotFound == 0
	}},
}

// Validate returns ErrInvalidRow, with the name of the rule, for a row that the
// book may not hold. It never repeats a value.
func (t *Transaction) Validate() error {
	for _, rule := range invariants {
		if !rule.holds(t) {
			return fmt.Errorf("%w: %s", ErrInvalidRow, rule.name)
		}
	}
	return nil
}

// fits reports whether decision and kind are what the rule asks for.
func (r Rule) fits(t *Transaction) bool {
	switch {
	case r.Undecided() && t.Decision != 0,
		r.Decided() && t.Decision != DecisionCancel,
		r.MoneyOnly && !t.Kind.MovesMoney(),
		r.InquiryOnly && t.Kind.MovesMoney():
		return false
	default:
		return true
	}
}

// answered says that an answer is kept where one is the evidence, and that none
// is where there can be none.
func answered(t *Transaction) bool {
	code := t.Answer.Code
	usedID := code == CodeIDUsed && t.Kind.MovesMoney()
	switch {
	case t.Evidence == EvidenceNotSent:
		return code == "" && t.SentAt.IsZero()
	case t.Evidence == EvidenceAnswered && t.Status == StatusSuccess:
		return code == codeDone
	case t.Evidence == EvidenceAnswered:
		return code != "" && code != codeDone && !usedID
	case t.Status == StatusRequested:
		return code == ""
	case t.Status == StatusUnknown:
		return code == "" || code == CodeIDUsed
	default:
		return !usedID || t.Evidence == EvidenceOperator
	}
}

// due says that nothing UNKNOWN is forgotten, but for what only an operator may
// settle, which is not asked about. What an operator settled may be due still,
// for its net cancel.
func due(t *Transaction) bool {
	switch {
	case t.OperatorOnly():
		return t.NeedsReview && t.Decision == 0 && t.NextResolveAt.IsZero()
	case t.Status == StatusUnknown:
		return !t.NextResolveAt.IsZero()
	default:
		return t.NextResolveAt.IsZero() || t.Evidence == EvidenceOperator
	}
}

// masked reports whether s can be the masked form of an account: up to 6 digits,
// four stars, up to 4 digits.
func masked(s string) bool {
	head, tail, found := strings.Cut(s, "****")
	return found && len(head) <= 6 && len(tail) <= 4 && onlyDigits(head) && onlyDigits(tail)
}

func digits(count int, s string) bool { return len(s) == count && onlyDigits(s) }

func onlyDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// atMost reports whether s is text, and so short.
func atMost(limit int, s string) bool {
	return utf8.RuneCountInString(s) <= limit && utf8.ValidString(s)
}

func (a *Actor) validate() error {
	if a.Name == "" || !atMost(maxBy, a.Name) || !atMost(maxBy, a.Instance) ||
		a.TraceID != "" && len(a.TraceID) != 32 {
		return fmt.Errorf("%w: actor", ErrInvalidRow)
	}
	return nil
}

// Validate returns ErrInvalidRow for an entry that the book may not hold.
func (e *Event) Validate() error {
	_, from := statuses.optional("status", e.From.String())
	_, to := ParseStatus(e.To.String())
	_, evidence := ParseEvidence(e.Evidence.String())
	if from != nil || to != nil || evidence != nil || e.At.IsZero() || !Holds(e.At) {
		return fmt.Errorf("%w: event", ErrInvalidRow)
	}
	return e.By.validate()
}
