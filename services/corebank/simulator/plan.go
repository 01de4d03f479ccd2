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
	// instead is the code with which the frame is declined whatever the bank
	// would have said.
	instead string
	// after runs when the decision is durable; its error drops the answer.
	after step
	// answered is the code that the answer says, whatever was decided.
	answered string
	// bend returns what is sent instead of the answer; the bytes are its own.
	bend bender
	// send writes the answer; nil writes it whole.
	send sender
	// late says that the core will be late with the frame.
	late bool

	// fault is the ID of the fault that made the plan, and action what it does;
	// empty for a habit.
	fault  string
	action FaultAction
}

// planner says what happens to a frame. It is called once for each, in the order
// of arrival on its connection.
type planner func(q request) plan

// bender makes what is sent of the answer to a request, in place or anew.
type bender func(q request, d decision, answer []byte) []byte

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

// sendSplit sends an answer in pieces of so many bytes, each gap behind the
// one before.
func sendSplit(size int, gap time.Duration) sender {
	return func(ctx context.Context, conn net.Conn, limit time.Duration, answer []byte) error {
		for start := 0; start < len(answer); start += size {
			if start > 0 {
				if err := wait(ctx, gap); err != nil {
					return err
				}
			}
			if err := sendWhole(ctx, conn, limit, answer[start:min(start+size, len(answer))]); err != nil {
				return err
			}
		}
		return nil
	}
}

// garbage is as long as an answer and is none.
var garbage = bytes.Repeat([]byte{'#'}, telegram.AnswerLength)

func bendToGarbage(request, decision, []byte) []byte { return garbage }

// bendToLetters writes letters into the number of an answer that says 0000. A
// decline stays as it is: its number says nothing anyway.
func bendToLetters(_ request, d decision, answer []byte) []byte {
	if d.code != codeDone {
		return answer
	}
	field := "balance"
	if telegram.MTI(answer) == telegram.PaymentAnswerMTI {
		field = "approval_no"
	}
	copy(answerFields[telegram.MTI(answer)][field].of(answer), "ABCDEFGHIJKLMNO")
	return answer
}

// habits is what accounts do to the payments and balance inquiries that name
// them.
func habits(lateAnswer time.Duration) planner {
	plans := map[account.Number]plan{
		mustAccount("99999999999999"): {after: pause(lateAnswer), late: true},
		mustAccount("88888888888888"): {before: hangUp},
		mustAccount("77777777777777"): {bend: bendToGarbage},
		mustAccount("66666666666666"): {bend: bendToLetters},
		mustAccount("55555555555555"): {before: pause(lateAnswer), late: true},
		mustAccount("44444444444444"): {after: hangUp},
		mustAccount("33333333333333"): {send: sendSplit(1, dripGap)},
		mustAccount("22222222222222"): {refusal: codeFunds},
	}
	return func(q request) plan { return plans[q.account] }
}
