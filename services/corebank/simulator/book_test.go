package simulator

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gwanmun/gwanmun/pkg/account"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

// forEachBook runs a test on every Book. Closing and opening again gives the
// same book.
func forEachBook(t *testing.T, test func(t *testing.T, book Book, reopen func() Book)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		book := NewMemoryBook()
		test(t, book, func() Book { return book })
	})
	t.Run("sqlite", func(t *testing.T) {
		path := newPath(t)
		book := openSQLite(t, path)
		test(t, book, func() Book {
			if err := book.Close(); err != nil {
				t.Fatal(err)
			}
			book = openSQLite(t, path)
			return book
		})
	})
}

// records is what a book tells, in order.
type records []any

func (r *records) Set(s Setting) error {
	*r = append(*r, s)
	return nil
}

func (r *records) Enter(e Entry) error {
	*r = append(*r, e)
	return nil
}

var compareAccounts = cmp.Comparer(func(a, b account.Number) bool { return a == b })

func TestBook_TellsWhatWasWrittenInItsOrder(t *testing.T) {
	at := time.Date(2026, 3, 2, 1, 2, 3, 456_789_000, time.UTC)
	open := Setting{Account: alice, Balance: 5000, At: at}
	paid := Entry{
		Sequence: 1, At: at, MTI: "0100", TranID: id(1), Account: alice, Amount: 1000, Effect: EffectDebit,
		ResponseCode: "0000", Connection: 7,
	}
	put := Setting{Account: alice, Balance: 9, After: 1, At: at}
	putAgain := Setting{Account: bob, Balance: 0, After: 1, At: at}
	fence := Entry{Sequence: 2, At: at, MTI: "0420", TranID: id(2), Effect: EffectFence, ResponseCode: "0000", Connection: 8}
	dropped := Entry{Sequence: 3, At: at, MTI: "0200", TranID: id(3), Account: bob, Effect: EffectNone, Connection: 8}
	last := Setting{Account: bob, Balance: MaxBalance, After: 3, At: at}

	forEachBook(t, func(t *testing.T, book Book, reopen func() Book) {
		for _, b := range []Batch{
			{Settings: []Setting{open}, Entries: []Entry{paid}},
			{Settings: []Setting{put, putAgain}},
			{Entries: []Entry{fence, dropped}},
		} {
			if err := book.Append(b); err != nil {
				t.Fatal(err)
			}
		}
		book = reopen()
		if err := book.Append(Batch{Settings: []Setting{last}}); err != nil {
			t.Fatal(err)
		}
		var got records
		if err := book.Replay(t.Context(), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(records{open, paid, put, putAgain, fence, dropped, last}, got, compareAccounts); diff != "" {
			t.Errorf("replay (-want +got):\n%s", diff)
		}
	})
}

func TestBook_PagesItsJournal(t *testing.T) {
	forEachBook(t, func(t *testing.T, book Book, _ func() Book) {
		const entries = 10
		all := make([]Entry, 0, entries)
		for n := range int64(entries) {
			mti := telegram.PaymentRequestMTI
			if n%2 == 1 {
				mti = telegram.StatusRequestMTI
			}
			all = append(all, Entry{
				Sequence: n + 1, At: time.Unix(n, 0).UTC(), MTI: mti, TranID: id(n / 5), Effect: EffectNone, ResponseCode: "0000",
			})
		}
		if err := book.Append(Batch{Entries: all}); err != nil {
			t.Fatal(err)
		}
		tests := []struct {
			name   string
			filter Filter
			want   []int64
			more   bool
		}{
			{"the first page", Filter{Limit: 4}, []int64{1, 2, 3, 4}, true},
			{"a page that is full and the last", Filter{After: 6, Limit: 4}, []int64{7, 8, 9, 10}, false},
			{"behind the end", Filter{After: 10, Limit: 4}, nil, false},
			{"of one transaction", Filter{TranID: id(1), Limit: 4}, []int64{6, 7, 8, 9}, true},
			{"of one type", Filter{MTI: "0400", After: 2, Limit: 4}, []int64{4, 6, 8, 10}, false},
			{"of both", Filter{TranID: id(0), MTI: "0400", Limit: 4}, []int64{2, 4}, false},
			{"of a transaction that is not there", Filter{TranID: id(9), Limit: 4}, nil, false},
		}
		for _, tt := range tests {
			page, err := book.Journal(t.Context(), tt.filter)
			if err != nil {
				t.Fatal(err)
			}
			var got []int64
			for _, e := range page.Entries {
				got = append(got, e.Sequence)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || page.More != tt.more {
				t.Errorf("%s: more is %t (-want +got):\n%s", tt.name, page.More, diff)
			}
		}
	})
}

func TestSQLiteBook_WritesABatchWholeOrNotAtAll(t *testing.T) {
	book := openSQLite(t, newPath(t))
	good := Entry{Sequence: 1, MTI: "0400", TranID: id(1), Effect: EffectNone, ResponseCode: "0000"}
	gap := Entry{Sequence: 3, MTI: "0400", TranID: id(1), Effect: EffectNone, ResponseCode: "0000"}
	if err := book.Append(Batch{Entries: []Entry{good, gap}}); err == nil {
		t.Error("a journal with a gap was written")
	}
	wantJournal(t, book)
	if err := book.Append(Batch{Entries: []Entry{good}}); err != nil {
		t.Errorf("after a refused batch: %v", err)
	}
}

func TestSQLiteBook_CannotBeEdited(t *testing.T) {
	path := newPath(t)
	book := openSQLite(t, path)
	bank := openBank(t, book, Rules{})
	execute(t, bank, request{mti: telegram.PaymentRequestMTI, tranID: id(1), account: alice, amount: 1000})
	for _, statement := range []string{
		"UPDATE journal SET amount_won = 0",
		"DELETE FROM journal",
		"REPLACE INTO journal SELECT * FROM journal",
		"UPDATE settings SET balance_won = 1",
		"DELETE FROM settings",
		"REPLACE INTO settings SELECT * FROM settings",
	} {
		if _, err := book.write.ExecContext(t.Context(), statement); err == nil {
			t.Errorf("%s was done", statement)
		}
	}
}

func TestOpenSQLite_MakesABookThatItsOwnerAloneCanRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "er", "book ü%20 #.db")
	book := openSQLite(t, path)
	bank := openBank(t, book, Rules{})
	execute(t, bank, request{mti: telegram.PaymentRequestMTI, tranID: id(1), account: alice, amount: 1000})
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Errorf("book%s: %v", suffix, err)
		} else if info.Mode().Perm() != 0o600 {
			t.Errorf("book%s has mode %o", suffix, info.Mode().Perm())
		}
	}
}

