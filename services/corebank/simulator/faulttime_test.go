package simulator

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

// faulty runs a test of a server with one fault, in memory, under virtual time.
func faulty(t *testing.T, f Fault, test func(t *testing.T, s *Server, book *MemoryBook)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		bank, book := newBank(t, Rules{})
		faults := NewFaults()
		setFault(t, faults, f)
		test(t, NewServer(bank, Options{Faults: faults}), book)
	})
}

// arrivals are the times, from now on, at which bytes come, and how many.
func arrivals(t *testing.T, c *client, count int) (times []time.Duration, sizes []int) {
	t.Helper()
	begin := time.Now()
	for count > 0 {
		n, err := c.conn.Read(make([]byte, 2*telegram.AnswerLength))
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		times, sizes = append(times, time.Since(begin)), append(sizes, n)
		count -= n
	}
	return times, sizes
}

func TestFault_DelayBeforeHoldsTheFrameAndExecutesItForACallerThatIsGone(t *testing.T) {
	faulty(t, Fault{Action: FaultDelay, When: BeforeExecution, Delay: time.Hour}, func(t *testing.T, s *Server, book *MemoryBook) {
		stays, leaves := dial(t, s), dial(t, s)
		stays.send(payment(t, id(1), alice, 1000))
		leaves.send(payment(t, id(2), alice, 1000))
		_ = leaves.conn.Close()
		time.Sleep(time.Hour - 1)
		synctest.Wait()
		wantJournal(t, book)
		if times, _ := arrivals(t, stays, telegram.AnswerLength); times[0] != 1 {
			t.Errorf("answered %v after the hour", times[0]-1)
		}
		synctest.Wait()
		wantJournal(t, book, "0100 DEBIT 0000", "0100 DEBIT 0000")
	})
}

func TestFault_DelayAfterExecutesAtOnceAndAnswersLate(t *testing.T) {
	faulty(t, Fault{Action: FaultDelay, Delay: 7 * time.Second}, func(t *testing.T, s *Server, book *MemoryBook) {
		c := dial(t, s)
		c.send(payment(t, id(1), alice, 1000))
		synctest.Wait()
		wantJournal(t, book, "0100 DEBIT 0000")
		if times, _ := arrivals(t, c, telegram.AnswerLength); times[0] != 7*time.Second {
			t.Errorf("answered after %v", times[0])
		}
	})
}

func TestFault_SplitSendsPiecesThatAreAGapApart(t *testing.T) {
	faulty(t, Fault{Action: FaultSplit, Bytes: 25, Gap: 3 * time.Second}, func(t *testing.T, s *Server, _ *MemoryBook) {
		c := dial(t, s)
		c.send(payment(t, id(1), alice, 1000))
		times, sizes := arrivals(t, c, telegram.AnswerLength)
		for i, want := range []int{25, 25, 11} {
			if sizes[i] != want || times[i] != time.Duration(i)*3*time.Second {
				t.Errorf("piece %d: %d bytes after %v", i, sizes[i], times[i])
			}
		}
	})
}

