package audit

import (
	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// proofs are days that break what was learned from real processes, and what the ends
// of rows are held against.
var proofs = []telling{
	{"evidence holds", func(d *day) { // no answer is in the row
		d.paid(1, "a")
		t := d.rows[id(2)]
		t.ID, t.Kind, t.Amount, t.AccountMasked, t.Key = id(2), ledger.KindPayment, 1000, "123456****1234", "b"
		t.Status = ledger.StatusRequested
		d.row(t)
		d.sent(2)
		d.core(2, "0100", "DEBIT", 1000)
		t.Status, t.Evidence = ledger.StatusSuccess, ledger.EvidenceAnswered
		d.row(t)
	}},
	{"evidence holds", func(d *day) { // the core never was asked
		d.intent(1, "a", "")
		d.sent(1)
		d.core(1, "0100", "DEBIT", 1000)
		d.becomes(1, ledger.StatusUnknown, 0)
		d.becomes(1, ledger.StatusSuccess, ledger.EvidenceProcessed)
	}},
	{"evidence holds", func(d *day) { // the core knows the one that was not sent
		d.intent(1, "a", "")
		d.becomes(1, ledger.StatusFailed, ledger.EvidenceNotSent)
		d.core(1, "0100", "NONE", 0)
	}},
	{"evidence holds", func(d *day) { // nobody canceled
		d.intent(1, "a", "")
		d.sent(1)
		d.becomes(1, ledger.StatusUnknown, 0)
		d.decide(1)
		d.becomes(1, ledger.StatusCanceled, ledger.EvidenceCancelConfirmed)
	}},
	{"a decision comes before a net cancel", func(d *day) {
		d.intent(1, "a", "")
		d.sent(1)
		d.core(1, "0420", "NONE", 0)
	}},
	{"the core debits what was asked for", func(d *day) {
		d.intent(1, "a", "")
		d.sent(1)
		d.core(1, "0100", "DEBIT", 999)
	}},
	{"the core debits what was asked for", func(d *day) {
		d.intent(1, "a", "")
		d.sent(1)
		d.Opened("99999999999999", 5000)
		d.Core(Entry{Sequence: 1, MTI: "0100", ID: id(1), Account: "99999999999999", Amount: 1000, Effect: "DEBIT"})
	}},
	{"", func(d *day) { // a journal that masks
		d.intent(1, "a", "")
		d.sent(1)
		d.Opened("123456****1234", 5000)
		d.Core(Entry{Sequence: 1, MTI: "0100", ID: id(1), Account: "123456****1234", Amount: 1000, Effect: "DEBIT"})
		d.becomes(1, ledger.StatusSuccess, ledger.EvidenceAnswered)
	}},
	{"an ID is given out once", func(d *day) {
		d.intent(1, "a", "")
		d.sent(1)
		d.Core(Entry{Sequence: 1, MTI: "0100", ID: id(1), Effect: "NONE", Code: "0094"})
	}},
	{"an order is paid once", func(d *day) { // the first is FAILED, and its debit stands
		d.intent(1, "a", "o")
		d.sent(1)
		d.core(1, "0100", "DEBIT", 1000)
		d.becomes(1, ledger.StatusFailed, ledger.EvidenceAnswered)
		d.intent(2, "b", "o")
		d.sent(2)
		d.core(2, "0100", "DEBIT", 1000)
	}},
	{"an inquiry costs no frame of a payment", func(d *day) {
		d.row(ledger.Transaction{ID: id(1), Kind: ledger.KindBalanceInquiry, Status: ledger.StatusFailed, Evidence: ledger.EvidenceAnswered})
		d.core(1, "0100", "NONE", 0)
	}},
	{"what was committed stays", func(d *day) { d.paid(1, "a"); d.Kept(nil) }},
	{"a refusal has a reason", func(d *day) { d.Told(Reply{Client: "shop", Key: "a", Reason: ledger.ReasonInternal}) }},
	{"a refusal has a reason", func(d *day) { d.Told(Reply{Client: "shop", Key: "a"}) }},
	{"a refusal has a reason", func(d *day) { d.Inquired(Reply{Client: "shop"}) }},
	{"a reply says what the row says", func(d *day) { // the row of an inquiry, written behind its answer
		t := ledger.Transaction{ID: id(1), Kind: ledger.KindBalanceInquiry, Status: ledger.StatusSuccess, Evidence: ledger.EvidenceAnswered, Client: "shop"}
		d.Inquired(Reply{Client: "shop", OK: true, Transaction: &t})
		t.Status = ledger.StatusFailed
		d.row(t)
	}},
	{"an answer reaches its request alone", func(d *day) {
		d.paid(1, "a")
		t := d.rows[id(1)]
		d.Inquired(Reply{Client: "shop", OK: true, Transaction: &t})
	}},
	{"", func(d *day) { // of which a process that was killed may lose the row
		t := ledger.Transaction{ID: id(1), Kind: ledger.KindBalanceInquiry, Status: ledger.StatusSuccess, Evidence: ledger.EvidenceAnswered, Client: "shop"}
		d.Inquired(Reply{Client: "shop", OK: true, Transaction: &t})
	}},
	{"a reply says what the row says", func(d *day) { // the row says otherwise why
		d.intent(1, "a", "")
		d.sent(1)
		d.becomes(1, ledger.StatusFailed, ledger.EvidenceAnswered)
		t := d.rows[id(1)]
		t.Evidence = ledger.EvidenceFenced
		d.Told(Reply{Client: "shop", Key: "a", Reason: ledger.ReasonDeclined, Transaction: &t})
	}},
	{"a reply says what the row says", func(d *day) { // there never is a row
		d.Told(Reply{Client: "shop", Key: "a", Reason: ledger.ReasonDeclined, Transaction: &ledger.Transaction{
			ID: id(1), Status: ledger.StatusFailed, Evidence: ledger.EvidenceAnswered,
		}})
	}},
	{"", func(d *day) { // one that is written behind its answer may be lost
		d.Told(Reply{Client: "shop", Key: "a", Reason: ledger.ReasonCircuitOpen, Transaction: &ledger.Transaction{
			ID: id(1), Status: ledger.StatusFailed, Evidence: ledger.EvidenceNotSent,
		}})
	}},
	{"an answer reaches its request alone", func(d *day) { // the order of another
		d.intent(1, "a", "o")
		d.sent(1)
		d.core(1, "0100", "DEBIT", 1000)
		d.becomes(1, ledger.StatusSuccess, ledger.EvidenceAnswered)
		t := d.rows[id(1)]
		d.Told(Reply{Client: "shop", Key: "b", Order: "p", Reason: ledger.ReasonOrderAlreadyPaid, Transaction: &t})
	}},
	{"", func(d *day) {
		d.intent(1, "a", "o")
		d.sent(1)
		d.core(1, "0100", "DEBIT", 1000)
		d.becomes(1, ledger.StatusSuccess, ledger.EvidenceAnswered)
		t := d.rows[id(1)]
		d.Told(Reply{Client: "shop", Key: "b", Order: "o", Reason: ledger.ReasonOrderAlreadyPaid, Transaction: &t})
	}},
	{"an answer reaches its request alone", func(d *day) {
		d.intent(1, "a", "")
		d.sent(1)
		d.becomes(1, ledger.StatusFailed, ledger.EvidenceAnswered)
		d.told(1, "b", ledger.ReasonDeclined)
	}},
	{"every byte that left had an intent before", func(d *day) { d.Socket().Torn(request("0100", 1, 1000)[:30]) }},
	{"NOT_SENT means that no byte left", func(d *day) {
		d.intent(1, "a", "")
		d.Socket().Torn(request("0100", 1, 1000)[:30])
		d.becomes(1, ledger.StatusFailed, ledger.EvidenceNotSent)
	}},
	{"a socket with an unanswered request or an anomaly is never used again", func(d *day) {
		d.intent(1, "a", "")
		d.intent(2, "b", "")
		s := d.Socket()
		s.Torn(request("0100", 1, 1000)[:30])
		s.Sends(request("0100", 2, 1000))
	}},
	{"events are numbered", func(d *day) {
		d.intent(1, "a", "")
		t := d.rows[id(1)]
		t.Status = ledger.StatusUnknown
		d.Row(d.now, t, append(d.events[id(1)], ledger.Event{Sequence: 1, From: ledger.StatusRequested, To: ledger.StatusUnknown}))
	}},
}
