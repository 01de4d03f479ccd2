package simulator

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/frame"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

const late = 5 * time.Second

var (
	accountLate    = mustAccount("99999999999999")
	accountCloses  = mustAccount("88888888888888")
	accountGarbage = mustAccount("77777777777777")
	accountLetters = mustAccount("66666666666666")
	accountHolds   = mustAccount("55555555555555")
	accountDies    = mustAccount("44444444444444")
	accountDrips   = mustAccount("33333333333333")
	accountPoor    = mustAccount("22222222222222")
)

// inBubble runs a test of a server in memory under virtual time.
func inBubble(t *testing.T, test func(t *testing.T, s *Server, book *MemoryBook)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		bank, book := newBank(t, Rules{})
		test(t, NewServer(bank, Options{}), book)
	})
}

// forBoth runs a test with a payment from the account and with its balance
// inquiry; done is the journal line of one that was done.
func forBoth(
	t *testing.T, n account.Number,
	test func(t *testing.T, c *client, book *MemoryBook, request []byte, done string),
) {
	t.Helper()
	t.Run("payment", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *Server, book *MemoryBook) {
			test(t, dial(t, s), book, payment(t, id(1), n, 1000), "0100 DEBIT 0000")
		})
	})
	t.Run("balance", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *Server, book *MemoryBook) {
			request := encode(t, telegram.BalanceRequest{TranID: id(1), Account: n})
			test(t, dial(t, s), book, request, "0200 NONE 0000")
		})
	})
}

// parseAnswer reads an answer to either request.
func parseAnswer(request, answer []byte) error {
	var err error
	if telegram.MTI(request) == telegram.PaymentRequestMTI {
		_, err = telegram.ParsePaymentAnswer(answer)
	} else {
		_, err = telegram.ParseBalanceAnswer(answer)
	}
	return err
}

func TestHabit_LateAccountIsDoneAtOnceAndAnsweredLate(t *testing.T) {
	forBoth(t, accountLate, func(t *testing.T, c *client, book *MemoryBook, request []byte, done string) {
		start := time.Now()
		c.send(request)
		synctest.Wait()
		wantJournal(t, book, done)
		if err := parseAnswer(request, c.receive()); err != nil {
			t.Error(err)
		}
		if waited := time.Since(start); waited != late {
			t.Errorf("answered after %v, want %v", waited, late)
		}
	})
}

func TestHabit_ClosingAccountIsNotDone(t *testing.T) {
	forBoth(t, accountCloses, func(t *testing.T, c *client, book *MemoryBook, request []byte, _ string) {
		c.send(request)
		c.receiveEnd()
		wantJournal(t, book, telegram.MTI(request)+" NONE ")
	})
}

func TestHabit_ClosingAccountDoesNotUseTheID(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, _ *MemoryBook) {
		c := dial(t, s)
		c.send(payment(t, id(1), accountCloses, 1000))
		c.receiveEnd()
		c = dial(t, s)
		if got := c.status(id(1)); got.Processed != processedNot {
			t.Errorf("processed is %s", got.Processed)
		}
		if got := c.pay(id(1), alice, 1000); got.ResponseCode != codeDone {
			t.Errorf("another payment under the ID: %s", got.ResponseCode)
		}
	})
}

func TestHabit_GarbageAccountIsDone(t *testing.T) {
	forBoth(t, accountGarbage, func(t *testing.T, c *client, book *MemoryBook, request []byte, done string) {
		c.send(request)
		if err := parseAnswer(request, c.receive()); !errors.Is(err, frame.ErrDecode) {
			t.Errorf("parsing the answer: %v", err)
		}
		wantJournal(t, book, done)
	})
}

func TestHabit_LettersAccountIsDoneAndSaysLettersWhereDigitsBelong(t *testing.T) {
	forBoth(t, accountLetters, func(t *testing.T, c *client, book *MemoryBook, request []byte, done string) {
		c.send(request)
		var field *frame.FieldError
		if err := parseAnswer(request, c.receive()); !errors.As(err, &field) || field.Reason != frame.ReasonNotDigits {
			t.Errorf("parsing the answer: %v", err)
		} else if field.Field != "balance" && field.Field != "approval_no" {
			t.Errorf("the letters are in %s", field.Field)
		}
		wantJournal(t, book, done)
	})
}

func TestHabit_LettersAccountDeclinesHonestly(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, _ *MemoryBook) {
		c := dial(t, s)
		request := payment(t, id(1), accountLetters, 1000)
		c.send(request)
		c.receive()
		c.send(request)
		answer := c.receive()
		if got := parse(t, telegram.ParsePaymentAnswer, answer); got.ResponseCode != codeUsed {
			t.Errorf("got %s", got.ResponseCode)
		}
		number := answerFields[telegram.PaymentAnswerMTI]["approval_no"]
		if got := string(number.of(answer)); got != strings.Repeat("0", number.width) {
			t.Errorf("the approval number of a decline is %q", got)
		}
	})
}

