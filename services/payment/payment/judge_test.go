package payment

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/frame"
	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// The table of DESIGN §5: what left and what came back decide, in every
// combination.
func TestJudge_WhatLeftAndWhatCameBack(t *testing.T) {
	lostBy := []error{
		corelink.ErrConnect, corelink.ErrNoTime, corelink.ErrNotReady, corelink.ErrWrite, corelink.ErrTimeout,
		corelink.ErrClosed, corelink.ErrGarbage, corelink.ErrAbandoned, frame.ErrEncode, errors.New("some other"),
	}
	for _, sent := range []corelink.Sent{0, corelink.SentNone, corelink.SentSome, corelink.SentAll, 99} {
		for _, err := range lostBy {
			res := corelink.Result{Sent: sent, Err: fmt.Errorf("wrapped: %w", err)}
			// An answer that was seen and did not count changes nothing.
			o := judge(ledger.KindPayment, &res, ledger.Answer{Code: codeDone})
			want := outcome{status: ledger.StatusUnknown}
			if sent == corelink.SentNone {
				want = outcome{status: ledger.StatusFailed, evidence: ledger.EvidenceNotSent}
			}
			if o.status != want.status || o.evidence != want.evidence || o.answer != (ledger.Answer{}) || o.reason == "" {
				t.Errorf("sent %s, %v: %+v, want %s by %s", sent, err, o, want.status, want.evidence)
			}
			if (o.refusal != 0) != (sent == corelink.SentNone) {
				t.Errorf("sent %s, %v: refusal %s", sent, err, o.refusal)
			}
		}
		// Without an error only what left whole can have been answered.
		o := judge(ledger.KindPayment, &corelink.Result{Sent: sent}, ledger.Answer{Code: codeDone})
		if (o.status == ledger.StatusSuccess) != (sent == corelink.SentAll) {
			t.Errorf("sent %s, answered: %s", sent, o.status)
		}
	}
}

func TestJudge_AnsweredCodes(t *testing.T) {
	cases := []struct {
		kind     ledger.Kind
		code     string
		status   ledger.Status
		evidence ledger.Evidence
	}{
		{ledger.KindPayment, "0000", ledger.StatusSuccess, ledger.EvidenceAnswered},
		{ledger.KindPayment, "0001", ledger.StatusFailed, ledger.EvidenceAnswered},
		{ledger.KindPayment, "0051", ledger.StatusFailed, ledger.EvidenceAnswered},
		{ledger.KindPayment, "0096", ledger.StatusFailed, ledger.EvidenceAnswered},
		{ledger.KindPayment, "9999", ledger.StatusFailed, ledger.EvidenceAnswered},
		{ledger.KindPayment, "0094", ledger.StatusUnknown, 0},
		{ledger.KindPayment, "", ledger.StatusUnknown, 0},
		{0, "0094", ledger.StatusUnknown, 0}, // what is not known to be an inquiry moves money
		{ledger.KindBalanceInquiry, "0000", ledger.StatusSuccess, ledger.EvidenceAnswered},
		{ledger.KindBalanceInquiry, "0094", ledger.StatusFailed, ledger.EvidenceAnswered},
		{ledger.KindBalanceInquiry, "", ledger.StatusUnknown, 0},
	}
	for _, c := range cases {
		answer := ledger.Answer{Code: c.code, Message: "words"}
		o := judge(c.kind, &corelink.Result{Sent: corelink.SentAll}, answer)
		if o.status != c.status || o.evidence != c.evidence || o.refusal != 0 {
			t.Errorf("%s answered %q: %+v, want %s by %s", c.kind, c.code, o, c.status, c.evidence)
		}
		if c.code != "" && o.answer != answer {
			t.Errorf("%s answered %q: the answer is kept as %+v", c.kind, c.code, o.answer)
		}
	}
}

// What the row of an unsent payment says is read back as what its caller was
// told.
func TestRefusalOfUnsent_RoundTrip(t *testing.T) {
	for _, u := range unsent {
		o := notSent(fmt.Errorf("wrapped: %w", u.err))
		if o.refusal != u.refusal {
			t.Errorf("%v is refused as %s, want %s", u.err, o.refusal, u.refusal)
		}
		if got := refusalOfUnsent(&ledger.Transaction{Reason: o.reason}); got != o.refusal {
			t.Errorf("row %q is told as %s, want %s", o.reason, got, o.refusal)
		}
	}
	for reason, want := range map[string]ledger.Reason{
		reasonWithdrawn: ledger.ReasonLedgerUnavailable, "anything else": ledger.ReasonCoreUnreachable,
	} {
		if got := refusalOfUnsent(&ledger.Transaction{Reason: reason}); got != want {
			t.Errorf("row %q is told as %s, want %s", reason, got, want)
		}
	}
}

func TestReasons_SayNothingOfTheCause(t *testing.T) {
	cause := errors.New("dial tcp 10.0.0.7:9099: secret")
	for _, sent := range []corelink.Sent{corelink.SentNone, corelink.SentSome} {
		o := judge(ledger.KindPayment, &corelink.Result{Sent: sent, Err: fmt.Errorf("%w: %w", corelink.ErrWrite, cause)}, ledger.Answer{})
		if strings.Contains(o.reason, "10.0.0.7") || len(o.reason) > ledger.MaxText {
			t.Errorf("the row says %q", o.reason)
		}
	}
}

