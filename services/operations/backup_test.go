package operations

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
	reconciliationv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/reconciliation/v1"

	"github.com/gwanmun/gwanmun/pkg/postgrestest"
)

const ledgerPath = root + "/docs/ledger.md"

const (
	// payers pay at once while a backup is made.
	payers = 4
	// paidAround is how many payments are made before a backup, and after it.
	paidAround = 40
)

// TestBackup_SQLiteWhilePaymentsRun copies the book as docs/operations.md says,
// while it is written, and goes on with the copy.
func TestBackup_SQLiteWhilePaymentsRun(t *testing.T) {
	t.Parallel()
	for name, copying := range map[string]string{"backup": ".backup '%s'", "vacuum": "VACUUM INTO '%s'"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sqlite := tool(t, "sqlite3")
			restoreWhilePaying(t, newBook(t, "sqlite"), func(b *book) *book {
				to := filepath.Join(t.TempDir(), "ledger.db")
				command(t, sqlite, b.path, ".timeout 10000", fmt.Sprintf(copying, to))
				command(t, "cp", "-p", b.path+".key", to+".key")
				return &book{path: to}
			})
		})
	}
}

// TestBackup_PostgreSQL does it with pg_dump and pg_restore.
func TestBackup_PostgreSQL(t *testing.T) {
	t.Parallel()
	b := newBook(t, "postgresql")
	dump, restore := tool(t, "pg_dump"), tool(t, "pg_restore")
	restoreWhilePaying(t, b, func(b *book) *book {
		file, to := filepath.Join(t.TempDir(), "ledger.dump"), postgrestest.DSN(t)
		command(t, dump, "--format=custom", "--file="+file, b.dsn)
		command(t, restore, "--exit-on-error", "--no-owner", "--dbname="+to, file)
		return &book{dsn: to}
	})
}

// tool finds a program in PATH or where Debian has those of PostgreSQL.
func tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name) // the pattern is right
	switch {
	case len(found) > 0:
		return found[len(found)-1]
	case os.Getenv("CI") != "":
		t.Fatalf("%s is not there", name)
	default:
		t.Skipf("SKIPPED, BACKUPS NOT TESTED: %s is not there", name)
	}
	return ""
}

func command(t testing.TB, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(name), err, out)
	}
}

// counter pays, many at once, and keeps what its callers were told is done.
type counter struct {
	t    testing.TB
	conn *grpc.ClientConn

	mu   sync.Mutex
	paid map[string]string // transaction IDs by key
	stop bool
}

// payOne pays under a key, and returns the transaction if it was made.
func payOne(conn *grpc.ClientConn, key string) (*paymentv1.CreatePaymentResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return paymentv1.NewPaymentServiceClient(conn).CreatePayment(ctx, &paymentv1.CreatePaymentRequest{
		IdempotencyKey: key, OrderId: "order-" + key, AccountNumber: "12345678901234", Amount: 10,
	})
}

func (c *counter) run(payer int) {
	for i := 0; ; i++ {
		key := fmt.Sprintf("key-%d-%d", payer, i)
		res, err := payOne(c.conn, key)
		c.mu.Lock()
		if err == nil {
			c.paid[key] = res.GetTransaction().GetTransactionId()
		}
		stop := c.stop
		c.mu.Unlock()
		if stop {
			return
		}
	}
}

// after waits until n more payments are made, and returns all that are.
func (c *counter) after(n int) map[string]string {
	before := -1
	var all map[string]string
	await(c.t, fmt.Sprintf("%d more payments", n), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if before < 0 {
			before = len(c.paid)
		}
		all = map[string]string{}
		for key, id := range c.paid {
			all[key] = id
		}
		return len(all) >= before+n
	})
	return all
}

// soon are limits under which what was under way is looked for at once.
var soon = []string{"--send-window=1s", "--deadline=2s", "--read-timeout=1s", "--adopt-margin=100ms"}

