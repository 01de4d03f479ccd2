// Package corelink is the way to the core: one request frame out, one answer
// frame back, and an exact account of how much left. It knows frames and
// sockets; what an answer means is its caller's matter.
//
// What left decides what may be said of a payment, so Result counts it in bytes
// handed to the kernel and never derives it from an error.
package corelink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// Kind says whether a call may move money. The zero Kind may.
type Kind uint8

// The kinds. An Inquiry changes nothing at the core; a Mutation is never sent
// twice.
const (
	Mutation Kind = iota
	Inquiry
)

// The labels by which exchanges are counted and timed.
const (
	TxBalance       = "balance"
	TxPayment       = "payment"
	TxStatusInquiry = "status_inquiry"
	TxNetCancel     = "net_cancel"
	TxHistory       = "history"
	TxBook          = "book"
)

// Call is one exchange to be made.
type Call struct {
	// Tx is the label of its metrics.
	Tx string
	// Kind says whether it may move money.
	Kind Kind
	// Frame is the request, exactly as it leaves.
	Frame []byte
	// AnswerLength is how many bytes the answer has; with a Prefix, how many it
	// has at most, and an answer that says that it has more is not read.
	AnswerLength int
	// Prefix is how many digits at the start of the answer tell how many bytes
	// follow them; 0 for answers of one length.
	Prefix int
	// Check parses the answer and compares what it echoes; nil means that the
	// answer is valid and belongs to this request. It is called once
	// for each answer that came: an inquiry that is retried may have several.
	Check func(answer []byte) error
	// Ready is asked when the connection is there, immediately before the
	// first byte; an error from it sends nothing. Nil means always ready.
	Ready func() error
	// Deadline is when the whole exchange must have ended, connecting included.
	Deadline time.Time
	// Particular is set on a call whose failure, once there is a connection, is
	// taken for its own and not the core's: one of many about transactions of
	// which some may be such that the core never answers.
	Particular bool
}

// Sent is how much of a request was handed to the kernel.
type Sent uint8

// The zero Sent is invalid: an exchange says what left, or it is taken for all.
const (
	SentNone Sent = iota + 1
	SentSome
	SentAll
)

// String names it.
func (s Sent) String() string {
	switch s {
	case SentNone:
		return "none"
	case SentSome:
		return "some"
	case SentAll:
		return "all"
	default:
		return fmt.Sprintf("INVALID(%d)", uint8(s))
	}
}

// The ways in which an exchange ends without a valid answer. They are told
// apart for words and counters; what may be said of a payment depends on Sent.
var (
	// ErrConnect: no address took the connection.
	ErrConnect = errors.New("no connection to the core")
	// ErrNoTime: the deadline left no time to begin.
	ErrNoTime = errors.New("no time left for an exchange")
	// ErrSaturated: every connection that may be opened is in use.
	ErrSaturated = errors.New("all connections to the core are in use")
	// ErrNotReady: Ready said no.
	ErrNotReady = errors.New("no longer to be sent")
	// ErrWrite: the request was not taken whole.
	ErrWrite = errors.New("request not written")
	// ErrTimeout: no whole answer came in time.
	ErrTimeout = errors.New("no answer in time")
	// ErrClosed: the core closed the connection, or the network did.
	ErrClosed = errors.New("connection ended before the answer")
	// ErrGarbage: what came is no answer to this request.
	ErrGarbage = errors.New("not an answer to this request")
	// ErrAbandoned: the context ended.
	ErrAbandoned = errors.New("exchange abandoned")
)

// Result is what left and what came back.
type Result struct {
	// Sent is how much of the request left.
	Sent Sent
	// SentAt is when the first byte was about to leave; zero if none did.
	SentAt time.Time
	// AnsweredAt is when the answer was there whole; zero if it never was.
	AnsweredAt time.Time
	// Answer is what arrived, whole or not, valid or not.
	Answer []byte
	// Err is nil if, and only if, a whole answer arrived and Check took it.
	Err error
}

// Answered reports whether a valid answer to this request came back.
func (r *Result) Answered() bool { return r.Err == nil && r.Sent == SentAll }

// Dialer opens a connection; net.Dialer.DialContext is one.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)
