package simulator

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/frame"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// dialListing connects a client to the listing port of a server by a pipe.
func dialListing(t *testing.T, s *Server) *client {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	near, far := net.Pipe()
	var served sync.WaitGroup
	served.Go(func() { s.ServeListingConn(ctx, far) })
	t.Cleanup(func() {
		cancel(errShutdown)
		_ = near.Close()
		served.Wait()
	})
	return &client{t: t, conn: near}
}

// receiveListing returns the next message of the listing port, prefix included.
func (c *client) receiveListing() []byte {
	c.t.Helper()
	prefix := make([]byte, telegram.PrefixLength)
	if _, err := io.ReadFull(c.conn, prefix); err != nil {
		c.t.Fatalf("receive a prefix: %v", err)
	}
	length, ok := frame.PrefixValue(prefix)
	if !ok {
		c.t.Fatalf("prefix %q", prefix)
	}
	b := slices.Grow(prefix, length)[:len(prefix)+length]
	if _, err := io.ReadFull(c.conn, b[len(prefix):]); err != nil {
		c.t.Fatalf("receive %d bytes: %v", length, err)
	}
	return b
}

func (c *client) history(n account.Number, from, to tranid.Date, most int64) telegram.HistoryAnswer {
	c.t.Helper()
	c.send(encode(c.t, telegram.HistoryRequest{Account: n, FromDate: from, ToDate: to, MaxCount: most}))
	return parse(c.t, telegram.ParseHistoryAnswer, c.receiveListing())
}

func (c *client) book(day tranid.Date, page int64) telegram.BookAnswer {
	c.t.Helper()
	c.send(encode(c.t, telegram.BookRequest{SettleDate: day, Page: page}))
	return parse(c.t, telegram.ParseBookAnswer, c.receiveListing())
}

// at is a clock that tests set.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func bankAt(t *testing.T, book Book, rules Rules, c *clock) *Bank {
	t.Helper()
	bank, err := Open(t.Context(), book, rules, c.now)
	if err != nil {
		t.Fatal(err)
	}
	return bank
}

func put(t *testing.T, bank *Bank, n account.Number, balance account.Won) {
	t.Helper()
	if _, err := bank.PutAccount(n, balance); err != nil {
		t.Fatal(err)
	}
}

// entry is a record of a history in short.
func entry(r telegram.HistoryRecord) string {
	return fmt.Sprintf("%d %s %s %d %d %s", r.Seq, r.Date, r.Type.Value, r.Amount, r.BalanceAfter, r.Summary.Value)
}

func wantHistory(t *testing.T, m telegram.HistoryAnswer, want ...string) {
	t.Helper()
	var got []string //nolint:prealloc // nil if there is nothing, as the wanted entries are
	for _, r := range m.Records {
		got = append(got, entry(r))
	}
	if diff := cmp.Diff(want, got); m.ResponseCode != codeDone || diff != "" {
		t.Errorf("code %s, history (-want +got):\n%s", m.ResponseCode, diff)
	}
}

func TestHistory_IsWhatHappenedNewestFirst(t *testing.T) {
	c := &clock{time.Date(2026, 3, 1, 23, 59, 0, 0, tranid.Seoul)}
	yesterday := tranid.DateOf(c.at)
	book := NewMemoryBook()
	bank := bankAt(t, book, Rules{}, c)
	server := NewServer(bank, Options{})
	put(t, bank, alice, 5000)
	core := dial(t, server)
	core.pay(id(1), alice, 1000)
	c.at = c.at.Add(2 * time.Minute) // another day
	core.pay(id(2), alice, 9999)     // declined
	core.cancel(id(1))
	core.cancel(id(3)) // a fence
	core.pay(id(4), bob, 1)
	put(t, bank, alice, 4800)
	put(t, bank, alice, 6000)

	all := []string{
		"1 2026-03-02 입금 1200 6000 잔액조정",
		"2 2026-03-02 출금 200 4800 잔액조정",
		"3 2026-03-02 입금 1000 5000 결제취소",
		"4 2026-03-01 출금 1000 4000 결제",
		"5 2026-03-01 입금 5000 5000 계좌개설",
	}
	for name, bank := range map[string]*Bank{"running": bank, "opened again": bankAt(t, book, Rules{}, c)} {
		t.Run(name, func(t *testing.T) {
			l := dialListing(t, NewServer(bank, Options{}))
			wantHistory(t, l.history(alice, yesterday, today, 181), all...)
			wantHistory(t, l.history(alice, today, today, 181), all[:3]...)
			wantHistory(t, l.history(alice, yesterday, yesterday, 1), "1 2026-03-01 출금 1000 4000 결제")
			wantHistory(t, l.history(alice, yesterday, today, 2), all[:2]...)
			wantHistory(t, l.history(alice, today, yesterday, 181))
			tomorrow := tranid.DateOf(c.at.AddDate(0, 0, 1))
			wantHistory(t, l.history(alice, tomorrow, tomorrow, 181))
			wantHistory(t, l.history(mustAccount("42"), yesterday, today, 181))
			if got := l.history(nobody, yesterday, today, 181); got.ResponseCode != codeNoAccount || got.Records != nil {
				t.Errorf("the all-zero account: %+v", got)
			}
			for _, most := range []int64{0, 182, 999} {
				if got := l.history(alice, yesterday, today, most); got.ResponseCode != codeUnable {
					t.Errorf("%d at most: code %s", most, got.ResponseCode)
				}
			}
		})
	}
}

