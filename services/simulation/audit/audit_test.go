package audit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

const digits = "12345678901234"

// day is a day that is told to an auditor, all well unless the test says otherwise.
type day struct {
	*Auditor
	now      time.Time
	rows     map[tranid.ID]ledger.Transaction
	events   map[tranid.ID][]ledger.Event
	sequence int64
}

func newDay() *day {
	d := &day{
		now:  time.Date(2026, 3, 2, 1, 0, 0, 0, time.UTC),
		rows: map[tranid.ID]ledger.Transaction{}, events: map[tranid.ID][]ledger.Event{},
	}
	d.Auditor = New(Options{
		KeyLife: time.Hour, Accounts: []string{digits}, Now: func() time.Time { return d.now },
		Reasons: []ledger.Reason{
			ledger.ReasonDeclined, ledger.ReasonPaymentCanceled, ledger.ReasonCircuitOpen, ledger.ReasonCoreUnreachable, ledger.ReasonOrderAlreadyPaid,
		},
	})
	d.Opened(digits, 1_000_000)
	return d
}

func id(n int64) tranid.ID { return tranid.New(tranid.DateOf(time.Unix(0, 0)), n) }

// intent is a payment of 1,000 won under a key.
func (d *day) intent(n int64, key ledger.IdempotencyKey, order ledger.OrderID) {
	d.row(ledger.Transaction{
		ID: id(n), Kind: ledger.KindPayment, Status: ledger.StatusRequested, Client: "shop", Key: key, Order: order, Amount: 1000,
		AccountMasked: "123456****1234", Policy: ledger.PolicyNetCancel,
	})
}

// row commits a row, with the event of its move.
func (d *day) row(t ledger.Transaction) {
	was := d.rows[t.ID]
	if was.Status != t.Status {
		d.events[t.ID] = append(d.events[t.ID], ledger.Event{
			Sequence: int64(len(d.events[t.ID])) + 1, From: was.Status, To: t.Status, Evidence: t.Evidence,
		})
	}
	d.rows[t.ID] = t
	d.Row(d.now, t, append([]ledger.Event(nil), d.events[t.ID]...))
}

// becomes moves a payment.
func (d *day) becomes(n int64, s ledger.Status, e ledger.Evidence) {
	t := d.rows[id(n)]
	t.Status, t.Evidence = s, e
	switch {
	case e != ledger.EvidenceAnswered:
	case s == ledger.StatusSuccess:
		t.Answer = ledger.Answer{Code: "0000", Approval: "12345678901"}
	default:
		t.Answer = ledger.Answer{Code: "0051"}
	}
	d.row(t)
}

func (d *day) decide(n int64) {
	t := d.rows[id(n)]
	t.Decision = ledger.DecisionCancel
	d.row(t)
}

func request(mti string, n, amount int64) []byte {
	return fmt.Appendf(nil, "%s%s%s%012d", mti, id(n), digits, amount)
}

func answerTo(mti string, n int64) []byte {
	return fmt.Appendf(nil, "%s%s%-35s", mti, id(n), "0000")
}

// sent is a payment whose frame has left, on a socket of its own.
func (d *day) sent(n int64) *Socket {
	s := d.Socket()
	s.Sends(request("0100", n, 1000))
	return s
}

func (d *day) core(n int64, mti, effect string, amount account.Won) {
	d.sequence++
	d.Core(Entry{Sequence: d.sequence, MTI: mti, ID: id(n), Account: digits, Amount: amount, Effect: effect})
}

// paid is a payment that went well.
func (d *day) paid(n int64, key ledger.IdempotencyKey) {
	d.intent(n, key, "")
	d.sent(n)
	d.core(n, "0100", "DEBIT", 1000)
	d.becomes(n, ledger.StatusSuccess, ledger.EvidenceAnswered)
}

// canceledByOperator is a payment in doubt that an operator calls CANCELED.
func (d *day) canceledByOperator(n int64) {
	d.becomes(n, ledger.StatusUnknown, 0)
	t := d.rows[id(n)]
	t.Decision, t.Method, t.Reason = ledger.DecisionCancel, ledger.MethodOperator, "the bank says so"
	d.rows[id(n)] = t
	d.becomes(n, ledger.StatusCanceled, ledger.EvidenceOperator)
}

