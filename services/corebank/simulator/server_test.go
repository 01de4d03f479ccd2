package simulator

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

func TestServeConn_ReadsSplitFrames(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, book *MemoryBook) {
		c := dial(t, s)
		for _, b := range payment(t, id(1), alice, 1000) {
			c.send([]byte{b})
			time.Sleep(100 * time.Millisecond)
		}
		if got := parse(t, telegram.ParsePaymentAnswer, c.receive()); got.ResponseCode != codeDone {
			t.Errorf("got %s", got.ResponseCode)
		}
		wantJournal(t, book, "0100 DEBIT 0000")
	})
}

func TestServeConn_AnswersGluedFramesInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, book *MemoryBook) {
		c := dial(t, s)
		glued := make([]byte, 0, 4*telegram.RequestLength)
		for n := range int64(3) {
			glued = append(glued, payment(t, id(n), alice, 1000)...)
		}
		glued = append(glued, encode(t, telegram.StatusRequest{TranID: id(1)})...)
		var sent sync.WaitGroup
		sent.Go(func() { c.send(glued) })
		for n := range int64(3) {
			if got := parse(t, telegram.ParsePaymentAnswer, c.receive()); got.TranID != id(n) {
				t.Errorf("answer %d is to %s", n, got.TranID)
			}
		}
		if got := parse(t, telegram.ParseStatusAnswer, c.receive()); got.Processed != processedStands {
			t.Errorf("processed is %s", got.Processed)
		}
		sent.Wait()
		wantJournal(t, book, "0100 DEBIT 0000", "0100 DEBIT 0000", "0100 DEBIT 0000", "0400 NONE 0000")
	})
}

func TestServeConn_DropsWhatIsNoFrameAndLogsNoAccount(t *testing.T) {
	good := payment(t, id(1), alice, 1000)
	change := func(at int, text string) []byte {
		bad := bytes.Clone(good)
		copy(bad[at:], text)
		return bad
	}
	shifted := append([]byte("x"), good[:len(good)-1]...) // the account where no field is
	tests := []struct {
		name string
		sent []byte
	}{
		{"an answer's type", change(0, "0110")},
		{"an unknown type", change(0, "0800")},
		{"no type at all", change(0, "\x00\x00\x00\x00")},
		{"letters in the account", change(26, "1234567890123X")},
		{"a sign in the amount", change(40, "-00000001000")},
		{"a space in the transaction ID", change(8, " ")},
		{"no transaction ID", change(4, strings.Repeat(" ", 22))},
		{"a frame out of step", shifted},
		{"a wrong tx_code", append(encode(t, telegram.StatusRequest{TranID: id(1)})[:26], change(26, "XX01")[26:]...)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bank, book := newBank(t, Rules{})
				var log bytes.Buffer
				s := NewServer(bank, Options{Logger: testLogger(&log)})
				c := dial(t, s)
				c.send(tt.sent)
				c.receiveEnd()
				synctest.Wait()
				wantJournal(t, book)
				if !strings.Contains(log.String(), `"level":"WARN"`) || !strings.Contains(log.String(), "no frame") {
					t.Errorf("no warning: %s", &log)
				}
				if strings.Contains(log.String(), string(alice.AppendDigits(nil))) {
					t.Errorf("the account is in the log: %s", &log)
				}
			})
		})
	}
}

func TestServeConn_ForgetsAFrameThatIsCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank, book := newBank(t, Rules{})
		var log bytes.Buffer
		c := dial(t, NewServer(bank, Options{Logger: testLogger(&log)}))
		c.send(payment(t, id(1), alice, 1000)[:51])
		_ = c.conn.Close()
		synctest.Wait()
		wantJournal(t, book)
		if !strings.Contains(log.String(), "cut short") {
			t.Errorf("no warning: %s", &log)
		}
	})
}

func TestServeConn_ClosesAConnectionThat(t *testing.T) {
	frame := payment(t, id(1), alice, 1000)
	tests := []struct {
		name string
		sent []byte
		took time.Duration
	}{
		{"is idle", nil, 10 * time.Minute},
		{"stops within a frame", frame[:20], 30 * time.Second},
		{"never reads its answer", frame, 10 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *Server, _ *MemoryBook) {
				near, far := net.Pipe()
				defer func() { _ = near.Close() }()
				var served sync.WaitGroup
				served.Go(func() { s.ServeConn(t.Context(), far) })
				start := time.Now()
				if _, err := near.Write(tt.sent); err != nil {
					t.Fatal(err)
				}
				served.Wait()
				if took := time.Since(start); took != tt.took {
					t.Errorf("closed after %v, want %v", took, tt.took)
				}
			})
		})
	}
}

func TestServeConn_NumbersConnections(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, book *MemoryBook) {
		for n := range int64(3) {
			dial(t, s).pay(id(n), alice, 1000)
		}
		for i, e := range journal(t, book) {
			if e.Connection != int64(i)+1 {
				t.Errorf("entry %d came on connection %d", i, e.Connection)
			}
		}
	})
}

// listen serves on a real port until the returned stop, which says how Serve
// ended.
func listen(t *testing.T, s *Server) (address string, stop func() error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	var once sync.Once
	var result error
	stop = func() error {
		once.Do(func() {
			cancel()
			result = <-ended
		})
		return result
	}
	t.Cleanup(func() { _ = stop() })
	return l.Addr().String(), stop
}

