package simulator

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gwanmun/gwanmun/pkg/frame"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

// setFault sets a fault that must be right.
func setFault(t testing.TB, faults *Faults, f Fault) Fault {
	t.Helper()
	set, err := faults.Set(f)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// A wireEnd is how a connection is after the frame that was struck.
type wireEnd int

const (
	goesOn     wireEnd = iota // the next frame is answered
	closed                    // by FIN, both ways
	reset                     // by RST
	halfClosed                // by FIN, and frames are still journaled
	silent                    // open, and frames are journaled
)

// What the journal says of the struck frame.
const (
	honest = "as without the fault"
	undone = "NONE "
	coded  = "NONE 0055"
)

// recode is the answer under another code.
func recode(t *testing.T, answer []byte, code, message string) []byte {
	t.Helper()
	text := frame.Text{Value: message}
	switch telegram.MTI(answer) {
	case telegram.PaymentAnswerMTI:
		m := parse(t, telegram.ParsePaymentAnswer, answer)
		m.ResponseCode, m.Message = code, text
		return encode(t, m)
	case telegram.BalanceAnswerMTI:
		m := parse(t, telegram.ParseBalanceAnswer, answer)
		m.ResponseCode, m.Message = code, text
		return encode(t, m)
	case telegram.StatusAnswerMTI:
		m := parse(t, telegram.ParseStatusAnswer, answer)
		m.ResponseCode, m.Message = code, text
		return encode(t, m)
	default:
		m := parse(t, telegram.ParseCancelAnswer, answer)
		m.ResponseCode, m.Message = code, text
		return encode(t, m)
	}
}

// declined is an answer of the type that says nothing but the code.
func declined(t *testing.T, answer []byte, code, message string) []byte {
	t.Helper()
	text := frame.Text{Value: message}
	switch telegram.MTI(answer) {
	case telegram.PaymentAnswerMTI:
		return encode(t, telegram.PaymentAnswer{TranID: id(1), ResponseCode: code, Message: text})
	case telegram.BalanceAnswerMTI:
		return encode(t, telegram.BalanceAnswer{TranID: id(1), ResponseCode: code, Message: text})
	case telegram.StatusAnswerMTI:
		return encode(t, telegram.StatusAnswer{TranID: id(1), ResponseCode: code, Message: text})
	default:
		return encode(t, telegram.CancelAnswer{TranID: id(1), ResponseCode: code, Message: text})
	}
}

// otherID is the answer with the year of its ID in another millennium.
func otherID(_ *testing.T, answer []byte) []byte {
	return bytes.Replace(answer, []byte("GWMNU2026"), []byte("GWMNU9026"), 1)
}

func otherMTI(_ *testing.T, answer []byte) []byte {
	other := map[string]string{"0110": "0210", "0210": "0110", "0410": "0430", "0430": "0410"}
	return append([]byte(other[string(answer[:4])]), answer[4:]...)
}

func nothing(*testing.T, []byte) []byte { return nil }

func whole(_ *testing.T, answer []byte) []byte { return answer }

func start(n int) func(*testing.T, []byte) []byte {
	return func(_ *testing.T, answer []byte) []byte { return answer[:n] }
}

func extra(n int) func(*testing.T, []byte) []byte {
	return func(_ *testing.T, answer []byte) []byte { return append(answer, strings.Repeat("#", n)...) }
}

// wireCase is one fault: what arrives instead of an answer, how the connection
// is then, and what the journal has.
type wireCase struct {
	fault   Fault
	arrives func(t *testing.T, answer []byte) []byte
	end     wireEnd
	journal string
}

func wireCases() map[string]wireCase {
	const short = 5 * time.Millisecond
	return map[string]wireCase{
		"DELAY before":             {Fault{Action: FaultDelay, When: BeforeExecution, Delay: short}, whole, goesOn, honest},
		"DELAY":                    {Fault{Action: FaultDelay, Delay: short}, whole, goesOn, honest},
		"CLOSE before":             {Fault{Action: FaultClose, When: BeforeExecution}, nothing, closed, undone},
		"CLOSE":                    {Fault{Action: FaultClose}, nothing, closed, honest},
		"RESET before":             {Fault{Action: FaultReset, When: BeforeExecution}, nothing, reset, undone},
		"RESET":                    {Fault{Action: FaultReset}, nothing, reset, honest},
		"HALF_CLOSE before":        {Fault{Action: FaultHalfClose, When: BeforeExecution}, nothing, halfClosed, undone},
		"HALF_CLOSE":               {Fault{Action: FaultHalfClose}, nothing, halfClosed, honest},
		"BLACK_HOLE before":        {Fault{Action: FaultBlackHole, When: BeforeExecution}, nothing, silent, undone},
		"BLACK_HOLE":               {Fault{Action: FaultBlackHole}, nothing, silent, honest},
		"TRUNCATE to 1":            {Fault{Action: FaultTruncate, Bytes: 1}, start(1), closed, honest},
		"TRUNCATE to 60":           {Fault{Action: FaultTruncate, Bytes: 60}, start(60), closed, honest},
		"TRUNCATE to all":          {Fault{Action: FaultTruncate, Bytes: 61}, whole, closed, honest},
		"EXTRA_BYTES of 1":         {Fault{Action: FaultExtraBytes, Bytes: 1}, extra(1), goesOn, honest},
		"EXTRA_BYTES of 4096":      {Fault{Action: FaultExtraBytes, Bytes: 4096}, extra(4096), goesOn, honest},
		"SPLIT":                    {Fault{Action: FaultSplit, Bytes: 20, Gap: short}, whole, goesOn, honest},
		"SPLIT without a gap":      {Fault{Action: FaultSplit, Bytes: 60}, whole, goesOn, honest},
		"DUPLICATE_ANSWER":         {Fault{Action: FaultDuplicateAnswer}, func(_ *testing.T, a []byte) []byte { return bytes.Repeat(a, 2) }, goesOn, honest},
		"UNSOLICITED_FRAME":        {Fault{Action: FaultUnsolicitedFrame}, func(t *testing.T, a []byte) []byte { return append(bytes.Clone(a), otherID(t, a)...) }, goesOn, honest},
		"WRONG_ECHO":               {Fault{Action: FaultWrongEcho}, otherID, goesOn, honest},
		"WRONG_MTI":                {Fault{Action: FaultWrongMTI}, otherMTI, goesOn, honest},
		"RESPONSE_CODE":            {Fault{Action: FaultResponseCode, ResponseCode: "0055"}, func(t *testing.T, a []byte) []byte { return declined(t, a, "0055", "거절") }, goesOn, coded},
		"RESPONSE_CODE after":      {Fault{Action: FaultResponseCode, When: AfterExecution, ResponseCode: "0051"}, func(t *testing.T, a []byte) []byte { return recode(t, a, "0051", "잔액부족") }, goesOn, honest},
		"CORRUPT_FIELD":            {Fault{Action: FaultCorruptField, Field: "tran_id"}, func(_ *testing.T, a []byte) []byte { return corruptAt(a, 4, 22) }, goesOn, honest},
		"NOT_FOUND_WHILE_QUEUED":   {Fault{Action: FaultNotFoundWhileQueued, Delay: short}, whole, goesOn, honest},
		"a fault of another frame": {Fault{Action: FaultClose, Nth: 99}, whole, goesOn, honest},
	}
}

func corruptAt(answer []byte, at, width int) []byte {
	bad := bytes.Clone(answer)
	copy(bad[at:], bytes.Repeat([]byte{0xFF}, width))
	return bad
}

// requestsOfEachType are about id(1). The journal line is that of the request
// where its original, a payment of 1,000 won, was done.
func requestsOfEachType(t *testing.T) map[string]struct {
	bytes []byte
	done  string
} {
	type request = struct {
		bytes []byte
		done  string
	}
	return map[string]request{
		"0100": {payment(t, id(1), alice, 1000), "0100 DEBIT 0000"},
		"0200": {encode(t, telegram.BalanceRequest{TranID: id(1), Account: alice}), "0200 NONE 0000"},
		"0400": {encode(t, telegram.StatusRequest{TranID: id(1)}), "0400 NONE 0000"},
		"0420": {encode(t, telegram.CancelRequest{TranID: id(1)}), "0420 CANCEL 0000"},
	}
}

// prepare does the original of an inquiry or a cancel.
func prepare(t *testing.T, bank *Bank, mti string) []string {
	t.Helper()
	if mti != "0400" && mti != "0420" {
		return nil
	}
	execute(t, bank, payOf(1))
	return []string{"0100 DEBIT 0000"}
}

// honestAnswer is what a core without faults answers.
func honestAnswer(t *testing.T, mti string, request []byte) []byte {
	t.Helper()
	bank, _ := newBank(t, Rules{})
	prepare(t, bank, mti)
	c := dial(t, NewServer(bank, Options{}))
	c.send(request)
	return c.receive()
}

// serveOne serves one connection over TCP; ended returns when the server has
// done all that it ever does about it.
func serveOne(t *testing.T, s *Server) (c *client, ended func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c = dialTCP(t, l.Addr().String())
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() { s.ServeConn(context.Background(), conn) })
	t.Cleanup(func() {
		_ = c.conn.Close()
		served.Wait()
	})
	return c, served.Wait
}

