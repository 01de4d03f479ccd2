package simulator

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	corelisting "github.com/gwanmun/gwanmun/pkg/corelink/listing"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

// BenchmarkServer measures frames over TCP, by book and number of connections.
func BenchmarkServer(b *testing.B) {
	books := map[string]func(b *testing.B) Book{
		"memory": func(*testing.B) Book { return NewMemoryBook() },
		"sqlite": func(b *testing.B) Book {
			book, err := OpenSQLite(b.Context(), b.TempDir()+"/book.db")
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = book.Close() })
			return book
		},
	}
	for name, open := range books {
		for _, connections := range []int{1, 16, 64, 256} {
			b.Run(fmt.Sprintf("%s/%d", name, connections), func(b *testing.B) {
				benchmarkServer(b, open(b), connections)
			})
		}
	}
}

func benchmarkServer(b *testing.B, book Book, connections int) {
	bank, err := Open(b.Context(), book, Rules{}, time.Now)
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = NewServer(bank, Options{}).Serve(b.Context(), l) })
	b.Cleanup(serving.Wait)

	conns := make([]net.Conn, connections)
	for i := range conns {
		if conns[i], err = net.Dial("tcp", l.Addr().String()); err != nil {
			b.Fatal(err)
		}
		defer func() { _ = conns[i].Close() }()
	}
	var next atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	var calling sync.WaitGroup
	for _, conn := range conns {
		calling.Go(func() {
			var frame []byte
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				frame, err := telegram.PaymentRequest{TranID: id(n), Account: alice, Amount: 1}.AppendTo(frame[:0])
				if err != nil || !exchange(conn, frame) {
					b.Error("no answer", err)
					return
				}
			}
		})
	}
	calling.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "frames/s")
}

// BenchmarkSQLiteBook_Append measures the cost of an entry by the size of its
// batch.
func BenchmarkSQLiteBook_Append(b *testing.B) {
	for _, size := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			book, err := OpenSQLite(b.Context(), b.TempDir()+"/book.db")
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = book.Close() }()
			entries := make([]Entry, size)
			var sequence int64
			b.ResetTimer()
			for b.Loop() {
				for i := range entries {
					sequence++
					entries[i] = Entry{
						Sequence: sequence, At: time.Unix(sequence, 0), MTI: telegram.PaymentRequestMTI, TranID: id(sequence),
						Account: alice, Amount: 1, Effect: EffectDebit, ResponseCode: codeDone, Connection: 1,
					}
				}
				if err := book.Append(Batch{Entries: entries}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(size), "us/entry")
		})
	}
}

// bookOfAMillion is a bank that did a million payments of a day, whose IDs came
// from several instances' blocks.
func bookOfAMillion(b *testing.B) (bank *Bank, pages int64) {
	b.Helper()
	const payments, blocks, instances = 1_000_000, 1000, 4
	bank, err := Open(b.Context(), NewMemoryBook(), Rules{}, time.Now)
	if err != nil {
		b.Fatal(err)
	}
	for block := int64(0); block < payments/blocks; block += instances {
		for n := range int64(blocks) {
			for instance := range int64(instances) {
				line := bank.state.bookOf(id((block+instance)*blocks + n))
				line.account, line.amount = alice, 1000
			}
		}
	}
	return bank, payments/telegram.BookAnswerMaxRecords + 1
}

// BenchmarkBank_BookPage measures the last full page of a day of a million
// payments.
func BenchmarkBank_BookPage(b *testing.B) {
	bank, pages := bookOfAMillion(b)
	b.ReportAllocs()
	for b.Loop() {
		q := listing{request: request{mti: telegram.BookRequestMTI}, day: today, page: pages - 2}
		if out, err := bank.list(q, ""); err != nil || len(out) != telegram.BookAnswerMaxLength {
			b.Fatal(len(out), err)
		}
	}
}

// BenchmarkServer_ReadBook measures a whole day of a million payments, page
// after page, as settlement reads it over TCP.
func BenchmarkServer_ReadBook(b *testing.B) {
	bank, pages := bookOfAMillion(b)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = NewServer(bank, Options{}).ServeListings(b.Context(), l) })
	b.Cleanup(serving.Wait)
	where := corelisting.Flags{ListingAddr: []string{l.Addr().String()}}
	flags := where.Over(corelink.Flags{ReadTimeout: 3 * time.Second, ConnectTimeout: 2 * time.Second, PoolSize: 1})
	link, err := corelink.NewTCP(flags, corelisting.Pool, corelink.NewMetrics(prometheus.NewRegistry()))
	if err != nil {
		b.Fatal(err)
	}
	client := corelisting.New(link, flags, time.Now)
	b.ReportAllocs()
	for b.Loop() {
		for page := range pages {
			if _, err := client.Book(b.Context(), today, page); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(pages)*float64(b.N)/b.Elapsed().Seconds(), "pages/s")
}

// BenchmarkBank_Debit measures a payment without the book's disk: what listings
// add to it is in it.
func BenchmarkBank_Debit(b *testing.B) {
	bank, err := Open(b.Context(), NewMemoryBook(), Rules{}, time.Now)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for n := int64(0); b.Loop(); n++ {
		if _, err := bank.execute(request{mti: telegram.PaymentRequestMTI, tranID: id(n), account: alice, amount: 1}); err != nil {
			b.Fatal(err)
		}
	}
}
