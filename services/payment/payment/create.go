package payment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/telemetry/span"
)

// Request is a payment that a client asks for.
type Request struct {
	Client  ledger.ClientID
	Key     ledger.IdempotencyKey
	Account account.Number
	Amount  account.Won
	// Order is empty when the payment is for none.
	Order         ledger.OrderID
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
	// ghostTimeout bounds the write of the event that tells of a ghost.
	ghostTimeout = time.Second
)

// Create takes a payment. A nil error means that the money moved, once, and
// that the ledger says so durably; every other end is a *ledger.Refusal, or the
// end of ctx while this call waited for another one to end.
//
// From the moment the intent is stored, the caller's leaving changes nothing.
func (s *Service) Create(ctx context.Context, r Request) (Reply, error) {
	if err := s.begin(); err != nil {
		return Reply{}, err
	}
	defer s.work.Done()
	arrived := s.Now()
	for try := 1; ; try++ {
		begun := s.Now()
		if err := s.timeLeft(ctx, begun); err != nil {
			return Reply{}, err
		}
		run := run{Request: r, arrived: arrived, deadline: begun.Add(s.Flags.Deadline)}
		run.accountHash, run.fingerprint = s.HashKey.Payment(r.Account, r.Amount, r.Order, r.Policy)
		admission, err := s.admit(ctx, &run)
		if err != nil {
			return Reply{}, err
		}
		if admission.Created {
			run.intent = admission.Transaction
			return s.execute(ctx, &run)
		}
		t, err := s.await(ctx, admission.Transaction, arrived)
		if err != nil {
			return Reply{}, err
		}
		if !t.NeverSent() || try == maxRuns {
			return reply(t, true)
		}
	}
}

// errNoEvidence is what is wrong with an answer that came and proves nothing.
var errNoEvidence = errors.New("the answer is no evidence")

// run is one try to bind the key and send the payment.
type run struct {
	Request
	arrived time.Time
	// accountHash and fingerprint are the digests of its account and of all that it
	// asks for.
	accountHash, fingerprint ledger.Hash
	// deadline is when its exchange must have ended.
	deadline time.Time
	// window is the time in which it may be sent.
	window window
	// intent is its row before it is sent, and row what became of it, when that is
	// known.
	intent, row ledger.Transaction
}

// admit stores the intent, or finds the payment that the key is bound to. While
// the circuit is open it stores none, nor for a client of whom too much is
// UNKNOWN: what would not be sent is refused at once, and its key stays free.
func (s *Service) admit(ctx context.Context, r *run) (ledger.Admission, error) {
	open := s.Core.Admits(corelink.Mutation)
	full := s.unknownTooMany(r.Client)
	if open == nil && full == nil {
		return s.intend(ctx, r)
	}
	readCtx, cancel := context.WithTimeout(ctx, s.Flags.SendWindow)
	defer cancel()
	bound, err := s.Store.Bound(readCtx, r.Client, r.Key, r.fingerprint)
	switch {
	case err == nil:
		return ledger.Admission{Transaction: bound}, nil
	case errors.Is(err, ledger.ErrNotFound) && open != nil:
		return ledger.Admission{}, s.refuseUnsent(ctx, r, notSent(open))
	case errors.Is(err, ledger.ErrNotFound):
		s.quota.rejected.Inc()
		return ledger.Admission{}, &ledger.Refusal{Reason: ledger.ReasonRateLimited, RetryAfter: quotaRetry, Err: full}
	case errors.Is(err, ledger.ErrKeyReused):
		return ledger.Admission{}, refuse(ledger.ReasonIdempotencyKeyReused, err)
	default:
		return ledger.Admission{}, ledgerError(err)
	}
}

// unknownTooMany is why a client may begin no payment now, or nil. The count is
// taken again behind the callers' backs.
func (s *Service) unknownTooMany(client ledger.ClientID) error {
	stale, full := s.quota.full(client)
	if stale { // this call is work, so that work may begin
		s.work.Go(func() { s.quota.refresh(s.quit) })
	}
	return full
}

// refuseUnsent refuses a payment without intent. Its row is written behind the
// answer, and binds no key.
func (s *Service) refuseUnsent(ctx context.Context, r *run, o outcome) error {
	refusal := &ledger.Refusal{Reason: o.refusal, RetryAfter: o.retryAfter}
	idCtx, cancel := context.WithTimeout(ctx, s.Flags.SendWindow)
	defer cancel()
	id, _, err := s.ids.Next(idCtx)
	if err != nil {
		s.drops.refusal.Inc()
		return refusal
	}
	refusal.Transaction = &ledger.Transaction{
		ID: id, Kind: ledger.KindPayment, Status: o.status, Evidence: o.evidence,
		Client: r.Client, Key: r.Key, Order: r.Order, Policy: r.Policy,
		AccountMasked: r.Account.Masked(), AccountHash: r.accountHash, Amount: r.Amount,
		Reason: o.reason, Elapsed: s.since(r.arrived), RequestedAt: stamp(r.arrived),
		CorrelationID: r.CorrelationID, TraceID: span.TraceID(ctx),
	}
	s.record(ctx, refusal.Transaction)
	return refusal
}