func TestHabit_HeldAccountIsDoneLate(t *testing.T) {
	forBoth(t, accountHolds, func(t *testing.T, c *client, book *MemoryBook, request []byte, done string) {
		start := time.Now()
		c.send(request)
		synctest.Wait()
		wantJournal(t, book)
		if err := parseAnswer(request, c.receive()); err != nil {
			t.Error(err)
		}
		wantJournal(t, book, done)
		if waited := time.Since(start); waited != late {
			t.Errorf("answered after %v, want %v", waited, late)
		}
	})
}

func TestHabit_HeldPaymentIsDoneWhenTheCallerIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, book *MemoryBook) {
		gone, c := dial(t, s), dial(t, s)
		gone.send(payment(t, id(1), accountHolds, 1000))
		_ = gone.conn.Close()
		synctest.Wait()
		if got := c.status(id(1)); got.Processed != processedNot || got.ResponseCode != codeDone {
			t.Errorf("while it is held: processed %s, code %s", got.Processed, got.ResponseCode)
		}
		time.Sleep(late)
		synctest.Wait()
		if got := c.status(id(1)); got.Processed != processedStands {
			t.Errorf("after it was held: processed %s", got.Processed)
		}
		wantJournal(t, book, "0400 NONE 0000", "0100 DEBIT 0000", "0400 NONE 0000")
	})
}

func TestHabit_HeldPaymentIsRefusedByAFenceSetMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, book *MemoryBook) {
		held, c := dial(t, s), dial(t, s)
		held.send(payment(t, id(1), accountHolds, 1000))
		synctest.Wait()
		if got := c.cancel(id(1)); got.CancelResult != cancelNone {
			t.Errorf("cancel result is %s", got.CancelResult)
		}
		if got := parse(t, telegram.ParsePaymentAnswer, held.receive()); got.ResponseCode != codeFenced {
			t.Errorf("the late original: %s", got.ResponseCode)
		}
		wantJournal(t, book, "0420 FENCE 0000", "0100 NONE 0096")
		if got := c.balance(id(2), accountHolds); got.Balance != opening(accountHolds) {
			t.Errorf("balance is %d", got.Balance)
		}
	})
}

func TestHabit_DyingAccountIsDone(t *testing.T) {
	forBoth(t, accountDies, func(t *testing.T, c *client, book *MemoryBook, request []byte, done string) {
		c.send(request)
		c.receiveEnd()
		wantJournal(t, book, done)
	})
}

func TestHabit_DrippingAccountAnswersByteByByte(t *testing.T) {
	forBoth(t, accountDrips, func(t *testing.T, c *client, book *MemoryBook, request []byte, done string) {
		c.send(request)
		start := time.Now()
		answer := make([]byte, 0, telegram.AnswerLength)
		for i := range telegram.AnswerLength {
			b := make([]byte, telegram.AnswerLength)
			n, err := c.conn.Read(b)
			if n != 1 || err != nil {
				t.Fatalf("byte %d: read %d bytes and %v", i, n, err)
			}
			if at := time.Since(start); at != time.Duration(i)*dripGap {
				t.Fatalf("byte %d came after %v", i, at)
			}
			answer = append(answer, b[0])
		}
		if err := parseAnswer(request, answer); err != nil {
			t.Error(err)
		}
		wantJournal(t, book, done)
	})
}

func TestHabit_PoorAccountDeclines(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, book *MemoryBook) {
		c := dial(t, s)
		if got := c.pay(id(1), accountPoor, 1); got.ResponseCode != codeFunds {
			t.Errorf("payment: %s", got.ResponseCode)
		}
		if got := c.balance(id(2), accountPoor); got.ResponseCode != codeFunds {
			t.Errorf("balance: %s", got.ResponseCode)
		}
		wantJournal(t, book, "0100 NONE 0051", "0200 NONE 0051")
	})
}

func TestHabit_HeldConnectionDoesNotBlockOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, _ *MemoryBook) {
		for n, habit := range []account.Number{accountHolds, accountLate, accountDrips} {
			dial(t, s).send(payment(t, id(int64(n)), habit, 1000))
		}
		start := time.Now()
		dial(t, s).pay(id(9), alice, 1000)
		if waited := time.Since(start); waited != 0 {
			t.Errorf("waited %v", waited)
		}
	})
}

func TestServeConn_ShutdownEndsHeldAndLateOnesAtOnce(t *testing.T) {
	tests := []struct {
		name    string
		account account.Number
		journal string
	}{
		{"held, and not done", accountHolds, "0100 NONE "},
		{"late", accountLate, "0100 DEBIT 0000"},
		{"dripping", accountDrips, "0100 DEBIT 0000"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *Server, book *MemoryBook) {
				near, far := net.Pipe()
				ctx, stop := context.WithCancel(t.Context())
				var served sync.WaitGroup
				served.Go(func() { s.ServeConn(ctx, far) })
				var received sync.WaitGroup
				if _, err := near.Write(payment(t, id(1), tt.account, 1000)); err != nil {
					t.Fatal(err)
				}
				received.Go(func() { _, _ = io.Copy(io.Discard, near) })
				start := time.Now()
				time.Sleep(time.Millisecond)
				stop()
				served.Wait()
				if took := time.Since(start); took != time.Millisecond {
					t.Errorf("ended after %v", took)
				}
				received.Wait()
				wantJournal(t, book, tt.journal)
			})
		})
	}
}