func TestFault_EachActionOnEachTypeOfFrame(t *testing.T) {
	for name, tt := range wireCases() {
		for mti, request := range requestsOfEachType(t) {
			if tt.fault.Action == FaultNotFoundWhileQueued && mti != telegram.PaymentRequestMTI {
				continue
			}
			t.Run(name+" on "+mti, func(t *testing.T) {
				t.Parallel()
				bank, book := newBank(t, Rules{})
				want := prepare(t, bank, mti)
				faults := NewFaults()
				once := tt.fault
				once.Times = 1
				setFault(t, faults, once)
				c, ended := serveOne(t, NewServer(bank, Options{Faults: faults}))
				c.send(request.bytes)
				arrives := tt.arrives(t, honestAnswer(t, mti, request.bytes))
				got := make([]byte, len(arrives))
				if _, err := io.ReadFull(c.conn, got); err != nil || !bytes.Equal(got, arrives) {
					t.Errorf("arrived: %q and %v\nwant     %q", got, err, arrives)
				}
				line := mti + " " + tt.journal
				if tt.journal == honest {
					line = request.done
				}
				want = append(want, line)
				want = append(want, checkEnd(t, c, tt.end)...)
				if tt.end != closed && tt.end != reset { // else it has ended by itself
					_ = c.conn.Close()
				}
				ended()
				if diff := cmp.Diff(want, lines(t, book)); diff != "" {
					t.Errorf("journal (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// checkEnd looks how a connection is, and returns the journal line of the frame
// that it sent for that.
func checkEnd(t *testing.T, c *client, want wireEnd) []string {
	t.Helper()
	next := encode(t, telegram.StatusRequest{TranID: id(2)})
	switch want {
	case goesOn:
		if got := c.status(id(2)); got.TranID != id(2) || got.Processed != processedNot {
			t.Errorf("the next frame is answered %+v", got)
		}
		return []string{"0400 NONE 0000"}
	case silent:
		c.send(next)
		if err := c.conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if n, err := c.conn.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read %d bytes and %v, want silence", n, err)
		}
		return []string{"0400 NONE "}
	case reset:
		if n, err := c.conn.Read(make([]byte, 1)); n > 0 || !isReset(err) {
			t.Errorf("read %d bytes and %v, want a reset", n, err)
		}
		return nil
	default:
		if n, err := c.conn.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
			t.Errorf("read %d bytes and %v, want the end", n, err)
		}
		if want == closed {
			return nil
		}
		c.send(next)
		return []string{"0400 NONE "}
	}
}

// Over a pipe nothing can be reset or half closed: it is closed.
func TestFault_ResetAndHalfCloseOfAPipeCloseIt(t *testing.T) {
	for _, action := range []FaultAction{FaultReset, FaultHalfClose} {
		bank, book := newBank(t, Rules{})
		faults := NewFaults()
		setFault(t, faults, Fault{Action: action})
		c := dial(t, NewServer(bank, Options{Faults: faults}))
		c.send(payment(t, id(1), alice, 1000))
		c.receiveEnd()
		wantJournal(t, book, "0100 DEBIT 0000")
	}
}

func TestFault_ResponseCodeAfterLeavesTheJudgementInTheJournal(t *testing.T) {
	bank, book := newBank(t, Rules{})
	if _, err := bank.PutAccount(alice, 0); err != nil {
		t.Fatal(err)
	}
	faults := NewFaults()
	setFault(t, faults, Fault{Action: FaultResponseCode, When: AfterExecution, ResponseCode: "0077"})
	if got := dial(t, NewServer(bank, Options{Faults: faults})).pay(id(1), alice, 1); got.ResponseCode != "0077" {
		t.Errorf("answered %s", got.ResponseCode)
	}
	wantJournal(t, book, "0100 NONE 0051")
}

func TestFault_ResponseCodeBeforeUsesThePaymentsIDAndOpensNoAccount(t *testing.T) {
	bank, book := newBank(t, Rules{})
	faults := NewFaults()
	setFault(t, faults, Fault{Action: FaultResponseCode, ResponseCode: "0077", Times: 1})
	c := dial(t, NewServer(bank, Options{Faults: faults}))
	for _, want := range []string{"0077", codeUsed} {
		if got := c.pay(id(1), alice, 1); got.ResponseCode != want {
			t.Errorf("answered %s, want %s", got.ResponseCode, want)
		}
	}
	if got := c.status(id(1)); got.Processed != processedNot {
		t.Errorf("processed is %s", got.Processed)
	}
	wantJournal(t, book, "0100 NONE 0077", "0100 NONE 0094", "0400 NONE 0000")
	if _, open := bank.state.balance(alice); open {
		t.Error("the account was opened")
	}
	if diff := diffStates(openBank(t, book, Rules{}).state, bank.state); diff != "" {
		t.Errorf("after a restart (-is +was):\n%s", diff)
	}
}
