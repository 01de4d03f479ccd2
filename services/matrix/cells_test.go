package matrix

import (
	"slices"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/services/corebank/simulator"
)

const (
	before = simulator.BeforeExecution
	after  = simulator.AfterExecution
)

// The frames of the link port.
var mtis = []string{
	telegram.PaymentRequestMTI, telegram.BalanceRequestMTI, telegram.StatusRequestMTI, telegram.CancelRequestMTI,
}

// end is what a fault makes of an exchange, as its caller sees it.
type end string

const (
	answered end = "answered" // a valid answer to this request: it is done
	declined end = "declined" // a valid answer: it is not done
	usedID   end = "used ID"  // a valid answer: 0094
	lost     end = "lost"     // all bytes left, and nothing came
	garbled  end = "garbled"  // all bytes left, and what came is no answer to them
)

// fate is what becomes of the connection.
type fate string

const (
	kept  fate = "kept"  // silent behind a valid answer: used again
	reset fate = "reset" // destroyed by us, and the core sees a reset
	ended fate = "ended" // ended by the core, and destroyed
)

// doing is what becomes of the request at the core.
type doing string

const (
	does     doing = "does"     // at once
	drops    doing = "drops"    // never
	declines doing = "declines" // never, and says so
	holds    doing = "holds"    // decides it when its caller has given up
)

// line is one line of the table: a fault, and what must come of it.
type line struct {
	name   string
	fault  simulator.Fault
	end    end
	socket fate
	core   doing
	trait  trait
}

// trait is what else is to be known of a fault.
type trait uint8

const (
	// silent lets the exchange end by its time-out, before a byte came.
	silent trait = iota + 1
	// stalls lets it end by its time-out when bytes came.
	stalls
	// lies: the core says that it did not do what it did. Nothing can detect
	// that but the other book.
	lies
	// behind: something comes behind the answer, and may come when the next
	// request is under way already. That one is lost then.
	behind
)

