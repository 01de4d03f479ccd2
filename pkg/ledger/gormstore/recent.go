package gormstore

import (
	"sync"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// maxRecent is how many rows are remembered of a kind: more than are at the core,
// or in hand of a resolver, at a time.
const maxRecent = 4096

// remembered is what was last known of rows, the last maxRecent of them.
type remembered[R any] struct {
	mu   sync.Mutex
	rows map[tranid.ID]R
	// ids are a ring of those that were remembered, and next is the oldest.
	ids  [maxRecent]tranid.ID
	next int
}

// keep remembers a row, in place of the oldest unless it is remembered already.
func (r *remembered[R]) keep(id tranid.ID, row R) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rows == nil {
		r.rows = make(map[tranid.ID]R)
	}
	if _, again := r.rows[id]; !again {
		delete(r.rows, r.ids[r.next])
		r.ids[r.next] = id
		r.next = (r.next + 1) % maxRecent
	}
	r.rows[id] = row
}

// find returns a row that is remembered.
func (r *remembered[R]) find(id tranid.ID) (R, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row, ok := r.rows[id]
	return row, ok
}

// change changes a row if it is remembered.
func (r *remembered[R]) change(id tranid.ID, change func(row *R)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if row, ok := r.rows[id]; ok {
		change(&row)
		r.rows[id] = row
	}
}

// forget drops a row.
func (r *remembered[R]) forget(id tranid.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.rows, id)
}

// recent are the rows of intents that this process stored last, until their
// outcomes are. A row that is REQUESTED changes in no way but by leaving that
// status, so that its outcome need not read it: the UPDATE, which asks for the
// status, finds out whether it is still so.
// Nobody may change a row that is remembered.
type recent struct {
	remembered[*ledger.Transaction]
}

// remember keeps a row that was stored.
func (r *recent) remember(t *ledger.Transaction) { r.keep(t.ID, t) }

// forget drops rows that are to leave their status.
func (r *recent) forget(changes []*ledger.Change) {
	for _, c := range changes {
		r.remembered.forget(c.ID)
	}
}
