package audit

import (
	"slices"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// TestTranscript_TellsADayInItsOrder writes a day down from its end to its beginning:
// what came first is told first. Then a frame is a moment too early, or the day ends
// with an OK that came before its row.
func TestTranscript_TellsADayInItsOrder(t *testing.T) {
	for name, c := range map[string]struct {
		sent, told time.Duration
		rule       string
	}{
		"as it should be":            {sent: 2, told: 5},
		"sent before the intent":     {sent: 0, told: 5, rule: "every byte that left had an intent before"},
		"OK before the row is final": {sent: 2, told: 3, rule: "OK means SUCCESS, durable"},
	} {
		begin := time.Date(2026, 3, 2, 1, 0, 0, 0, time.UTC)
		row := ledger.Transaction{
			ID: id(1), Kind: ledger.KindPayment, Status: ledger.StatusRequested, Client: "shop", Key: "a", Amount: 1000,
			AccountMasked: "123456****1234", Policy: ledger.PolicyNetCancel,
		}
		events := []ledger.Event{{Sequence: 7, To: ledger.StatusRequested}, {
			Sequence: 9, From: ledger.StatusRequested, To: ledger.StatusSuccess, Evidence: ledger.EvidenceAnswered,
		}}
		paid := row
		paid.Status, paid.Evidence, paid.Answer = ledger.StatusSuccess, ledger.EvidenceAnswered, ledger.Answer{Code: "0000", Approval: "12345678901"}
		var day Transcript
		wire := day.Wire()
		day.At(begin.Add(c.told), func(a *Auditor) { a.Told(Reply{Client: "shop", Key: "a", OK: true, Transaction: &paid}) })
		day.At(begin.Add(4), func(a *Auditor) { a.Row(begin.Add(4), paid, events) })
		day.At(begin.Add(3), func(a *Auditor) {
			a.Core(Entry{Sequence: 1, MTI: "0100", ID: id(1), Account: digits, Amount: 1000, Effect: "DEBIT"})
		})
		wire.Sends(begin.Add(c.sent), request("0100", 1, 1000))
		day.At(begin.Add(1), func(a *Auditor) { a.Row(begin.Add(1), row, events[:1]) })
		day.At(begin, func(a *Auditor) { a.Opened(digits, 5000) })
		found := day.Judge(Options{KeyLife: time.Hour}).Violations()
		broken := slices.ContainsFunc(found, func(v Violation) bool { return v.Rule == c.rule })
		if broken != (c.rule != "") || c.rule == "" && len(found) > 0 {
			t.Errorf("%s: %v", name, found)
		}
	}
}