// lines are the faults of DESIGN §14, each at every point at which it can
// strike, and some of them in more than one way.
var lines = []line{
	{"DELAY before, in time", simulator.Fault{Action: simulator.FaultDelay, When: before, Delay: time.Millisecond}, answered, kept, does, 0},
	{"DELAY after, in time", simulator.Fault{Action: simulator.FaultDelay, When: after, Delay: time.Millisecond}, answered, kept, does, 0},
	{"DELAY before, too long", simulator.Fault{Action: simulator.FaultDelay, When: before, Delay: held}, lost, reset, holds, silent},
	{"DELAY after, too long", simulator.Fault{Action: simulator.FaultDelay, When: after, Delay: held}, lost, reset, does, silent},
	{"CLOSE before", simulator.Fault{Action: simulator.FaultClose, When: before}, lost, ended, drops, 0},
	{"CLOSE after", simulator.Fault{Action: simulator.FaultClose, When: after}, lost, ended, does, 0},
	{"RESET before", simulator.Fault{Action: simulator.FaultReset, When: before}, lost, ended, drops, 0},
	{"RESET after", simulator.Fault{Action: simulator.FaultReset, When: after}, lost, ended, does, 0},
	{"HALF_CLOSE before", simulator.Fault{Action: simulator.FaultHalfClose, When: before}, lost, reset, drops, 0},
	{"HALF_CLOSE after", simulator.Fault{Action: simulator.FaultHalfClose, When: after}, lost, reset, does, 0},
	{"BLACK_HOLE before", simulator.Fault{Action: simulator.FaultBlackHole, When: before}, lost, reset, drops, silent},
	{"BLACK_HOLE after", simulator.Fault{Action: simulator.FaultBlackHole, When: after}, lost, reset, does, silent},
	{"TRUNCATE to one byte", simulator.Fault{Action: simulator.FaultTruncate, Bytes: 1}, garbled, ended, does, 0},
	{"TRUNCATE by one byte", simulator.Fault{Action: simulator.FaultTruncate, Bytes: telegram.AnswerLength - 1}, garbled, ended, does, 0},
	{"TRUNCATE by nothing", simulator.Fault{Action: simulator.FaultTruncate, Bytes: telegram.AnswerLength}, answered, ended, does, behind},
	{"EXTRA_BYTES, one", simulator.Fault{Action: simulator.FaultExtraBytes, Bytes: 1}, answered, reset, does, 0},
	{"EXTRA_BYTES, many", simulator.Fault{Action: simulator.FaultExtraBytes, Bytes: simulator.MaxExtraBytes}, answered, reset, does, 0},
	{"SPLIT, in time", simulator.Fault{Action: simulator.FaultSplit, Bytes: 7, Gap: 100 * time.Microsecond}, answered, kept, does, 0},
	{"SPLIT, the last byte too late", simulator.Fault{Action: simulator.FaultSplit, Bytes: telegram.AnswerLength - 1, Gap: held}, garbled, reset, does, stalls},
	{"DUPLICATE_ANSWER", simulator.Fault{Action: simulator.FaultDuplicateAnswer}, answered, reset, does, 0},
	{"UNSOLICITED_FRAME", simulator.Fault{Action: simulator.FaultUnsolicitedFrame}, answered, reset, does, behind},
	{"WRONG_ECHO", simulator.Fault{Action: simulator.FaultWrongEcho}, garbled, reset, does, 0},
	{"WRONG_MTI", simulator.Fault{Action: simulator.FaultWrongMTI}, garbled, reset, does, 0},
	{"RESPONSE_CODE before", simulator.Fault{Action: simulator.FaultResponseCode, When: before, ResponseCode: "0051"}, declined, kept, declines, 0},
	{"RESPONSE_CODE after", simulator.Fault{Action: simulator.FaultResponseCode, When: after, ResponseCode: "0051"}, declined, kept, does, lies},
	{"RESPONSE_CODE 0094 before", simulator.Fault{Action: simulator.FaultResponseCode, When: before, ResponseCode: "0094"}, usedID, kept, declines, 0},
	{"RESPONSE_CODE 0094 after", simulator.Fault{Action: simulator.FaultResponseCode, When: after, ResponseCode: "0094"}, usedID, kept, does, 0},
	{"CORRUPT_FIELD mti", corrupt("mti"), garbled, reset, does, 0},
	{"CORRUPT_FIELD tran_id", corrupt("tran_id"), garbled, reset, does, 0},
	{"CORRUPT_FIELD tx_code", corrupt("tx_code"), garbled, reset, does, 0},
	{"CORRUPT_FIELD response_code", corrupt("response_code"), garbled, reset, does, 0},
	{"CORRUPT_FIELD approval_no", corrupt("approval_no"), garbled, reset, does, 0},
	{"CORRUPT_FIELD balance", corrupt("balance"), garbled, reset, does, 0},
	{"CORRUPT_FIELD processed", corrupt("processed"), garbled, reset, does, 0},
	{"CORRUPT_FIELD cancel_result", corrupt("cancel_result"), garbled, reset, does, 0},
	{"CORRUPT_FIELD message", corrupt("message"), answered, kept, does, 0},
	{"CORRUPT_FIELD filler", corrupt("filler"), answered, kept, does, 0},
	{"NOT_FOUND_WHILE_QUEUED", simulator.Fault{Action: simulator.FaultNotFoundWhileQueued, Delay: held}, lost, reset, holds, silent},
}

func corrupt(field string) simulator.Fault {
	return simulator.Fault{Action: simulator.FaultCorruptField, Field: field}
}

// on is the fault as it strikes frames of one type; false where there is none
// such.
func (l *line) on(mti string) (simulator.Fault, bool) {
	f := l.fault
	f.MTI = mti
	_, err := simulator.NewFaults().Set(f)
	return f, err == nil
}

