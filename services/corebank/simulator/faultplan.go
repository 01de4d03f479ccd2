package simulator

import (
	"bytes"
	"context"
	"errors"
	"net"
	"time"

	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// errSilent keeps a connection open on which nothing will be answered any more.
var errSilent = errors.New("silent as planned")

func goSilent(context.Context, net.Conn) error { return errSilent }

// resetConn ends a connection by a TCP reset; one that has none to give, such as
// a pipe, is closed.
func resetConn(_ context.Context, conn net.Conn) error {
	if tcp, ok := conn.(interface{ SetLinger(sec int) error }); ok {
		// A connection that is gone already cannot be reset, and need not be.
		_ = tcp.SetLinger(0)
	}
	return errHangUp
}

// halfClose ends the sending side of a connection; one that cannot, such as a
// pipe, is closed.
func halfClose(_ context.Context, conn net.Conn) error {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok {
		return errHangUp
	}
	if err := half.CloseWrite(); err != nil {
		return err
	}
	return errSilent
}

// plan is what the fault makes of a frame that it strikes.
func (f Fault) plan() plan {
	p := plan{fault: f.ID, action: f.Action}
	switch f.Action {
	case FaultDelay, FaultNotFoundWhileQueued:
		p.at(f.When, pause(f.Delay))
		p.late = true
	case FaultClose:
		p.at(f.When, hangUp)
	case FaultReset:
		p.at(f.When, resetConn)
	case FaultHalfClose:
		p.at(f.When, halfClose)
	case FaultBlackHole:
		p.at(f.When, goSilent)
	case FaultResponseCode:
		if f.When == BeforeExecution {
			p.instead = f.ResponseCode
		} else {
			p.answered = f.ResponseCode
		}
	case FaultTruncate:
		p.send = sendStart(f.Bytes)
	case FaultSplit:
		p.send = sendSplit(f.Bytes, f.Gap)
	case FaultUnsolicitedFrame:
		p.send = sendAndStray
	default:
		p.bend = f.bend()
	}
	return p
}

// at puts a step where a fault strikes.
func (p *plan) at(when FaultPoint, s step) {
	if when == BeforeExecution {
		p.before = s
	} else {
		p.after = s
	}
}

// bend is what the fault makes of the answer's bytes.
func (f Fault) bend() bender {
	switch f.Action {
	case FaultExtraBytes:
		extra := bytes.Repeat([]byte{'#'}, f.Bytes)
		return func(_ request, _ decision, answer []byte) []byte { return append(answer, extra...) }
	case FaultDuplicateAnswer:
		return func(_ request, _ decision, answer []byte) []byte { return append(answer, answer...) }
	case FaultWrongEcho:
		return func(q request, _ decision, answer []byte) []byte { return withWrongEcho(q.mti, answer) }
	case FaultWrongMTI:
		return func(q request, _ decision, answer []byte) []byte {
			at, _ := answerField(q.mti, "mti")
			copy(at.of(answer), otherAnswers[answerTypes[q.mti]])
			return answer
		}
	case FaultCorruptField:
		return func(q request, _ decision, answer []byte) []byte { return corrupt(q.mti, answer, f.Field) }
	default:
		return nil
	}
}

// corrupt fills a field with bytes that are no printable ASCII, no digits and no
// EUC-KR.
func corrupt(mti string, answer []byte, field string) []byte {
	place, _ := answerField(mti, field)
	at := place.of(answer)
	for i := range at {
		at[i] = 0xFF
	}
	return answer
}

// withWrongEcho is the answer to another request: under another ID, or to a
// listing of another account or another day.
func withWrongEcho(mti string, answer []byte) []byte {
	for _, field := range []string{"account", "settle_date"} {
		if place, has := answerField(mti, field); has {
			at := &place.of(answer)[0]
			if *at++; *at > '9' {
				*at = '1'
			}
			return answer
		}
	}
	return underAnotherID(answer)
}

// underAnotherID is the answer under an ID that no one gives out: that of the
// same number in another millennium, which is well formed. Of an ID that is not
// of the gateway's form the last character is another.
//
// It must not be a neighbour's. An answer that nobody asked for under an ID that
// is about to be sent would be a core that lies, which nothing can detect.
func underAnotherID(answer []byte) []byte {
	field := bytes.TrimRight(tranIDSpan.of(answer), " ")
	at, other, last := len(field)-1, byte('~'), byte('!')
	if _, err := tranid.Parse(string(field)); err == nil {
		at, other, last = len("GWMNU"), '9', '8'
	}
	if field[at] == other {
		other = last
	}
	field[at] = other
	return answer
}

// sendStart sends the first bytes of an answer and ends the connection.
func sendStart(count int) sender {
	return func(ctx context.Context, conn net.Conn, limit time.Duration, answer []byte) error {
		if err := sendWhole(ctx, conn, limit, answer[:min(count, len(answer))]); err != nil {
			return err
		}
		return errHangUp
	}
}

// sendAndStray sends an answer, and then one that nobody asked for.
func sendAndStray(ctx context.Context, conn net.Conn, limit time.Duration, answer []byte) error {
	if err := sendWhole(ctx, conn, limit, answer); err != nil {
		return err
	}
	return sendWhole(ctx, conn, limit, underAnotherID(answer))
}