// intend stores the intent, under an ID that nobody has, and opens the window
// in which the payment may be sent. The caller's leaving does not end it.
func (s *Service) intend(ctx context.Context, r *run) (ledger.Admission, error) {
	in := ledger.Intent{
		Client: r.Client, Key: r.Key, Fingerprint: r.fingerprint, Order: r.Order,
		AccountMasked: r.Account.Masked(), AccountHash: r.accountHash,
		Amount: r.Amount, Policy: r.Policy,
		RequestedAt: stamp(r.arrived), CorrelationID: r.CorrelationID,
		AdoptAfter: s.Flags.SendWindow + s.Flags.Deadline + s.Flags.AdoptMargin,
		KeyLife:    s.Flags.KeyLife,
		By:         s.actor(ctx),
	}
	for range maxIDs {
		admission, err := s.store(ctx, r, &in)
		if !errors.Is(err, ledger.ErrDuplicateID) {
			return admission, err
		}
		s.Logger.ErrorContext(ctx, "transaction id is taken", "transaction_id", in.ID)
	}
	return ledger.Admission{}, refuse(ledger.ReasonLedgerUnavailable, errors.New("no transaction ID that is free"))
}

// store stores the intent under the next ID. From before it does until the
// payment's call ends, or this one if it makes none, those who wait for the
// payment wait in this process.
func (s *Service) store(ctx context.Context, r *run, in *ledger.Intent) (admission ledger.Admission, err error) {
	writeCtx := s.spells.step(ctx)
	if in.ID, _, err = s.ids.Next(writeCtx); err != nil {
		return ledger.Admission{}, refuse(ledger.ReasonLedgerUnavailable, err)
	}
	s.flights.takeOff(in.ID)
	defer func() {
		if !admission.Created {
			s.flights.land(in.ID, &ledger.Transaction{})
		}
	}()
	r.window = window{start: s.Now(), limit: s.Flags.SendWindow, now: s.Now}
	writeCtx, intent := span.Start(writeCtx, "intent")
	admission, err = s.Store.CreateIntent(writeCtx, *in)
	endIntent(intent, in, err)
	if err != nil {
		return ledger.Admission{}, s.notAdmitted(ctx, in, err)
	}
	return admission, nil
}

// notAdmitted names why an intent was not stored, and withdraws one of which that
// is not sure. An ID that is taken is not named: another one may be free.
func (s *Service) notAdmitted(ctx context.Context, in *ledger.Intent, err error) error {
	var taken *ledger.OrderError
	switch {
	case errors.Is(err, ledger.ErrDuplicateID):
		return err
	case errors.Is(err, ledger.ErrKeyReused):
		return refuse(ledger.ReasonIdempotencyKeyReused, err)
	case errors.As(err, &taken):
		return orderTaken(taken)
	case errors.Is(err, ledger.ErrInvalidRow), errors.Is(err, ledger.ErrUnreadable): // the key's row: nothing is stored
		return refuse(ledger.ReasonInternal, err)
	default:
		s.later(ctx, s.withdrawal(*in))
		return refuse(ledger.ReasonLedgerUnavailable, err)
	}
}

// orderTaken refuses a payment of an order that has one: the holder is the same
// client's, and is told. While it is in doubt the order may become free again.
func orderTaken(e *ledger.OrderError) error {
	refusal := &ledger.Refusal{Reason: ledger.ReasonOrderInDoubt, RetryAfter: doubtRetry, Transaction: &e.Holder, Err: e}
	if e.Holder.Status == ledger.StatusSuccess {
		refusal.Reason, refusal.RetryAfter = ledger.ReasonOrderAlreadyPaid, 0
	}
	return refusal
}