// driftedBy is t with its monotonic reading moved and its wall clock left alone:
// what a process reads whose wall clock was set back, or whose machine slept.
func driftedBy(t *testing.T, at time.Time, d time.Duration) time.Time {
	t.Helper()
	moved := at
	(*struct {
		wall uint64
		ext  int64
	})(unsafe.Pointer(&moved)).ext += int64(d)
	if moved.Sub(at) != d || !moved.Round(0).Equal(at.Round(0)) {
		t.Fatal("time.Time is not laid out as this test believes")
	}
	return moved
}

func TestWindow_ByTheLargerOfBothClocks(t *testing.T) {
	const limit = 2 * time.Second
	start := time.Now()
	cases := map[string]struct {
		monotonic, wall time.Duration
		open            bool
	}{
		"at once":                     {0, 0, true},
		"just before":                 {limit - 1, limit - 1, true},
		"at the limit":                {limit, limit, false},
		"past it":                     {time.Hour, time.Hour, false},
		"the wall clock stands still": {limit, 0, false},
		"the wall clock was set back": {limit, -time.Hour, false},
		"the machine slept":           {0, limit, false},
		"set back within the window":  {limit - 1, -time.Hour, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			now := driftedBy(t, start.Add(c.wall), c.monotonic-c.wall)
			w := window{start: start, limit: limit, now: func() time.Time { return now }}
			if err := w.open(); (err == nil) != c.open {
				t.Errorf("open: %v", err)
			}
		})
	}
}

// What a row says of a payment that was not sent is read back as the refusal that
// its caller was told, by every version.
func TestRefusalOfUnsent_ReadsTheRowBack(t *testing.T) {
	inBooks := map[string]ledger.Reason{
		"not sent: the circuit to the core is open":                           ledger.ReasonCircuitOpen,
		"not sent: the send window had passed":                                ledger.ReasonSendWindowMissed,
		"not sent: no time was left":                                          ledger.ReasonDeadlineTooShort,
		"not sent: all connections to the core were in use":                   ledger.ReasonLinkSaturated,
		"not sent: no connection to the core":                                 ledger.ReasonCoreUnreachable,
		"not sent: the connection took no byte":                               ledger.ReasonCoreUnreachable,
		"not sent: the caller had gone":                                       ledger.ReasonDeadlineTooShort,
		"not sent: it does not fit the telegram":                              ledger.ReasonInternal,
		"not sent: the ledger did not say in time that the intent was stored": ledger.ReasonLedgerUnavailable,
		"a text of a version to come":                                         ledger.ReasonCoreUnreachable,
	}
	for text, want := range inBooks {
		row := ledger.Transaction{Status: ledger.StatusFailed, Evidence: ledger.EvidenceNotSent, Reason: text}
		if got := reasonFor(&row); got != want {
			t.Errorf("%q is told as %s, want %s", text, got, want)
		}
	}
	for _, u := range unsent {
		row := ledger.Transaction{Status: ledger.StatusFailed, Evidence: ledger.EvidenceNotSent}
		o := notSent(fmt.Errorf("wrapped: %w", u.err))
		row.Reason = ledger.Text(o.reason)
		if _, known := inBooks[row.Reason]; !known || reasonFor(&row) != o.refusal || o.refusal != u.refusal {
			t.Errorf("%v is told as %s, and read back as %s", u.err, o.refusal, reasonFor(&row))
		}
	}
}

// Every state that a row can be in has one reason, and success has none of
// failure. What nobody knows falls to OUTCOME_UNKNOWN.
func TestReasonFor_EveryState(t *testing.T) {
	failed := map[ledger.Evidence]ledger.Reason{
		ledger.EvidenceNotSent: ledger.ReasonCoreUnreachable, ledger.EvidenceAnswered: ledger.ReasonDeclined,
		ledger.EvidenceFenced: ledger.ReasonNotExecuted, ledger.EvidenceWindowElapsed: ledger.ReasonNotExecuted,
		ledger.EvidenceNoEffect: ledger.ReasonNotExecuted, ledger.EvidenceOperator: ledger.ReasonNotExecuted,
	}
	for _, status := range append([]ledger.Status{0, 99}, ledger.Statuses...) {
		for evidence := ledger.Evidence(0); evidence <= ledger.EvidenceOperator; evidence++ {
			row := ledger.Transaction{Status: status, Evidence: evidence}
			want, known := map[ledger.Status]ledger.Reason{
				ledger.StatusRequested: ledger.ReasonInProgress, ledger.StatusCanceled: ledger.ReasonPaymentCanceled,
				ledger.StatusFailed: cmp.Or(failed[evidence], ledger.ReasonNotExecuted),
			}[status]
			if !known {
				want = ledger.ReasonOutcomeUnknown
			}
			got, err := reply(row, true)
			var refusal *ledger.Refusal
			switch {
			case status == ledger.StatusSuccess:
				if err != nil || !got.Replayed {
					t.Errorf("SUCCESS by %s is told as %v", evidence, err)
				}
			case !errors.As(err, &refusal) || refusal.Reason != want || !refusal.Replayed || refusal.Transaction == nil:
				t.Errorf("%s by %s is told as %v, want %s", status, evidence, err, want)
			}
		}
	}
}
