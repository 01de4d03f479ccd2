package payment

import (
	"sync"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// flights are the payments whose calls are under way in this process. Who waits
// for one of them is told when it has landed, and need not look at its row.
type flights struct {
	mu sync.Mutex
	// up has an entry for each; nil until someone waits for it.
	up map[tranid.ID]*flight
}

// flight is a payment under way that someone waits for.
type flight struct {
	// landed is closed at the end of the call.
	landed chan struct{}
	// row is what the call made of the payment. It may be read when landed is
	// closed, and has no ID if the call does not know.
	row ledger.Transaction
}

// takeOff is called before anyone else can know of the payment.
func (f *flights) takeOff(id tranid.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.up[id] = nil
}

// land ends what takeOff began, with the row if it is known.
func (f *flights) land(id tranid.ID, row *ledger.Transaction) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if waited := f.up[id]; waited != nil {
		waited.row = *row
		close(waited.landed)
	}
	delete(f.up, id)
}

// find is the flight of a payment; nil if it is not under way here.
func (f *flights) find(id tranid.ID) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	found, up := f.up[id]
	if up && found == nil {
		found = &flight{landed: make(chan struct{})}
		f.up[id] = found
	}
	return found
}
