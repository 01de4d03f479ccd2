package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// design is the legal moves, read off DESIGN §5 by hand and not off the table in
// the code: from, to, evidence, method, what the decision must be, and of what
// kind the transaction. An operator's are of rows that need review.
const design = `
REQUESTED SUCCESS  ANSWERED         -              none   any
REQUESTED FAILED   ANSWERED         -              none   any
REQUESTED FAILED   NOT_SENT         -              none   any
REQUESTED UNKNOWN  -                -              none   any
UNKNOWN   SUCCESS  ANSWERED         -              none   any
UNKNOWN   FAILED   ANSWERED         -              none   any
UNKNOWN   UNKNOWN  -                -              none   payment
UNKNOWN   SUCCESS  PROCESSED        STATUS_INQUIRY none   payment
UNKNOWN   CANCELED CANCEL_CONFIRMED NET_CANCEL     any    payment
UNKNOWN   FAILED   FENCED           STATUS_INQUIRY CANCEL payment
UNKNOWN   FAILED   WINDOW_ELAPSED   STATUS_INQUIRY CANCEL payment
UNKNOWN   FAILED   NO_EFFECT        NONE           none   inquiry
UNKNOWN   SUCCESS  OPERATOR         OPERATOR       none   payment
UNKNOWN   FAILED   OPERATOR         OPERATOR       any    payment
UNKNOWN   CANCELED OPERATOR         OPERATOR       any    payment
`

type asked struct{ decision, kind string }

func readDesign(t *testing.T) map[string]asked {
	t.Helper()
	moves := make(map[string]asked)
	for line := range strings.Lines(strings.TrimSpace(design)) {
		f := strings.Fields(line)
		if len(f) != 6 {
			t.Fatalf("line %q", line)
		}
		moves[strings.Join(f[:4], " ")] = asked{decision: f[4], kind: f[5]}
	}
	return moves
}

func dash(s fmt.Stringer) string {
	if s.String() == "" {
		return "-"
	}
	return s.String()
}

// row is a payment or an inquiry in a status, as sound as the status lets it be.
func row(status ledger.Status, decision ledger.Decision, kind ledger.Kind) ledger.Transaction {
	t := ledger.Transaction{
		ID: "GWMNU20260725000000001", Kind: kind, Status: status, Decision: decision,
		Client: "shop", AccountMasked: "123456****1234", RequestedAt: noon, AdoptAt: noon,
	}
	if kind.MovesMoney() {
		t.Policy, t.Key, t.Amount = ledger.PolicyConfirm, "key", 1
	}
	switch status {
	case ledger.StatusSuccess:
		t.Evidence, t.Answer.Code = ledger.EvidenceAnswered, "0000"
	case ledger.StatusFailed:
		t.Evidence, t.Answer.Code = ledger.EvidenceAnswered, "0051"
	case ledger.StatusUnknown:
		t.NextResolveAt = noon
	case ledger.StatusCanceled:
		t.Evidence, t.Method, t.ResolvedAt = ledger.EvidenceCancelConfirmed, ledger.MethodNetCancel, noon
	default: // REQUESTED, or none, needs nothing more
	}
	return t
}

var noon = time.Date(2026, 7, 25, 3, 0, 0, 0, time.UTC)

// answerFor is the answer that goes with a move.
func answerFor(c ledger.Change) ledger.Answer {
	switch {
	case c.Evidence == ledger.EvidenceAnswered && c.To == ledger.StatusSuccess:
		return ledger.Answer{Code: "0000"}
	case c.Evidence == ledger.EvidenceAnswered:
		return ledger.Answer{Code: "0051"}
	case c.From == ledger.StatusUnknown && c.To == ledger.StatusUnknown:
		return ledger.Answer{Code: ledger.CodeIDUsed}
	default:
		return ledger.Answer{}
	}
}

// verdict says what must become of a move of a row: illegal, lost or made.
func verdict(moves map[string]asked, c ledger.Change, t ledger.Transaction) string {
	key := strings.Join([]string{dash(c.From), dash(c.To), dash(c.Evidence), dash(c.Method)}, " ")
	want, legal := moves[key]
	kind := "payment"
	if t.Kind == ledger.KindBalanceInquiry || t.Kind == ledger.KindHistoryInquiry {
		kind = "inquiry"
	}
	decision := "none"
	if t.Decision != 0 {
		decision = t.Decision.String()
	}
	switch {
	case !legal:
		return "illegal"
	case t.Status != c.From,
		want.decision != "any" && want.decision != decision,
		c.Evidence == ledger.EvidenceOperator && !t.NeedsReview,
		want.kind != "any" && want.kind != kind:
		return "lost"
	default:
		return "made"
	}
}