func dialTCP(t *testing.T, address string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &client{t: t, conn: conn}
}

func TestServe_AnswersOverTCPAndEndsIdleConnectionsAtShutdown(t *testing.T) {
	bank, _ := newBank(t, Rules{})
	address, stop := listen(t, NewServer(bank, Options{}))
	c := dialTCP(t, address)
	if got := c.pay(id(1), alice, 1000); got.ResponseCode != codeDone {
		t.Errorf("got %s", got.ResponseCode)
	}
	if err := stop(); err != nil {
		t.Errorf("serve: %v", err)
	}
	c.receiveEnd()
	if conn, err := net.Dial("tcp", address); err == nil {
		_ = conn.Close()
		t.Error("the port is still open")
	}
}

func TestServe_RefusesMoreConnectionsThanAllowed(t *testing.T) {
	bank, _ := newBank(t, Rules{})
	var log lockedBuffer
	address, _ := listen(t, NewServer(bank, Options{MaxConnections: 2, Logger: testLogger(&log)}))
	first, second := dialTCP(t, address), dialTCP(t, address)
	first.pay(id(1), alice, 1)
	second.pay(id(2), alice, 1)
	_, err := io.ReadAll(dialTCP(t, address).conn)
	if err != nil && !isReset(err) {
		t.Errorf("the third connection: %v", err)
	}
	if !strings.Contains(log.String(), "too many") {
		t.Errorf("no warning: %s", log.String())
	}
	second.pay(id(3), alice, 1) // the others live on
}

// brokenListener fails a few times, as without free descriptors, and then for
// good.
type brokenListener struct {
	net.Listener
	failures int
}

func (b *brokenListener) Accept() (net.Conn, error) {
	if b.failures--; b.failures < 0 {
		return nil, net.ErrClosed
	}
	return nil, errors.New("too many open files")
}

func (b *brokenListener) Close() error { return nil }

func TestServe_TriesAgainWhenAcceptFailsAndEndsWithItsListener(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, _ *MemoryBook) {
		l := &brokenListener{failures: 3}
		start := time.Now()
		if err := s.Serve(t.Context(), l); !errors.Is(err, net.ErrClosed) {
			t.Errorf("serve: %v", err)
		}
		if took := time.Since(start); l.failures != -1 || took != 35*time.Millisecond {
			t.Errorf("%d failures left after %v", l.failures, took)
		}
	})
}

// pipeListener accepts the connections that it is given, until it is closed.
type pipeListener struct {
	net.Listener
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipeListener) Close() error {
	close(p.closed)
	return nil
}

func TestServe_AnswersAtShutdownWhatIsBeingWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank, book := newGatedBank(t)
		s := NewServer(bank, Options{})
		near, far := net.Pipe()
		l := &pipeListener{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
		l.conns <- far
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ctx, l) }()
		c := &client{t: t, conn: near}
		c.send(payment(t, id(1), alice, 1000))
		synctest.Wait()
		stop()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("it has ended with %v, and an answer is due", err)
		default:
		}
		book.let <- nil
		if got := parse(t, telegram.ParsePaymentAnswer, c.receive()); got.ResponseCode != codeDone {
			t.Errorf("got %s", got.ResponseCode)
		}
		c.receiveEnd()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
}

// brokenBook cannot be written from some moment on.
type brokenBook struct {
	*MemoryBook
	mu     sync.Mutex
	broken bool
}

func (b *brokenBook) breakNow() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = true
}

func (b *brokenBook) Append(batch Batch) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken {
		return errors.New("no space left on device")
	}
	return b.MemoryBook.Append(batch)
}

func TestServe_SaysNothingMoreWhenTheBookCannotBeWritten(t *testing.T) {
	book := &brokenBook{MemoryBook: NewMemoryBook()}
	bank := openBank(t, book, Rules{})
	address, stop := listen(t, NewServer(bank, Options{}))
	c, other := dialTCP(t, address), dialTCP(t, address)
	c.pay(id(1), alice, 1000)
	other.pay(id(2), alice, 1000)
	book.breakNow()

	c.send(payment(t, id(3), alice, 1000))
	c.receiveEnd()
	other.receiveEnd() // Serve has ended by itself
	if err := stop(); !errors.Is(err, ErrBook) {
		t.Errorf("serve: %v", err)
	}
	if _, err := bank.execute(request{mti: telegram.StatusRequestMTI, tranID: id(3)}); !errors.Is(err, ErrBook) {
		t.Errorf("a decision after the failure: %v", err)
	}
	if _, err := bank.Account(alice); !errors.Is(err, ErrBook) {
		t.Errorf("a balance that is not in the book is shown: %v", err)
	}
	if _, err := bank.PutAccount(alice, 1); !errors.Is(err, ErrBook) {
		t.Errorf("a setting after the failure: %v", err)
	}
	wantJournal(t, book, "0100 DEBIT 0000", "0100 DEBIT 0000")

	again := openBank(t, book.MemoryBook, Rules{})
	if a, err := again.Account(alice); err != nil || a.Balance != opening(alice)-2000 {
		t.Errorf("after a restart there are %d won (%v)", a.Balance, err)
	}
}

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
