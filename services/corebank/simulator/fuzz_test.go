package simulator

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/frame"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

// FuzzServeConn sends any bytes in pieces of any size: every frame up to the
// first that is none gets an answer and an entry, whatever the pieces, and then
// the connection ends.
func FuzzServeConn(f *testing.F) {
	paid := payment(f, id(1), alice, 1000)
	f.Add(paid, byte(52))
	f.Add(append(paid, paid...), byte(1))
	f.Add(append(paid, encode(f, telegram.CancelRequest{TranID: id(1)})...), byte(50))
	f.Add(append(encode(f, telegram.StatusRequest{TranID: id(1)}), "0100 what is this"...), byte(7))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a.bank.that.speaks.something.else\r\n\r\n"), byte(0))
	f.Fuzz(func(t *testing.T, sent []byte, piece byte) {
		want := wantFrames(sent)
		book := NewMemoryBook()
		bank, err := Open(t.Context(), book, Rules{NoDedupe: true}, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		s := NewServer(bank, Options{LateAnswer: time.Nanosecond})
		s.plan = func(request) plan { return plan{} } // habits have tests of their own
		near, far := net.Pipe()
		var served sync.WaitGroup
		served.Go(func() { s.ServeConn(t.Context(), far) })
		served.Go(func() { sendInPieces(near, sent, 1+int(piece)) })
		got := countAnswers(near, want)
		_ = near.Close()
		served.Wait()
		if got != want || len(book.entries) != want {
			t.Errorf("%d answers and %d entries for %d frames", got, len(book.entries), want)
		}
	})
}

func sendInPieces(conn net.Conn, b []byte, size int) {
	for len(b) > 0 {
		n := min(size, len(b))
		if _, err := conn.Write(b[:n]); err != nil {
			return // the server has hung up
		}
		b = b[n:]
	}
}

// countAnswers reads answers up to the expected number.
func countAnswers(conn net.Conn, want int) int {
	answer := make([]byte, telegram.AnswerLength)
	for n := range want {
		if _, err := io.ReadFull(conn, answer); err != nil {
			return n
		}
	}
	return want
}

// wantFrames counts the frames before the first thing that is none.
func wantFrames(b []byte) int {
	n := 0
	for ; len(b) >= telegram.RequestLength; b = b[telegram.RequestLength:] {
		if _, err := parseRequest(b[:telegram.RequestLength]); err != nil {
			if !errors.Is(err, errNotFrame) {
				panic(err)
			}
			break
		}
		n++
	}
	return n
}

// FuzzServeListingConn is the same for the listing port: every request up to the
// first that is none gets a whole answer.
func FuzzServeListingConn(f *testing.F) {
	history := encode(f, telegram.HistoryRequest{Account: alice, FromDate: today, ToDate: today, MaxCount: 1})
	book := encode(f, telegram.BookRequest{SettleDate: today})
	f.Add(history, byte(0))
	f.Add(append(history, book...), byte(1))
	f.Add(append(book, "9999"...), byte(3))
	f.Add(append(book, "0004____"...), byte(30))
	f.Add(payment(f, id(1), alice, 1000), byte(60))
	bank, err := Open(f.Context(), NewMemoryBook(), Rules{}, time.Now)
	if err != nil {
		f.Fatal(err)
	}
	if _, err := bank.execute(payOf(1)); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, sent []byte, piece byte) {
		want := wantListings(sent)
		near, far := net.Pipe()
		var served sync.WaitGroup
		served.Go(func() { NewServer(bank, Options{}).ServeListingConn(t.Context(), far) })
		served.Go(func() { sendInPieces(near, sent, 1+int(piece)) })
		c := &client{t: t, conn: near}
		for range want {
			b := c.receiveListing()
			if _, err := telegram.ParseBookAnswer(b); err != nil {
				_ = parse(t, telegram.ParseHistoryAnswer, b)
			}
		}
		_ = near.Close()
		served.Wait()
	})
}

// wantListings counts the requests before the first thing that is none.
func wantListings(b []byte) int {
	n := 0
	for len(b) >= telegram.PrefixLength {
		length, ok := frame.PrefixValue(b[:telegram.PrefixLength])
		length += telegram.PrefixLength
		if !ok || length > len(b) || length < 8 {
			break
		}
		if _, err := parseListing(b[:length]); err != nil {
			break
		}
		n++
		b = b[length:]
	}
	return n
}
