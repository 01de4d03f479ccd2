// Package ledgerpb turns what the ledger knows into the messages of the
// contract, and the enums of requests back into the ledger's. It stands between
// pkg/ledger, which knows no protobuf, and everything that serves rpcs.
//
// A value that one side does not know becomes unset or an error on the other,
// never another value.
package ledgerpb

import (
	"fmt"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
)

// mapping is an enum in both worlds. Its zero values belong to each other.
type mapping[D, P comparable] struct {
	what string
	to   map[D]P
	from map[P]D
}

func newMapping[D, P comparable](what string, to map[D]P) mapping[D, P] {
	from := make(map[P]D, len(to))
	for d, p := range to {
		from[p] = d
	}
	return mapping[D, P]{what: what, to: to, from: from}
}

// parse is the ledger's value; an error for one that it does not know.
func (m mapping[D, P]) parse(p P) (D, error) {
	d, ok := m.from[p]
	if !ok {
		return d, fmt.Errorf("unknown %s %v", m.what, p)
	}
	return d, nil
}

var kinds = newMapping("kind", map[ledger.Kind]ledgerv1.TransactionKind{
	ledger.KindPayment:        ledgerv1.TransactionKind_TRANSACTION_KIND_PAYMENT,
	ledger.KindBalanceInquiry: ledgerv1.TransactionKind_TRANSACTION_KIND_BALANCE_INQUIRY,
	ledger.KindHistoryInquiry: ledgerv1.TransactionKind_TRANSACTION_KIND_HISTORY_INQUIRY,
})

// Kind is the contract's kind; unset for one that it does not know.
func Kind(k ledger.Kind) ledgerv1.TransactionKind { return kinds.to[k] }

// ParseKind is the ledger's kind; an error for unset and unknown ones.
func ParseKind(k ledgerv1.TransactionKind) (ledger.Kind, error) { return kinds.parse(k) }

var statuses = newMapping("status", map[ledger.Status]ledgerv1.TransactionStatus{
	ledger.StatusRequested: ledgerv1.TransactionStatus_TRANSACTION_STATUS_REQUESTED,
	ledger.StatusSuccess:   ledgerv1.TransactionStatus_TRANSACTION_STATUS_SUCCESS,
	ledger.StatusFailed:    ledgerv1.TransactionStatus_TRANSACTION_STATUS_FAILED,
	ledger.StatusUnknown:   ledgerv1.TransactionStatus_TRANSACTION_STATUS_UNKNOWN,
	ledger.StatusCanceled:  ledgerv1.TransactionStatus_TRANSACTION_STATUS_CANCELED,
})

// Status is the contract's status; unset for one that it does not know.
func Status(s ledger.Status) ledgerv1.TransactionStatus { return statuses.to[s] }

// ParseStatus is the ledger's status; an error for unset and unknown ones.
func ParseStatus(s ledgerv1.TransactionStatus) (ledger.Status, error) { return statuses.parse(s) }

var evidences = newMapping("evidence", map[ledger.Evidence]ledgerv1.Evidence{
	0:                              ledgerv1.Evidence_EVIDENCE_UNSPECIFIED,
	ledger.EvidenceNotSent:         ledgerv1.Evidence_EVIDENCE_NOT_SENT,
	ledger.EvidenceAnswered:        ledgerv1.Evidence_EVIDENCE_ANSWERED,
	ledger.EvidenceProcessed:       ledgerv1.Evidence_EVIDENCE_PROCESSED,
	ledger.EvidenceCancelConfirmed: ledgerv1.Evidence_EVIDENCE_CANCEL_CONFIRMED,
	ledger.EvidenceFenced:          ledgerv1.Evidence_EVIDENCE_FENCED,
	ledger.EvidenceWindowElapsed:   ledgerv1.Evidence_EVIDENCE_WINDOW_ELAPSED,
	ledger.EvidenceNoEffect:        ledgerv1.Evidence_EVIDENCE_NO_EFFECT,
	ledger.EvidenceOperator:        ledgerv1.Evidence_EVIDENCE_OPERATOR,
})

// Evidence is the contract's evidence; unset for none and for one that it does
// not know.
func Evidence(e ledger.Evidence) ledgerv1.Evidence { return evidences.to[e] }

// ParseEvidence is the ledger's evidence; unset is none.
func ParseEvidence(e ledgerv1.Evidence) (ledger.Evidence, error) { return evidences.parse(e) }

var methods = newMapping("resolution method", map[ledger.Method]ledgerv1.ResolutionMethod{
	0:                          ledgerv1.ResolutionMethod_RESOLUTION_METHOD_UNSPECIFIED,
	ledger.MethodNone:          ledgerv1.ResolutionMethod_RESOLUTION_METHOD_NONE,
	ledger.MethodStatusInquiry: ledgerv1.ResolutionMethod_RESOLUTION_METHOD_STATUS_INQUIRY,
	ledger.MethodNetCancel:     ledgerv1.ResolutionMethod_RESOLUTION_METHOD_NET_CANCEL,
	ledger.MethodOperator:      ledgerv1.ResolutionMethod_RESOLUTION_METHOD_OPERATOR,
})

// Method is the contract's resolution method; unset for what never was resolved
// and for one that it does not know.
func Method(m ledger.Method) ledgerv1.ResolutionMethod { return methods.to[m] }

// ParseMethod is the ledger's method; unset means that it never was resolved.
func ParseMethod(m ledgerv1.ResolutionMethod) (ledger.Method, error) { return methods.parse(m) }

var policies = newMapping("resolution policy", map[ledger.Policy]ledgerv1.ResolutionPolicy{
	0:                      ledgerv1.ResolutionPolicy_RESOLUTION_POLICY_UNSPECIFIED,
	ledger.PolicyNetCancel: ledgerv1.ResolutionPolicy_RESOLUTION_POLICY_NET_CANCEL,
	ledger.PolicyConfirm:   ledgerv1.ResolutionPolicy_RESOLUTION_POLICY_CONFIRM,
})

// Policy is the contract's policy; unset for an inquiry's and for one that it
// does not know.
func Policy(p ledger.Policy) ledgerv1.ResolutionPolicy { return policies.to[p] }

// ParsePolicy is the ledger's policy. Unset is the zero Policy: what it means
// in a request is for the use case to say.
func ParsePolicy(p ledgerv1.ResolutionPolicy) (ledger.Policy, error) { return policies.parse(p) }

var decisions = newMapping("decision", map[ledger.Decision]ledgerv1.Decision{
	0:                     ledgerv1.Decision_DECISION_UNSPECIFIED,
	ledger.DecisionCancel: ledgerv1.Decision_DECISION_CANCEL,
})

// Decision is the contract's decision; unset for none and for one that it does
// not know.
func Decision(d ledger.Decision) ledgerv1.Decision { return decisions.to[d] }

// ParseDecision is the ledger's decision; unset is none.
func ParseDecision(d ledgerv1.Decision) (ledger.Decision, error) { return decisions.parse(d) }
