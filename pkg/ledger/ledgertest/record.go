package ledgertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

var recordCases = []conformance{
	{"inquiry is stored as it ended, with its event", inquiryIsStored},
	{"inquiry without answer is due at once and has no effect", unknownInquiryIsDue},
	{"inquiry with an ID that is taken is refused", inquiryWithTakenID},
	{"inquiry that no row may hold is refused", invalidInquiries},
	{"refused payment is stored, listed and binds no key", refusedPaymentBindsNothing},
	{"refused payment leaves a key that is bound to its holder", refusedPaymentLeavesTheHolder},
	{"many rows are stored, and a bad one harms no other", manyRowsAreStored},
	{"row twice in one call is stored once", rowTwiceInOneCall},
	{"payment that may have left is not recorded without an intent", sentPaymentIsNotRecorded},
}

// inquiry is a balance inquiry that was answered.
func (b *book) inquiry() ledger.Transaction {
	at := ledger.Moment(time.Now())
	return ledger.Transaction{
		ID: b.newID(), Kind: ledger.KindBalanceInquiry, Status: ledger.StatusSuccess, Evidence: ledger.EvidenceAnswered,
		Client: "shop", AccountMasked: "****12", AccountHash: ledger.Hash{3},
		Answer: ledger.Answer{Code: "0000", Message: "정상"}, Elapsed: 1500 * time.Microsecond,
		RequestedAt: at, SentAt: at.Add(time.Millisecond), RespondedAt: at.Add(2 * time.Millisecond),
		CorrelationID: "corr", TraceID: payer.TraceID,
	}
}

// refused is the intent of a payment, and the row of it when it was refused
// before anything was stored.
func (b *book) refused() (ledger.Intent, ledger.Transaction) {
	in := b.intent()
	return in, ledger.Transaction{
		ID: in.ID, Kind: ledger.KindPayment, Status: ledger.StatusFailed, Evidence: ledger.EvidenceNotSent,
		Policy: in.Policy, Client: in.Client, Key: in.Key,
		AccountMasked: in.AccountMasked, AccountHash: in.AccountHash, Amount: in.Amount,
		Reason: "the circuit is open", Elapsed: time.Millisecond, RequestedAt: ledger.Moment(in.RequestedAt),
		CorrelationID: in.CorrelationID, TraceID: payer.TraceID,
	}
}

func inquiryIsStored(b *book) {
	declined, failed, history := b.inquiry(), b.inquiry(), b.inquiry()
	declined.Status, declined.Answer = ledger.StatusFailed, ledger.Answer{Code: "0001", Message: "계좌없음"}
	failed.Status, failed.Evidence, failed.Answer = ledger.StatusFailed, ledger.EvidenceNotSent, ledger.Answer{}
	failed.SentAt, failed.RespondedAt, failed.Reason = time.Time{}, time.Time{}, "dial refused"
	history.Kind, history.Elapsed = ledger.KindHistoryInquiry, 0
	for _, want := range []ledger.Transaction{b.inquiry(), declined, failed, history} {
		if err := b.Record(b.ctx, []ledger.Transaction{want}, payer); err != nil {
			b.Fatal(err)
		}
		b.same("row", want, b.get(want.ID))
		events := b.events(want.ID)
		if len(events) != 1 {
			b.Fatalf("%d events, want 1", len(events))
		}
		b.same("event", ledger.Event{
			Sequence: events[0].Sequence, At: events[0].At, To: want.Status, Evidence: want.Evidence,
			By: payer, Detail: want.Reason,
		}, events[0])
	}
}

func unknownInquiryIsDue(b *book) {
	t := b.inquiry()
	t.Status, t.Evidence, t.Answer, t.RespondedAt = ledger.StatusUnknown, 0, ledger.Answer{}, time.Time{}
	if err := b.Record(b.ctx, []ledger.Transaction{t}, payer); err != nil {
		b.Fatal(err)
	}
	stored := b.get(t.ID)
	if at := b.events(t.ID)[0].At; !stored.NextResolveAt.Equal(at) {
		b.Errorf("due at %s, stored at %s", stored.NextResolveAt, at)
	}
	if claims := b.claim(1); len(claims) != 1 || claims[0].Transaction.ID != t.ID {
		b.Fatalf("claimed %v", claims)
	}
	for _, s := range []step{toProcessed, toCanceled} {
		b.refuse(t.ID, s, ledger.ErrLost)
	}
	_, err := b.Decide(b.ctx, t.ID, resolver, "")
	b.fails("decide on an inquiry", err, ledger.ErrLost)
	if done := b.move(t.ID, toNoEffect); done.ResolvedAt.IsZero() || !done.NextResolveAt.IsZero() {
		b.Errorf("resolved at %s, due at %s", done.ResolvedAt, done.NextResolveAt)
	}
}

