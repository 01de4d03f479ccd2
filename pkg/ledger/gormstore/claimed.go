package gormstore

import (
	"sync"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// maxClaimed is how many rows are remembered: more than a resolver has in hand.
const maxClaimed = 4096

// claimed are the rows that this process claimed last, as they were then, until
// they are made final or put off. While a row is UNKNOWN and under the same lease,
// nothing of it changes but its decision and when it is due: whoever else puts it
// off, claims it or makes it final ends that lease. So what is written about it
// need not read it first: the UPDATE, which asks for the status, the decision and
// the lease, finds out whether it is still so.
type claimed struct {
	mu   sync.Mutex
	rows map[tranid.ID]claimedRow
	// ids are a ring of those that were remembered, and next is the oldest.
	ids  [maxClaimed]tranid.ID
	next int
}

// claimedRow is a row and the token of its lease.
type claimedRow struct {
	ledger.Transaction
	token string
}

// remember keeps what was claimed, in place of the oldest. Rows that are not
// UNKNOWN, and those that hold garbage, are not remembered.
func (c *claimed) remember(claims []ledger.Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rows == nil {
		c.rows = make(map[tranid.ID]claimedRow, ledger.MaxClaim)
	}
	for i := range claims {
		row := &claims[i]
		if row.Err != nil || row.Token == "" || row.Transaction.Status != ledger.StatusUnknown {
			continue
		}
		id := row.Transaction.ID
		if _, again := c.rows[id]; !again {
			delete(c.rows, c.ids[c.next])
			c.ids[c.next] = id
			c.next = (c.next + 1) % maxClaimed
		}
		c.rows[id] = claimedRow{row.Transaction, row.Token}
	}
}

// find returns a row that is remembered.
func (c *claimed) find(id tranid.ID) (claimedRow, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	row, ok := c.rows[id]
	return row, ok
}

// decided notes that there is a decision on a row.
func (c *claimed) decided(id tranid.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if row, ok := c.rows[id]; ok {
		row.Decision = ledger.DecisionCancel
		c.rows[id] = row
	}
}

// forget drops a row whose claim ends.
func (c *claimed) forget(id tranid.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.rows, id)
}
