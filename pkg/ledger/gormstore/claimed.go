package gormstore

import (
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// claimed are the rows that this process claimed last, as they were then, until
// they are made final or put off. While a row is UNKNOWN and under the same lease,
// nothing of it changes but its decision and when it is due: whoever else puts it
// off, claims it or makes it final ends that lease. So what is written about it
// need not read it first: the UPDATE, which asks for the status, the decision and
// the lease, finds out whether it is still so.
type claimed struct{ remembered[claimedRow] }

// claimedRow is a row and the token of its lease.
type claimedRow struct {
	ledger.Transaction
	token string
}

// remember keeps what was claimed. Rows that are not UNKNOWN, and those that hold
// garbage, are not remembered.
func (c *claimed) remember(claims []ledger.Claim) {
	for i := range claims {
		row := &claims[i]
		if row.Err == nil && row.Token != "" && row.Transaction.Status == ledger.StatusUnknown {
			c.keep(row.Transaction.ID, claimedRow{row.Transaction, row.Token})
		}
	}
}

// decided notes that there is a decision on a row.
func (c *claimed) decided(id tranid.ID) {
	c.change(id, func(row *claimedRow) { row.Decision = ledger.DecisionCancel })
}
