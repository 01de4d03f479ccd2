package gormstore

import (
	"sync"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// maxRecent is how many rows are remembered: more than are at the core at a time.
const maxRecent = 4096

// recent are the rows of intents that this process stored last, until their
// outcomes are. A row that is REQUESTED changes in no way but by leaving that
// status, so that its outcome need not read it: the UPDATE, which asks for the
// status, finds out whether it is still so.
type recent struct {
	mu   sync.Mutex
	rows map[tranid.ID]ledger.Transaction
	// ids are a ring of those that were remembered, and next is the oldest.
	ids  [maxRecent]tranid.ID
	next int
}

// remember keeps a row that was stored, in place of the oldest.
func (r *recent) remember(t ledger.Transaction) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rows == nil {
		r.rows = make(map[tranid.ID]ledger.Transaction, maxRecent)
	}
	delete(r.rows, r.ids[r.next])
	r.ids[r.next], r.rows[t.ID] = t.ID, t
	r.next = (r.next + 1) % maxRecent
}

// find returns a row that is remembered.
func (r *recent) find(id tranid.ID) (ledger.Transaction, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, ok := r.rows[id]
	return t, ok
}

// forget drops rows that are to leave their status.
func (r *recent) forget(changes []*ledger.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range changes {
		delete(r.rows, c.ID)
	}
}
