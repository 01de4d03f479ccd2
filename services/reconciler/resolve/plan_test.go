package resolve

import (
	"testing"

	"github.com/gwanmun/gwanmun/pkg/frame"
	"github.com/gwanmun/gwanmun/pkg/ledger"
)

func TestFlags_WhatIsNotKnownToBeEvidenceIsNone(t *testing.T) {
	for _, code := range []string{"0096", "0094", "9999", "", "000", "00000", " 0000"} {
		for _, flag := range []string{"01", "02", "03"} {
			if got := inquiryOf(flag, code); got != inquiryUnusable {
				t.Errorf("0410 %q with code %q is taken for %d", flag, code, got)
			}
			if got := cancelOf(flag, code); got != cancelUnusable {
				t.Errorf("0430 %q with code %q is taken for %d", flag, code, got)
			}
		}
	}
	for _, flag := range []string{"", "00", "1", "04", "99", "0 ", "AB", "011"} {
		if got := inquiryOf(flag, frame.Done); got != inquiryUnusable {
			t.Errorf("0410 %q is taken for %d", flag, got)
		}
		if got := cancelOf(flag, frame.Done); got != cancelUnusable {
			t.Errorf("0430 %q is taken for %d", flag, got)
		}
	}
	if got := cancelOf("03", frame.Done); got != cancelUnusable {
		t.Errorf("0430 with a flag of 0410 is taken for %d", got)
	}
}

func TestVerdicts_ValuesOutsideTheirSetsStayUnknown(t *testing.T) {
	row := &ledger.Transaction{Kind: ledger.KindPayment, Status: ledger.StatusUnknown, Policy: ledger.PolicyConfirm}
	for _, i := range []inquiry{0, inquiryUnanswered, 99} {
		if v := afterInquiry(row, i); v.next != nextWait || v.answered {
			t.Errorf("inquiry %d leads to %+v", i, v)
		}
	}
	for _, c := range []cancel{0, cancelUnanswered, 99} {
		for _, i := range []inquiry{inquiryDone, inquiryNotDone} {
			if v := (rules{fences: true}).afterCancel(row, row.SentAt, i, c); v.next != nextWait {
				t.Errorf("inquiry %d and cancel %d lead to %+v", i, c, v)
			}
		}
	}
	for _, i := range []inquiry{0, inquiryUnanswered, inquiryUnusable, inquiryUndone, 99} {
		if v := (rules{fences: true}).afterCancel(row, row.SentAt, i, cancelNotFound); v.next != nextWait {
			t.Errorf("net cancel 02 after inquiry %d leads to %+v", i, v)
		}
	}
}

// Only what cannot have been true at any time before the row became final is a
// contradiction.
func TestContradiction_OnlyWhatCannotHaveBeenTrue(t *testing.T) {
	type said struct {
		i inquiry
		c cancel
	}
	ghosts := map[ledger.Status]map[said]ledger.Evidence{
		ledger.StatusSuccess: {
			{inquiryUndone, 0}:                ledger.EvidenceCancelConfirmed,
			{inquiryDone, cancelConfirmed}:    ledger.EvidenceCancelConfirmed,
			{inquiryDone, cancelNotFound}:     ledger.EvidenceFenced,
			{inquiryNotDone, cancelConfirmed}: ledger.EvidenceCancelConfirmed,
			{inquiryNotDone, cancelNotFound}:  ledger.EvidenceFenced,
		},
		ledger.StatusFailed: {
			{inquiryDone, 0}:                  ledger.EvidenceProcessed,
			{inquiryDone, cancelUnanswered}:   ledger.EvidenceProcessed,
			{inquiryDone, cancelUnusable}:     ledger.EvidenceProcessed,
			{inquiryDone, cancelNotFound}:     ledger.EvidenceProcessed,
			{inquiryDone, cancelConfirmed}:    ledger.EvidenceCancelConfirmed,
			{inquiryNotDone, cancelConfirmed}: ledger.EvidenceCancelConfirmed,
		},
		ledger.StatusCanceled: {},
	}
	for final, want := range ghosts {
		for _, s := range []said{
			{inquiryUnanswered, 0},
			{inquiryUnusable, 0},
			{inquiryUndone, 0},
			{inquiryDone, 0},
			{inquiryNotDone, 0},
			{inquiryDone, cancelUnanswered},
			{inquiryDone, cancelUnusable},
			{inquiryDone, cancelConfirmed},
			{inquiryDone, cancelNotFound},
			{inquiryNotDone, cancelUnanswered},
			{inquiryNotDone, cancelUnusable},
			{inquiryNotDone, cancelConfirmed},
			{inquiryNotDone, cancelNotFound},
		} {
			got, words := contradiction(final, s.i, s.c)
			if got != want[s] || (got == 0) != (words == "") {
				t.Errorf("%s against %+v: %q (%s), want %q", final, s, got, words, want[s])
			}
		}
	}
}
