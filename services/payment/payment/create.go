package payment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

// Request is a payment that a client asks for.
type Request struct {
	Client        ledger.ClientID
	Key           ledger.IdempotencyKey
	Account       account.Number
	Amount        account.Won
	Policy        ledger.Policy
	CorrelationID string
}

// Reply is a payment that was done.
type Reply struct {
	Transaction ledger.Transaction
	// Replayed is true when an earlier call made it.
	Replayed bool
}

const (
	// maxRuns is how often one call may try to bind its key: once for itself,
	// and once more after it waited for a call that sent nothing.
	maxRuns = 2
	// maxIDs is how many transaction IDs one run may find taken.
	maxIDs = 3
)

// Create takes a payment. A nil error means that the money moved, once, and
// that the ledger says so durably; every other end is a *ledger.Refusal.
//
// From the moment the intent is stored, the caller's leaving changes nothing.
func (s *Service) Create(ctx context.Context, r Request) (Reply, error) {
	s.work.Add(1)
	defer s.work.Done()
	arrived := s.Now()
	if err := s.timeLeft(ctx, arrived); err != nil {
		return Reply{}, err
	}
	for try := 1; ; try++ {
		run := run{Request: r, arrived: arrived, deadline: s.Now().Add(s.Flags.Deadline)}
		admission, err := s.intend(ctx, &run)
		if err != nil {
			return Reply{}, err
		}
		if admission.Created {
			return s.execute(ctx, run, admission.Transaction)
		}
		t, err := s.await(ctx, admission.Transaction, arrived)
		if err != nil {
			return Reply{}, err
		}
		if t.Evidence != ledger.EvidenceNotSent || try == maxRuns {
			return reply(t, true)
		}
	}
}

// run is one try to bind the key and send the payment.
type run struct {
	Request
	arrived time.Time
	// deadline is when its exchange must have ended.
	deadline time.Time
	// window is the time in which it may be sent.
	window window
}

// intend stores the intent, under an ID that nobody has, and opens the window
// in which the payment may be sent.
func (s *Service) intend(ctx context.Context, r *run) (ledger.Admission, error) {
	fingerprint := s.HashKey.Fingerprint(r.Account, r.Amount, "", r.Policy)
	for range maxIDs {
		idCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Flags.SendWindow)
		id, at, err := s.ids.Next(idCtx)
		cancel()
		if err != nil {
			return ledger.Admission{}, refuse(ledger.ReasonLedgerUnavailable, err)
		}
		in := ledger.Intent{
			ID: id, Client: r.Client, Key: r.Key, Fingerprint: fingerprint,
			AccountMasked: r.Account.Masked(), AccountHash: s.HashKey.Account(r.Account),
			Amount: r.Amount, Policy: r.Policy,
			RequestedAt: stamp(r.arrived), CorrelationID: r.CorrelationID,
			AdoptAfter: s.Flags.SendWindow + s.Flags.Deadline + s.Flags.AdoptMargin,
			By:         s.by,
		}
		r.window = window{start: s.Now(), limit: s.Flags.SendWindow, now: s.Now}
		writeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Flags.SendWindow)
		admission, err := s.Store.CreateIntent(writeCtx, in)
		cancel()
		switch {
		case err == nil:
			return admission, nil
		case errors.Is(err, ledger.ErrDuplicateID):
			s.Logger.ErrorContext(ctx, "transaction id is taken", "transaction_id", id, "requested_at", at)
		case errors.Is(err, ledger.ErrKeyReused):
			return ledger.Admission{}, refuse(ledger.ReasonIdempotencyKeyReused, err)
		default:
			// It may be stored all the same, now or in a moment.
			s.later(ctx, s.withdrawal(in))
			return ledger.Admission{}, refuse(ledger.ReasonLedgerUnavailable, err)
		}
	}
	return ledger.Admission{}, refuse(ledger.ReasonLedgerUnavailable, errors.New("no transaction ID that is free"))
}

// withdrawal is the end of an intent of which nothing was and will be sent.
func (s *Service) withdrawal(in ledger.Intent) ledger.Change {
	return ledger.Change{
		ID: in.ID, From: ledger.StatusRequested, To: ledger.StatusFailed, Evidence: ledger.EvidenceNotSent,
		Reason: "not sent: the ledger did not say in time that the intent was stored", By: s.by,
	}
}

// execute sends the payment of a stored intent, once, and records what became
// of it. Nothing in here obeys the caller's context.
func (s *Service) execute(ctx context.Context, r run, t ledger.Transaction) (Reply, error) {
	ctx = context.WithoutCancel(ctx)
	var answer ledger.Answer
	m := telegram.PaymentRequest{TranID: t.ID, Account: r.Account, Amount: r.Amount}
	frame, err := m.AppendTo(make([]byte, 0, telegram.RequestLength))
	res := corelink.Result{Sent: corelink.SentNone, Err: err}
	if err == nil {
		res = s.Core.Exchange(ctx, corelink.Call{
			Tx: corelink.TxPayment, Kind: corelink.Mutation,
			Frame: frame, AnswerLength: telegram.AnswerLength,
			Check: checkPayment(t.ID, &answer), Ready: r.window.open, Deadline: r.deadline,
		})
	}
	o := judge(t.Kind, &res, answer)
	s.settled.WithLabelValues(o.status.String()).Inc()
	if o.status == ledger.StatusUnknown {
		s.Logger.WarnContext(ctx, "outcome unknown", "transaction_id", t.ID, "sent", res.Sent.String(), "error", res.Err)
	}
	return s.settle(ctx, t, o, ledger.Change{
		ID: t.ID, From: ledger.StatusRequested, To: o.status, Evidence: o.evidence,
		Answer: o.answer, Reason: o.reason,
		SentAt: stamp(res.SentAt), RespondedAt: stamp(res.AnsweredAt),
		Elapsed: s.Now().Sub(r.arrived), By: s.by,
	})
}

