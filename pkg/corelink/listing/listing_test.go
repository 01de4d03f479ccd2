package listing_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/corelink/listing"
	"github.com/gwanmun/gwanmun/pkg/frame"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	today = tranid.DateOf(time.Date(2026, 11, 12, 0, 0, 0, 0, tranid.Seoul))
	first = tranid.DateOf(time.Date(2026, 11, 1, 0, 0, 0, 0, tranid.Seoul))
)

func number(t testing.TB, digits string) account.Number {
	t.Helper()
	n, err := account.Parse(digits)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// settings are those that the binaries start with.
func settings(addrs ...string) corelink.Flags {
	flags := listing.Flags{ListingAddr: addrs}
	return flags.Over(corelink.Flags{
		ReadTimeout: 3 * time.Second, ConnectTimeout: 2 * time.Second, PoolSize: 2, PoolWait: 500 * time.Millisecond,
		PoolIdleTTL: time.Minute,
	})
}

// newClient is a client over a link that is closed when the test ends.
func newClient(t testing.TB, flags corelink.Flags, dial corelink.Dialer) *listing.Client {
	t.Helper()
	link := corelink.New(corelink.Options{
		Flags: flags, Name: listing.Pool, Dial: dial, Now: time.Now, Metrics: corelink.NewMetrics(prometheus.NewRegistry()),
	})
	t.Cleanup(func() { _ = link.Close() })
	return listing.New(link, flags, time.Now)
}

// piped is a dialer to a core on a pipe, which does with each connection what
// behave says and then closes it.
func piped(behave func(conn net.Conn)) corelink.Dialer {
	return func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer func() { _ = far.Close() }()
			behave(far)
		}()
		return near, nil
	}
}

// answering takes one request and sends the answer in pieces of so many bytes,
// gap apart. It goes when the other side does.
func answering(answer []byte, size int, gap time.Duration) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := io.ReadFull(conn, make([]byte, telegram.BookRequestLength)); err != nil {
			return
		}
		for n, b := range slices.Collect(slices.Chunk(answer, size)) {
			if n > 0 {
				time.Sleep(gap)
			}
			if _, err := conn.Write(b); err != nil {
				return
			}
		}
		_, _ = io.Copy(io.Discard, conn)
	}
}

// page is a page of the book of today with so many payments.
func page(t testing.TB, count int) telegram.BookAnswer {
	t.Helper()
	m := telegram.BookAnswer{SettleDate: today, Page: 3, ResponseCode: frame.Done}
	for n := range count {
		m.Records = append(m.Records, telegram.BookRecord{
			TranID: tranid.New(today, int64(n)), Account: number(t, strconv.Itoa(n)), Amount: 1000, State: listing.StateDone,
		})
	}
	return m
}

