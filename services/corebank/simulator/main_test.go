package simulator

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/gwanmun/gwanmun/pkg/account"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childBookEnv); path != "" {
		runChild(path)
	}
	goleak.VerifyTestMain(m)
}

var (
	today = tranid.DateOf(time.Date(2026, 3, 2, 10, 0, 0, 0, tranid.Seoul))
	alice = mustAccount("12345678901234")
	bob   = mustAccount("11112222333344")
)

func id(n int64) tranid.ID { return tranid.New(today, n) }

// newBank is a bank in memory, and its book.
func newBank(t *testing.T, rules Rules) (*Bank, *MemoryBook) {
	t.Helper()
	book := NewMemoryBook()
	return openBank(t, book, rules), book
}

func openBank(t *testing.T, book Book, rules Rules) *Bank {
	t.Helper()
	bank, err := Open(t.Context(), book, rules, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return bank
}

func openSQLite(t *testing.T, path string) *SQLiteBook {
	t.Helper()
	book, err := OpenSQLite(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = book.Close() })
	return book
}

func newPath(t *testing.T) string { return filepath.Join(t.TempDir(), "book.db") }

// client is the gateway's end of a link.
type client struct {
	t    *testing.T
	conn net.Conn
}

// dial connects a client to a server by a pipe. The connection's goroutine has
// ended when the test does.
func dial(t *testing.T, s *Server) *client {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	near, far := net.Pipe()
	var served sync.WaitGroup
	served.Go(func() { s.ServeConn(ctx, far) })
	t.Cleanup(func() {
		cancel(errShutdown)
		_ = near.Close()
		served.Wait()
	})
	return &client{t: t, conn: near}
}

func (c *client) send(b []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(b); err != nil {
		c.t.Fatalf("send: %v", err)
	}
}

// receive returns the next 61 bytes.
func (c *client) receive() []byte {
	c.t.Helper()
	b := make([]byte, telegram.AnswerLength)
	if n, err := io.ReadFull(c.conn, b); err != nil {
		c.t.Fatalf("receive: %v after %d bytes", err, n)
	}
	return b
}

// receiveEnd fails unless the peer closes without another byte.
func (c *client) receiveEnd() {
	c.t.Helper()
	b, err := io.ReadAll(c.conn)
	if len(b) > 0 || err != nil && !errors.Is(err, io.ErrClosedPipe) {
		c.t.Fatalf("got %q and %v, want the end of the connection", b, err)
	}
}

func (c *client) pay(id tranid.ID, n account.Number, amount account.Won) telegram.PaymentAnswer {
	c.t.Helper()
	c.send(payment(c.t, id, n, amount))
	return parse(c.t, telegram.ParsePaymentAnswer, c.receive())
}

func (c *client) balance(id tranid.ID, n account.Number) telegram.BalanceAnswer {
	c.t.Helper()
	c.send(encode(c.t, telegram.BalanceRequest{TranID: id, Account: n}))
	return parse(c.t, telegram.ParseBalanceAnswer, c.receive())
}

func (c *client) status(id tranid.ID) telegram.StatusAnswer {
	c.t.Helper()
	c.send(encode(c.t, telegram.StatusRequest{TranID: id}))
	return parse(c.t, telegram.ParseStatusAnswer, c.receive())
}

func (c *client) cancel(id tranid.ID) telegram.CancelAnswer {
	c.t.Helper()
	c.send(encode(c.t, telegram.CancelRequest{TranID: id}))
	return parse(c.t, telegram.ParseCancelAnswer, c.receive())
}

func payment(t testing.TB, id tranid.ID, n account.Number, amount account.Won) []byte {
	t.Helper()
	return encode(t, telegram.PaymentRequest{TranID: id, Account: n, Amount: amount})
}

func encode(t testing.TB, m interface {
	AppendTo(dst []byte) ([]byte, error)
},
) []byte {
	t.Helper()
	b, err := m.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func parse[T any](t testing.TB, parse func([]byte) (T, error), b []byte) T {
	t.Helper()
	m, err := parse(b)
	if err != nil {
		t.Fatalf("parse %q: %v", b, err)
	}
	return m
}

// journal is all that a book holds.
func journal(t testing.TB, book Book) []Entry {
	t.Helper()
	var all []Entry
	for {
		f := Filter{Limit: MaxPage}
		if len(all) > 0 {
			f.After = all[len(all)-1].Sequence
		}
		page, err := book.Journal(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Entries...)
		if !page.More {
			return all
		}
	}
}

// line is an entry in short.
func line(e Entry) string { return e.MTI + " " + e.Effect.String() + " " + e.ResponseCode }

func lines(t testing.TB, book Book) []string {
	t.Helper()
	var short []string //nolint:prealloc // nil if there is nothing, as the wanted lines are
	for _, e := range journal(t, book) {
		short = append(short, line(e))
	}
	return short
}

func wantJournal(t testing.TB, book Book, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, lines(t, book)); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
}

func testLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// isReset reports whether a peer closed with bytes unread.
func isReset(err error) bool { return errors.Is(err, syscall.ECONNRESET) }
