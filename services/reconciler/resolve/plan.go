package resolve

import (
	"time"

	"github.com/gwanmun/gwanmun/pkg/frame"
	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// inquiry is what a pass learned by asking 0400. The zero inquiry means that
// it did not ask.
type inquiry uint8

const (
	inquiryUnsent     inquiry = iota + 1 // there was no way to the core
	inquiryUnanswered                    // nothing came back in the time that it was given
	inquiryGarbled                       // what came back is no answer to it
	inquiryUnusable                      // a valid answer from which nothing follows
	inquiryDone                          // 01: the debit was done and stands
	inquiryNotDone                       // 02: it was not done
	inquiryUndone                        // 03: done and canceled, or fenced
)

// cancel is what a pass learned by asking 0420. The zero cancel means that it
// did not ask.
type cancel uint8

const (
	cancelUnsent     cancel = iota + 1 // there was no way to the core
	cancelUnanswered                   // nothing valid came back in the time that it was given
	cancelUnusable
	cancelConfirmed // 01: canceled, now or before
	cancelNotFound  // 02: no such debit; a core that fences refuses it from now on
)

// inquiryOf reads a valid 0410. Whatever is not known to be evidence is none.
func inquiryOf(processed, code string) inquiry {
	if code != frame.Done {
		return inquiryUnusable
	}
	switch processed {
	case "01":
		return inquiryDone
	case "02":
		return inquiryNotDone
	case "03":
		return inquiryUndone
	default:
		return inquiryUnusable
	}
}

// cancelOf reads a valid 0430. Whatever is not known to be evidence is none.
func cancelOf(result, code string) cancel {
	if code != frame.Done {
		return cancelUnusable
	}
	switch result {
	case "01":
		return cancelConfirmed
	case "02":
		return cancelNotFound
	default:
		return cancelUnusable
	}
}

// next is what follows from what is known. The zero next is invalid.
type next uint8

const (
	nextSettle next = iota + 1 // the row becomes final
	nextCancel                 // decide to cancel, then net cancel once
	nextWait                   // the row stays UNKNOWN and is asked again later
	nextLeave                  // the row is not this package's to settle
)

// verdict is what follows, and why. It is computed, never stored.
type verdict struct {
	next next
	why  string

	// Of nextSettle: the move.
	to       ledger.Status
	evidence ledger.Evidence
	method   ledger.Method

	// Of nextWait: what the attempt is worth. answered spends it, notFound
	// counts an inquiry's 02.
	answered bool
	notFound bool
	// soon: waited for a moment only, so the next time need not be far.
	soon bool
	// expected: that it waits is the rule, and no trouble, however often it was asked.
	expected bool
	// window is when waiting for a late original ends, by the database's clock, if
	// that is what is waited for.
	window time.Time
}

func settle(to ledger.Status, evidence ledger.Evidence, method ledger.Method, why string) verdict {
	return verdict{next: nextSettle, to: to, evidence: evidence, method: method, why: why}
}

// rules are what is declared about the core, not guessed.
type rules struct {
	// fences: after a net cancel of a debit that it does not know, the core
	// refuses that debit for ever.
	fences bool
	// lateWindow is how long a request may be on the way.
	lateWindow time.Duration
	// leftBy is when the row became UNKNOWN, by the database's clock: its exchange
	// had ended, or its time for sending had run out. Zero where that is not asked.
	leftBy time.Time
}

// beforeAsking says what follows without asking the core; false if it must be
// asked.
func beforeAsking(t *ledger.Transaction) (verdict, bool) {
	switch {
	case !t.Kind.MovesMoney():
		return settle(ledger.StatusFailed, ledger.EvidenceNoEffect, ledger.MethodNone,
			"an inquiry without an answer: it changed nothing"), true
	case t.OperatorOnly():
		return verdict{
			next: nextLeave,
			why:  "the core has this ID already: only an operator settles it, and the core is not asked",
		}, true
	default:
		return verdict{}, false
	}
}

// afterInquiry says what follows from the answer to 0400.
func afterInquiry(t *ledger.Transaction, i inquiry) verdict {
	switch i {
	case inquiryDone:
		if t.Policy == ledger.PolicyConfirm && t.Decision == 0 {
			return settle(ledger.StatusSuccess, ledger.EvidenceProcessed, ledger.MethodStatusInquiry,
				"the core did it, and it stands (status inquiry 01)")
		}
		return verdict{next: nextCancel, why: "the core did it (status inquiry 01): to be net-canceled"}
	case inquiryNotDone:
		return verdict{next: nextCancel, why: "the core has not done it (status inquiry 02): to be net-canceled, should it still come"}
	case inquiryUndone:
		return settle(ledger.StatusCanceled, ledger.EvidenceCancelConfirmed, ledger.MethodNetCancel,
			"the core has canceled it (status inquiry 03)")
	case inquiryUnusable:
		return verdict{next: nextWait, answered: true, why: "the core answered the status inquiry, and nothing follows from it"}
	case inquiryGarbled:
		return verdict{next: nextWait, answered: true, why: "what came back is no answer to the status inquiry"}
	default:
		return verdict{next: nextWait, why: "no valid answer to the status inquiry"}
	}
}

// afterCancel says what follows from the answer to 0420, after the inquiry of
// the same pass said i (01 or 02). at is the database's time before that
// inquiry. An unanswered net cancel costs the attempt that the answered inquiry
// costs, and no more.
func (r rules) afterCancel(t *ledger.Transaction, at time.Time, i inquiry, c cancel) verdict {
	notFound := i == inquiryNotDone
	switch {
	case c == cancelConfirmed:
		return settle(ledger.StatusCanceled, ledger.EvidenceCancelConfirmed, ledger.MethodNetCancel,
			"the core has canceled it (net cancel 01)")
	case c == cancelNotFound && notFound:
		return r.notExecuted(t, at)
	case c == cancelNotFound:
		return verdict{
			next: nextWait, answered: true,
			why: "the core contradicts itself: status inquiry 01, then net cancel 02",
		}
	case c == cancelUnusable:
		return verdict{
			next: nextWait, answered: true, notFound: notFound,
			why: "the core answered the net cancel, and nothing follows from it",
		}
	default:
		return verdict{
			next: nextWait, answered: true, notFound: notFound,
			why: "no valid answer to the net cancel; to be asked about again",
		}
	}
}

// notExecuted says what two 02 in one pass are worth: all, from a core that
// fences; from another, the original may still be on its way until the late
// window has passed.
func (r rules) notExecuted(t *ledger.Transaction, at time.Time) verdict {
	if r.fences {
		return settle(ledger.StatusFailed, ledger.EvidenceFenced, ledger.MethodStatusInquiry,
			"the core has not done it (status inquiry 02, net cancel 02), and refuses it from now on")
	}
	end := r.windowEnd(t)
	switch {
	case !at.After(end):
		return verdict{
			next: nextWait, answered: true, notFound: true, expected: true, window: end,
			why: "the core has not done it (02), but it may still be on its way",
		}
	case t.NotFound < 1:
		return verdict{
			next: nextWait, answered: true, notFound: true, expected: true,
			why: "the core has not done it (02); to be asked a second time",
		}
	default:
		return settle(ledger.StatusFailed, ledger.EvidenceWindowElapsed, ledger.MethodStatusInquiry,
			"the core has not done it (02, asked again after the late window)")
	}
}

// windowEnd is the last moment at which t may still reach the core, by the
// database's clock alone, whatever the clock says of the host that sent it: it
// has left, if ever, by the time that the row became UNKNOWN.
func (r rules) windowEnd(t *ledger.Transaction) time.Time {
	left := r.leftBy
	if left.IsZero() {
		left = t.AdoptAt
	}
	if left.IsZero() {
		left = t.SentAt
	}
	return left.Add(r.lateWindow)
}

// contradiction returns the evidence among what a pass learned that cannot be
// true of a row that another had made final meanwhile, and says it; zero if
// there is none. What merely was true before the row became final is none: 01
// before a net cancel, or 02 before a late original.
func contradiction(final ledger.Status, i inquiry, c cancel) (ledger.Evidence, string) {
	switch {
	case final == ledger.StatusSuccess && c == cancelConfirmed,
		final == ledger.StatusFailed && c == cancelConfirmed:
		return ledger.EvidenceCancelConfirmed, "net cancel 01"
	case final == ledger.StatusSuccess && i == inquiryUndone:
		return ledger.EvidenceCancelConfirmed, "status inquiry 03"
	case final == ledger.StatusSuccess && c == cancelNotFound:
		return ledger.EvidenceFenced, "net cancel 02"
	case final == ledger.StatusFailed && i == inquiryDone:
		return ledger.EvidenceProcessed, "status inquiry 01"
	default:
		return 0, ""
	}
}
