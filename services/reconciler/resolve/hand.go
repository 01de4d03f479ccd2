package resolve

import (
	"sync"
	"time"
)

const (
	// rowsPerPlace is how many rows are in hand for each place at the core: while
	// some are there, the others are at the ledger, which stores together what comes
	// at once. Were it more, rows could outlive their leases waiting for net cancels
	// that the core does not answer.
	rowsPerPlace = 4
	// quickRowsPerPlace is how many may be while the core answers at once: the more
	// the ledger stores together, the less each row costs.
	quickRowsPerPlace = 16
	// quickAnswer is what counts as at once: with so many rows to a place, the last
	// of them waits a fraction of a second.
	quickAnswer = 20 * time.Millisecond
)

// hand is how many rows a lane may have in hand: few at first, one more for each
// answer that comes at once, and few again as soon as a net cancel is not answered
// so. Rows that are in hand then come to an end.
type hand struct {
	least, most int
	// free has a token for each row that may be begun.
	free chan struct{}

	mu sync.Mutex
	// limit is how many there are to be, tokens how many there are.
	limit, tokens int
}

// newHand is that of a lane with so many places at the core.
func newHand(places int) *hand {
	h := &hand{least: rowsPerPlace * places, most: quickRowsPerPlace * places}
	h.free, h.limit, h.tokens = make(chan struct{}, h.most), h.least, h.least
	for range h.least {
		h.free <- struct{}{}
	}
	return h
}

// leave ends what a token from free began.
func (h *hand) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tokens > h.limit {
		h.tokens--
		return
	}
	h.free <- struct{}{}
}

// answered takes note of how long the core took to answer.
func (h *hand) answered(after time.Duration) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case after > quickAnswer:
		h.limit = h.least
	case h.limit < h.most:
		h.limit++
	}
	for h.tokens < h.limit {
		h.tokens++
		h.free <- struct{}{}
	}
	for h.tokens > h.limit {
		select {
		case <-h.free:
			h.tokens--
		default:
			return // the rows that have them give them up
		}
	}
}

// unanswered takes note of a net cancel that the core did not answer.
func (h *hand) unanswered() { h.answered(quickAnswer + 1) }
