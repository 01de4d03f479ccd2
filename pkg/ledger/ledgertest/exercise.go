// Package ledgertest is the suite that every ledger.Store passes: what the
// comments of the interface promise, each as a case of its own, with the losing
// side of every compare-and-set.
//
// The clock of a database cannot be moved. Cases that need time to pass use
// delays that have passed already: negative ones.
package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// caseTimeout ends a case that hangs.
const caseTimeout = 30 * time.Second

// conformance is one thing that a store promises.
type conformance struct {
	name string
	run  func(b *book)
}

// Exercise runs the suite, each case on a store of its own that newStore makes
// empty, and reports which store passed how many cases. Stores are closed by
// whoever makes them.
func Exercise(t *testing.T, newStore func(t *testing.T) ledger.Store) {
	t.Helper()
	var cases []conformance
	for _, chapter := range [][]conformance{
		intentCases, intentRaceCases, boundCases, keyLifeCases, orderCases, recordCases, transitionCases, outcomeCases, eventCases,
		adoptionCases, claimCases, postponeCases, decisionCases, settledCases, owedCases, hastenCases, backlogCases, readerCases, listCases, blockCases, contextCases,
		settlementCases, discrepancyCases,
		purgeCases, retireCases,
	} {
		cases = append(cases, chapter...)
	}
	name, ran, failed := "", 0, 0
	for _, c := range cases {
		ok := t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			ran++
			store := newStore(t)
			name = storeName(store)
			ctx, cancel := context.WithTimeout(context.Background(), caseTimeout)
			defer cancel()
			c.run(&book{T: t, Store: store, ctx: ctx, day: tranid.DateOf(time.Now())})
		})
		if !ok {
			failed++
		}
	}
	switch {
	case failed > 0:
		Report(t, name, fmt.Sprintf("%d of %d cases FAILED", failed, len(cases)))
	case ran == len(cases):
		Report(t, name, fmt.Sprintf("%d cases", ran))
	case ran > 0: // go test -run
		Report(t, name, fmt.Sprintf("%d of %d cases, as asked for", ran, len(cases)))
	}
}

// ReportVariable names the environment variable with the file to which each run
// of the suite adds its line: go test shows nothing of what passes or is skipped.
const ReportVariable = "GWANMUN_CONFORMANCE_REPORT"

// Report tells what became of the suite on a store, or why it did not run.
func Report(t *testing.T, store, outcome string) {
	t.Helper()
	line := store + ": " + outcome
	_, err := fmt.Fprintln(os.Stdout, "conformance:", line)
	if path := os.Getenv(ReportVariable); path != "" && err == nil {
		err = appendLine(path, line)
	}
	if err != nil {
		t.Errorf("report: %v", err)
	}
}

func appendLine(path, line string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(line + "\n")
	return errors.Join(err, file.Close())
}

func storeName(s ledger.Store) string {
	if named, ok := s.(interface{ Name() string }); ok {
		return named.Name()
	}
	return fmt.Sprintf("%T", s)
}

// book is a case's store, with the steps of which cases are made. A step that
// does not do what it says ends the case.
type book struct {
	*testing.T
	ledger.Store
	ctx   context.Context //nolint:containedctx // a case is one call of the test's
	day   tranid.Date
	count atomic.Int64
}

var (
	payer    = ledger.Actor{Name: ledger.ActorPayment, Instance: "payment-1", TraceID: "0123456789abcdef0123456789abcdef"}
	resolver = ledger.Actor{Name: ledger.ActorReconciler, Instance: "reconciler-1"}
	operator = ledger.Actor{Name: "operator:kim", Instance: "reconciler-1"}
)

// newID is an ID that no one had.
func (b *book) newID() tranid.ID { return tranid.New(b.day, b.count.Add(1)) }

