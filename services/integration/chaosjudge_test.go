package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	reconciliationv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/reconciliation/v1"
	simulatorv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/simulator/v1"

	"github.com/gwanmun/gwanmun/pkg/access"
	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/simulation/audit"
)

// chaosReasons is all that a caller may be told in chaos. Without a reason of
// ours it is the transport that speaks, or his own hanging up.
var chaosReasons = []ledger.Reason{
	ledger.ReasonAccountNotFound, ledger.ReasonDeclined, ledger.ReasonOutcomeUnknown, ledger.ReasonPaymentCanceled,
	ledger.ReasonNotExecuted, ledger.ReasonDeadlineTooShort, ledger.ReasonSendWindowMissed, ledger.ReasonCircuitOpen,
	ledger.ReasonCoreUnreachable, ledger.ReasonLedgerUnavailable, ledger.ReasonLinkSaturated, ledger.ReasonInProgress,
	ledger.ReasonOrderAlreadyPaid, ledger.ReasonOrderInDoubt, ledger.ReasonTransactionNotFound,
}

// evidenceOfDay is all that is known of a run when it is over, from each side.
type evidenceOfDay struct {
	frames   *audit.Transcript
	versions []version
	books    *books
	heard    []heard
	opened   map[string]*simulatorv1.Account
	closed   map[string]*simulatorv1.Account
	// begun and calm are when the first caller called, and when all troubles were
	// over; ended is when the books were read.
	begun, calm, ended time.Time
	instances          []*instance
	differences        []ledger.Difference
	unsettled          map[tranid.Date]string
}

// judge has the auditor of the simulation look at all that is known.
func (e *evidenceOfDay) judge() *audit.Auditor {
	day := &audit.Transcript{}
	day.Add(e.frames)
	accounts := slices.DeleteFunc(slices.Concat(chaosAccounts, chaosHabits), func(n string) bool { return strings.Trim(n, "0") == "" })
	e.tellAccounts(day)
	for _, v := range e.versions {
		day.At(v.at, v.tell)
	}
	for _, entry := range e.books.journal {
		day.At(entry.GetAt().AsTime(), func(a *audit.Auditor) { a.Core(entryOf(entry)) })
	}
	for i := range e.heard {
		day.At(e.heard[i].at, e.heard[i].tell)
	}
	day.At(e.calm.Add(chaosBound), func(a *audit.Auditor) {
		for id := range a.Open() {
			a.Late(id, chaosBound)
		}
	})
	e.tellInstances(day)
	day.At(e.ended, e.tellEnd)
	return day.Judge(audit.Options{KeyLife: chaosKeyLife, Accounts: accounts, Reasons: chaosReasons})
}

// chaosKeyLife is how long keys live, longer than any run.
const chaosKeyLife = 24 * time.Hour

// tellAccounts tells what the accounts had before and after. The core opens an
// account when it is first asked for, with what it says beforehand.
func (e *evidenceOfDay) tellAccounts(day *audit.Transcript) {
	for _, number := range slices.Sorted(maps.Keys(e.opened)) {
		before, after := e.opened[number], e.closed[number]
		day.At(e.begun, func(a *audit.Auditor) { a.Opened(before.GetAccountMasked(), account.Won(before.GetBalance())) })
		day.At(e.ended, func(a *audit.Auditor) { a.Balance(after.GetAccountMasked(), account.Won(after.GetBalance())) })
	}
}

func entryOf(e *simulatorv1.JournalEntry) audit.Entry {
	return audit.Entry{
		Sequence: e.GetSequence(), MTI: e.GetMti(), ID: tranid.ID(e.GetTransactionId()), Account: e.GetAccountMasked(),
		Amount: account.Won(e.GetAmount()), Effect: short(e.GetEffect(), "JOURNAL_EFFECT_"), Code: e.GetResponseCode(),
	}
}

// tell tells what a caller was told.
func (h *heard) tell(a *audit.Auditor) {
	r := audit.Reply{
		Client: access.Everyone().ID, Key: ledger.IdempotencyKey(h.key), Order: ledger.OrderID(h.order), OK: h.code == codes.OK,
		Reason: reasonOf(h.reason()), Replayed: h.replayed,
	}
	if h.row != nil {
		t := rowOf(h.row)
		r.Transaction = &t
	}
	switch {
	case h.info == nil && (h.code == codes.Unavailable || h.code == codes.Canceled || h.code == codes.DeadlineExceeded):
		// It is not of ours.
	case h.rpc == balance:
		a.Inquired(r)
		if r.OK {
			a.ToldBalance(h.masked(), h.asked, account.Won(h.balance))
		}
	case h.rpc == get && r.OK && r.Transaction != nil:
		a.Shown(r.Client, r.Key, r.Transaction)
	default:
		a.Told(r)
	}
}

