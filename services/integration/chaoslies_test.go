package integration

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
	simulatorv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/simulator/v1"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/simulation/audit"
)

// lie is one thing that is made to look otherwise than it was, and the rule by which
// the auditor must see it.
type lie struct {
	name, rule string
	plant      func(e *evidenceOfDay)
}

// lies are told of a run in which the first payment was paid, the second declined, the
// third confirmed after its answer was lost, and a balance told.
var lies = []lie{
	{"nothing", "", func(*evidenceOfDay) {}},
	{"an entry of the journal is left out", "the core's journal has no gaps", func(e *evidenceOfDay) {
		e.books.journal = slices.Delete(slices.Clone(e.books.journal), 0, 1)
	}},
	{"the ledger has another amount", "the core debits what was asked for", func(e *evidenceOfDay) {
		e.each(0, func(v *version) { v.row.Amount++ })
	}},
	{"the ledger has another account", "the core debits what was asked for", func(e *evidenceOfDay) {
		e.each(0, func(v *version) { v.row.AccountMasked = "271828****9045" })
	}},
	{"a decline is called a success", "SUCCESS has one live debit", func(e *evidenceOfDay) {
		e.each(1, func(v *version) {
			if v.row.Status == ledger.StatusFailed {
				v.row.Status = ledger.StatusSuccess
			}
		})
	}},
	{"a payment is called declined", "FAILED and CANCELED have no debit", func(e *evidenceOfDay) {
		e.each(0, func(v *version) {
			if v.row.Status == ledger.StatusSuccess {
				v.row.Status = ledger.StatusFailed
			}
		})
	}},
	{"a final row changes", "final rows never change", func(e *evidenceOfDay) {
		last := e.last(0)
		last.row.Reason = "another one"
		e.versions = append(e.versions, last)
	}},
	{"an event is edited", "events are appended, never edited", func(e *evidenceOfDay) {
		id := e.heard[0].id()
		e.books.events[id] = append([]*ledgerv1.TransactionEvent{{Sequence: 1, ToStatus: requested}}, e.books.events[id][1:]...)
	}},
	{"a row is gone in the end", "what was committed stays", func(e *evidenceOfDay) { delete(e.books.rows, e.heard[0].id()) }},
	{"the row of a balance never came", "a process that ends in order loses no row", func(e *evidenceOfDay) {
		id := e.heard[3].id()
		delete(e.books.rows, id)
		e.versions = slices.DeleteFunc(e.versions, func(v version) bool { return v.row.ID == tranid.ID(id) })
	}},
	{"the intent is stored after the frame", "every byte that left had an intent before", func(e *evidenceOfDay) {
		e.each(0, func(v *version) { v.at = v.at.Add(time.Minute) })
	}},
	{"OK is told before the row is SUCCESS", "OK means SUCCESS, durable", func(e *evidenceOfDay) { e.heard[0].at = e.heard[0].asked }},
	{"OK is told of a decline", "OK means SUCCESS, durable", func(e *evidenceOfDay) {
		e.heard[1].code, e.heard[1].info = 0, nil
	}},
	{"another final thing is told", "nobody is told two different final things", func(e *evidenceOfDay) {
		again := e.heard[0]
		again.key = e.heard[1].key
		e.heard = append(e.heard, again)
	}},
	{"what nobody may be told", "a refusal has a reason", func(e *evidenceOfDay) {
		e.heard[1].info = nil
	}},
	{"the balance of another", "an answer reaches its request alone", func(e *evidenceOfDay) { e.heard[3].balance++ }},
	{"money is gone in the end", "money is conserved", func(e *evidenceOfDay) { e.closed[ordinaryChaos].Balance-- }},
	{"a payment leaves twice", "at most one 0100 for a transaction", func(e *evidenceOfDay) {
		other := &audit.Transcript{}
		other.Add(e.frames)
		frame := make([]byte, 52)
		copy(frame, "0100"+e.heard[0].id())
		other.Wire().Sends(e.ended, frame)
		e.frames = other
	}},
	{"what is UNKNOWN stays so", "UNKNOWN becomes final in time, or needs review", func(e *evidenceOfDay) {
		e.calm = e.begun
		e.each(2, func(v *version) {
			if v.row.Status == ledger.StatusSuccess {
				v.at = v.at.Add(time.Hour)
			}
		})
		e.ended = e.ended.Add(2 * time.Hour)
	}},
	{"settlement finds a difference", "settlement finds no difference that cannot be explained", func(e *evidenceOfDay) {
		e.differences = append(e.differences, ledger.Difference{ID: tranid.ID(e.heard[0].id()), Class: ledger.ClassLedgerOnly})
	}},
	{"a day cannot be settled", "settlement of a day comes to an end", func(e *evidenceOfDay) {
		e.unsettled = map[tranid.Date]string{tranid.DateOf(e.begun): "no listing"}
	}},
}