// intent is a payment that nobody else has.
func (b *book) intent() ledger.Intent {
	id := b.newID()
	return ledger.Intent{
		ID: id, Client: "shop", Key: ledger.IdempotencyKey("key-" + string(id)), Fingerprint: ledger.Hash{1},
		AccountMasked: "123456****1234", AccountHash: ledger.Hash{2}, Amount: 5000, Policy: ledger.PolicyNetCancel,
		RequestedAt: time.Now(), CorrelationID: "corr-" + string(id), AdoptAfter: time.Hour, KeyLife: time.Hour, By: payer,
	}
}

// create stores an intent that must be new.
func (b *book) create(in ledger.Intent) ledger.Transaction {
	b.Helper()
	admission, err := b.CreateIntent(b.ctx, in)
	if err != nil || !admission.Created {
		b.Fatalf("create intent %s: created %t, error %v", in.ID, admission.Created, err)
	}
	return admission.Transaction
}

// requested is a payment whose exchange has not ended.
func (b *book) requested() ledger.Transaction {
	b.Helper()
	return b.create(b.intent())
}

// abandoned is a payment of which nobody will report the end.
func (b *book) abandoned() ledger.Transaction {
	b.Helper()
	in := b.intent()
	in.AdoptAfter = -time.Second
	return b.create(in)
}

// unknown is a payment whose answer never came.
func (b *book) unknown() ledger.Transaction {
	b.Helper()
	return b.move(b.requested().ID, toUnknown)
}

// step is a move without the transaction that makes it.
type step ledger.Change

// The moves that cases make.
var (
	toUnknown = step{From: ledger.StatusRequested, To: ledger.StatusUnknown, Reason: "no answer came", By: payer}
	toSuccess = step{
		From: ledger.StatusRequested, To: ledger.StatusSuccess, Evidence: ledger.EvidenceAnswered,
		Answer: ledger.Answer{Code: "0000", Message: "정상", Approval: "00000000001"}, By: payer,
	}
	toDeclined = step{
		From: ledger.StatusRequested, To: ledger.StatusFailed, Evidence: ledger.EvidenceAnswered,
		Answer: ledger.Answer{Code: "0051", Message: "잔액부족"}, Reason: "declined", By: payer,
	}
	toNotSent = step{
		From: ledger.StatusRequested, To: ledger.StatusFailed, Evidence: ledger.EvidenceNotSent,
		Reason: "dial refused", By: payer,
	}
	toUsedID = step{
		From: ledger.StatusRequested, To: ledger.StatusUnknown, Answer: ledger.Answer{Code: ledger.CodeIDUsed}, By: payer,
	}
	toLateSuccess = step{
		From: ledger.StatusUnknown, To: ledger.StatusSuccess, Evidence: ledger.EvidenceAnswered,
		Answer: ledger.Answer{Code: "0000", Approval: "00000000002"}, By: payer,
	}
	toLateDeclined = step{
		From: ledger.StatusUnknown, To: ledger.StatusFailed, Evidence: ledger.EvidenceAnswered,
		Answer: ledger.Answer{Code: "0051"}, By: payer,
	}
	toLateUsedID = step{
		From: ledger.StatusUnknown, To: ledger.StatusUnknown, Answer: ledger.Answer{Code: ledger.CodeIDUsed}, By: payer,
	}
	toProcessed = step{
		From: ledger.StatusUnknown, To: ledger.StatusSuccess, Evidence: ledger.EvidenceProcessed,
		Method: ledger.MethodStatusInquiry, By: resolver,
	}
	toCanceled = step{
		From: ledger.StatusUnknown, To: ledger.StatusCanceled, Evidence: ledger.EvidenceCancelConfirmed,
		Method: ledger.MethodNetCancel, By: resolver,
	}
	toFenced = step{
		From: ledger.StatusUnknown, To: ledger.StatusFailed, Evidence: ledger.EvidenceFenced,
		Method: ledger.MethodStatusInquiry, By: resolver,
	}
	toWindowElapsed = step{
		From: ledger.StatusUnknown, To: ledger.StatusFailed, Evidence: ledger.EvidenceWindowElapsed,
		Method: ledger.MethodStatusInquiry, By: resolver,
	}
	toNoEffect = step{
		From: ledger.StatusUnknown, To: ledger.StatusFailed, Evidence: ledger.EvidenceNoEffect,
		Method: ledger.MethodNone, By: resolver,
	}
)

