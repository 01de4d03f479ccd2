package hardening

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
	simulatorv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/simulator/v1"
)

const (
	// callsASecond is how fast payments come, whether or not those before have
	// ended.
	callsASecond = 200
	// slowEvery is which of them go to the account whose answer is late.
	slowEvery = 10
	// paidBefore is how many have been answered when the stop begins.
	paidBefore = 150
	// watchers is how many streams are open meanwhile.
	watchers = 20

	slowAccount     = "99999999999999"
	ordinaryAccount = "12345678901234"
)

// ordinary is a payment; of every slowEvery-th the answer is late.
func ordinary(prefix string, n int) *paymentv1.CreatePaymentRequest {
	number := ordinaryAccount
	if n%slowEvery == slowEvery-1 {
		number = slowAccount
	}
	return &paymentv1.CreatePaymentRequest{IdempotencyKey: fmt.Sprintf("%s-%d", prefix, n), AccountNumber: number, Amount: 1}
}

// told is what the caller of a payment learned.
type told struct {
	key, id, reason string
	code            codes.Code
}

// rush is payments at a steady rate, and what their callers were told.
type rush struct {
	quit chan struct{}
	paid atomic.Int64
	ends sync.WaitGroup

	mu   sync.Mutex
	told []told
}

// startRush begins to pay.
func startRush(t *testing.T, client paymentv1.PaymentServiceClient) *rush {
	t.Helper()
	r := &rush{quit: make(chan struct{})}
	r.ends.Go(func() {
		tick := time.NewTicker(time.Second / callsASecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-tick.C:
			case <-r.quit:
				return
			}
			r.ends.Go(func() { r.pay(client, ordinary("rush", n)) })
		}
	})
	return r
}

func (r *rush) pay(client paymentv1.PaymentServiceClient, req *paymentv1.CreatePaymentRequest) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := client.CreatePayment(ctx, req)
	one := told{key: req.GetIdempotencyKey(), id: resp.GetTransaction().GetTransactionId(), code: status.Code(err)}
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			one.reason = d.GetReason()
		case *ledgerv1.Transaction:
			one.id = d.GetTransactionId()
		}
	}
	r.mu.Lock()
	r.told = append(r.told, one)
	r.mu.Unlock()
	if err == nil {
		r.paid.Add(1)
	}
}

// stop ends it and waits until every caller has been told.
func (r *rush) stop() {
	close(r.quit)
	r.ends.Wait()
}

// books are the rows of a ledger and what the core did, by transaction ID.
type books struct {
	rows map[string]*ledgerv1.Transaction
	// debits is how many there were in the core.
	debits map[string]int
}

