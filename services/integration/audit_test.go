package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	simulatorv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/simulator/v1"
)

const (
	requested = ledgerv1.TransactionStatus_TRANSACTION_STATUS_REQUESTED
	success   = ledgerv1.TransactionStatus_TRANSACTION_STATUS_SUCCESS
	failed    = ledgerv1.TransactionStatus_TRANSACTION_STATUS_FAILED
	unknown   = ledgerv1.TransactionStatus_TRANSACTION_STATUS_UNKNOWN
	canceled  = ledgerv1.TransactionStatus_TRANSACTION_STATUS_CANCELED

	debited  = simulatorv1.JournalEffect_JOURNAL_EFFECT_DEBIT
	undone   = simulatorv1.JournalEffect_JOURNAL_EFFECT_CANCEL
	fenced   = simulatorv1.JournalEffect_JOURNAL_EFFECT_FENCE
	noEffect = simulatorv1.JournalEffect_JOURNAL_EFFECT_NONE

	// auditPage is the size of the pages in which the books are read; small, so
	// that paging is at work too.
	auditPage = 40
	// auditFor is how long reading the books may take, after hours of chaos too.
	auditFor = 30 * time.Minute
)

// fate is what the core did about one transaction.
type fate struct {
	entries []*simulatorv1.JournalEntry
	effects map[simulatorv1.JournalEffect]int
	mtis    map[string]int
}

// stands is how many of its debits stand.
func (f *fate) stands() int { return f.effects[debited] - f.effects[undone] }

// books are both books, read whole.
type books struct {
	rows    map[string]*ledgerv1.Transaction
	events  map[string][]*ledgerv1.TransactionEvent
	fates   map[string]*fate
	journal []*simulatorv1.JournalEntry
}

// of is what the core did about a transaction; never nil.
func (b *books) of(id string) *fate {
	if f, ok := b.fates[id]; ok {
		return f
	}
	return &fate{effects: map[simulatorv1.JournalEffect]int{}, mtis: map[string]int{}}
}

// audit waits until every transaction is final, reads both books whole, and
// holds them against each other, against what left on the wire, and against the
// promises. Every test ends with it.
func (s *stack) audit(t testing.TB, p *payment) *books {
	t.Helper()
	open := 0
	if s.unsettled != "" {
		open = 1
	}
	p.settled(t, open)
	s.written(t)
	b := s.read(t, p)
	if len(b.rows) == 0 && len(b.journal) == 0 {
		t.Error("audit: both books are empty")
	}
	for id, f := range b.fates {
		// An intent stands before the first byte; an inquiry's row follows, however
		// long the ledger was down, unless its process was killed.
		if b.rows[id] == nil && (!s.lossy || f.mtis["0200"] != len(f.entries)) {
			t.Errorf("audit: the core knows %s, the ledger does not: %v", id, f.entries)
		}
	}
	s.compare(t, b)
	return b
}

// compare holds each row against what the core did and what left on the wire, and
// each key against all of its rows.
func (s *stack) compare(t testing.TB, b *books) {
	t.Helper()
	debits, sent := map[string]int{}, map[string]int{}
	left := map[string]int{}
	for _, seen := range s.wire.sightings(fromCaller, "0100", "") {
		left[seen.tranID]++
	}
	for id, row := range b.rows {
		f := b.of(id)
		if id == s.unsettled {
			continue
		}
		for _, err := range []error{agrees(row, f), leads(row, b.events[id])} {
			if err != nil {
				t.Errorf("audit: %s: %v\n%v\njournal %v\nevents %v", id, err, row, f.entries, b.events[id])
			}
		}
		if key := row.GetIdempotencyKey(); key != "" {
			debits[key] += f.effects[debited]
			sent[key] += left[id]
		}
	}
	for key, n := range debits {
		if n > 1 {
			t.Errorf("audit: %d debits for the key %s", n, key)
		}
	}
	for key, n := range sent {
		if n > 1 {
			t.Errorf("audit: %d payments left for the key %s", n, key)
		}
	}
}

// written waits until no row waits to be written behind its answer. Who has ended,
// maybe before it listened, writes no more.
func (s *stack) written(t testing.TB) {
	t.Helper()
	for _, p := range s.payments {
		select {
		case <-p.exited:
			continue
		default:
		}
		eventually(t, p.name+" has written all rows", func(ctx context.Context) error {
			code, page := p.fetch(ctx, t, "/metrics")
			if code == http.StatusOK && !strings.Contains(page, "\ngwanmun_ledger_queue_depth 0\n") {
				return errUnseen
			}
			return nil
		})
	}
}

// read reads both books whole.
func (s *stack) read(t testing.TB, p *payment) *books {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), auditFor)
	defer cancel()
	b := &books{
		rows: map[string]*ledgerv1.Transaction{}, events: map[string][]*ledgerv1.TransactionEvent{}, fates: map[string]*fate{},
	}
	for token, more := "", true; more; more = token != "" {
		page, err := p.ListTransactions(ctx, &ledgerv1.ListTransactionsRequest{PageSize: auditPage, PageToken: token})
		if err != nil {
			t.Fatalf("audit: list the ledger: %v", err)
		}
		for _, row := range page.GetTransactions() {
			if b.rows[row.GetTransactionId()] != nil {
				t.Errorf("audit: %s is listed twice", row.GetTransactionId())
			}
			b.rows[row.GetTransactionId()] = row
		}
		token = page.GetNextPageToken()
	}
	for id := range b.rows {
		resp, err := p.GetTransaction(ctx, &ledgerv1.GetTransactionRequest{TransactionId: id})
		if err != nil {
			t.Fatalf("audit: read %s: %v", id, err)
		}
		b.events[id] = resp.GetEvents()
	}
	s.readJournal(ctx, t, b)
	return b
}

