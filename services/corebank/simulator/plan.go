package simulator

import (
	"bytes"
	"context"
	"errors"
	"net"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

// plan is what happens to one frame around the bank's decision. The zero plan
// is that of a core which works: decide, and answer at once.
type plan struct {
	// before runs before the decision; its error drops the frame undecided.
	before step
	// refusal is the code of the decision where the bank would have said 0000.
	refusal string
	// after runs when the decision is durable; its error drops the answer.
	after step
	// bend returns what is sent instead of the answer.
	bend func(d decision, answer []byte) []byte
	// send writes the answer; nil writes it whole.
	send sender
}

// planner says what happens to a frame. It is called once for each, in the order
// of arrival on its connection.
type planner func(q request) plan

// step is something that the core does about a connection beside answering. It
// ends early when ctx does, with an error.
type step func(ctx context.Context, conn net.Conn) error

// sender writes an answer to a connection whose write deadline is limit from
// each write on.
type sender func(ctx context.Context, conn net.Conn, limit time.Duration, answer []byte) error

// errHangUp ends a connection as planned.
var errHangUp = errors.New("hung up as planned")

func hangUp(context.Context, net.Conn) error { return errHangUp }

func pause(d time.Duration) step {
	return func(ctx context.Context, _ net.Conn) error { return wait(ctx, d) }
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func sendWhole(_ context.Context, conn net.Conn, limit time.Duration, answer []byte) error {
	if err := conn.SetWriteDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	_, err := conn.Write(answer)
	return err
}

// dripGap is the time between two bytes of an account that answers byte by byte.
const dripGap = 20 * time.Millisecond

func sendDripping(ctx context.Context, conn net.Conn, limit time.Duration, answer []byte) error {
	for i := range answer {
		if i > 0 {
			if err := wait(ctx, dripGap); err != nil {
				return err
			}
		}
		if err := sendWhole(ctx, conn, limit, answer[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// garbage is as long as an answer and is none.
var garbage = bytes.Repeat([]byte{'#'}, telegram.AnswerLength)

func bendToGarbage(decision, []byte) []byte { return garbage }

// The digit fields that bendToLetters spoils, as telegram.proto has them.
const (
	balanceAt, balanceWidth   = 26, 15
	approvalAt, approvalWidth = 50, 11
)

// bendToLetters writes letters into the number of an answer that says 0000. A
// decline stays as it is: its number says nothing anyway.
func bendToLetters(d decision, answer []byte) []byte {
	if d.code != codeDone {
		return answer
	}
	at, width := balanceAt, balanceWidth
	if telegram.MTI(answer) == telegram.PaymentAnswerMTI {
		at, width = approvalAt, approvalWidth
	}
	copy(answer[at:at+width], "ABCDEFGHIJKLMNO")
	return answer
}

// habits is what accounts do to the payments and balance inquiries that name
// them.
func habits(lateAnswer time.Duration) planner {
	plans := map[account.Number]plan{
		mustAccount("99999999999999"): {after: pause(lateAnswer)},
		mustAccount("88888888888888"): {before: hangUp},
		mustAccount("77777777777777"): {bend: bendToGarbage},
		mustAccount("66666666666666"): {bend: bendToLetters},
		mustAccount("55555555555555"): {before: pause(lateAnswer)},
		mustAccount("44444444444444"): {after: hangUp},
		mustAccount("33333333333333"): {send: sendDripping},
		mustAccount("22222222222222"): {refusal: codeFunds},
	}
	return func(q request) plan { return plans[q.account] }
}