func encoded(t testing.TB, m interface {
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

// with is a copy with other bytes at an offset.
func with(b []byte, offset int, text string) []byte {
	out := bytes.Clone(b)
	copy(out[offset:], text)
	return out
}

func TestBook_ReadsAPageHoweverItsBytesArrive(t *testing.T) {
	for _, count := range []int{0, 1, listing.PageSize} {
		for _, size := range []int{1, 3, 5, 1 << 20} {
			if count > 1 && size == 1 {
				size = 7
			}
			synctest.Test(t, func(t *testing.T) {
				client := newClient(t, settings("core:1"), piped(answering(encoded(t, page(t, count)), size, time.Microsecond)))
				got, err := client.Book(t.Context(), today, 3)
				if err != nil || len(got.Records) != count || got.Page != 3 {
					t.Fatalf("%d payments in pieces of %d: %d came, %v", count, size, len(got.Records), err)
				}
				for n, r := range got.Records {
					if r.TranID != tranid.New(today, int64(n)) || r.Account != number(t, strconv.Itoa(n)) {
						t.Fatalf("record %d is %+v", n, r)
					}
				}
			})
		}
	}
}

// Every way in which what comes is no listing. Nothing of it may be returned.
func TestBook_RefusesWhatIsNoListing(t *testing.T) {
	good := encoded(t, page(t, 2))
	changed := func(change func(*telegram.BookAnswer)) []byte {
		m := page(t, 2)
		change(&m)
		return encoded(t, m)
	}
	tests := map[string]struct {
		answer []byte
		want   error
	}{
		"prefix of letters":       {with(good, 0, "01x2"), corelink.ErrGarbage},
		"prefix of spaces":        {with(good, 0, "    "), corelink.ErrGarbage},
		"prefix with a sign":      {with(good, 0, "+132"), corelink.ErrGarbage},
		"prefix of zero":          {with(good, 0, "0000"), corelink.ErrGarbage},
		"prefix beyond any page":  {with(good, 0, "9999"), corelink.ErrGarbage},
		"prefix of one record":    {with(good, 0, "0082"), corelink.ErrGarbage},
		"no prefix":               {good[4:], corelink.ErrTimeout}, // the type is read as one
		"count of one record":     {with(good, 24, "001"), corelink.ErrGarbage},
		"count of three":          {with(good, 24, "003"), corelink.ErrGarbage},
		"total with the prefix":   {with(good, 27, "00136"), corelink.ErrGarbage},
		"another type":            {with(good, 4, "0310"), corelink.ErrGarbage},
		"the request":             {encoded(t, telegram.BookRequest{SettleDate: today, Page: 3}), corelink.ErrGarbage},
		"another day":             {changed(func(m *telegram.BookAnswer) { m.SettleDate = first }), corelink.ErrGarbage},
		"another page":            {changed(func(m *telegram.BookAnswer) { m.Page = 2 }), corelink.ErrGarbage},
		"IDs that descend":        {changed(func(m *telegram.BookAnswer) { m.Records[0], m.Records[1] = m.Records[1], m.Records[0] }), corelink.ErrGarbage},
		"an ID twice":             {changed(func(m *telegram.BookAnswer) { m.Records[1].TranID = m.Records[0].TranID }), corelink.ErrGarbage},
		"an ID of another day":    {changed(func(m *telegram.BookAnswer) { m.Records[1].TranID = tranid.New(first, 9) }), corelink.ErrGarbage},
		"an ID of another house":  {changed(func(m *telegram.BookAnswer) { m.Records[1].TranID = "X" }), corelink.ErrGarbage},
		"a state that is none":    {changed(func(m *telegram.BookAnswer) { m.Records[1].State = "01" }), corelink.ErrGarbage},
		"an amount of letters":    {with(good, 36+50+36, "x"), corelink.ErrGarbage},
		"a record cut short":      {good[:len(good)-1], corelink.ErrTimeout},
		"a header cut short":      {good[:20], corelink.ErrTimeout},
		"a prefix cut short":      {good[:3], corelink.ErrTimeout},
		"nothing":                 {nil, corelink.ErrTimeout},
		"a prefix of a full page": {with(good, 0, "9982"), corelink.ErrTimeout},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := newClient(t, settings("core:1"), piped(answering(tt.answer, 1<<20, 0)))
				got, err := client.Book(t.Context(), today, 3)
				if !errors.Is(err, tt.want) {
					t.Errorf("error %v, want %v", err, tt.want)
				}
				if got.Records != nil || got.ResponseCode != "" {
					t.Errorf("returned %+v beside the error", got)
				}
			})
		})
	}
}

func TestBook_ADeclineIsAnErrorOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := telegram.BookAnswer{SettleDate: today, Page: 3, ResponseCode: "0091"}
		client := newClient(t, settings("core:1"), piped(answering(encoded(t, m), 1<<20, 0)))
		_, err := client.Book(t.Context(), today, 3)
		var declined *listing.DeclinedError
		if !errors.As(err, &declined) || declined.Code != "0091" {
			t.Errorf("error %v", err)
		}
	})
}

func TestBook_WhatCannotBeAskedIsNotSent(t *testing.T) {
	client := newClient(t, settings("core:1"), func(context.Context, string, string) (net.Conn, error) {
		t.Error("dialed")
		return nil, io.EOF
	})
	for _, page := range []int64{-1, 1e8} {
		if _, err := client.Book(t.Context(), today, page); !errors.Is(err, frame.ErrEncode) {
			t.Errorf("page %d: %v", page, err)
		}
	}
	if _, err := client.Book(t.Context(), tranid.Date{}, 0); !errors.Is(err, frame.ErrEncode) {
		t.Errorf("no day: %v", err)
	}
}

// A peer that trickles gains no time by it, however much it says that it has.
func TestBook_ATricklingCoreCostsTheReadTimeout(t *testing.T) {
	for name, answer := range map[string][]byte{
		"a full page":      encoded(t, page(t, listing.PageSize)),
		"a prefix":         []byte("9"),
		"longer than told": bytes.Repeat([]byte("0"), 1<<16),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				client := newClient(t, settings("core:1"), piped(answering(answer, 1, 20*time.Millisecond)))
				_, err := client.Book(t.Context(), today, 3)
				if name == "longer than told" {
					// 0000 is read whole, and no byte more.
					if !errors.Is(err, corelink.ErrGarbage) || time.Since(start) > 100*time.Millisecond {
						t.Errorf("%v after %v", err, time.Since(start))
					}
					time.Sleep(time.Second) // the core wakes up, and goes
					return
				}
				if !errors.Is(err, corelink.ErrTimeout) || time.Since(start) != 3*time.Second {
					t.Errorf("%v after %v", err, time.Since(start))
				}
				time.Sleep(time.Second) // the core wakes up, and goes
			})
		})
	}
}

func TestBook_TheCallersDeadlineIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
		defer cancel()
		client := newClient(t, settings("core:1"), piped(func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }))
		_, err := client.Book(ctx, today, 3)
		if err == nil || time.Since(start) != 700*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// counted is taken out of open when it is closed.