// readJournal reads the core's journal, by transaction.
func (s *stack) readJournal(ctx context.Context, t testing.TB, b *books) {
	t.Helper()
	last := int64(0)
	for token, more := "", true; more; more = token != "" {
		page, err := s.core.ListJournal(ctx, &simulatorv1.ListJournalRequest{PageSize: auditPage, PageToken: token})
		if err != nil {
			t.Fatalf("audit: list the journal: %v", err)
		}
		for _, e := range page.GetEntries() {
			if e.GetSequence() != last+1 {
				t.Errorf("audit: entry %d of the journal comes after %d", e.GetSequence(), last)
			}
			last = e.GetSequence()
			b.journal = append(b.journal, e)
			f := b.of(e.GetTransactionId())
			f.entries = append(f.entries, e)
			f.effects[e.GetEffect()]++
			f.mtis[e.GetMti()]++
			b.fates[e.GetTransactionId()] = f
		}
		token = page.GetNextPageToken()
	}
}

// agrees holds a final row against what the core did.
func agrees(row *ledgerv1.Transaction, f *fate) error {
	if row.GetKind() != ledgerv1.TransactionKind_TRANSACTION_KIND_PAYMENT {
		if f.mtis["0100"]+f.mtis["0400"]+f.mtis["0420"] > 0 {
			return errors.New("an inquiry cost frames that are a payment's")
		}
		return nil
	}
	if f.effects[debited] > 1 {
		return fmt.Errorf("%d debits", f.effects[debited])
	}
	for _, e := range f.entries {
		if e.GetEffect() == debited && (e.GetAmount() != row.GetAmount() || e.GetAccountMasked() != row.GetAccountMasked()) {
			return fmt.Errorf("the debit is of %d won from %s", e.GetAmount(), e.GetAccountMasked())
		}
	}
	switch row.GetStatus() {
	case success:
		if f.stands() != 1 {
			return fmt.Errorf("SUCCESS, and %d debits stand", f.stands())
		}
	case failed, canceled:
		if f.stands() != 0 {
			return fmt.Errorf("%s, and %d debits stand", row.GetStatus(), f.stands())
		}
	default:
		return fmt.Errorf("%s is not final", row.GetStatus())
	}
	return proven(row, f)
}

// proven holds a row's evidence against what the core did.
func proven(row *ledgerv1.Transaction, f *fate) error {
	var wrong bool
	switch row.GetEvidence() {
	case ledgerv1.Evidence_EVIDENCE_NOT_SENT:
		wrong = len(f.entries) > 0 || row.GetSentAt() != nil
	case ledgerv1.Evidence_EVIDENCE_ANSWERED:
		wrong = f.mtis["0100"] == 0 || row.GetResponseCode() == "" ||
			(row.GetApprovalNumber() != "") != (row.GetStatus() == success)
	case ledgerv1.Evidence_EVIDENCE_PROCESSED:
		wrong = row.GetStatus() != success || f.mtis["0400"] == 0 || f.mtis["0420"] > 0 ||
			row.GetResolutionPolicy() != confirm
	case ledgerv1.Evidence_EVIDENCE_CANCEL_CONFIRMED:
		// The core says "canceled" of what it fenced off, too.
		wrong = f.effects[undone] != f.effects[debited] || f.effects[undone]+f.effects[fenced] != 1
	case ledgerv1.Evidence_EVIDENCE_FENCED:
		wrong = f.effects[fenced] != 1 || f.effects[debited] != 0
	case ledgerv1.Evidence_EVIDENCE_WINDOW_ELAPSED:
		wrong = f.mtis["0400"] < 2 || f.effects[debited] != 0
	case ledgerv1.Evidence_EVIDENCE_OPERATOR:
		wrong = row.GetResolutionMethod() != ledgerv1.ResolutionMethod_RESOLUTION_METHOD_OPERATOR || row.GetReason() == "" ||
			row.GetStatus() == success && f.mtis["0420"] > 0
	default:
		wrong = true
	}
	if f.mtis["0420"] > 0 && row.GetDecision() != ledgerv1.Decision_DECISION_CANCEL {
		return errors.New("a net cancel was sent, and the row has no decision")
	}
	if wrong {
		return fmt.Errorf("the evidence %s does not hold", row.GetEvidence())
	}
	return nil
}

// leads checks that a row's history leads to where it is, step by step.
func leads(row *ledgerv1.Transaction, events []*ledgerv1.TransactionEvent) error {
	var at ledgerv1.TransactionStatus
	for i, e := range events {
		switch {
		case e.GetFromStatus() != at:
			return fmt.Errorf("event %d begins at %s, not at %s", i+1, e.GetFromStatus(), at)
		case i > 0 && e.GetSequence() <= events[i-1].GetSequence():
			return fmt.Errorf("event %d does not ascend", i+1)
		case isFinal(at) && e.GetToStatus() != at:
			return fmt.Errorf("event %d leaves %s", i+1, at)
		}
		at = e.GetToStatus()
	}
	if at != row.GetStatus() {
		return fmt.Errorf("the history ends with %s", at)
	}
	return nil
}