func (d *day) told(n int64, key ledger.IdempotencyKey, reason ledger.Reason) {
	t := d.rows[id(n)]
	t.ID = id(n)
	d.Told(Reply{Client: "shop", Key: key, OK: reason == 0, Reason: reason, Transaction: &t})
}

// telling is a day, with the rule that it breaks; empty for none.
type telling struct {
	rule string
	tell func(d *day)
}

// tellings are days that the simulation knows.
var tellings = []telling{
	{"", func(d *day) {
		d.paid(1, "a")
		d.told(1, "a", 0)
		d.told(1, "a", 0)
		d.ToldBalance(digits, d.now, 999_000)
		d.Balance(digits, 999_000)
	}},
	{"", func(d *day) { // UNKNOWN, and then canceled
		d.intent(1, "a", "o")
		d.sent(1)
		d.core(1, "0100", "DEBIT", 1000)
		d.becomes(1, ledger.StatusUnknown, 0)
		d.decide(1)
		d.Socket().Sends(request("0420", 1, 0))
		d.core(1, "0420", "CANCEL", 1000)
		d.becomes(1, ledger.StatusCanceled, ledger.EvidenceCancelConfirmed)
		d.told(1, "a", ledger.ReasonPaymentCanceled)
		d.intent(2, "b", "o")
		d.Kept(map[tranid.ID]bool{id(1): true, id(2): true})
	}},
	{"", func(d *day) { // not sent, and its key runs again
		d.intent(1, "a", "")
		d.becomes(1, ledger.StatusFailed, ledger.EvidenceNotSent)
		d.told(1, "a", ledger.ReasonCoreUnreachable)
		d.paid(2, "a")
		d.told(2, "a", 0)
	}},
	{"", func(d *day) { // a key whose life is over
		d.paid(1, "a")
		d.told(1, "a", 0)
		d.now = d.now.Add(time.Hour)
		d.paid(2, "a")
		d.told(2, "a", 0)
	}},
	{"at most one DEBIT for a transaction", func(d *day) { d.paid(1, "a"); d.core(1, "0100", "DEBIT", 1000) }},
	{"at most one 0100 for a transaction", func(d *day) { d.intent(1, "a", ""); d.sent(1); d.sent(1) }},
	{"every byte that left had an intent before", func(d *day) { d.sent(1) }},
	{"every byte that left had an intent before", func(d *day) { d.core(1, "0100", "DEBIT", 1000) }},
	{"a frame asks for what the row says", func(d *day) { d.intent(1, "a", ""); d.Socket().Sends(request("0100", 1, 1001)) }},
	{"SUCCESS has one live debit", func(d *day) {
		d.intent(1, "a", "")
		d.sent(1)
		d.becomes(1, ledger.StatusSuccess, ledger.EvidenceAnswered)
	}},
	{"SUCCESS has one live debit", func(d *day) { d.paid(1, "a"); d.core(1, "0420", "CANCEL", 1000) }},
	{"FAILED and CANCELED have no debit", func(d *day) {
		d.intent(1, "a", "")
		d.sent(1)
		d.core(1, "0100", "DEBIT", 1000)
		d.becomes(1, ledger.StatusFailed, ledger.EvidenceAnswered)
	}},
	{"FAILED and CANCELED have no debit", func(d *day) { // a ghost, later
		d.intent(1, "a", "")
		d.sent(1)
		d.becomes(1, ledger.StatusFailed, ledger.EvidenceAnswered)
		d.core(1, "0100", "DEBIT", 1000)
	}},
	{"NOT_SENT means that no byte left", func(d *day) {
		d.intent(1, "a", "")
		d.sent(1)
		d.becomes(1, ledger.StatusFailed, ledger.EvidenceNotSent)
	}},
	{"NOT_SENT means that no byte left", func(d *day) {
		d.intent(1, "a", "")
		d.told(1, "a", ledger.ReasonCircuitOpen)
		d.sent(1)
	}},
	{"a key lives until its transaction is final, and its life is over", func(d *day) { d.paid(1, "a"); d.intent(2, "a", "") }},
	{"a key lives until its transaction is final, and its life is over", func(d *day) {
		d.intent(1, "a", "")
		d.now = d.now.Add(2 * time.Hour)
		d.intent(2, "a", "")
	}},
	{"at most one debit in the life of a key", func(d *day) { d.paid(1, "a"); d.paid(2, "a") }},
	{"an order is paid once", func(d *day) { d.intent(1, "a", "o"); d.intent(2, "b", "o") }},
	{"final rows never change", func(d *day) { d.paid(1, "a"); d.becomes(1, ledger.StatusFailed, ledger.EvidenceAnswered) }},
	{"final rows never change", func(d *day) { d.paid(1, "a"); d.decide(1) }},
	{"a row makes legal moves alone", func(d *day) {
		d.intent(1, "a", "")
		d.becomes(1, ledger.StatusCanceled, ledger.EvidenceCancelConfirmed)
	}},
	{"events replay to the row", func(d *day) {
		d.intent(1, "a", "")
		t := d.rows[id(1)]
		t.Status, t.Evidence = ledger.StatusFailed, ledger.EvidenceAnswered
		d.Row(d.now, t, d.events[id(1)])
	}},
	{"events are appended, never edited", func(d *day) { d.intent(1, "a", ""); d.Row(d.now, d.rows[id(1)], nil) }},
	{"nothing is final without evidence", func(d *day) { d.intent(1, "a", ""); d.becomes(1, ledger.StatusFailed, 0) }},
	{"a decision blocks SUCCESS", func(d *day) {
		d.intent(1, "a", "")
		d.sent(1)
		d.core(1, "0100", "DEBIT", 1000)
		d.becomes(1, ledger.StatusUnknown, 0)
		d.decide(1)
		d.becomes(1, ledger.StatusSuccess, ledger.EvidenceAnswered)
	}},
	{"a decision comes before a net cancel", func(d *day) {
		d.intent(1, "a", "")
		d.becomes(1, ledger.StatusUnknown, 0)
		d.Socket().Sends(request("0420", 1, 0))
	}},
	{"FENCED means that the core refuses it", func(d *day) {
		d.intent(1, "a", "")
		d.becomes(1, ledger.StatusUnknown, 0)
		d.decide(1)
		d.becomes(1, ledger.StatusFailed, ledger.EvidenceFenced)
	}},
	{"OK means SUCCESS, durable", func(d *day) { d.intent(1, "a", ""); d.told(1, "a", 0) }},
	{"a reply says what the row says", func(d *day) { d.paid(1, "a"); d.told(1, "a", ledger.ReasonDeclined) }},
	{"nobody is told two different final things", func(d *day) {
		d.intent(1, "a", "")
		d.sent(1)
		d.becomes(1, ledger.StatusFailed, ledger.EvidenceAnswered)
		d.told(1, "a", ledger.ReasonDeclined)
		d.paid(2, "a")
		d.told(2, "a", 0)
	}},
	{"an answer reaches its request alone", func(d *day) { d.paid(1, "a"); d.told(1, "b", 0) }},
	{"an answer reaches its request alone", func(d *day) { d.paid(1, "a"); d.ToldBalance(digits, d.now.Add(time.Second), 1_000_000) }},
	{"money is conserved", func(d *day) { d.paid(1, "a"); d.Balance(digits, 1_000_000) }},
	{"a process that ends in order loses no row", func(d *day) { d.intent(1, "a", ""); d.sent(1); d.Drained("", nil, nil) }},
	{"a process that ends in order loses no row", func(d *day) { d.Drained("", []tranid.ID{id(1)}, nil) }},
	{"", func(d *day) { // it said so
		d.intent(1, "a", "")
		d.sent(1)
		d.Drained("", []tranid.ID{id(2)}, map[tranid.ID]bool{id(1): true, "": true})
	}},
	{"a reply says what the row says", func(d *day) {
		d.paid(1, "a")
		t := d.rows[id(1)]
		t.Status = ledger.StatusCanceled
		d.Shown("shop", "a", &t)
	}},
	{"an answer reaches its request alone", func(d *day) {
		d.paid(1, "a")
		t := d.rows[id(1)]
		d.Shown("mall", "a", &t)
	}},
	{"an alarm is about something", func(d *day) { d.paid(1, "a"); d.Alarm(id(1)) }},
	{"an alarm is about something", func(d *day) { d.intent(1, "a", ""); d.canceledByOperator(1); d.Alarm(id(1)) }},
	{"", func(d *day) {
		d.intent(1, "a", "")
		d.sent(1)
		d.core(1, "0100", "DEBIT", 1000)
		d.canceledByOperator(1)
		d.Alarm(id(1)) // the core is still to be told
		d.core(1, "0420", "CANCEL", 1000)
	}},
	{"no account number is written", func(d *day) { d.Text("a log", "pays from "+digits) }},
	{"settlement finds no difference that cannot be explained", func(d *day) {
		d.paid(1, "a")
		d.Difference(&ledger.Difference{ID: id(1), Class: ledger.ClassLedgerOnly})
	}},
}