type counted struct {
	net.Conn
	open chan struct{}
}

func (c counted) Close() error {
	<-c.open
	return c.Conn.Close()
}

// Each call has a connection of its own, and no more run at once than the pool
// has places.
func TestBook_AConnectionForEachCallAndNoMoreThanThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := encoded(t, page(t, 1))
		open, peak, dialed := make(chan struct{}, 100), 0, 0
		var mu sync.Mutex // two may dial at one instant
		dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
			mu.Lock()
			open <- struct{}{}
			dialed++
			peak = max(peak, len(open))
			mu.Unlock()
			conn, err := piped(func(conn net.Conn) {
				time.Sleep(300 * time.Millisecond)
				answering(answer, 1<<20, 0)(conn)
			})(ctx, network, addr)
			return counted{conn, open}, err
		}
		client := newClient(t, settings("core:1"), dial)
		errs := make(chan error)
		for range 5 {
			go func() {
				_, err := client.Book(t.Context(), today, 3)
				errs <- err
			}()
			synctest.Wait()
		}
		saturated := 0
		for range 5 {
			if err := <-errs; errors.Is(err, corelink.ErrSaturated) {
				saturated++
			} else if err != nil {
				t.Error(err)
			}
		}
		// Two at once; two more find a place within 500 ms, the fifth does not.
		if saturated != 1 || peak != 2 || dialed != 4 || len(open) != 0 {
			t.Errorf("%d of 5 found no place, %d at once, %d connections, %d left open", saturated, peak, dialed, len(open))
		}
	})
}

func TestHistory_WantsWhatWasAskedFor(t *testing.T) {
	alice := number(t, "11012345678901")
	record := telegram.HistoryRecord{Seq: 1, Date: today, Type: frame.Text{Value: "입금"}, Amount: 1, BalanceAfter: 1}
	good := telegram.HistoryAnswer{Account: alice, ResponseCode: frame.Done, Records: []telegram.HistoryRecord{record}}
	yesterday := record
	yesterday.Date = tranid.DateOf(first.Start().Add(-time.Second))
	tomorrow := record
	tomorrow.Date = tranid.DateOf(today.Start().AddDate(0, 0, 1))
	tests := map[string]struct {
		answer telegram.HistoryAnswer
		valid  bool
	}{
		"an entry":           {good, true},
		"no entry":           {telegram.HistoryAnswer{Account: alice, ResponseCode: frame.Done}, true},
		"a decline":          {telegram.HistoryAnswer{Account: alice, ResponseCode: "0001"}, true},
		"another account":    {telegram.HistoryAnswer{Account: number(t, "2"), ResponseCode: frame.Done}, false},
		"more than asked":    {telegram.HistoryAnswer{Account: alice, ResponseCode: frame.Done, Records: []telegram.HistoryRecord{record, record, record}}, false},
		"before the period":  {telegram.HistoryAnswer{Account: alice, ResponseCode: frame.Done, Records: []telegram.HistoryRecord{yesterday}}, false},
		"behind the period":  {telegram.HistoryAnswer{Account: alice, ResponseCode: frame.Done, Records: []telegram.HistoryRecord{tomorrow}}, false},
		"a decline to other": {telegram.HistoryAnswer{Account: number(t, "2"), ResponseCode: "0001"}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := make(chan []byte, 1)
				client := newClient(t, settings("core:1"), piped(func(conn net.Conn) {
					b := make([]byte, telegram.HistoryRequestLength)
					_, _ = io.ReadFull(conn, b)
					got <- b
					_, _ = conn.Write(encoded(t, tt.answer))
				}))
				answer, res := client.History(t.Context(), listing.Period{Account: alice, From: first, To: today, Max: 2},
					time.Now().Add(5*time.Second))
				if b := string(<-got); b != "0040"+"0300"+"11012345678901"+"20261101"+"20261112"+"002"+"   " {
					t.Errorf("the core was asked %q", b)
				}
				if res.Answered() != tt.valid || !tt.valid && !errors.Is(res.Err, corelink.ErrGarbage) {
					t.Errorf("answered %t, %v", res.Answered(), res.Err)
				}
				if tt.valid && answer.ResponseCode != tt.answer.ResponseCode || !tt.valid && answer.ResponseCode != "" {
					t.Errorf("answer %+v", answer)
				}
			})
		})
	}
}

func TestFlags_NameTheListingPort(t *testing.T) {
	for text, fine := range map[string]bool{"127.0.0.1:9097": true, "[::1]:1": true, "core": false, "core:0": false, "": false} {
		flags := listing.Flags{ListingAddr: []string{text}}
		if err := flags.Validate(); (err == nil) != fine {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := (&listing.Flags{}).Validate(); err == nil {
		t.Error("no address is taken")
	}
}