// execute sends the payment of a stored intent, once, and records what became
// of it. Nothing in here obeys the caller's context.
func (s *Service) execute(ctx context.Context, r *run) (Reply, error) {
	ctx = span.Detach(ctx)
	t := &r.intent
	defer s.flights.land(t.ID, &r.row)
	var answer ledger.Answer
	m := telegram.PaymentRequest{TranID: t.ID, Account: r.Account, Amount: r.Amount}
	frame, err := m.AppendTo(make([]byte, 0, telegram.RequestLength))
	res := corelink.Result{Sent: corelink.SentNone, Err: err}
	exchanging, exchange := span.Exchange(ctx, corelink.TxPayment, t.ID)
	if err == nil {
		res = s.Core.Exchange(exchanging, corelink.Call{
			Tx: corelink.TxPayment, Kind: corelink.Mutation,
			Frame: frame, AnswerLength: telegram.AnswerLength,
			Check: checkPayment(t.ID, &answer), Ready: r.window.open, Deadline: r.deadline,
		})
	}
	o := judge(t.Kind, &res, answer)
	endExchange(exchange, &o, &res)
	s.settled[o.status].Inc()
	if o.status == ledger.StatusUnknown {
		s.Logger.WarnContext(ctx, "outcome unknown", "transaction_id", t.ID, "sent", res.Sent.String(), "reason", o.reason, "error", cmp.Or(res.Err, errNoEvidence))
	}
	return s.settle(ctx, r, o, ledger.Change{
		ID: t.ID, From: ledger.StatusRequested, To: o.status, Evidence: o.evidence,
		Answer: o.answer, Reason: o.reason,
		SentAt: stamp(res.SentAt), RespondedAt: stamp(res.AnsweredAt),
		Elapsed: s.since(r.arrived), By: s.actor(ctx),
	})
}

// settle records an outcome. The reply says what the row says.
func (s *Service) settle(ctx context.Context, r *run, o outcome, c ledger.Change) (Reply, error) {
	writeCtx, stored := span.Start(s.spells.step(ctx), "outcome")
	row, err := s.apply(writeCtx, c)
	endOutcome(stored, &row, err)
	if err != nil {
		return s.unsettled(ctx, r, o, c, err)
	}
	r.row = row
	if row.Status == ledger.StatusUnknown {
		s.quota.became(r.Client)
	}
	if o.evidence == ledger.EvidenceNotSent {
		return Reply{}, o.refuse(row, nil)
	}
	return reply(row, false)
}

// unsettled is the reply where an outcome was not recorded: because the row says
// otherwise, or because the ledger did not take it in time.
func (s *Service) unsettled(ctx context.Context, r *run, o outcome, c ledger.Change, err error) (Reply, error) {
	var lost *ledger.LostError
	if errors.As(err, &lost) {
		r.row = lost.Current
		s.contradicts(ctx, lost.Current, o)
		return reply(lost.Current, false)
	}
	s.Logger.ErrorContext(ctx, "outcome not stored", "transaction_id", c.ID, "outcome", o.status.String(), "error", err)
	s.later(ctx, s.belatedOutcome(c, o))
	if o.evidence == ledger.EvidenceNotSent {
		return Reply{}, o.refuse(r.intent, err)
	}
	intent := r.intent // whose address would else have every run allocated
	return Reply{}, &ledger.Refusal{Reason: ledger.ReasonOutcomeUnknown, Transaction: &intent, Err: err}
}

// apply makes the change, from REQUESTED or, if the row was adopted meanwhile,
// from UNKNOWN: the exchange's own answer is evidence as long as nothing else
// was decided. An outcome without answer has nothing to add to an adopted row.
func (s *Service) apply(ctx context.Context, c ledger.Change) (ledger.Transaction, error) {
	row, err := s.Store.Transition(ctx, c)
	if err == nil {
		return row, nil
	}
	var lost *ledger.LostError
	if !errors.As(err, &lost) || lost.Current.Status != ledger.StatusUnknown || c.Answer.Code == "" {
		return row, err
	}
	c.From = ledger.StatusUnknown
	return s.Store.Transition(ctx, c)
}

// contradicts raises the alarm where what this exchange knows and a final row
// cannot both be true. The row stays as it is. CANCELED goes with every answer:
// what was done was undone, and what was declined may have been fenced besides.
func (s *Service) contradicts(ctx context.Context, row ledger.Transaction, o outcome) {
	switch {
	case o.evidence == 0 || !row.Status.Final() || row.Status == ledger.StatusCanceled:
		return
	case (o.status == ledger.StatusSuccess) == (row.Status == ledger.StatusSuccess):
		return
	}
	s.ghosts.Inc()
	s.Logger.ErrorContext(ctx, "ghost", "transaction_id", row.ID,
		"ledger", row.Status.String(), "outcome", o.status.String(), "evidence", o.evidence.String())
	detail := fmt.Sprintf("ghost: the exchange ended %s by %s %s after the row was %s", o.status, o.evidence, o.answer.Code, row.Status)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ghostTimeout)
	defer cancel()
	if err := s.Store.AppendEvent(ctx, row.ID, o.evidence, s.actor(ctx), detail); err != nil {
		s.Logger.ErrorContext(ctx, "ghost event not stored", "transaction_id", row.ID, "error", err)
	}
}

// since is the time that has passed, as the ledger keeps it: microseconds.
func (s *Service) since(t time.Time) time.Duration { return s.Now().Sub(t).Truncate(time.Microsecond) }

// stamp is a moment as the ledger keeps it: UTC, microseconds, no monotonic
// reading. The zero time stays zero.
func stamp(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}