// read reads all of both.
func read(t *testing.T, p, core *process) books {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	b := books{rows: map[string]*ledgerv1.Transaction{}, debits: map[string]int{}}
	rows := ledgerv1.NewLedgerServiceClient(p.dial(t))
	for token := ""; ; {
		page, err := rows.ListTransactions(ctx, &ledgerv1.ListTransactionsRequest{PageSize: 500, PageToken: token})
		if err != nil {
			t.Fatalf("read the ledger: %v", err)
		}
		for _, row := range page.GetTransactions() {
			b.rows[row.GetTransactionId()] = row
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	journal := simulatorv1.NewSimulatorServiceClient(core.dial(t))
	for token := ""; ; {
		page, err := journal.ListJournal(ctx, &simulatorv1.ListJournalRequest{PageSize: 500, PageToken: token})
		if err != nil {
			t.Fatalf("read the journal: %v", err)
		}
		for _, entry := range page.GetEntries() {
			if entry.GetEffect() == simulatorv1.JournalEffect_JOURNAL_EFFECT_DEBIT {
				b.debits[entry.GetTransactionId()]++
			}
		}
		if token = page.GetNextPageToken(); token == "" {
			return b
		}
	}
}

// check holds what the callers were told against the books, and the books against
// each other.
func (b books) check(t *testing.T, all []told) {
	t.Helper()
	count := map[string]int{}
	for _, one := range all {
		row := b.rows[one.id]
		count[one.code.String()+" "+one.reason]++
		switch {
		case one.code == codes.OK && (row.GetStatus() != ledgerv1.TransactionStatus_TRANSACTION_STATUS_SUCCESS || b.debits[one.id] != 1):
			t.Errorf("%s was answered SUCCESS; the row is %v, %d debits", one.key, row, b.debits[one.id])
		case one.id != "" && row == nil:
			t.Errorf("%s was told of %s, which is no row", one.key, one.id)
		case one.reason == "OUTCOME_UNKNOWN" && row.GetStatus() != ledgerv1.TransactionStatus_TRANSACTION_STATUS_UNKNOWN:
			t.Errorf("%s was answered UNKNOWN; the row is %v", one.key, row)
		}
	}
	for id, row := range b.rows {
		if row.GetStatus() == ledgerv1.TransactionStatus_TRANSACTION_STATUS_REQUESTED {
			t.Errorf("%s was left REQUESTED", id)
		}
		if row.GetStatus() == ledgerv1.TransactionStatus_TRANSACTION_STATUS_FAILED && b.debits[id] != 0 {
			t.Errorf("%s is FAILED and debited", id)
		}
	}
	for id := range b.debits {
		if b.rows[id] == nil {
			t.Errorf("the core has debited %s, which is no row", id)
		}
	}
	t.Logf("%d payments were answered: %v; %d rows", len(all), count, len(b.rows))
}

// watch follows a payment that does not end, until the service sends it away.
func watch(t *testing.T, client paymentv1.PaymentServiceClient, id string) <-chan error {
	t.Helper()
	stream, err := client.WatchPayment(context.Background(), &paymentv1.WatchPaymentRequest{TransactionId: id})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatalf("watch %s: %v", id, err)
	}
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := stream.Recv(); err != nil {
				ended <- err
				return
			}
		}
	}()
	return ended
}

// TestSIGTERM_AtTwoHundredCallsASecondLosesNothing stops a payment service in the
// middle of a rush at a core some of whose answers are late, with streams open.
// Nobody resolves anything: what is in the books is what the service left.
func TestSIGTERM_AtTwoHundredCallsASecondLosesNothing(t *testing.T) {
	for name, open := range map[string]func(testing.TB) ledger{"sqlite": newSQLite, "postgresql": newPostgreSQL} {
		t.Run(name, func(t *testing.T) {
			const budget = 10 * time.Second
			core, l := startCore(t, "--late-answer=3s"), open(t)
			observer := spawn(t, "payment", behind(t, core, l)...)
			p := spawn(t, "payment", behind(t, core, l, "--read-timeout=2s", "--pool-size=64", "--shutdown-timeout="+budget.String(),
				"--circuit-window=10000", "--circuit-min-calls=10000")...)
			client := paymentv1.NewPaymentServiceClient(p.dial(t))
			unknown := unknownPayment(t, client)
			var watching []<-chan error
			for range watchers {
				watching = append(watching, watch(t, client, unknown))
			}
			r := startRush(t, client)
			await(t, "a rush of payments", func() bool { return r.paid.Load() >= paidBefore })
			began := time.Now()
			p.signal(syscall.SIGTERM)
			if code := p.wait(t); code != 0 {
				t.Errorf("it ends with exit code %d", code)
			}
			if took := time.Since(began); took > budget {
				t.Errorf("it took %s to end", took)
			}
			r.stop()
			for _, ended := range watching {
				if err := <-ended; status.Code(err) != codes.Unavailable && !errors.Is(err, io.EOF) {
					t.Errorf("a watcher is told %v", err)
				}
			}
			read(t, observer, core).check(t, r.told)
		})
	}
}

// unknownPayment makes a payment whose outcome is not known, and returns its ID.
func unknownPayment(t *testing.T, client paymentv1.PaymentServiceClient) string {
	t.Helper()
	_, err := client.CreatePayment(t.Context(), ordinary("unknown", slowEvery-1))
	for _, d := range status.Convert(err).Details() {
		if row, ok := d.(*ledgerv1.Transaction); ok && status.Code(err) != codes.OK {
			return row.GetTransactionId()
		}
	}
	t.Fatalf("a payment whose answer is late is answered %v", err)
	return ""
}
