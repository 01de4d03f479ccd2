package integration

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"

	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
)

// chaosReasons is all that a caller may be told in chaos. Without a reason of
// ours it is the transport that speaks, or his own hanging up.
var chaosReasons = map[string]bool{
	"ACCOUNT_NOT_FOUND": true, "DECLINED": true, "OUTCOME_UNKNOWN": true, "PAYMENT_CANCELED": true, "NOT_EXECUTED": true,
	"DEADLINE_TOO_SHORT": true, "SEND_WINDOW_MISSED": true, "CIRCUIT_OPEN": true, "CORE_UNREACHABLE": true, "LEDGER_UNAVAILABLE": true,
	"LINK_SATURATED": true, "IN_PROGRESS": true, "ORDER_ALREADY_PAID": true, "ORDER_IN_DOUBT": true, "TRANSACTION_NOT_FOUND": true,
}

// judge holds all that was told against the books, and the orders against the
// journal. That the books agree with each other is the audit's.
func (c *chaos) judge(b *books) {
	c.t.Helper()
	finals := map[string]map[string]bool{}
	for _, a := range c.heard.all {
		if err := a.isTrue(b); err != nil {
			c.t.Errorf("%s of %s told %s: %v; the row is %v", a.rpc, a.key, a, err, b.rows[a.id()])
		}
		if a.isLast() {
			if finals[a.key] == nil {
				finals[a.key] = map[string]bool{}
			}
			finals[a.key][a.id()+" "+a.row.GetStatus().String()] = true
		}
	}
	for key, said := range finals {
		if len(said) > 1 {
			c.t.Errorf("callers of %s were told different final things: %v", key, said)
		}
	}
	for _, e := range b.journal {
		if e.GetResponseCode() == "0094" {
			c.t.Errorf("an ID was given out twice: %v", e)
		}
	}
	c.judgeOrders(b)
	count := map[ledgerv1.TransactionStatus]int{}
	for _, row := range b.rows {
		count[row.GetStatus()]++
	}
	c.t.Logf("%d rows: %v; %d entries in the journal", len(b.rows), count, len(b.journal))
	for _, s := range []ledgerv1.TransactionStatus{success, failed, canceled} {
		if count[s] == 0 {
			c.t.Errorf("no row is %s: this run tried nothing", s)
		}
	}
}

// isTrue reports what is wrong with what was told, now that all is known.
func (a *heard) isTrue(b *books) error {
	if a.info != nil && !chaosReasons[a.reason()] {
		return errors.New("that is never to be told")
	}
	if a.info == nil {
		switch a.code {
		case codes.OK, codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		default:
			return errors.New("it has no reason")
		}
	}
	if a.code == codes.OK && a.id() == "" {
		return errors.New("it has no transaction")
	}
	if a.row == nil {
		return nil
	}
	row := b.rows[a.id()]
	switch {
	case row == nil && a.by.lossy.Load() && (a.rpc == balance || a.row.GetEvidence() == ledgerv1.Evidence_EVIDENCE_NOT_SENT):
		return nil // a row that is written behind its answer
	case row == nil:
		return errors.New("there is no such row")
	case isFinal(a.row.GetStatus()) && (row.GetStatus() != a.row.GetStatus() || row.GetEvidence() != a.row.GetEvidence()):
		return errors.New("a final row has changed")
	case a.code == codes.OK && a.rpc != get && row.GetStatus() != success:
		return errors.New("OK is SUCCESS")
	case a.reason() == "ORDER_ALREADY_PAID" || a.reason() == "ORDER_IN_DOUBT":
		return a.isOfOrder(row)
	case a.rpc != balance && row.GetIdempotencyKey() != a.key:
		return errors.New("the row is another key's")
	}
	return nil
}

// isOfOrder reports what is wrong with the payment that holds an order.
func (a *heard) isOfOrder(row *ledgerv1.Transaction) error {
	if row.GetOrderId() != a.order {
		return fmt.Errorf("the row is of the order %s", row.GetOrderId())
	}
	if a.reason() == "ORDER_ALREADY_PAID" && row.GetStatus() != success {
		return errors.New("the order is not paid")
	}
	return nil
}

// isLast says that what was told is final for the key: a payment of which
// nothing was sent may be made again.
func (a *heard) isLast() bool {
	return a.rpc != balance && a.row != nil && a.row.GetIdempotencyKey() == a.key && isFinal(a.row.GetStatus()) &&
		a.row.GetEvidence() != ledgerv1.Evidence_EVIDENCE_NOT_SENT
}

// judgeOrders follows the journal: of each order one debit stands at most, at any
// time.
func (c *chaos) judgeOrders(b *books) {
	c.t.Helper()
	stand, paid := map[string]int{}, 0
	for _, e := range b.journal {
		order := b.rows[e.GetTransactionId()].GetOrderId()
		if order == "" {
			continue
		}
		switch e.GetEffect() {
		case debited:
			stand[order]++
			paid++
		case undone:
			stand[order]--
		default:
		}
		if stand[order] > 1 {
			c.t.Errorf("%d debits stand for the order %s, after %v", stand[order], order, e)
		}
	}
	if paid == 0 {
		c.t.Error("no order was paid: this run tried nothing")
	}
}
