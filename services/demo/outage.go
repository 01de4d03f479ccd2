package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"

	circuitv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/circuit/v1"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
	"github.com/gwanmun/gwanmun/proto/reason"
)

// refusedWithin is how long a refusal by an open circuit may take here, at the
// most, on a machine that is busy with other things.
const refusedWithin = 250 * time.Millisecond

// inquiry is a balance inquiry of the story.
type inquiry struct {
	title, name string
	told        ledgerv1.ErrorReason
	status      ledgerv1.TransactionStatus
	evidence    ledgerv1.Evidence
	code        string
	moral       string
}

var (
	healthy = inquiry{
		title: "the balance of the account that paid", name: "demo-9",
		status: success, evidence: answered, code: "0000",
		moral: "the two payments have left it",
	}
	unreachable = inquiry{
		title: "the core is killed; a balance inquiry, with its two retries", name: "demo-10",
		told:   ledgerv1.ErrorReason_ERROR_REASON_CORE_UNREACHABLE,
		status: failed, evidence: notSent,
		moral: "three connections refused in a row open the circuit",
	}
	shut = []inquiry{
		{
			title: "the next inquiry", name: "demo-11",
			told:   ledgerv1.ErrorReason_ERROR_REASON_CIRCUIT_OPEN,
			status: failed, evidence: notSent,
			moral: "refused at once: nothing was sent",
		},
		{
			title: "and the next", name: "demo-12",
			told:   ledgerv1.ErrorReason_ERROR_REASON_CIRCUIT_OPEN,
			status: failed, evidence: notSent,
			moral: "refused at once: nothing was sent",
		},
	}
	again = inquiry{
		title: "the core is back, and the circuit's wait is over; an inquiry goes first", name: "demo-13",
		status: success, evidence: answered, code: "0000",
		moral: "a probe that succeeds closes the circuit; the core still knows what it did",
	}
)

// outage kills the core, shows what callers see of it, and brings it back.
func (t *teller) outage(ctx context.Context, s *stack) error {
	if err := t.ask(ctx, healthy); err != nil {
		return err
	}
	s.kill(s.all[0])
	if err := t.ask(ctx, unreachable); err != nil {
		return err
	}
	if err := t.circuit(ctx, circuitv1.CircuitState_CIRCUIT_STATE_OPEN); err != nil {
		return err
	}
	for _, q := range shut {
		begin := time.Now()
		if err := t.ask(ctx, q); err != nil {
			return err
		}
		if took := time.Since(begin); took > refusedWithin {
			return fmt.Errorf("%s: a refusal took %s", q.title, took)
		}
	}
	if err := s.revive(ctx, s.all[0]); err != nil {
		return err
	}
	if err := t.waitForProbe(ctx); err != nil {
		return err
	}
	if err := t.ask(ctx, again); err != nil {
		return err
	}
	return t.circuit(ctx, circuitv1.CircuitState_CIRCUIT_STATE_CLOSED)
}

// ask plays one inquiry and checks what the caller is told.
func (t *teller) ask(ctx context.Context, q inquiry) error {
	t.started++
	t.printf("%d. %s\n", t.started, q.title)
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, "x-correlation-id", q.name), callFor)
	defer cancel()
	begin := time.Now()
	res, err := t.accounts.GetBalance(ctx, &paymentv1.GetBalanceRequest{AccountNumber: ordinary})
	took := time.Since(begin)
	if got := reason.Of(err); got != q.told || (err != nil && got == 0) {
		return fmt.Errorf("%s: the caller is told %v (%w), not %v", q.title, got, err, q.told)
	}
	row := res.GetTransaction()
	if err != nil {
		row = reason.Transaction(err)
	}
	t.made[q.name] = row.GetTransactionId()
	if err == nil {
		t.printf("   after %s the caller is told %s won\n", short(took), grouped(res.GetBalance()))
	} else {
		t.printf("   after %s the caller is told %s\n", short(took), word(q.told))
	}
	t.printf("   %s\n", q.moral)
	return nil
}

// circuit shows the circuit of the inquiries, which must be in this state.
func (t *teller) circuit(ctx context.Context, want circuitv1.CircuitState) error {
	c, err := t.query(ctx)
	if err != nil {
		return err
	}
	if c.GetState() != want {
		return fmt.Errorf("circuit %s is %s, not %s", c.GetName(), c.GetState(), want)
	}
	t.printf("   circuit %s is %s\n", c.GetName(), strings.TrimPrefix(c.GetState().String(), "CIRCUIT_STATE_"))
	return nil
}

func (t *teller) query(ctx context.Context) (*circuitv1.Circuit, error) {
	list, err := t.circuits.ListCircuits(ctx, &circuitv1.ListCircuitsRequest{})
	if err != nil {
		return nil, fmt.Errorf("list the circuits: %w", err)
	}
	for _, c := range list.GetCircuits() {
		if c.GetName() == "core-query" {
			return c, nil
		}
	}
	return nil, fmt.Errorf("no circuit core-query among %v", list.GetCircuits())
}

// waitForProbe waits until the circuit lets a probe through.
func (t *teller) waitForProbe(ctx context.Context) error {
	c, err := t.query(ctx)
	if err != nil {
		return err
	}
	timer := time.NewTimer(c.GetRetryAfter().AsDuration())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the circuit: %w", ctx.Err())
	}
}