func TestHistory_ThatNoFieldCanCarryIsDeclined(t *testing.T) {
	bank, _ := newBank(t, Rules{})
	put(t, bank, alice, MaxBalance)
	if got := dialListing(t, NewServer(bank, Options{})).history(alice, tranid.DateOf(time.Now().AddDate(0, 0, -1)), tranid.DateOf(time.Now().AddDate(0, 0, 1)), 1); got.ResponseCode != codeUnable {
		t.Errorf("answer %+v", got)
	}
}

func TestHistory_AClockThatIsSetBackMovesNothingIntoThePast(t *testing.T) {
	c := &clock{today.Start()}
	bank := bankAt(t, NewMemoryBook(), Rules{}, c)
	put(t, bank, alice, 10)
	c.at = c.at.Add(-time.Hour)
	put(t, bank, alice, 20)
	l := dialListing(t, NewServer(bank, Options{}))
	wantHistory(t, l.history(alice, today, today, 181), "1 2026-03-02 입금 10 20 잔액조정", "2 2026-03-02 입금 10 10 계좌개설")
}

func TestStatement_FindsTheNewestAcrossItsBlocks(t *testing.T) {
	var st statement
	for n := range 3 * blockSize {
		st.add(movement{day: tranid.DateOf(today.Start().AddDate(0, 0, n/100)), change: account.Won(n)})
	}
	day := tranid.DateOf(today.Start().AddDate(0, 0, 5))
	got := st.newest(day, day, 1000)
	if len(got) != 100 || got[0].change != 599 || got[99].change != 500 {
		t.Errorf("%d movements, from %d", len(got), got[0].change)
	}
}

// line is a record of a book in short.
func bookEntry(r telegram.BookRecord) string {
	return fmt.Sprintf("%s %s %d %s", r.TranID[13:], r.Account.Masked(), r.Amount, r.State)
}

func wantBook(t *testing.T, m telegram.BookAnswer, want ...string) {
	t.Helper()
	var got []string //nolint:prealloc // nil if there is nothing, as the wanted entries are
	for _, r := range m.Records {
		got = append(got, bookEntry(r))
	}
	if diff := cmp.Diff(want, got); m.ResponseCode != codeDone || diff != "" {
		t.Errorf("code %s, book (-want +got):\n%s", m.ResponseCode, diff)
	}
}

func TestBook_HasThePaymentsThatWereDoneUnderIDsOfTheDay(t *testing.T) {
	bank, book := newBank(t, Rules{})
	core := dial(t, NewServer(bank, Options{}))
	core.pay(id(3), alice, 300)
	core.pay(id(1), bob, 100)
	core.pay(id(2), alice, 200)
	core.cancel(id(2))
	core.pay(id(4), nobody, 1)        // declined
	core.cancel(id(5))                // a fence
	core.pay(id(5), alice, 1)         // refused by it
	core.pay(id(3), bob, 1)           // its ID is used
	core.pay("GWMNU-foreign", bob, 1) // an ID that bears no day
	yesterday := tranid.DateOf(today.Start().AddDate(0, 0, -1))
	core.pay(tranid.New(yesterday, tranid.MaxNumber), bob, 7)

	for name, bank := range map[string]*Bank{"running": bank, "opened again": openBank(t, book, Rules{})} {
		t.Run(name, func(t *testing.T) {
			l := dialListing(t, NewServer(bank, Options{}))
			wantBook(t, l.book(today, 0), "000000001 111122****3344 100 00", "000000002 123456****1234 200 99", "000000003 123456****1234 300 00")
			wantBook(t, l.book(today, 1))
			wantBook(t, l.book(today, 99_999_999))
			wantBook(t, l.book(yesterday, 0), "999999999 111122****3344 7 00")
			wantBook(t, l.book(tranid.DateOf(today.Start().AddDate(1, 0, 0)), 0))
		})
	}
}