// masked is the account of a balance as the journal names it.
func (h *heard) masked() string {
	const shown = 6
	return h.number[:shown] + "****" + h.number[len(h.number)-4:]
}

// reasonOf reads the name of a reason; one that nobody knows is a fault of ours.
func reasonOf(name string) ledger.Reason {
	for r := ledger.ReasonInvalidRequest; r <= ledger.ReasonPermissionDenied; r++ {
		if r.String() == name {
			return r
		}
	}
	if name == "" {
		return 0
	}
	return ledger.ReasonInternal
}

// parsed reads a name of an enum of the contract; one that nobody knows is zero.
func parsed[T any](name fmt.Stringer, prefix string, parse func(string) (T, error)) T {
	v, _ := parse(short(name, prefix))
	return v
}

// rowOf is a transaction as the contract shows it.
func rowOf(row *ledgerv1.Transaction) ledger.Transaction {
	return ledger.Transaction{
		ID: tranid.ID(row.GetTransactionId()), Kind: parsed(row.GetKind(), "TRANSACTION_KIND_", ledger.ParseKind),
		Status: parsed(row.GetStatus(), "TRANSACTION_STATUS_", ledger.ParseStatus), Evidence: parsed(row.GetEvidence(), "EVIDENCE_", ledger.ParseEvidence),
		Client: ledger.ClientID(row.GetClientId()), Key: ledger.IdempotencyKey(row.GetIdempotencyKey()), Order: ledger.OrderID(row.GetOrderId()),
		AccountMasked: row.GetAccountMasked(), Amount: account.Won(row.GetAmount()),
	}
}

func eventsOf(all []*ledgerv1.TransactionEvent) []ledger.Event {
	events := make([]ledger.Event, len(all))
	for i, e := range all {
		events[i] = ledger.Event{
			Sequence: e.GetSequence(), At: e.GetAt().AsTime(), From: parsed(e.GetFromStatus(), "TRANSACTION_STATUS_", ledger.ParseStatus),
			To: parsed(e.GetToStatus(), "TRANSACTION_STATUS_", ledger.ParseStatus), Evidence: parsed(e.GetEvidence(), "EVIDENCE_", ledger.ParseEvidence),
			By: ledger.Actor{Name: e.GetActor(), Instance: e.GetInstance(), TraceID: e.GetTraceId()}, Detail: e.GetDetail(),
		}
	}
	return events
}

// tellInstances tells which payment services ended in order, or still stand with
// nothing left to write: they have lost no row that they told of.
func (e *evidenceOfDay) tellInstances(day *audit.Transcript) {
	names := map[string]string{}
	for _, v := range e.versions {
		by := v.events[0].By.Instance // payment-host-pid-random
		if parts := strings.Split(by, "-"); parts[0] == "payment" && len(parts) > 2 {
			names[parts[len(parts)-2]] = by
		}
	}
	for _, who := range e.instances {
		if who.payment == nil || who.lossy.Load() {
			continue
		}
		var told []tranid.ID
		for i := range e.heard {
			behind := e.heard[i].rpc == balance || e.heard[i].row.GetEvidence() == ledgerv1.Evidence_EVIDENCE_NOT_SENT
			if e.heard[i].by == who && e.heard[i].row != nil && behind {
				told = append(told, tranid.ID(e.heard[i].id()))
			}
		}
		at := e.ended
		if !who.left.IsZero() {
			at = who.left
		}
		name := names[fmt.Sprint(who.cmd.Process.Pid)]
		day.At(at, func(a *audit.Auditor) { a.Drained(name, told, nil) })
	}
}

// tellEnd tells what the services say of the ledger in the end, what they alarmed on,
// and what settlement found.
func (e *evidenceOfDay) tellEnd(a *audit.Auditor) {
	rows, last := map[tranid.ID]bool{}, map[tranid.ID]version{}
	for _, v := range e.versions {
		last[v.row.ID] = v
	}
	for id, row := range e.books.rows {
		t := rowOf(row)
		rows[t.ID] = true
		if t.Kind.MovesMoney() {
			a.Shown(t.Client, t.Key, &t)
		} else {
			a.Inquired(audit.Reply{Client: t.Client, OK: true, Transaction: &t})
		}
		v := last[t.ID]
		v.at, v.events = e.ended, eventsOf(e.books.events[id])
		v.tell(a)
	}
	a.Kept(rows)
	for _, who := range e.instances {
		for _, line := range who.log.with("msg", "ghost") {
			a.Alarm(tranid.ID(line.field("transaction_id")))
		}
	}
	for i := range e.differences {
		a.Difference(&e.differences[i])
	}
	for day, why := range e.unsettled {
		a.Unsettled(day, why)
	}
}

