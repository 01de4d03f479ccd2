package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	circuitv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/circuit/v1"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
	reconciliationv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/reconciliation/v1"
	simulatorv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/simulator/v1"
	"github.com/gwanmun/gwanmun/proto/reason"
)

const (
	ordinary = "12345678901234" // an account without a habit
	absent   = "00000000000000" // the one that does not exist
	late     = "99999999999999" // does it, and answers 5 s late
	silent   = "88888888888888" // closes without doing or answering

	// callFor is how long the caller of a payment waits.
	callFor = 10 * time.Second
	// finalWithin is how long UNKNOWN may last here.
	finalWithin = 30 * time.Second
)

// step is one call of the story, and all that must be true when it has ended.
type step struct {
	title  string
	name   string // correlation ID and idempotency key
	key    string // the key, where it is another step's
	number string
	amount int64
	policy ledgerv1.ResolutionPolicy

	// What the caller is told.
	told     ledgerv1.ErrorReason // UNSPECIFIED means OK
	replayed bool
	// What the ledger says in the end; UNSPECIFIED where the step makes no row.
	status   ledgerv1.TransactionStatus
	evidence ledgerv1.Evidence
	method   ledgerv1.ResolutionMethod
	code     string
	// What the core's journal says in the end.
	debits, cancels, fences int

	moral string
}

// payments is the story up to the moment at which the core is killed.
var payments = []step{
	{
		title: "a payment of 50,000 won", name: "demo-1", number: ordinary, amount: 50_000,
		status: success, evidence: answered, code: "0000", debits: 1,
		moral: "the core approved it",
	},
	{
		title: "a payment from an account that does not exist", name: "demo-2", number: absent, amount: 50_000,
		told:   ledgerv1.ErrorReason_ERROR_REASON_ACCOUNT_NOT_FOUND,
		status: failed, evidence: answered, code: "0001",
		moral: "the core said no: that is proof",
	},
	{
		title: "a payment whose answer comes too late", name: "demo-3", number: late, amount: 30_000,
		told:   ledgerv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN,
		status: canceled, evidence: cancelConfirmed, method: byNetCancel, debits: 1, cancels: 1,
		moral: "the core had done it; the net cancel gave the money back",
	},
	{
		title: "another payment, in between", name: "demo-4", number: ordinary, amount: 20_000,
		status: success, evidence: answered, code: "0000", debits: 1,
		moral: "the core approved it",
	},
	{
		title: "a payment that the core drops", name: "demo-5", number: silent, amount: 40_000,
		told:   ledgerv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN,
		status: failed, evidence: fenced, method: byInquiry, fences: 1,
		moral: "the core had not done it, and now it never will",
	},
	{
		title: "a late one that is to stand if it was done", name: "demo-6", number: late, amount: 60_000,
		policy: ledgerv1.ResolutionPolicy_RESOLUTION_POLICY_CONFIRM,
		told:   ledgerv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN,
		status: success, evidence: processed, method: byInquiry, debits: 1,
		moral: "the core had done it, and so it stands",
	},
	{
		title: "the first payment again, same key", name: "demo-7", key: "demo-1", number: ordinary, amount: 50_000,
		replayed: true,
		moral:    "the same transaction: nothing was sent",
	},
	{
		title: "the same key with another amount", name: "demo-8", key: "demo-1", number: ordinary, amount: 70_000,
		told:  ledgerv1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED,
		moral: "refused: nothing was sent",
	},
}

const (
	success  = ledgerv1.TransactionStatus_TRANSACTION_STATUS_SUCCESS
	failed   = ledgerv1.TransactionStatus_TRANSACTION_STATUS_FAILED
	canceled = ledgerv1.TransactionStatus_TRANSACTION_STATUS_CANCELED

	notSent         = ledgerv1.Evidence_EVIDENCE_NOT_SENT
	answered        = ledgerv1.Evidence_EVIDENCE_ANSWERED
	processed       = ledgerv1.Evidence_EVIDENCE_PROCESSED
	cancelConfirmed = ledgerv1.Evidence_EVIDENCE_CANCEL_CONFIRMED
	fenced          = ledgerv1.Evidence_EVIDENCE_FENCED

	byInquiry   = ledgerv1.ResolutionMethod_RESOLUTION_METHOD_STATUS_INQUIRY
	byNetCancel = ledgerv1.ResolutionMethod_RESOLUTION_METHOD_NET_CANCEL
)