// restoreWhilePaying pays, makes a backup meanwhile, goes on for a while, and then
// has the services work on the backup.
func restoreWhilePaying(t *testing.T, b *book, backup func(b *book) *book) {
	today := withinADay(t).Format(time.DateOnly)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "var"), 0o700); err != nil {
		t.Fatal(err)
	}
	core := start(t, dir, "corebank", "corebank", "--frame-addr=127.0.0.1:0", "--listing-addr=127.0.0.1:0", "--book-dsn=sqlite:var/book.db")
	reach := []string{"--core-addr=" + core.address(t, "frame"), "--listing-addr=" + core.address(t, "listing")}
	first := start(t, dir, "payment", "payment", append(append(b.flags(t, ""), reach...), soon...)...)

	c := &counter{t: t, conn: dialGRPC(t, first), paid: map[string]string{}}
	var work sync.WaitGroup
	for payer := range payers {
		work.Go(func() { c.run(payer) })
	}
	before := c.after(paidAround)
	restored := backup(b)
	c.after(paidAround)
	c.mu.Lock()
	c.stop = true
	c.mu.Unlock()
	work.Wait()
	all := c.paid
	if code := first.terminate(t); code != 0 {
		t.Errorf("payment ends with %d", code)
	}

	restored = putBack(t, b, restored)
	audit(t, restored, today)
	flags := append(restored.flags(t, ""), reach...)
	reconciler := start(t, dir, "reconciler", "reconciler", append(flags, "--sweep-interval=200ms")...)
	known := resolved(t, dialGRPC(t, reconciler))
	lost := compare(t, before, all, known)
	settleDay(t, dialGRPC(t, reconciler), today, len(lost))
	audit(t, restored, today)

	second := start(t, dir, "payment-2", "payment", append(flags, soon...)...)
	payOn(t, dialGRPC(t, second), all, lost)
	refusesAnotherKey(t, dir, restored)
}

// putBack puts a restored file in the place of the lost one, as the page says; a
// database of PostgreSQL has a name of its own.
func putBack(t testing.TB, lost, restored *book) *book {
	t.Helper()
	if restored.path == "" {
		return restored
	}
	aside := t.TempDir()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		// The last two are there only after a crash.
		err := os.Rename(lost.path+suffix, filepath.Join(aside, "ledger.db"+suffix))
		if err != nil && (suffix == "" || !os.IsNotExist(err)) {
			t.Fatal(err)
		}
	}
	for _, suffix := range []string{"", ".key"} {
		if err := os.Rename(restored.path+suffix, lost.path+suffix); err != nil {
			t.Fatal(err)
		}
	}
	return lost
}

// resolved waits until nothing of the book is open, and returns its payments.
func resolved(t testing.TB, conn *grpc.ClientConn) map[string]ledgerv1.TransactionStatus {
	t.Helper()
	ledger := ledgerv1.NewLedgerServiceClient(conn)
	var known map[string]ledgerv1.TransactionStatus
	await(t, "all of the restored book is final", func() bool {
		known = map[string]ledgerv1.TransactionStatus{}
		open := 0
		for token, more := "", true; more; more = token != "" {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			page, err := ledger.ListTransactions(ctx, &ledgerv1.ListTransactionsRequest{PageSize: 500, PageToken: token})
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range page.GetTransactions() {
				known[row.GetTransactionId()] = row.GetStatus()
				if s := row.GetStatus(); s == ledgerv1.TransactionStatus_TRANSACTION_STATUS_REQUESTED || s == ledgerv1.TransactionStatus_TRANSACTION_STATUS_UNKNOWN {
					open++
				}
			}
			token = page.GetNextPageToken()
		}
		return open == 0
	})
	return known
}

// compare checks that the book has what was done before the backup began, and
// returns what it does not have, by key.
func compare(t testing.TB, before, all map[string]string, known map[string]ledgerv1.TransactionStatus) map[string]string {
	t.Helper()
	for key, id := range before {
		if known[id] != ledgerv1.TransactionStatus_TRANSACTION_STATUS_SUCCESS {
			t.Errorf("%s was done before the backup began, and is %s in it", key, known[id])
		}
	}
	lost, undone := map[string]string{}, 0
	for key, id := range all {
		switch status, has := known[id]; {
		case !has:
			lost[key] = id
		case status != ledgerv1.TransactionStatus_TRANSACTION_STATUS_SUCCESS:
			undone++ // it was under way when the backup was made, as the page warns
		}
	}
	if len(lost) == 0 || undone > payers {
		t.Errorf("of %d payments %d are not in the backup, and %d were undone", len(all), len(lost), undone)
	}
	t.Logf("of %d payments %d are not in the backup, and %d were undone", len(all), len(lost), undone)
	return lost
}