func TestAuditor_FindsWhatIsBrokenAndNothingElse(t *testing.T) {
	for i, tt := range slices.Concat(tellings, proofs) {
		d := newDay()
		tt.tell(d)
		d.Finish()
		found := tt.rule == ""
		for _, v := range d.Violations() {
			found = found || v.Rule == tt.rule
			if tt.rule == "" {
				t.Errorf("telling %d: %s", i, v)
			}
		}
		if !found {
			t.Errorf("telling %d: %q was not found in %v", i, tt.rule, d.Violations())
		}
	}
}

func TestSocket_IsNotUsedAgainAfterAnAnomaly(t *testing.T) {
	for name, c := range map[string]struct {
		came  [][]byte
		cut   bool
		sound bool
	}{
		"answered":           {came: [][]byte{answerTo("0110", 1)}, sound: true},
		"answered in pieces": {came: [][]byte{answerTo("0110", 1)[:7], answerTo("0110", 1)[7:]}, sound: true},
		"unanswered":         {},
		"half an answer":     {came: [][]byte{answerTo("0110", 1)[:60]}},
		"a byte too many":    {came: [][]byte{answerTo("0110", 1), {'x'}}},
		"another's answer":   {came: [][]byte{answerTo("0110", 3)}},
		"another type":       {came: [][]byte{answerTo("0210", 1)}},
		"cut":                {cut: true, came: [][]byte{answerTo("0110", 1)}},
	} {
		d := newDay()
		d.intent(1, "a", "")
		d.intent(2, "b", "")
		s := d.sent(1)
		if c.cut {
			s.Cut()
		}
		for _, b := range c.came {
			s.Hears(b)
		}
		s.Sends(request("0100", 2, 1000))
		if got := len(d.Violations()) == 0; got != c.sound {
			t.Errorf("%s: %v", name, d.Violations())
		}
	}
}

