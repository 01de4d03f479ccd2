package ledger_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// checkSet fails the test unless the members of a closed set, and they alone,
// have names that are read back, and the zero value is what it should be.
func checkSet[T interface {
	~uint8
	fmt.Stringer
}](t *testing.T, parse func(string) (T, error), optional bool, names ...string) {
	t.Helper()
	for i, name := range names {
		v := T(i + 1)
		if v.String() != name {
			t.Errorf("%d is called %q, want %q", i+1, v, name)
		}
		if got, err := parse(name); got != v || err != nil {
			t.Errorf("%q is read as %d, error %v", name, got, err)
		}
	}
	var zero T
	if zero.String() != "" {
		t.Errorf("the zero value is called %q", zero)
	}
	if got, err := parse(""); got != 0 || (err == nil) != optional {
		t.Errorf("the empty text is read as %d, error %v", got, err)
	}
	beyond := T(len(names) + 1)
	invalid := []string{beyond.String(), T(255).String(), names[0] + " ", strings.ToLower(names[0]), "UNSPECIFIED", "\x00"}
	for _, text := range invalid {
		if got, err := parse(text); got != 0 || err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
	if want := fmt.Sprintf("INVALID(%d)", len(names)+1); beyond.String() != want {
		t.Errorf("what is not a member is called %q, want %q", beyond, want)
	}
	if _, err := parse(strings.Repeat("X", 1000)); err == nil || len(err.Error()) > 100 {
		t.Errorf("an error repeats a long text: %v", err)
	}
}

func TestClosedSets(t *testing.T) {
	checkSet(t, ledger.ParseKind, false, "PAYMENT", "BALANCE_INQUIRY", "HISTORY_INQUIRY")
	checkSet(t, ledger.ParseStatus, false, "REQUESTED", "SUCCESS", "FAILED", "UNKNOWN", "CANCELED")
	checkSet(t, ledger.ParseEvidence, true,
		"NOT_SENT", "ANSWERED", "PROCESSED", "CANCEL_CONFIRMED", "FENCED", "WINDOW_ELAPSED", "NO_EFFECT", "OPERATOR")
	checkSet(t, ledger.ParseMethod, true, "NONE", "STATUS_INQUIRY", "NET_CANCEL", "OPERATOR")
	checkSet(t, ledger.ParsePolicy, true, "NET_CANCEL", "CONFIRM")
	checkSet(t, ledger.ParseDecision, true, "CANCEL")
}

func TestStatus_FinalIsWhatTheContractCallsFinal(t *testing.T) {
	want := map[ledger.Status]bool{
		ledger.StatusSuccess: true, ledger.StatusFailed: true, ledger.StatusCanceled: true,
		ledger.StatusRequested: false, ledger.StatusUnknown: false, 0: false, 99: false,
	}
	for status, final := range want {
		if status.Final() != final {
			t.Errorf("%s: final %t", status, status.Final())
		}
	}
	if len(ledger.Statuses) != 5 {
		t.Errorf("%d statuses", len(ledger.Statuses))
	}
}

func TestKind_WhatIsNotKnownToBeAnInquiryMovesMoney(t *testing.T) {
	for kind, moves := range map[ledger.Kind]bool{
		0: true, ledger.KindPayment: true, 99: true, ledger.KindBalanceInquiry: false, ledger.KindHistoryInquiry: false,
	} {
		if kind.MovesMoney() != moves {
			t.Errorf("%q: moves money %t", kind, kind.MovesMoney())
		}
	}
}

func TestReason_NamesAreThoseOfTheContract(t *testing.T) {
	for reason, want := range map[ledger.Reason]string{
		ledger.ReasonInvalidRequest: "INVALID_REQUEST", ledger.ReasonOutcomeUnknown: "OUTCOME_UNKNOWN",
		ledger.ReasonLedgerUnavailable: "LEDGER_UNAVAILABLE", ledger.ReasonPermissionDenied: "PERMISSION_DENIED",
		0: "", ledger.ReasonPermissionDenied + 1: "INVALID(24)",
	} {
		if reason.String() != want {
			t.Errorf("%q, want %q", reason, want)
		}
	}
}