// every calls f with all moves, made-up values among them, of all rows in the
// status that the move is from, and of all in other statuses.
func every(f func(c ledger.Change, t ledger.Transaction)) {
	for from := range ledger.StatusCanceled + 2 {
		for to := range ledger.StatusCanceled + 2 {
			for evidence := range ledger.EvidenceOperator + 2 {
				for method := range ledger.MethodOperator + 2 {
					c := ledger.Change{From: from, To: to, Evidence: evidence, Method: method}
					c.Answer = answerFor(c)
					for status := range ledger.StatusCanceled + 1 {
						for decision := range ledger.DecisionCancel + 1 {
							for kind := ledger.KindPayment; kind <= ledger.KindHistoryInquiry; kind++ {
								r := row(status, decision, kind)
								f(c, r)
								if r.NeedsReview = status == ledger.StatusUnknown; r.NeedsReview {
									f(c, r)
								}
							}
						}
					}
				}
			}
		}
	}
}

func TestApply_MakesTheMovesOfTheDesignAndNoOthers(t *testing.T) {
	moves := readDesign(t)
	count := map[string]int{}
	every(func(c ledger.Change, before ledger.Transaction) {
		want := verdict(moves, c, before)
		count[want]++
		after := before
		made, err := c.Apply(&after, noon)
		got := "lost"
		switch {
		case errors.Is(err, ledger.ErrIllegalMove):
			got = "illegal"
		case err != nil:
			got = err.Error()
		case made:
			got = "made"
		}
		if got != want {
			t.Errorf("%s to %s on %q by %q of a %s %s, decision %q: %s, want %s",
				c.From, c.To, c.Evidence, c.Method, before.Status, before.Kind, before.Decision, got, want)
		}
		if made != (after != before) {
			t.Errorf("%s to %s: made %t, changed %t", c.From, c.To, made, after != before)
		}
		if made && (after.Status != c.To || after.Evidence != c.Evidence || after.Method != c.Method || after.Validate() != nil) {
			t.Errorf("%s to %s: %+v", c.From, c.To, after)
		}
	})
	if len(moves) != 15 || count["made"] != 45 {
		t.Errorf("%d moves, of rows: %v", len(moves), count)
	}
}

func TestApply_NeverLeavesAFinalStatus(t *testing.T) {
	every(func(c ledger.Change, before ledger.Transaction) {
		if after := before; before.Status.Final() {
			if made, _ := c.Apply(&after, noon); made || after != before {
				t.Errorf("%s became %s", before.Status, after.Status)
			}
		}
	})
}

func TestApply_DecidedNeverBecomesSuccess(t *testing.T) {
	every(func(c ledger.Change, before ledger.Transaction) {
		after := before
		if made, _ := c.Apply(&after, noon); made && before.Decision == ledger.DecisionCancel {
			if after.Status != ledger.StatusCanceled && after.Status != ledger.StatusFailed {
				t.Errorf("decided, and became %s on %s", after.Status, after.Evidence)
			}
			if after.Decision != ledger.DecisionCancel {
				t.Errorf("the decision is gone with %s", after.Status)
			}
		}
	})
}

func TestSettlement_SetsTheDecisionAndOwesTheNetCancel(t *testing.T) {
	by := ledger.Actor{Name: "operator:kim"}
	for _, tc := range []struct {
		to       ledger.Status
		usedID   bool
		decision ledger.Decision
		owed     bool
	}{
		{to: ledger.StatusSuccess},
		{to: ledger.StatusFailed, decision: ledger.DecisionCancel, owed: true},
		{to: ledger.StatusCanceled, decision: ledger.DecisionCancel, owed: true},
		{to: ledger.StatusSuccess, usedID: true},
		{to: ledger.StatusFailed, usedID: true, decision: ledger.DecisionCancel},
		{to: ledger.StatusCanceled, usedID: true, decision: ledger.DecisionCancel},
	} {
		after := row(ledger.StatusUnknown, 0, ledger.KindPayment)
		after.NeedsReview = true
		if tc.usedID {
			after.Answer.Code, after.NextResolveAt = ledger.CodeIDUsed, time.Time{}
		}
		change := ledger.Settlement(after.ID, tc.to, "the bank says so", by)
		made, err := change.Apply(&after, noon)
		if !made || err != nil || after.Validate() != nil {
			t.Fatalf("%s: made %t, error %v, %v", tc.to, made, err, after.Validate())
		}
		if after.Status != tc.to || after.Decision != tc.decision || after.Owed() != tc.owed || after.Resolvable() != tc.owed ||
			after.NeedsReview || after.Reason != "the bank says so" || !after.ResolvedAt.Equal(noon) {
			t.Errorf("%s, ID used %t: %+v", tc.to, tc.usedID, after)
		}
		if event := change.Event(noon); event.By != by || event.Detail != "the bank says so" {
			t.Errorf("event %+v", event)
		}
	}
}

