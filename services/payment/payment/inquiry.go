package payment

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/telemetry/span"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// inquiry is a question to the core that was let in, whatever it is about.
type inquiry struct {
	kind          ledger.Kind
	client        ledger.ClientID
	account       account.Number
	correlationID string

	id      tranid.ID
	arrived time.Time
}

// number gives an inquiry its ID, unless its caller waits too short or there is
// none to be had.
func (s *Service) number(ctx context.Context, q *inquiry) error {
	q.arrived = s.Now()
	if err := s.timeLeft(ctx, q.arrived); err != nil {
		return err
	}
	id, _, err := s.ids.NextReserved(s.spells.step(ctx))
	if err != nil {
		return refuse(ledger.ReasonLedgerUnavailable, err)
	}
	q.id = id
	return nil
}

// deadline is when an inquiry must have ended: its caller's time counts.
func (s *Service) deadline(ctx context.Context, q *inquiry) time.Time {
	deadline := q.arrived.Add(s.Flags.Deadline)
	if callers, ok := ctx.Deadline(); ok && callers.Before(deadline) {
		return callers
	}
	return deadline
}

// told is what came of the exchange of an inquiry, and the exchange's span, which
// is open.
type told struct {
	answer   ledger.Answer
	res      corelink.Result
	exchange trace.Span
}

// conclude judges what came of an inquiry and records it. It returns the row,
// and a *ledger.Refusal for all but a success.
func (s *Service) conclude(ctx context.Context, q *inquiry, end told) (ledger.Transaction, error) {
	res := &end.res
	o := judge(q.kind, res, end.answer)
	endExchange(end.exchange, &o, res)
	t := ledger.Transaction{
		ID: q.id, Kind: q.kind, Status: o.status, Evidence: o.evidence,
		Client: q.client, AccountMasked: q.account.Masked(), AccountHash: s.HashKey.Account(q.account),
		Answer: o.answer, Reason: o.reason,
		Elapsed: s.since(q.arrived), RequestedAt: stamp(q.arrived),
		SentAt: stamp(res.SentAt), RespondedAt: stamp(res.AnsweredAt),
		CorrelationID: q.correlationID, TraceID: span.TraceID(ctx),
	}
	s.record(ctx, &t)
	switch {
	case o.evidence == ledger.EvidenceNotSent:
		return t, o.refuse(t, res.Err)
	case t.Status != ledger.StatusSuccess:
		return t, unanswered(t, res.Err)
	}
	return t, nil
}

// unanswered is the refusal of an inquiry that was sent. It stands apart because
// what it keeps the address of would else be allocated for every success, too.
func unanswered(t ledger.Transaction, cause error) error {
	return &ledger.Refusal{Reason: reasonFor(&t), Transaction: &t, Err: cause}
}