func inquiryWithTakenID(b *book) {
	t := b.inquiry()
	if err := b.Record(b.ctx, []ledger.Transaction{t}, payer); err != nil {
		b.Fatal(err)
	}
	b.fails("again", b.Record(b.ctx, []ledger.Transaction{t}, payer), ledger.ErrDuplicateID)
	payment := b.requested()
	t.ID = payment.ID
	b.fails("with a payment's ID", b.Record(b.ctx, []ledger.Transaction{t}, payer), ledger.ErrDuplicateID)
	b.same("the payment", payment, b.get(payment.ID))
}

func manyRowsAreStored(b *book) {
	taken := b.requested()
	rows := make([]ledger.Transaction, ledger.MaxRecord)
	want := make([]error, len(rows))
	for i := range rows {
		switch i % 3 {
		case 0:
			rows[i] = b.inquiry()
		case 1:
			_, rows[i] = b.refused()
		case 2:
			rows[i] = b.inquiry()
			rows[i].Status, rows[i].Evidence, rows[i].Answer, rows[i].RespondedAt = ledger.StatusUnknown, 0, ledger.Answer{}, time.Time{}
		}
	}
	rows[3].ID, want[3] = taken.ID, ledger.ErrDuplicateID
	rows[99].Amount, want[99] = 1, ledger.ErrInvalidRow
	rows[498].Evidence, want[498] = 0, ledger.ErrIllegalMove
	err := b.Record(b.ctx, rows, payer)
	var unrecorded *ledger.UnrecordedError
	if !errors.As(err, &unrecorded) || len(unrecorded.Errs) != len(rows) {
		b.Fatalf("error %v", err)
	}
	for i, err := range unrecorded.Errs {
		if want[i] != nil || err != nil {
			b.fails(fmt.Sprintf("row %d", i), err, want[i])
			continue
		}
		if i > 110 && i < 490 { // enough of them are looked at
			continue
		}
		stored := b.get(rows[i].ID)
		rows[i].NextResolveAt = stored.NextResolveAt
		b.same("row", rows[i], stored)
		if n := len(b.events(rows[i].ID)); n != 1 {
			b.Errorf("row %d has %d events", i, n)
		}
	}
	b.same("the payment", taken, b.get(taken.ID))
	if err := b.Record(b.ctx, nil, payer); err != nil {
		b.Errorf("nothing: %v", err)
	}
}

func rowTwiceInOneCall(b *book) {
	twice, other := b.inquiry(), b.inquiry()
	err := b.Record(b.ctx, []ledger.Transaction{twice, other, twice}, payer)
	var unrecorded *ledger.UnrecordedError
	if !errors.As(err, &unrecorded) {
		b.Fatalf("error %v", err)
	}
	if errs := unrecorded.Errs; len(errs) != 3 || errs[0] != nil || errs[1] != nil || !errors.Is(errs[2], ledger.ErrDuplicateID) {
		b.Errorf("errors %v", errs)
	}
	b.same("row", twice, b.get(twice.ID))
	b.same("the other row", other, b.get(other.ID))
}

func invalidInquiries(b *book) {
	for what, c := range map[string]struct {
		spoil func(t *ledger.Transaction)
		want  error
	}{
		"a payment":        {func(t *ledger.Transaction) { t.Kind = ledger.KindPayment }, ledger.ErrInvalidRow},
		"no kind":          {func(t *ledger.Transaction) { t.Kind = 0 }, ledger.ErrInvalidRow},
		"no ID":            {func(t *ledger.Transaction) { t.ID = "" }, ledger.ErrInvalidRow},
		"an amount":        {func(t *ledger.Transaction) { t.Amount = 1 }, ledger.ErrInvalidRow},
		"a key":            {func(t *ledger.Transaction) { t.Key = "key" }, ledger.ErrInvalidRow},
		"a policy":         {func(t *ledger.Transaction) { t.Policy = ledger.PolicyConfirm }, ledger.ErrInvalidRow},
		"raw account":      {func(t *ledger.Transaction) { t.AccountMasked = "12345678901234" }, ledger.ErrInvalidRow},
		"not ended":        {func(t *ledger.Transaction) { t.Status, t.Evidence = ledger.StatusRequested, 0 }, ledger.ErrIllegalMove},
		"no status":        {func(t *ledger.Transaction) { t.Status = 0 }, ledger.ErrIllegalMove},
		"no evidence":      {func(t *ledger.Transaction) { t.Evidence = 0 }, ledger.ErrIllegalMove},
		"resolved":         {func(t *ledger.Transaction) { t.Method = ledger.MethodNone }, ledger.ErrIllegalMove},
		"another answer":   {func(t *ledger.Transaction) { t.Answer.Code = "0051" }, ledger.ErrIllegalMove},
		"no answer at all": {func(t *ledger.Transaction) { t.Answer.Code = "" }, ledger.ErrIllegalMove},
	} {
		t := b.inquiry()
		id := t.ID
		c.spoil(&t)
		b.fails(what, b.Record(b.ctx, []ledger.Transaction{t}, payer), c.want)
		b.absent(id)
	}
	t := b.inquiry()
	b.fails("no actor", b.Record(b.ctx, []ledger.Transaction{t}, ledger.Actor{}), ledger.ErrInvalidRow)
	b.absent(t.ID)
}