// settleDay runs the day: what was lost is at the core alone.
func settleDay(t testing.TB, conn *grpc.ClientConn, day string, lost int) {
	t.Helper()
	client := reconciliationv1.NewReconciliationServiceClient(conn)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	begun, err := client.RunSettlement(ctx, &reconciliationv1.RunSettlementRequest{BusinessDate: day})
	if err != nil {
		t.Fatal(err)
	}
	run := begun.GetRun()
	await(t, "the day is settled", func() bool {
		got, err := client.GetSettlementRun(ctx, &reconciliationv1.GetSettlementRunRequest{RunId: run.GetRunId()})
		if err != nil {
			t.Fatal(err)
		}
		run = got.GetRun()
		return run.GetState() != reconciliationv1.RunState_RUN_STATE_RUNNING
	})
	if run.GetState() != reconciliationv1.RunState_RUN_STATE_SUCCEEDED || run.GetCoreOnlyCount() != int64(lost) ||
		run.GetMismatchCount()+run.GetLedgerOnlyCount()+run.GetUnresolvedCount()+run.GetUnreadableCount() != 0 {
		t.Errorf("%d payments were lost, and the run is %v", lost, run)
	}
}

// payOn pays on the restored book: new IDs lie above all that were ever taken,
// known keys are recognised, and those that were lost pay again, as the page warns.
func payOn(t testing.TB, conn *grpc.ClientConn, all, lost map[string]string) {
	t.Helper()
	highest := ""
	for _, id := range all {
		highest = max(highest, id)
	}
	res, err := payOne(conn, "after-the-restore")
	if id := res.GetTransaction().GetTransactionId(); err != nil || id <= highest {
		t.Errorf("a new payment is %s after %s: %v", id, highest, err)
	}
	again := false
	for key, id := range all {
		_, isLost := lost[key]
		if again && isLost {
			continue
		}
		again = again || isLost
		res, err := payOne(conn, key)
		got := res.GetTransaction().GetTransactionId()
		if isLost && (err != nil || got == id || res.GetReplayed()) {
			t.Errorf("the lost key %s: %s in place of %s, replayed %v, %v", key, got, id, res.GetReplayed(), err)
		}
		if !isLost && err == nil && got != id {
			t.Errorf("the key %s pays again: %s after %s", key, got, id)
		}
	}
}

// refusesAnotherKey starts a service on the book under another hash key.
func refusesAnotherKey(t testing.TB, dir string, b *book) {
	t.Helper()
	flags := b.flags(t, "")
	flags = append(flags[:1:1], "--hash-key="+strings.Repeat("5a", 32))
	p := spawn(t, dir, "other-key", "payment", append(flags, anywhere...)...)
	if code := p.wait(t); code != 1 || !strings.Contains(p.text(t), "another hash key") {
		t.Errorf("under another hash key it ends with %d:\n%s", code, p.text(t))
	}
}

var auditQuery = regexp.MustCompile("(?s)<!-- (none|rows|any)(?:: ([a-z]+))? -->\n```sql\n(.*?)```")

// audit puts the queries of docs/ledger.md to the book: those that look for what
// must not be find nothing, and all can be asked.
func audit(t testing.TB, b *book, day string) {
	t.Helper()
	page, err := os.ReadFile(ledgerPath)
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, m := range auditQuery.FindAllStringSubmatch(string(page), -1) {
		if m[1] == "rows" && m[2] != "" && m[2] != b.kind() {
			continue
		}
		text := strings.TrimRight(strings.TrimSpace(strings.ReplaceAll(m[3], "2026-07-25", day)), ";")
		rows := query(t, b.open(t), text)
		if m[1] == "none" {
			asked++
			if len(rows) != 0 {
				t.Errorf("the restored book has what must not be (%s):\n%s", m[2], strings.Join(rows, "\n"))
			}
		}
	}
	if asked < 3 {
		t.Errorf("%d queries looked for what must not be", asked)
	}
}