func TestBook_OfACoreThatDebitsAgainTellsTheSum(t *testing.T) {
	bank, _ := newBank(t, Rules{NoDedupe: true})
	server := NewServer(bank, Options{})
	core, l := dial(t, server), dialListing(t, server)
	core.pay(id(1), alice, 100)
	core.pay(id(1), bob, 20)
	wantBook(t, l.book(today, 0), "000000001 123456****1234 120 00")
	core.cancel(id(1))
	wantBook(t, l.book(today, 0), "000000001 123456****1234 120 99")
	core.pay(id(1), bob, 20)
	wantBook(t, l.book(today, 0), "000000001 111122****3344 20 00")
}

// Pages are the sorted IDs cut into pieces, in whatever order payments come.
func TestBook_PagesAreTheSortedIDs(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		var book dayBook
		want := map[uint32]bool{}
		for range random.IntN(5000) {
			number := uint32(random.IntN(8000))
			if random.IntN(2) == 0 { // as instances with blocks of their own do
				number = uint32(len(want))
			}
			book.line(number).amount++
			want[number] = true
		}
		sorted := make([]uint32, 0, len(want))
		for number := range want {
			sorted = append(sorted, number)
		}
		slices.Sort(sorted)
		const size = telegram.BookAnswerMaxRecords
		for page := 0; ; page++ {
			got := book.page(int64(page)*size, size)
			start := min(page*size, len(sorted))
			part := sorted[start:min(start+size, len(sorted))]
			if !slices.EqualFunc(got, part, func(l bookLine, n uint32) bool { return l.number == n && l.amount > 0 }) {
				t.Fatalf("seed %d: page %d has %d lines, want %d", seed, page, len(got), len(part))
			}
			if len(got) < size {
				break
			}
		}
		for i, block := range book.blocks {
			if len(block) == 0 || len(block) > blockSize {
				t.Fatalf("seed %d: block %d has %d lines", seed, i, len(block))
			}
		}
	}
}

func TestListings_SayNothingBeforeTheBookHasIt(t *testing.T) {
	for name, q := range map[string]listing{
		"history": {request: request{mti: telegram.HistoryRequestMTI, account: alice}, from: today, to: today, most: 1},
		"book":    {request: request{mti: telegram.BookRequestMTI}, day: today},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bank, book := newGatedBank(t)
				var speaking sync.WaitGroup
				speaking.Go(func() { execute(t, bank, payOf(1)) })
				synctest.Wait()
				said := false
				speaking.Go(func() {
					if _, err := bank.list(q, ""); err != nil {
						t.Error(err)
					}
					said = true
				})
				synctest.Wait()
				if said {
					t.Error("it was said while the book was being written")
				}
				close(book.let)
				speaking.Wait()
			})
		})
	}
}

func TestListings_AreNoEntriesOfTheJournal(t *testing.T) {
	bank, book := newBank(t, Rules{})
	l := dialListing(t, NewServer(bank, Options{}))
	l.history(alice, today, today, 1)
	l.book(today, 0)
	wantJournal(t, book)
}

func TestListingPort_DropsWhatIsNoRequest(t *testing.T) {
	good := encode(t, telegram.BookRequest{SettleDate: today})
	for name, b := range map[string][]byte{
		"a frame of the link port":   payment(t, id(1), alice, 1),
		"letters for a prefix":       []byte("00x0"),
		"a prefix of nothing":        []byte("0000"),
		"a prefix of three bytes":    []byte("0003"),
		"a prefix beyond a request":  []byte("9999"),
		"an answer":                  encode(t, telegram.BookAnswer{SettleDate: today, ResponseCode: codeDone}),
		"another type":               append([]byte("00200510"), good[8:]...),
		"a request of another width": append([]byte("0016"), good[4:20]...),
		"a day that is none":         append([]byte("0020050020261301"), good[16:]...),
	} {
		t.Run(name, func(t *testing.T) {
			bank, book := newBank(t, Rules{})
			l := dialListing(t, NewServer(bank, Options{}))
			go func() { _, _ = l.conn.Write(b) }() // it may be dropped before it is whole
			l.receiveEnd()
			wantJournal(t, book)
		})
	}
}

func TestListingPort_TakesARequestByteByByte(t *testing.T) {
	bank, _ := newBank(t, Rules{})
	l := dialListing(t, NewServer(bank, Options{}))
	for _, b := range encode(t, telegram.BookRequest{SettleDate: today}) {
		l.send([]byte{b})
	}
	wantBook(t, parse(t, telegram.ParseBookAnswer, l.receiveListing()))
}