func refusedPaymentBindsNothing(b *book) {
	in, want := b.refused()
	if err := b.Record(b.ctx, []ledger.Transaction{want}, payer); err != nil {
		b.Fatal(err)
	}
	b.same("row", want, b.get(want.ID))
	b.same("list", []tranid.ID{want.ID}, idsOf(b.list(ledger.Filter{Limit: 1, CorrelationID: in.CorrelationID})))
	events := b.events(want.ID)
	if len(events) != 1 {
		b.Fatalf("%d events, want 1", len(events))
	}
	b.same("event", ledger.Event{
		Sequence: events[0].Sequence, At: events[0].At, To: want.Status, Evidence: want.Evidence,
		By: payer, Detail: want.Reason,
	}, events[0])
	_, err := b.GetByKey(b.ctx, in.Client, in.Key)
	b.fails("by its key", err, ledger.ErrNotFound)
	b.free("its key", in)
	b.fails("again", b.Record(b.ctx, []ledger.Transaction{want}, payer), ledger.ErrDuplicateID)
	_, err = b.CreateIntent(b.ctx, in)
	b.fails("an intent with its ID", err, ledger.ErrDuplicateID)
	in.ID, in.Fingerprint = b.newID(), ledger.Hash{9}
	b.create(in)
	b.same("row once another has the key", want, b.get(want.ID))
}

func refusedPaymentLeavesTheHolder(b *book) {
	in, want := b.refused()
	holder := in
	holder.ID = b.newID()
	stored := b.move(b.create(holder).ID, toSuccess)
	if err := b.Record(b.ctx, []ledger.Transaction{want}, payer); err != nil {
		b.Fatal(err)
	}
	byKey, err := b.GetByKey(b.ctx, in.Client, in.Key)
	if err != nil {
		b.Fatal(err)
	}
	b.same("row by key", stored, byKey)
	b.held("holder of the key", stored, holder)
}

func sentPaymentIsNotRecorded(b *book) {
	for what, c := range map[string]struct {
		spoil func(t *ledger.Transaction)
		want  error
	}{
		"requested": {func(t *ledger.Transaction) { t.Status, t.Evidence = ledger.StatusRequested, 0 }, ledger.ErrInvalidRow},
		"unknown":   {func(t *ledger.Transaction) { t.Status, t.Evidence = ledger.StatusUnknown, 0 }, ledger.ErrInvalidRow},
		"success": {func(t *ledger.Transaction) {
			t.Status, t.Evidence, t.Answer.Code = ledger.StatusSuccess, ledger.EvidenceAnswered, "0000"
		}, ledger.ErrInvalidRow},
		"declined": {func(t *ledger.Transaction) {
			t.Evidence, t.Answer.Code = ledger.EvidenceAnswered, "0051"
		}, ledger.ErrInvalidRow},
		"canceled":  {func(t *ledger.Transaction) { t.Status = ledger.StatusCanceled }, ledger.ErrInvalidRow},
		"sent":      {func(t *ledger.Transaction) { t.SentAt = t.RequestedAt }, ledger.ErrIllegalMove},
		"answered":  {func(t *ledger.Transaction) { t.Answer.Code = "0051" }, ledger.ErrIllegalMove},
		"no key":    {func(t *ledger.Transaction) { t.Key = "" }, ledger.ErrInvalidRow},
		"no amount": {func(t *ledger.Transaction) { t.Amount = 0 }, ledger.ErrInvalidRow},
		"no policy": {func(t *ledger.Transaction) { t.Policy = 0 }, ledger.ErrInvalidRow},
	} {
		_, t := b.refused()
		c.spoil(&t)
		b.fails(what, b.Record(b.ctx, []ledger.Transaction{t}, payer), c.want)
		b.absent(t.ID)
	}
}
