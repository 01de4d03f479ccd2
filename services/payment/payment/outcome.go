package payment

import (
	"errors"
	"fmt"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/frame"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/resilience"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// codeDone and codeNoAccount are the core's response codes that mean more than
// a decline to be passed on.
const (
	codeDone      = "0000"
	codeNoAccount = "0001"
)

// outcome is what may be said of a transaction when its exchange has ended.
type outcome struct {
	status   ledger.Status
	evidence ledger.Evidence
	answer   ledger.Answer
	reason   string
	// refusal is why nothing left; zero otherwise. retryAfter is when calling
	// again may help, where that is known.
	refusal    ledger.Reason
	retryAfter time.Duration
}

// judge derives the outcome from what left and what came back, never from the
// kind of an error (DESIGN §5). Whatever it does not know falls to UNKNOWN.
func judge(kind ledger.Kind, res *corelink.Result, answer ledger.Answer) outcome {
	switch {
	case res.Sent == corelink.SentNone:
		return notSent(res.Err)
	case !res.Answered():
		return outcome{status: ledger.StatusUnknown, reason: lost(res.Err)}
	case answer.Code == codeDone && !kind.MovesMoney():
		return outcome{status: ledger.StatusSuccess, evidence: ledger.EvidenceAnswered, answer: answer, reason: "answered by the core"}
	case answer.Code == codeDone:
		return outcome{status: ledger.StatusSuccess, evidence: ledger.EvidenceAnswered, answer: answer, reason: "approved by the core"}
	case answer.Code == ledger.CodeIDUsed && kind.MovesMoney():
		return outcome{status: ledger.StatusUnknown, answer: answer, reason: "the core has this ID already; an operator must find out whose it is"}
	case answer.Code == "":
		return outcome{status: ledger.StatusUnknown, reason: "the answer carries no response code"}
	default:
		return outcome{status: ledger.StatusFailed, evidence: ledger.EvidenceAnswered, answer: answer, reason: "declined by the core"}
	}
}

// unsent are the ways in which nothing left, as the row tells them and as the
// caller is told.
var unsent = []struct {
	err     error
	reason  string
	refusal ledger.Reason
}{
	{resilience.ErrOpen, "not sent: the circuit to the core is open", ledger.ReasonCircuitOpen},
	{corelink.ErrNotReady, "not sent: the send window had passed", ledger.ReasonSendWindowMissed},
	{corelink.ErrNoTime, "not sent: no time was left", ledger.ReasonDeadlineTooShort},
	{corelink.ErrSaturated, "not sent: all connections to the core were in use", ledger.ReasonLinkSaturated},
	{corelink.ErrConnect, "not sent: no connection to the core", ledger.ReasonCoreUnreachable},
	{corelink.ErrWrite, "not sent: the connection took no byte", ledger.ReasonCoreUnreachable},
	{corelink.ErrAbandoned, "not sent: the caller had gone", ledger.ReasonDeadlineTooShort},
	{frame.ErrEncode, "not sent: it does not fit the telegram", ledger.ReasonInternal},
}

func notSent(err error) outcome {
	o := outcome{status: ledger.StatusFailed, evidence: ledger.EvidenceNotSent, reason: "not sent", refusal: ledger.ReasonCoreUnreachable}
	for _, u := range unsent {
		if errors.Is(err, u.err) {
			o.reason, o.refusal = u.reason, u.refusal
			break
		}
	}
	var open *resilience.OpenError
	if errors.As(err, &open) {
		o.retryAfter = open.RetryAfter
	}
	return o
}

// refuse is the refusal of a transaction of which nothing left.
func (o *outcome) refuse(t ledger.Transaction, cause error) error {
	return &ledger.Refusal{Reason: o.refusal, RetryAfter: o.retryAfter, Transaction: &t, Err: cause}
}

// reasonWithdrawn is what the row of a withdrawn intent says.
const reasonWithdrawn = "not sent: the ledger did not say in time that the intent was stored"

// toldUnsent are the refusals by what the row says of them. The texts are in
// books: they may be added to, and none may come to mean something else.
var toldUnsent = func() map[string]ledger.Reason {
	told := map[string]ledger.Reason{reasonWithdrawn: ledger.ReasonLedgerUnavailable}
	for _, u := range unsent {
		told[u.reason] = u.refusal
	}
	return told
}()

// refusalOfUnsent is why the row's exchange sent nothing, read back from the
// row. A text that is not known, perhaps another version's, is told as a core
// that was not reached: of every refusal of this kind, nothing left.
func refusalOfUnsent(t *ledger.Transaction) ledger.Reason {
	if reason, known := toldUnsent[t.Reason]; known {
		return reason
	}
	return ledger.ReasonCoreUnreachable
}

// lost says in the row's words how the answer was lost.
func lost(err error) string {
	for _, known := range []error{corelink.ErrWrite, corelink.ErrTimeout, corelink.ErrClosed, corelink.ErrGarbage, corelink.ErrAbandoned} {
		if errors.Is(err, known) {
			return "sent, and then: " + known.Error()
		}
	}
	return "sent, and no valid answer came"
}

// errOtherID says that an answer carries another transaction's ID.
var errOtherID = errors.New("answer carries another transaction ID")

// checkPayment parses a 0110 and keeps what it says in a.
func checkPayment(id tranid.ID, a *ledger.Answer) func([]byte) error {
	return func(b []byte) error {
		m, err := telegram.ParsePaymentAnswer(b)
		if err != nil {
			return fmt.Errorf("parse payment answer: %w", err)
		}
		if m.TranID != id {
			return errOtherID
		}
		*a = ledger.Answer{Code: m.ResponseCode, Message: m.Message.Value}
		if m.ResponseCode == codeDone {
			a.Approval = approval(m.ApprovalNo)
		}
		return nil
	}
}

// approval is an approval number of 11 digits.
func approval(n int64) string {
	var digits [11]byte
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = byte('0' + n%10)
		n /= 10
	}
	return string(digits[:])
}

// window is the time in which a payment may be sent.
type window struct {
	start time.Time
	limit time.Duration
	now   func() time.Time
}

// open is nil while the window is. It goes by the larger of the monotonic and
// the wall clock: one of them stands still while a machine sleeps.
func (w window) open() error {
	now := w.now()
	passed := max(now.Sub(w.start), now.Round(0).Sub(w.start.Round(0)))
	if passed >= w.limit {
		return fmt.Errorf("%s passed since the intent, of %s", passed, w.limit)
	}
	return nil
}