func TestCircuit_MovesByItsOwnProbesAlone(t *testing.T) {
	closed, opened := CircuitState{Closed: true}, CircuitState{Opened: 1}
	halfOpen, again := CircuitState{HalfOpen: true, Opened: 1}, CircuitState{Closed: true, Opened: 1}
	for name, c := range map[string]struct {
		sound bool
		play  func(c *Circuit)
	}{
		"a probe closes it": {true, func(c *Circuit) {
			probe := c.Begins(halfOpen)
			c.Ends(probe, halfOpen, true)
			c.Begins(again)
		}},
		"a late answer closes it": {false, func(c *Circuit) {
			late := c.Begins(closed)
			c.Begins(halfOpen)
			c.Ends(late, halfOpen, true)
			c.Begins(again)
		}},
		"a late failure opens it": {false, func(c *Circuit) {
			late := c.Begins(closed)
			c.Begins(halfOpen)
			c.Ends(late, halfOpen, false)
			c.Begins(CircuitState{HalfOpen: true, Opened: 2})
		}},
		"it opens and is tried": {true, func(c *Circuit) {
			c.Ends(c.Begins(closed), opened, false)
			c.Begins(halfOpen)
		}},
		"two probes of one": {false, func(c *Circuit) { c.Begins(halfOpen); c.Begins(halfOpen) }},
	} {
		a := newDay().Auditor
		c.play(a.Circuit("core-request", 1))
		if got := len(a.Violations()) == 0; got != c.sound {
			t.Errorf("%s: %v", name, a.Violations())
		}
	}
}