func TestFault_QueuedPaymentIsNotFoundUntilItIsExecuted(t *testing.T) {
	queued := Fault{Action: FaultNotFoundWhileQueued, Delay: 30 * time.Second}
	faulty(t, queued, func(t *testing.T, s *Server, book *MemoryBook) {
		caller, asker := dial(t, s), dial(t, s)
		caller.send(payment(t, id(1), alice, 1000))
		_ = caller.conn.Close()
		synctest.Wait()
		if got := asker.status(id(1)); got.ResponseCode != codeDone || got.Processed != processedNot {
			t.Errorf("while queued: processed %s, code %s", got.Processed, got.ResponseCode)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if got := asker.status(id(1)); got.Processed != processedStands {
			t.Errorf("executed: processed %s", got.Processed)
		}
		wantJournal(t, book, "0400 NONE 0000", "0100 DEBIT 0000", "0400 NONE 0000")
	})
}

func TestFault_QueuedPaymentIsRefusedByAFenceSetMeanwhile(t *testing.T) {
	queued := Fault{Action: FaultNotFoundWhileQueued, Delay: 30 * time.Second}
	faulty(t, queued, func(t *testing.T, s *Server, book *MemoryBook) {
		caller := dial(t, s)
		caller.send(payment(t, id(1), alice, 1000))
		synctest.Wait()
		if got := dial(t, s).cancel(id(1)); got.CancelResult != cancelNone {
			t.Errorf("cancel result is %s", got.CancelResult)
		}
		if got := parse(t, telegram.ParsePaymentAnswer, caller.receive()); got.ResponseCode != codeFenced {
			t.Errorf("the late original: %s", got.ResponseCode)
		}
		wantJournal(t, book, "0420 FENCE 0000", "0100 NONE 0096")
	})
}

func TestFault_OneHeldConnectionDoesNotBlockOthers(t *testing.T) {
	slow := Fault{Action: FaultDelay, Delay: time.Hour, Account: alice}
	faulty(t, slow, func(t *testing.T, s *Server, _ *MemoryBook) {
		dial(t, s).send(payment(t, id(1), alice, 1000))
		begin := time.Now()
		dial(t, s).pay(id(2), bob, 1000)
		if took := time.Since(begin); took != 0 {
			t.Errorf("took %v", took)
		}
	})
}

func TestFault_SilentConnectionEndsWhenItIsIdle(t *testing.T) {
	faulty(t, Fault{Action: FaultBlackHole}, func(t *testing.T, s *Server, book *MemoryBook) {
		c := dial(t, s)
		c.send(payment(t, id(1), alice, 1000))
		time.Sleep(9 * time.Minute)
		c.send(payment(t, id(2), alice, 1000)) // not idle yet
		begin := time.Now()
		c.receiveEnd()
		if took := time.Since(begin); took != 10*time.Minute {
			t.Errorf("it ended after %v", took)
		}
		wantJournal(t, book, "0100 DEBIT 0000", "0100 NONE ")
	})
}

func TestFault_SilentConnectionDropsWhatIsNoFrame(t *testing.T) {
	faulty(t, Fault{Action: FaultBlackHole}, func(t *testing.T, s *Server, book *MemoryBook) {
		c := dial(t, s)
		c.send(payment(t, id(1), alice, 1000))
		c.send(bytes.Repeat([]byte("?"), telegram.RequestLength))
		c.receiveEnd()
		wantJournal(t, book, "0100 DEBIT 0000")
	})
}

func TestFault_ShutdownEndsWhatIsStruck(t *testing.T) {
	tests := []struct {
		name    string
		fault   Fault
		journal string
	}{
		{"held, and not done", Fault{Action: FaultDelay, When: BeforeExecution, Delay: time.Hour}, "0100 NONE "},
		{"queued, and not done", Fault{Action: FaultNotFoundWhileQueued, Delay: time.Hour}, "0100 NONE "},
		{"late", Fault{Action: FaultDelay, Delay: time.Hour}, "0100 DEBIT 0000"},
		{"silent", Fault{Action: FaultBlackHole}, "0100 DEBIT 0000"},
		{"in pieces", Fault{Action: FaultSplit, Bytes: 1, Gap: time.Minute}, "0100 DEBIT 0000"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			faulty(t, tt.fault, func(t *testing.T, s *Server, book *MemoryBook) {
				near, far := net.Pipe()
				ctx, stop := context.WithCancel(t.Context())
				var served sync.WaitGroup
				served.Go(func() { s.ServeConn(ctx, far) })
				c := &client{t: t, conn: near}
				c.send(payment(t, id(1), alice, 1000))
				var reading sync.WaitGroup
				reading.Go(func() {
					for {
						if _, err := near.Read(make([]byte, 1)); err != nil {
							return
						}
					}
				})
				synctest.Wait()
				begin := time.Now()
				stop()
				served.Wait()
				if took := time.Since(begin); took != 0 {
					t.Errorf("ended after %v", took)
				}
				reading.Wait()
				wantJournal(t, book, tt.journal)
			})
		})
	}
}

func TestFault_SilentConnectionEndsWhenTheBookCannotBeWritten(t *testing.T) {
	book := &brokenBook{MemoryBook: NewMemoryBook()}
	bank := openBank(t, book, Rules{})
	faults := NewFaults()
	setFault(t, faults, Fault{Action: FaultBlackHole, When: BeforeExecution})
	c := dial(t, NewServer(bank, Options{Faults: faults}))
	book.breakNow()
	c.send(payment(t, id(1), alice, 1000))
	c.receiveEnd()
	if !errors.Is(bank.Err(), ErrBook) {
		t.Errorf("the bank: %v", bank.Err())
	}
}

func TestFault_IsLoggedWithoutTheAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank, _ := newBank(t, Rules{})
		faults := NewFaults()
		set := setFault(t, faults, Fault{Action: FaultWrongEcho, Account: alice})
		var log bytes.Buffer
		dial(t, NewServer(bank, Options{Faults: faults, Logger: testLogger(&log)})).send(payment(t, id(1), alice, 1000))
		synctest.Wait()
		for _, want := range []string{"fault strikes", set.ID, "WRONG_ECHO", string(id(1))} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s is not in the log: %s", want, &log)
			}
		}
		if strings.Contains(log.String(), string(alice.AppendDigits(nil))) {
			t.Errorf("the account is in the log: %s", &log)
		}
	})
}
