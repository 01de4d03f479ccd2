// Package ledger is the book's meaning: what a transaction is, which moves it
// may make and on what evidence, and what a Store promises. There is no SQL in
// it and no RPC; gormstore and memstore are the stores, and ledgertest is the
// suite that each of them passes.
package ledger

import (
	"fmt"
	"slices"
)

// closedSet is the names of an enumeration, in the order of its values; index 0
// is the zero value, which is not a member and prints as the empty text.
type closedSet []string

func (s closedSet) name(v uint8) string {
	if int(v) >= len(s) {
		return fmt.Sprintf("INVALID(%d)", v)
	}
	return s[v]
}

func (s closedSet) parse(what, text string) (uint8, error) {
	if i := slices.Index(s, text); i > 0 {
		return uint8(i), nil
	}
	return 0, fmt.Errorf("unknown %s %.20q", what, text)
}

// optional is parse for a set whose zero value may be stored as the empty text.
func (s closedSet) optional(what, text string) (uint8, error) {
	if text == "" {
		return 0, nil
	}
	return s.parse(what, text)
}

// Kind is what a transaction asks of the core. The zero Kind is invalid.
type Kind uint8

// The kinds.
const (
	KindPayment Kind = iota + 1
	KindBalanceInquiry
	KindHistoryInquiry
)

var kinds = closedSet{"", "PAYMENT", "BALANCE_INQUIRY", "HISTORY_INQUIRY"}

// String is the name that is stored and shown.
func (k Kind) String() string { return kinds.name(uint8(k)) }

// MovesMoney reports whether a transaction of this kind can change a balance.
// What is not known to be an inquiry does.
func (k Kind) MovesMoney() bool { return k != KindBalanceInquiry && k != KindHistoryInquiry }

// ParseKind reads a stored name.
func ParseKind(s string) (Kind, error) {
	v, err := kinds.parse("kind", s)
	return Kind(v), err
}

// Status is what the ledger knows. The zero Status is invalid.
type Status uint8

// The statuses.
const (
	StatusRequested Status = iota + 1
	StatusSuccess
	StatusFailed
	StatusUnknown
	StatusCanceled
)

var statuses = closedSet{"", "REQUESTED", "SUCCESS", "FAILED", "UNKNOWN", "CANCELED"}

// Statuses are all of them, in the order of the contract.
var Statuses = []Status{StatusRequested, StatusSuccess, StatusFailed, StatusUnknown, StatusCanceled}

// String is the name that is stored and shown.
func (s Status) String() string { return statuses.name(uint8(s)) }

// Final reports whether a transaction never leaves this status.
func (s Status) Final() bool {
	return s == StatusSuccess || s == StatusFailed || s == StatusCanceled
}

// ParseStatus reads a stored name.
func ParseStatus(s string) (Status, error) {
	v, err := statuses.parse("status", s)
	return Status(v), err
}

// Evidence is why a transaction may be called what it is called. The zero
// Evidence is none.
type Evidence uint8

// The evidence.
const (
	EvidenceNotSent Evidence = iota + 1
	EvidenceAnswered
	EvidenceProcessed
	EvidenceCancelConfirmed
	EvidenceFenced
	EvidenceWindowElapsed
	EvidenceNoEffect
	EvidenceOperator
)

var evidences = closedSet{
	"", "NOT_SENT", "ANSWERED", "PROCESSED", "CANCEL_CONFIRMED", "FENCED", "WINDOW_ELAPSED", "NO_EFFECT", "OPERATOR",
}

// String is the name that is stored and shown; empty for none.
func (e Evidence) String() string { return evidences.name(uint8(e)) }

// ParseEvidence reads a stored name; empty is none.
func ParseEvidence(s string) (Evidence, error) {
	v, err := evidences.optional("evidence", s)
	return Evidence(v), err
}

// Method is how an UNKNOWN transaction became final. The zero Method means that
// it never was resolved.
type Method uint8

// The methods.
const (
	MethodNone Method = iota + 1
	MethodStatusInquiry
	MethodNetCancel
	MethodOperator
)

var methods = closedSet{"", "NONE", "STATUS_INQUIRY", "NET_CANCEL", "OPERATOR"}

// String is the name that is stored and shown; empty where it never was
// resolved.
func (m Method) String() string { return methods.name(uint8(m)) }

// ParseMethod reads a stored name; empty is the zero Method.
func ParseMethod(s string) (Method, error) {
	v, err := methods.optional("resolution method", s)
	return Method(v), err
}

// Policy is what the caller wants of an UNKNOWN payment that turns out done.
// The zero Policy is that of an inquiry, which needs none.
type Policy uint8

// The policies.
const (
	PolicyNetCancel Policy = iota + 1
	PolicyConfirm
)

var policies = closedSet{"", "NET_CANCEL", "CONFIRM"}

// String is the name that is stored and shown; empty for an inquiry.
func (p Policy) String() string { return policies.name(uint8(p)) }

// ParsePolicy reads a stored name; empty is the zero Policy.
func ParsePolicy(s string) (Policy, error) {
	v, err := policies.optional("resolution policy", s)
	return Policy(v), err
}

// Decision is what was irrevocably decided about an UNKNOWN payment. The zero
// Decision is none.
type Decision uint8

// DecisionCancel means that the payment can only become CANCELED or FAILED.
const DecisionCancel Decision = 1

var decisions = closedSet{"", "CANCEL"}

// String is the name that is stored and shown; empty for none.
func (d Decision) String() string { return decisions.name(uint8(d)) }

// ParseDecision reads a stored name; empty is none.
func ParseDecision(s string) (Decision, error) {
	v, err := decisions.optional("decision", s)
	return Decision(v), err
}