// What an operator says of a payment that needs review.
var (
	toSettledDone     = step(ledger.Settlement("", ledger.StatusSuccess, "the bank has it", operator))
	toSettledFailed   = step(ledger.Settlement("", ledger.StatusFailed, "the bank does not have it", operator))
	toSettledCanceled = step(ledger.Settlement("", ledger.StatusCanceled, "the bank has undone it", operator))
)

func (s step) of(id tranid.ID) ledger.Change {
	s.ID = id
	return ledger.Change(s)
}

func (s step) String() string {
	return fmt.Sprintf("%s to %s on %s by %s", s.From, s.To, s.Evidence, s.Method)
}

// move makes a move that must be made, of a row that must be stored as it is
// returned.
func (b *book) move(id tranid.ID, s step) ledger.Transaction {
	b.Helper()
	t, err := b.Transition(b.ctx, s.of(id))
	if err != nil {
		b.Fatalf("%s: %v", s, err)
	}
	b.same("the row stored against the row returned", t, b.get(id))
	return t
}

// refuse tries a move that must fail with want, and leave the row and its
// history as they are.
func (b *book) refuse(id tranid.ID, s step, want error) {
	b.Helper()
	before, history := b.get(id), b.events(id)
	_, err := b.Transition(b.ctx, s.of(id))
	b.fails(s.String(), err, want)
	if errors.Is(want, ledger.ErrLost) {
		b.lostTo(err, before)
	}
	b.same("row after a refused move", before, b.get(id))
	b.same("history after a refused move", history, b.events(id))
}

func (b *book) decide(id tranid.ID) ledger.Transaction {
	b.Helper()
	t, err := b.Decide(b.ctx, id, resolver, "cancel it")
	if err != nil || t.Decision != ledger.DecisionCancel {
		b.Fatalf("decide: %q, error %v", t.Decision, err)
	}
	return t
}

func (b *book) get(id tranid.ID) ledger.Transaction {
	b.Helper()
	t, err := b.Get(b.ctx, id)
	if err != nil {
		b.Fatalf("get: %v", err)
	}
	return t
}

func (b *book) events(id tranid.ID) []ledger.Event {
	b.Helper()
	events, err := b.Events(b.ctx, id)
	if err != nil {
		b.Fatalf("events: %v", err)
	}
	return events
}

// claim takes what is due, for an hour.
func (b *book) claim(limit int) []ledger.Claim {
	b.Helper()
	claims, err := b.Claim(b.ctx, ledger.ClaimOptions{Limit: limit, Lease: time.Hour})
	if err != nil {
		b.Fatalf("claim: %v", err)
	}
	return claims
}

// same fails the case unless both are equal; times are equal if they are the
// same moment, and an empty slice is as good as none.
func (b *book) same(what string, want, got any) {
	b.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(tranid.Date{}), cmpopts.EquateEmpty()); diff != "" {
		b.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// fails fails the case unless err is want.
func (b *book) fails(what string, err, want error) {
	b.Helper()
	if !errors.Is(err, want) {
		b.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// lostTo fails the case unless err is a lost compare-and-set that shows the row
// that won.
func (b *book) lostTo(err error, want ledger.Transaction) {
	b.Helper()
	var lost *ledger.LostError
	if !errors.As(err, &lost) {
		b.Errorf("error %v is no LostError", err)
		return
	}
	b.same("what a lost compare-and-set found", want, lost.Current)
}

// absent fails the case if there is such a transaction.
func (b *book) absent(id tranid.ID) {
	b.Helper()
	_, err := b.Get(b.ctx, id)
	b.fails("get "+string(id), err, ledger.ErrNotFound)
	if n := len(b.events(id)); n != 0 {
		b.Errorf("%s has %d events", id, n)
	}
}

// together calls f from n goroutines that start at once, with 0 to n-1, and
// waits for all.
func together(n int, f func(i int)) {
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	all.Wait()
}