// ordinaryChaos is the account that is told of here.
const ordinaryChaos = "31415926535800"

// clone is a copy that may be doctored.
func (e *evidenceOfDay) clone() *evidenceOfDay {
	c, b := *e, *e.books
	b.rows, b.events = maps.Clone(b.rows), maps.Clone(b.events)
	c.books, c.versions, c.heard, c.closed = &b, slices.Clone(e.versions), slices.Clone(e.heard), maps.Clone(e.closed)
	a := e.closed[ordinaryChaos]
	c.closed[ordinaryChaos] = &simulatorv1.Account{AccountMasked: a.GetAccountMasked(), Balance: a.GetBalance()}
	return &c
}

// each changes every version of the row that the nth reply was about.
func (e *evidenceOfDay) each(n int, change func(v *version)) {
	for i := range e.versions {
		if e.versions[i].row.ID == tranid.ID(e.heard[n].id()) {
			change(&e.versions[i])
		}
	}
}

// last is the last version of the row that the nth reply was about.
func (e *evidenceOfDay) last(n int) (last version) {
	e.each(n, func(v *version) { last = *v })
	return last
}

// TestChaosAuditor_CondemnsEachLie has a quiet run judged, as it was and with one lie
// after the other.
func TestChaosAuditor_CondemnsEachLie(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		e := quietRun(t, db).evidenceNow()
		for _, l := range lies {
			told := e.clone()
			l.plant(told)
			found := told.judge().Violations()
			broken := slices.ContainsFunc(found, func(v audit.Violation) bool { return v.Rule == l.rule })
			if broken != (l.rule != "") || l.rule == "" && len(found) > 0 {
				t.Errorf("%s: want %q, found %v", l.name, l.rule, found)
			}
		}
	})
}

// TestChaosAuditor_CondemnsWhatAnotherHandDid has a quiet run judged in which somebody
// doctors a row in the database itself, and the core is made to pay by another hand.
func TestChaosAuditor_CondemnsWhatAnotherHandDid(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		c := quietRun(t, db)
		ctx, cancel := context.WithTimeout(context.Background(), callFor)
		defer cancel()
		pool := db.open(t)
		_, err := pool.ExecContext(ctx, "UPDATE transactions SET amount = amount - 1 WHERE transaction_id = $1", c.heard.all[0].id())
		if err != nil {
			t.Fatalf("doctor a row: %v", err)
		}
		ghost := tranid.New(tranid.DateOf(time.Now()), tranid.MaxNumber)
		c.debit(t, ghost, ordinaryChaos)
		found := c.evidenceNow().judge().Violations()
		for _, want := range []audit.Violation{
			{Rule: "final rows never change", ID: tranid.ID(c.heard.all[0].id())},
			{Rule: "every byte that left had an intent before", ID: ghost},
			{Rule: "settlement finds no difference that cannot be explained", ID: ghost},
			{Rule: "settlement finds no difference that cannot be explained", ID: tranid.ID(c.heard.all[0].id())},
		} {
			if !slices.ContainsFunc(found, func(v audit.Violation) bool { return v.Rule == want.Rule && v.ID == want.ID }) {
				t.Errorf("%q of %s was not found in %v", want.Rule, want.ID, found)
			}
		}
	})
}

// quietRun is a run of which nobody disturbs anything.
func quietRun(t *testing.T, db *database) *chaos {
	t.Helper()
	c := newChaos(t, db, nil, 1)
	c.payments = []*post{c.newPost("payment 1", func() *instance { return c.newPayment(chaosPayment) })}
	c.begin()
	c.newReconciler()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	who := c.payments[0].who()
	for _, call := range []*paymentv1.CreatePaymentRequest{
		{IdempotencyKey: "paid", AccountNumber: ordinaryChaos, Amount: 1000, ResolutionPolicy: netCancel, OrderId: "basket"},
		{IdempotencyKey: "declined", AccountNumber: "22222222222222", Amount: 1000, ResolutionPolicy: netCancel},
		{IdempotencyKey: "lost", AccountNumber: "44444444444444", Amount: 1000, ResolutionPolicy: confirm},
	} {
		c.payAt(ctx, who, call)
	}
	c.askAt(ctx, who, ordinaryChaos)
	c.calmAt = time.Now()
	return c
}

// evidenceNow is the evidence of a quiet run, when all of it is final.
func (c *chaos) evidenceNow() *evidenceOfDay {
	c.t.Helper()
	p := c.payments[0].who().payment
	p.settled(c.t, 0)
	c.written(c.t)
	return c.evidence(c.read(c.t, p))
}