// outcome is what the ledger must say when the exchange has ended.
type outcome struct {
	status   ledger.Status
	evidence ledger.Evidence
	method   ledger.Method
	decided  bool
	review   bool
	// spent is whether an attempt at resolving was: the core said something.
	spent bool
}

// outcomes are those of DESIGN §5. A row that is struck by 0420 had its 0400
// answered, and its net cancel decided, before.
var outcomes = map[end]map[string]outcome{
	answered: {
		"0100": {status: ledger.StatusSuccess, evidence: ledger.EvidenceAnswered},
		"0200": {status: ledger.StatusSuccess, evidence: ledger.EvidenceAnswered},
		"0400": {status: ledger.StatusSuccess, evidence: ledger.EvidenceProcessed, method: ledger.MethodStatusInquiry},
		"0420": {status: ledger.StatusCanceled, evidence: ledger.EvidenceCancelConfirmed, method: ledger.MethodNetCancel, decided: true},
	},
	declined: {
		"0100": {status: ledger.StatusFailed, evidence: ledger.EvidenceAnswered},
		"0200": {status: ledger.StatusFailed, evidence: ledger.EvidenceAnswered},
		"0400": {status: ledger.StatusUnknown, spent: true},
		"0420": {status: ledger.StatusUnknown, spent: true, decided: true},
	},
	usedID: {
		"0100": {status: ledger.StatusUnknown, review: true},
		"0200": {status: ledger.StatusFailed, evidence: ledger.EvidenceAnswered},
		"0400": {status: ledger.StatusUnknown, spent: true},
		"0420": {status: ledger.StatusUnknown, spent: true, decided: true},
	},
	lost: {
		"0100": {status: ledger.StatusUnknown},
		"0200": {status: ledger.StatusUnknown},
		"0400": {status: ledger.StatusUnknown},
		"0420": {status: ledger.StatusUnknown, spent: true, decided: true},
	},
	garbled: {
		"0100": {status: ledger.StatusUnknown},
		"0200": {status: ledger.StatusUnknown},
		"0400": {status: ledger.StatusUnknown, spent: true},
		"0420": {status: ledger.StatusUnknown, spent: true, decided: true},
	},
}

// fails reports whether the circuit counts such an end as a failure of the core.
func (e end) fails() bool { return e == lost || e == garbled }

func outcomeOf(row ledger.Transaction) outcome {
	return outcome{
		status: row.Status, evidence: row.Evidence, method: row.Method,
		decided: row.Decision == ledger.DecisionCancel, review: row.NeedsReview, spent: row.ResolveAttempts > 0,
	}
}

// The table leaves out no action, and no point at which one can strike.
func TestLines_HaveEveryActionAtEveryPoint(t *testing.T) {
	for action := simulator.FaultDelay; action <= simulator.FaultNotFoundWhileQueued; action++ {
		at := slices.IndexFunc(lines, func(l line) bool { return l.fault.Action == action })
		if at < 0 {
			t.Errorf("no line for %s", action)
			continue
		}
		for _, point := range []simulator.FaultPoint{before, after} {
			f := lines[at].fault
			f.When = point
			set, err := simulator.NewFaults().Set(f)
			listed := slices.ContainsFunc(lines, func(l line) bool {
				own, err := simulator.NewFaults().Set(l.fault)
				return err == nil && own.Action == action && own.When == set.When
			})
			if err == nil && !listed {
				t.Errorf("no line for %s at %s", action, point)
			}
		}
	}
	if next := simulator.FaultNotFoundWhileQueued + 1; next.String() != "INVALID(16)" {
		t.Errorf("%s is new: it needs a line", next)
	}
	for _, l := range lines {
		if !slices.ContainsFunc(mtis, func(mti string) bool { _, ok := l.on(mti); return ok }) {
			t.Errorf("%s strikes no frame", l.name)
		}
	}
}
