package operations

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
)

// pair is two payment services on one ledger, of which one may be away.
type pair struct {
	mu    sync.Mutex
	conns [2]*grpc.ClientConn
}

func (p *pair) set(i int, conn *grpc.ClientConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[i] = conn
}

func (p *pair) get(i int) *grpc.ClientConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns[i%2]
}

// client pays until it is told to stop, each key until it is told that it is done,
// here or there.
type client struct {
	pair *pair
	stop <-chan struct{}
	paid map[string]string
	// done counts the payments of all clients.
	done *atomic.Int64
	// stuck is what a key was told at last that came to no end.
	stuck error
	// turns is how often it had to call again.
	turns int
}

func (c *client) run(name int) {
	again := time.NewTicker(look)
	defer again.Stop()
	for i := 0; ; i++ {
		select {
		case <-c.stop:
			return
		default:
		}
		key := fmt.Sprintf("key-%d-%d", name, i)
		for turn, since := name, time.Now(); ; turn++ {
			res, err := payOne(c.pair.get(turn), key)
			if err == nil {
				c.paid[key] = res.GetTransaction().GetTransactionId()
				c.done.Add(1)
				break
			}
			if time.Since(since) > patience {
				c.stuck = fmt.Errorf("%s: %w", key, err)
				return
			}
			c.turns++
			<-again.C
		}
	}
}

// TestUpgrade_OneAtATimeLosesNoCall replaces two payment services one after the
// other, as docs/operations.md says, while clients pay: each of them gets its
// answer, and no key pays twice.
func TestUpgrade_OneAtATimeLosesNoCall(t *testing.T) {
	t.Parallel()
	today := withinADay(t).Format(time.DateOnly)
	b, dir := newBook(t, "postgresql"), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "var"), 0o700); err != nil {
		t.Fatal(err)
	}
	core := start(t, dir, "corebank", "corebank", "--frame-addr=127.0.0.1:0", "--listing-addr=127.0.0.1:0", "--book-dsn=sqlite:var/book.db")
	flags := append(b.flags(t, ""), "--core-addr="+core.address(t, "frame"), "--listing-addr="+core.address(t, "listing"))

	var both pair
	var running [2]*process
	for i := range running {
		migrate := fmt.Sprintf("--migrate=%t", i == 0) // the first makes the tables
		running[i] = start(t, dir, fmt.Sprintf("payment-%d", i), "payment", append(flags, migrate)...)
		both.set(i, dialGRPC(t, running[i]))
	}
	stop := make(chan struct{})
	var paid atomic.Int64
	goOn := func() {
		begin := paid.Load()
		await(t, "payments go on", func() bool { return paid.Load() >= begin+paidAround })
	}
	clients := make([]*client, payers)
	var work sync.WaitGroup
	for name := range clients {
		clients[name] = &client{pair: &both, stop: stop, paid: map[string]string{}, done: &paid}
		work.Go(func() { clients[name].run(name) })
	}
	for i, old := range running {
		goOn()
		if code := old.terminate(t); code != 0 {
			t.Errorf("the one that is replaced ends with %d", code)
		}
		both.set(i, dialGRPC(t, start(t, dir, fmt.Sprintf("payment-%d-new", i), "payment", flags...)))
	}
	goOn()
	close(stop)
	work.Wait()

	ids, turns := map[string]bool{}, 0
	for _, c := range clients {
		turns += c.turns
		if c.stuck != nil {
			t.Error(c.stuck)
		}
		for _, id := range c.paid {
			ids[id] = true
		}
	}
	reconciler := start(t, dir, "reconciler", "reconciler", append(flags, "--sweep-interval=200ms")...)
	known := resolved(t, dialGRPC(t, reconciler))
	done := 0
	for id, status := range known {
		if status == ledgerv1.TransactionStatus_TRANSACTION_STATUS_SUCCESS {
			done++
			if !ids[id] {
				t.Errorf("%s was made, and nobody was told", id)
			}
		}
	}
	t.Logf("%d payments, %d calls were made again", done, turns)
	if done != len(ids) || done == 0 {
		t.Errorf("%d payments were made for %d keys", done, len(ids))
	}
	settleDay(t, dialGRPC(t, reconciler), today, 0)
	audit(t, b, today)
}

// TestHashKey_ANewKeyIsANewBook begins a second book with another key, as
// docs/operations.md says: IDs go on above the old ones, an account is found in
// each book, and the new one knows no key of the old one.
func TestHashKey_ANewKeyIsANewBook(t *testing.T) {
	t.Parallel()
	withinADay(t)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "var"), 0o700); err != nil {
		t.Fatal(err)
	}
	core := start(t, dir, "corebank", "corebank", "--frame-addr=127.0.0.1:0", "--listing-addr=127.0.0.1:0", "--book-dsn=sqlite:var/book.db")
	reach := []string{"--core-addr=" + core.address(t, "frame"), "--listing-addr=" + core.address(t, "listing")}
	highest := ""
	for _, name := range []string{"old", "new"} {
		p := start(t, dir, name, "payment", append(reach, "--ledger-dsn=sqlite:var/"+name+".db")...)
		conn := dialGRPC(t, p)
		res, err := payOne(conn, "a-key-of-both")
		if id := res.GetTransaction().GetTransactionId(); err != nil || id <= highest || res.GetReplayed() {
			t.Errorf("in the %s book the payment is %s after %q, replayed %v: %v", name, id, highest, res.GetReplayed(), err)
		}
		highest = res.GetTransaction().GetTransactionId()
		if found := ofAccount(t, conn, "12345678901234"); len(found) != 1 || found[0].GetTransactionId() != highest {
			t.Errorf("the %s book finds %v", name, found)
		}
		if code := p.terminate(t); code != 0 {
			t.Errorf("it ends with %d", code)
		}
	}
	if swapped, err := os.ReadFile(filepath.Join(dir, "var", "old.db.key")); err != nil || os.WriteFile(filepath.Join(dir, "var", "new.db.key"), swapped, 0o600) != nil {
		t.Fatal(err)
	}
	p := spawn(t, dir, "swapped", "payment", append(anywhere, "--ledger-dsn=sqlite:var/new.db")...)
	if code := p.wait(t); code != 1 {
		t.Errorf("with the old book's key the new book is opened: %d", code)
	}
}

// ofAccount finds the transactions of an account.
func ofAccount(t testing.TB, conn *grpc.ClientConn, number string) []*ledgerv1.Transaction {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	page, err := ledgerv1.NewLedgerServiceClient(conn).ListTransactions(ctx, &ledgerv1.ListTransactionsRequest{AccountNumber: &number})
	if err != nil {
		t.Fatal(err)
	}
	return page.GetTransactions()
}