// settle records an outcome. The reply says what the row says.
func (s *Service) settle(ctx context.Context, t ledger.Transaction, o outcome, c ledger.Change) (Reply, error) {
	writeCtx, cancel := context.WithTimeout(ctx, s.Flags.Deadline)
	defer cancel()
	row, err := s.apply(writeCtx, c)
	var lost *ledger.LostError
	switch {
	case err == nil:
		return s.tell(row, o)
	case errors.As(err, &lost):
		s.contradicts(ctx, lost.Current, o)
		return reply(lost.Current, false)
	default:
		s.Logger.ErrorContext(ctx, "outcome not stored", "transaction_id", t.ID, "outcome", o.status.String(), "error", err)
		s.dropped.WithLabelValues("outcome").Inc()
		s.later(ctx, c)
		if o.evidence == ledger.EvidenceNotSent {
			return Reply{}, &ledger.Refusal{Reason: o.refusal, Transaction: &t, Err: err}
		}
		return Reply{}, &ledger.Refusal{Reason: ledger.ReasonOutcomeUnknown, Transaction: &t, Err: err}
	}
}

// tell is the reply to the call that made the row what it is.
func (s *Service) tell(row ledger.Transaction, o outcome) (Reply, error) {
	if o.evidence == ledger.EvidenceNotSent {
		return Reply{}, &ledger.Refusal{Reason: o.refusal, Transaction: &row}
	}
	return reply(row, false)
}

// apply makes the change, from REQUESTED or, if the row was adopted meanwhile,
// from UNKNOWN: the exchange's own answer is evidence as long as nothing else
// was decided. An outcome without answer has nothing to add to an adopted row.
func (s *Service) apply(ctx context.Context, c ledger.Change) (ledger.Transaction, error) {
	row, err := s.Store.Transition(ctx, c)
	var lost *ledger.LostError
	if !errors.As(err, &lost) || lost.Current.Status != ledger.StatusUnknown || c.Answer.Code == "" {
		return row, err
	}
	c.From = ledger.StatusUnknown
	return s.Store.Transition(ctx, c)
}

// contradicts raises the alarm where the core's own answer and a final row
// cannot both be true. The row stays as it is.
func (s *Service) contradicts(ctx context.Context, row ledger.Transaction, o outcome) {
	if o.evidence != ledger.EvidenceAnswered || !row.Status.Final() {
		return
	}
	if o.status == row.Status || (o.status == ledger.StatusSuccess && row.Status == ledger.StatusCanceled) {
		return
	}
	s.ghosts.Inc()
	s.Logger.ErrorContext(ctx, "ghost", "transaction_id", row.ID, "ledger", row.Status.String(), "answer", o.status.String())
	detail := fmt.Sprintf("ghost: the core answered %s (%s), after the row was %s", o.status, o.answer.Code, row.Status)
	if err := s.Store.AppendEvent(ctx, row.ID, o.evidence, s.by, detail); err != nil {
		s.Logger.ErrorContext(ctx, "ghost event not stored", "transaction_id", row.ID, "error", err)
	}
}

// later keeps trying to store a change of which the caller was not told, until
// the row is taken for abandoned and the reconciler finds out by itself.
func (s *Service) later(ctx context.Context, c ledger.Change) {
	select {
	case s.belated <- struct{}{}:
	default:
		return
	}
	s.work.Add(1)
	go func() {
		defer func() { <-s.belated; s.work.Done() }()
		s.keepTrying(context.WithoutCancel(ctx), c)
	}()
}

func (s *Service) keepTrying(ctx context.Context, c ledger.Change) {
	const first, longest = 100 * time.Millisecond, time.Second
	ctx, cancel := context.WithTimeout(ctx, s.Flags.SendWindow+s.Flags.Deadline+s.Flags.AdoptMargin)
	defer cancel()
	for wait := first; ; wait = min(2*wait, longest) {
		select {
		case <-time.After(wait):
		case <-s.quit:
			return
		case <-ctx.Done():
			return
		}
		tryCtx, cancel := context.WithTimeout(ctx, s.Flags.SendWindow)
		_, err := s.apply(tryCtx, c)
		cancel()
		if err == nil || errors.Is(err, ledger.ErrLost) {
			s.Logger.LogAttrs(ctx, slog.LevelInfo, "belated write ended", slog.String("transaction_id", string(c.ID)), slog.Bool("stored", err == nil))
			return
		}
		// ErrNotFound is no end: a commit under way may still make the row.
	}
}

// stamp is a moment as the ledger keeps it: UTC, microseconds, no monotonic
// reading. The zero time stays zero.
func stamp(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}