// teller plays steps and keeps what they made.
type teller struct {
	out      io.Writer
	payments paymentv1.PaymentServiceClient
	accounts paymentv1.AccountServiceClient
	ledger   ledgerv1.LedgerServiceClient
	circuits circuitv1.CircuitServiceClient
	journal  simulatorv1.SimulatorServiceClient

	reconciliation reconciliationv1.ReconciliationServiceClient

	started int
	// made is the transaction ID that each key is bound to.
	made map[string]string
}

// tell plays the story and checks it.
func tell(ctx context.Context, s *stack, out io.Writer) error {
	payment, err := dial(s.all[1])
	if err != nil {
		return err
	}
	defer func() { _ = payment.Close() }()
	core, err := dial(s.all[0])
	if err != nil {
		return err
	}
	defer func() { _ = core.Close() }()
	reconciler, err := dial(s.all[2])
	if err != nil {
		return err
	}
	defer func() { _ = reconciler.Close() }()
	t := &teller{
		out: out, made: map[string]string{},
		payments: paymentv1.NewPaymentServiceClient(payment), accounts: paymentv1.NewAccountServiceClient(payment),
		ledger: ledgerv1.NewLedgerServiceClient(payment), circuits: circuitv1.NewCircuitServiceClient(payment),
		journal:        simulatorv1.NewSimulatorServiceClient(core),
		reconciliation: reconciliationv1.NewReconciliationServiceClient(reconciler),
	}
	if err := t.waitReady(ctx); err != nil {
		return err
	}
	for _, st := range payments {
		if err := t.pay(ctx, st); err != nil {
			return fmt.Errorf("%s: %w", st.title, err)
		}
	}
	if err := t.outage(ctx, s); err != nil {
		return err
	}
	if err := t.settle(ctx); err != nil {
		return err
	}
	if err := t.check(ctx); err != nil {
		return err
	}
	t.printf("\nEvery row is as it should be, and the core's journal agrees.\n")
	return nil
}

func dial(s *service) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient(s.listens["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", s.name, err)
	}
	return conn, nil
}

// printf tells the story; one that nobody can read is still checked.
func (t *teller) printf(format string, args ...any) { _, _ = fmt.Fprintf(t.out, format, args...) }

// waitReady waits until the ledger answers.
func (t *teller) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	_, err := t.ledger.SummarizeTransactions(ctx, &ledgerv1.SummarizeTransactionsRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("wait for the ledger: %w", err)
	}
	return nil
}

// pay plays one step and checks what the caller is told.
func (t *teller) pay(ctx context.Context, st step) error {
	key := st.key
	if key == "" {
		key = st.name
	}
	t.started++
	t.printf("%d. %s\n", t.started, st.title)
	callCtx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, "x-correlation-id", st.name), callFor)
	defer cancel()
	begin := time.Now()
	res, err := t.payments.CreatePayment(callCtx, &paymentv1.CreatePaymentRequest{
		IdempotencyKey: key, AccountNumber: st.number, Amount: st.amount, ResolutionPolicy: st.policy,
	})
	took := time.Since(begin)
	if got := reason.Of(err); got != st.told || (err != nil && got == 0) {
		return fmt.Errorf("the caller is told %v (%w), not %v", got, err, st.told)
	}
	row := res.GetTransaction()
	if err != nil {
		row = reason.Transaction(err)
	}
	if res.GetReplayed() != st.replayed {
		return fmt.Errorf("replayed is %t", res.GetReplayed())
	}
	switch {
	case st.replayed && row.GetTransactionId() != t.made[key]:
		return fmt.Errorf("the same key gave %s, not %s", row.GetTransactionId(), t.made[key])
	case st.status != 0 && row.GetTransactionId() == "":
		return errors.New("the answer carries no transaction")
	case st.status != 0:
		t.made[key] = row.GetTransactionId()
	}
	t.printf("   after %s the caller is told %s\n", short(took), word(st.told))
	if st.told == ledgerv1.ErrorReason_ERROR_REASON_OUTCOME_UNKNOWN {
		if err := t.follow(ctx, t.made[key]); err != nil {
			return err
		}
	}
	t.printf("   %s\n", st.moral)
	return nil
}

// follow watches an UNKNOWN payment until it is final.
func (t *teller) follow(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, finalWithin)
	defer cancel()
	begin := time.Now()
	stream, err := t.payments.WatchPayment(ctx, &paymentv1.WatchPaymentRequest{TransactionId: id})
	if err != nil {
		return fmt.Errorf("watch %s: %w", id, err)
	}
	var last *ledgerv1.Transaction
	for {
		state, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("watch %s: %w", id, err)
		}
		last = state.GetTransaction()
	}
	t.printf("   after %s more it is %s (%s)\n", short(time.Since(begin)), statusName(last.GetStatus()), evidenceName(last.GetEvidence()))
	return nil
}