func TestRepayment_DiffersWhereTheCoreHadDoneWhatIsFailed(t *testing.T) {
	for _, tc := range []struct {
		status ledger.Status
		undone bool
		want   bool
	}{
		{ledger.StatusFailed, true, true},
		{ledger.StatusFailed, false, false},
		{ledger.StatusCanceled, true, false},
		{ledger.StatusCanceled, false, false},
	} {
		paid := row(tc.status, 0, ledger.KindPayment)
		repayment := ledger.Repayment{Undone: tc.undone}
		d, differs := repayment.Difference(&paid)
		if differs != tc.want || differs && (d.ID != paid.ID || d.Class != ledger.ClassMismatch ||
			d.LedgerStatus != tc.status || d.CoreState != ledger.CoreCanceled || d.LedgerAmount != 1 || d.CoreAmount != 1) {
			t.Errorf("%s, undone %t: %+v, %t", tc.status, tc.undone, d, differs)
		}
	}
}

func TestApply_WhoseIDIsUsedIsMovedByOperatorsAlone(t *testing.T) {
	used := row(ledger.StatusUnknown, 0, ledger.KindPayment)
	used.Answer.Code, used.NeedsReview, used.NextResolveAt = ledger.CodeIDUsed, true, time.Time{}
	every(func(c ledger.Change, _ ledger.Transaction) {
		after := used
		operator := c.From == ledger.StatusUnknown && c.To.Final() &&
			c.Evidence == ledger.EvidenceOperator && c.Method == ledger.MethodOperator
		if made, _ := c.Apply(&after, noon); made != operator || made != (after != used) {
			t.Errorf("%s to %s on %s", c.From, c.To, c.Evidence)
		}
	})
	if !used.OperatorOnly() || used.Decidable() || used.Validate() != nil {
		t.Errorf("operator only %t, decidable %t, error %v", used.OperatorOnly(), used.Decidable(), used.Validate())
	}
}

func TestApply_AnswerMustBeTheEvidence(t *testing.T) {
	for _, c := range []struct {
		to       ledger.Status
		evidence ledger.Evidence
		legal    string // codes
		illegal  string
	}{
		{ledger.StatusSuccess, ledger.EvidenceAnswered, "0000", "0001 0051 0094 9999 000 -"},
		{ledger.StatusFailed, ledger.EvidenceAnswered, "0001 0051 0096 9999", "0000 0094 51 ABCD -"},
		{ledger.StatusFailed, ledger.EvidenceNotSent, "-", "0000 0051 0094"},
		{ledger.StatusUnknown, 0, "- 0094", "0000 0051 9999"},
	} {
		try := func(code string, want bool) {
			before := row(ledger.StatusRequested, 0, ledger.KindPayment)
			change := ledger.Change{From: before.Status, To: c.to, Evidence: c.evidence}
			change.Answer.Code = strings.TrimPrefix(code, "-")
			made, err := change.Apply(&before, noon)
			if made != want || want == errors.Is(err, ledger.ErrIllegalMove) {
				t.Errorf("%s on %s with %q: made %t, error %v", c.to, c.evidence, code, made, err)
			}
		}
		for _, code := range strings.Fields(c.legal) {
			try(code, true)
		}
		for _, code := range strings.Fields(c.illegal) {
			try(code, false)
		}
	}
}

func TestApply_InquiryMayFailWithAnyDecline(t *testing.T) {
	before := row(ledger.StatusRequested, 0, ledger.KindBalanceInquiry)
	change := ledger.Change{From: before.Status, To: ledger.StatusFailed, Evidence: ledger.EvidenceAnswered}
	change.Answer.Code = ledger.CodeIDUsed // only a payment occupies an ID
	if made, err := change.Apply(&before, noon); !made || err != nil {
		t.Errorf("made %t, error %v", made, err)
	}
}

func TestRule_SaysWhatAMoveAsksOfTheDecision(t *testing.T) {
	for _, c := range []struct {
		change             ledger.Change
		undecided, decided bool
	}{
		{ledger.Change{From: ledger.StatusRequested, To: ledger.StatusUnknown}, true, false},
		{ledger.Change{From: ledger.StatusUnknown, To: ledger.StatusCanceled, Evidence: ledger.EvidenceCancelConfirmed, Method: ledger.MethodNetCancel}, false, false},
		{ledger.Change{From: ledger.StatusUnknown, To: ledger.StatusFailed, Evidence: ledger.EvidenceFenced, Method: ledger.MethodStatusInquiry}, false, true},
	} {
		rule, err := c.change.Rule()
		if err != nil || rule.Undecided() != c.undecided || rule.Decided() != c.decided {
			t.Errorf("%s to %s: undecided %t, decided %t, error %v", c.change.From, c.change.To, rule.Undecided(), rule.Decided(), err)
		}
	}
	nothing := ledger.Change{}
	if _, err := nothing.Rule(); !errors.Is(err, ledger.ErrIllegalMove) {
		t.Errorf("no move at all: %v", err)
	}
}