func TestOpenSQLite_RefusesASecondUserOfOneBook(t *testing.T) {
	path := newPath(t)
	book := openSQLite(t, path)
	if _, err := OpenSQLite(t.Context(), path); !errors.Is(err, ErrInUse) {
		t.Errorf("got %v", err)
	}
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
	openSQLite(t, path)
}

func TestOpenSQLite_RefusesWhatItDoesNotKnow(t *testing.T) {
	edit := func(t *testing.T, path, statement string) {
		t.Helper()
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("a newer book", func(t *testing.T) {
		path := newPath(t)
		if err := openSQLite(t, path).Close(); err != nil {
			t.Fatal(err)
		}
		edit(t, path, "PRAGMA user_version = 2")
		if _, err := OpenSQLite(t.Context(), path); !errors.Is(err, ErrNewer) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("another database", func(t *testing.T) {
		path := newPath(t)
		edit(t, path, "CREATE TABLE transactions (id INTEGER)")
		if _, err := OpenSQLite(t.Context(), path); !errors.Is(err, ErrNotBook) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a file that is no database", func(t *testing.T) {
		path := newPath(t)
		if err := os.WriteFile(path, []byte("a letter to the bank, of more than a hundred bytes, "+
			"so that it could be the header of a database and is not one"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenSQLite(t.Context(), path); err == nil {
			t.Error("it was opened")
		}
	})
	t.Run("a folder", func(t *testing.T) {
		if _, err := OpenSQLite(t.Context(), t.TempDir()); err == nil {
			t.Error("it was opened")
		}
	})
}

func TestOpen_RefusesABookThatContradictsItself(t *testing.T) {
	book := openSQLite(t, newPath(t))
	forged := Entry{
		Sequence: 1, MTI: "0100", TranID: id(1), Account: alice, Amount: 1000, Effect: EffectDebit, ResponseCode: "0000",
	}
	if err := book.Append(Batch{Entries: []Entry{forged}}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), book, Rules{}, time.Now); err == nil {
		t.Error("a debit of an account that was never opened was taken for true")
	}
}

func TestBank_GoesOutOfUseWhenTheDiskIsFull(t *testing.T) {
	path := newPath(t)
	book := openSQLite(t, path)
	bank := openBank(t, book, Rules{})
	if _, err := book.write.ExecContext(t.Context(), "PRAGMA max_page_count = 40"); err != nil {
		t.Fatal(err)
	}
	var answered account.Won
	for n := range int64(10_000) {
		_, err := bank.execute(request{mti: telegram.PaymentRequestMTI, tranID: id(n), account: alice, amount: 1})
		if err != nil {
			if !errors.Is(err, ErrBook) {
				t.Fatal(err)
			}
			break
		}
		answered++
	}
	select {
	case <-bank.Failed():
	default:
		t.Fatal("the disk never was full")
	}
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
	again := openBank(t, openSQLite(t, path), Rules{})
	if a, err := again.Account(alice); err != nil || a.Balance != opening(alice)-answered {
		t.Errorf("%d were answered, and the balance is %d short (%v)", answered, opening(alice)-a.Balance, err)
	}
}

func TestBank_IsWhatItWasWhenItsBookIsOpenedAgain(t *testing.T) {
	forEachBook(t, func(t *testing.T, book Book, reopen func() Book) {
		bank := openBank(t, book, Rules{NoDedupe: true})
		for _, q := range []request{
			{mti: telegram.PaymentRequestMTI, tranID: id(1), account: alice, amount: 1000},
			{mti: telegram.PaymentRequestMTI, tranID: id(1), account: bob, amount: 500},
			{mti: telegram.PaymentRequestMTI, tranID: id(2), account: alice, amount: 30},
			{mti: telegram.PaymentRequestMTI, tranID: id(3), account: alice, amount: account.MaxPayment},
			{mti: telegram.CancelRequestMTI, tranID: id(2)},
			{mti: telegram.CancelRequestMTI, tranID: id(4)},
			{mti: telegram.BalanceRequestMTI, tranID: id(5), account: accountPoor, refusal: codeFunds},
		} {
			execute(t, bank, q)
		}
		if _, err := bank.PutAccount(bob, 77); err != nil {
			t.Fatal(err)
		}
		if err := bank.abandon(request{mti: telegram.PaymentRequestMTI, tranID: id(6), account: bob, amount: 1}); err != nil {
			t.Fatal(err)
		}
		before := journal(t, book)
		book = reopen()
		again := openBank(t, book, Rules{})
		if diff := diffStates(bank.state, again.state); diff != "" {
			t.Errorf("state (-was +is):\n%s", diff)
		}
		if diff := cmp.Diff(before, journal(t, book), compareAccounts, cmp.Comparer(time.Time.Equal)); diff != "" {
			t.Errorf("journal (-was +is):\n%s", diff)
		}
		for _, want := range []struct {
			q    request
			code string
		}{
			{request{mti: telegram.PaymentRequestMTI, tranID: id(1), account: alice, amount: 1}, codeUsed},
			{request{mti: telegram.PaymentRequestMTI, tranID: id(3), account: alice, amount: 1}, codeUsed},
			{request{mti: telegram.PaymentRequestMTI, tranID: id(4), account: alice, amount: 1}, codeFenced},
			{request{mti: telegram.PaymentRequestMTI, tranID: id(6), account: alice, amount: 1}, codeDone},
		} {
			if d := execute(t, again, want.q); d.code != want.code {
				t.Errorf("%s: %s, want %s", want.q.tranID, d.code, want.code)
			}
		}
	})
}

func TestParseDSN_TakesASQLitePathAndNothingElse(t *testing.T) {
	for dsn, want := range map[string]string{
		"sqlite:var/book.db": "var/book.db", "sqlite:/tmp/a b.db": "/tmp/a b.db",
		"": "", "sqlite:": "", "var/book.db": "", "postgres://x:secret@y/z": "", "sqlite::memory:": "",
		"sqlite:x?mode=ro": "", "sqlite:\x00": "",
	} {
		got, err := ParseDSN(dsn)
		if got != want || (want == "") != errors.Is(err, ErrDSN) {
			t.Errorf("%q: got %q and %v", dsn, got, err)
		}
	}
}
