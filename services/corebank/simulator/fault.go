package simulator

import (
	"fmt"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Fault is one way in which the core misbehaves, and on which frames. A frame
// matches when MTI, Account and TranID do, as far as they are set. What else is
// zero is not set.
type Fault struct {
	// ID is given by Faults.Set.
	ID string

	// MTI matches frames of this type; unset, of every type that the action is
	// for, listings among them.
	MTI string
	// Account matches frames about this account. A 0500 is about none. A 0400 or 0420 is about that of
	// its original, and about none while no payment was decided under the ID.
	Account account.Number
	// TranID matches frames with this ID; of a 0400 or 0420 the original's.
	// Listings have none.
	TranID tranid.ID

	// Nth is the only one of the matching frames that is struck, counted from
	// Set on, those included that another fault strikes.
	Nth int64
	// Probability, 0 to 1, is drawn for each matching frame in the order of
	// arrival; nil is 1.
	Probability *float64
	// Seed is where the drawing starts.
	Seed uint64
	// Times is the most frames that are struck.
	Times int64

	// When is the point at which it strikes; unset, the action's own.
	When FaultPoint
	// Action is what it does.
	Action FaultAction
	// Delay is for FaultDelay and FaultNotFoundWhileQueued.
	Delay time.Duration
	// Bytes is for FaultTruncate, FaultExtraBytes and FaultSplit.
	Bytes int
	// Gap is for FaultSplit.
	Gap time.Duration
	// ResponseCode is for FaultResponseCode.
	ResponseCode string
	// Field is for FaultCorruptField: a field of the answer by its name in
	// telegram.proto.
	Field string
}

// The limits of a fault's parameters.
const (
	MaxFaultDelay = time.Hour
	MaxFaultGap   = time.Minute
	MaxExtraBytes = 4096
	// MaxListingBytes is the longest answer of the listing port.
	MaxListingBytes = max(telegram.HistoryAnswerMaxLength, telegram.BookAnswerMaxLength)
)

// FaultPoint is the moment in the life of a frame at which a fault strikes. The
// zero FaultPoint leaves it to the action.
type FaultPoint uint8

// The points.
const (
	// BeforeExecution is when the frame has arrived and nothing was done yet.
	BeforeExecution FaultPoint = iota + 1
	// AfterExecution is when the decision is durable and not answered.
	AfterExecution
)

// String is the name in the contract.
func (p FaultPoint) String() string {
	switch p {
	case BeforeExecution:
		return "BEFORE_EXECUTION"
	case AfterExecution:
		return "AFTER_EXECUTION"
	default:
		return fmt.Sprintf("INVALID(%d)", p)
	}
}

// FaultAction is what a fault does. The zero FaultAction is invalid.
type FaultAction uint8

// The actions. The contract, simulator_service.proto, says what each does.
const (
	FaultDelay FaultAction = iota + 1
	FaultClose
	FaultReset
	FaultHalfClose
	FaultBlackHole
	FaultTruncate
	FaultExtraBytes
	FaultSplit
	FaultDuplicateAnswer
	FaultUnsolicitedFrame
	FaultWrongEcho
	FaultWrongMTI
	FaultResponseCode
	FaultCorruptField
	FaultNotFoundWhileQueued
)

// String is the name in the contract.
func (a FaultAction) String() string {
	if rule, known := actionRules[a]; known {
		return rule.name
	}
	return fmt.Sprintf("INVALID(%d)", a)
}

// actionRule is what an action demands of its fault. A parameter that it does
// not name must be unset: whoever sets it expects something that will not
// happen.
type actionRule struct {
	name string
	// points are those at which it can strike, its own first.
	points []FaultPoint
	// mti is the only type of frame that it is for; empty for every type.
	mti string
	// linkOnly says that it is for no listing.
	linkOnly bool

	delay, gap, code, field bool
	// maxBytes is the most that Bytes may be; 0 where it must be unset.
	maxBytes int
	// ofAnswer says that Bytes is a part of the answer, which may be longer where
	// the fault is for listings.
	ofAnswer bool
}

// limit is the most that Bytes may be for frames of a type.
func (r actionRule) limit(mti string) int {
	if r.ofAnswer && isListing(mti) {
		return MaxListingBytes
	}
	return r.maxBytes
}

var (
	anyPoint   = []FaultPoint{AfterExecution, BeforeExecution}
	onlyAfter  = []FaultPoint{AfterExecution}
	onlyBefore = []FaultPoint{BeforeExecution}
)

var actionRules = map[FaultAction]actionRule{
	FaultDelay:      {name: "DELAY", points: anyPoint, delay: true},
	FaultClose:      {name: "CLOSE", points: anyPoint},
	FaultReset:      {name: "RESET", points: anyPoint},
	FaultHalfClose:  {name: "HALF_CLOSE", points: anyPoint},
	FaultBlackHole:  {name: "BLACK_HOLE", points: anyPoint},
	FaultTruncate:   {name: "TRUNCATE", points: onlyAfter, maxBytes: telegram.AnswerLength, ofAnswer: true},
	FaultExtraBytes: {name: "EXTRA_BYTES", points: onlyAfter, maxBytes: MaxExtraBytes},
	FaultSplit: {
		name: "SPLIT", points: onlyAfter, maxBytes: telegram.AnswerLength - 1, ofAnswer: true, gap: true,
	},
	FaultDuplicateAnswer:  {name: "DUPLICATE_ANSWER", points: onlyAfter},
	FaultUnsolicitedFrame: {name: "UNSOLICITED_FRAME", points: onlyAfter, linkOnly: true},
	FaultWrongEcho:        {name: "WRONG_ECHO", points: onlyAfter},
	FaultWrongMTI:         {name: "WRONG_MTI", points: onlyAfter},
	// Its own point is BEFORE: who sets a code means a decline. A core that does
	// it and says that it did not must be asked for by name.
	FaultResponseCode: {name: "RESPONSE_CODE", points: []FaultPoint{BeforeExecution, AfterExecution}, code: true},
	FaultCorruptField: {name: "CORRUPT_FIELD", points: onlyAfter, field: true},
	FaultNotFoundWhileQueued: {
		name: "NOT_FOUND_WHILE_QUEUED", points: onlyBefore, mti: telegram.PaymentRequestMTI, delay: true,
	},
}