// judge puts together what is known of the run, and has it looked at.
func (c *chaos) judge(b *books) {
	c.t.Helper()
	e := c.evidence(b)
	auditor := e.judge()
	for _, v := range auditor.Violations() {
		c.t.Errorf("the auditor: %s %s", v.At.Format("15:04:05.000000"), v)
	}
	tally, ghosts, paid := auditor.Tally(), 0, 0
	for _, who := range c.everyone {
		ghosts += len(who.log.with("msg", "ghost"))
	}
	for _, entry := range b.journal {
		if entry.GetEffect() == debited && b.rows[entry.GetTransactionId()].GetOrderId() != "" {
			paid++
		}
	}
	c.t.Logf("%d versions of %d rows, %d entries in the journal, %d replies; %d ghosts; %+v", len(e.versions), len(b.rows), len(b.journal),
		len(e.heard), ghosts, tally)
	if tally.Success == 0 || tally.Failed == 0 || tally.Canceled == 0 || tally.Doubted == 0 || paid == 0 {
		c.t.Errorf("this run tried nothing: %+v, %d payments for orders", tally, paid)
	}
}

// evidence is what is known of the run, now that it is over and settled.
func (c *chaos) evidence(b *books) *evidenceOfDay {
	c.t.Helper()
	e := &evidenceOfDay{
		frames: &c.day, books: b, heard: c.heard.all, opened: c.opened, closed: c.accounts(), begun: c.beganAt, calm: c.calmAt, ended: time.Now(),
		unsettled: map[tranid.Date]string{},
	}
	e.settle(c)
	e.instances, e.versions = c.everyone, c.db.versions(c.t)
	return e
}

// accounts are all accounts as the core has them.
func (c *chaos) accounts() map[string]*simulatorv1.Account {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callFor)
	defer cancel()
	all := map[string]*simulatorv1.Account{}
	for _, number := range slices.Concat(chaosAccounts, chaosHabits) {
		resp, err := c.core.GetAccount(ctx, &simulatorv1.GetAccountRequest{AccountNumber: number})
		if err != nil {
			c.t.Fatalf("ask for an account: %v", err)
		}
		if resp.GetAccount().GetExists() {
			all[number] = resp.GetAccount()
		}
	}
	return all
}

// settle has a reconciler compare the days of the run.
func (e *evidenceOfDay) settle(c *chaos) {
	c.t.Helper()
	r := c.spawnReconciler(c.t, override(c.tapped(chaosReconciler), []string{"--listing-addr=" + c.core.address(c.t, "listing")})...)
	r.dirty = true
	r.awaitReady(c.t)
	c.add(&instance{process: r.process})
	for _, day := range slices.Compact([]tranid.Date{tranid.DateOf(e.begun), tranid.DateOf(e.ended)}) {
		run := r.settle(c.t, day)
		if run.GetState() != reconciliationv1.RunState_RUN_STATE_SUCCEEDED {
			e.unsettled[day] = run.String()
		}
		c.t.Logf("settlement of %s: %s, %d equal", day, run.GetState(), run.GetMatchCount())
	}
	e.differences = r.differences(c.t)
}

// differences are all that settlement found and that are not closed.
func (r *reconciler) differences(t testing.TB) []ledger.Difference {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callFor)
	defer cancel()
	var all []ledger.Difference
	for token, more := "", true; more; more = token != "" {
		page, err := r.ListDiscrepancies(ctx, &reconciliationv1.ListDiscrepanciesRequest{PageToken: token})
		if err != nil {
			t.Fatalf("list discrepancies: %v", err)
		}
		for _, d := range page.GetDiscrepancies() {
			if d.GetState() == reconciliationv1.DiscrepancyState_DISCREPANCY_STATE_CLOSED {
				continue
			}
			all = append(all, ledger.Difference{
				ID: tranid.ID(d.GetTransactionId()), Class: parsed(d.GetClass(), "DISCREPANCY_CLASS_", ledger.ParseDiscrepancyClass),
				LedgerStatus: parsed(d.GetLedgerStatus(), "TRANSACTION_STATUS_", ledger.ParseStatus), CoreState: ledger.CoreState(d.GetCoreState()),
			})
		}
		token = page.GetNextPageToken()
	}
	return all
}
