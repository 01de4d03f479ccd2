package resolve

import (
	"sync"
	"time"
)

const (
	// rowsPerPlace is how many rows are in hand for each place at the core: while
	// some are there, the others are at the ledger, which stores together what comes
	// at once.
	rowsPerPlace = 4
	// quickRowsPerPlace is how many may be while the core answers at once: the more
	// the ledger stores together, the less each row costs.
	quickRowsPerPlace = 16
	// quickAnswer is what counts as at once: with so many rows to a place, the last
	// of them waits a fraction of a second.
	quickAnswer = 20 * time.Millisecond
)

// hand is how many rows a lane may have in hand: few at first, one more for each
// answer that comes at once, and few again as soon as one takes longer: no more then
// than can begin their net cancel within half of a lease, should each take as long.
// Rows that are in hand already come to an end.
type hand struct {
	least, most int
	// cancels is how many places there are for net cancels, wait how long a row may
	// wait for one.
	cancels int
	wait    time.Duration
	// free has a token for each row that may be begun.
	free chan struct{}

	mu sync.Mutex
	// limit is how many there are to be, tokens how many there are.
	limit, tokens int
	// slow: the last net cancel was not answered at once.
	slow bool
}

// newHand is that of a lane with so many places at the core, for inquiries and for
// net cancels.
func newHand(inquiries, cancels int, lease time.Duration) *hand {
	h := &hand{least: rowsPerPlace * inquiries, most: quickRowsPerPlace * inquiries, cancels: cancels, wait: lease / 2}
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

// inquired takes note of how long the core took to answer an inquiry. One that it
// answers at once makes room for no more rows while these wait for net cancels.
func (h *hand) inquired(after time.Duration) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if after > quickAnswer || !h.slow {
		h.fit(after)
	}
}

// answered takes note of how long the core took to answer a net cancel.
func (h *hand) answered(after time.Duration) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slow = after > quickAnswer
	h.fit(after)
}

// fit has as many rows in hand as there may be before a core that took so long. The
// caller holds mu.
func (h *hand) fit(after time.Duration) {
	switch {
	case after > quickAnswer:
		h.limit = min(h.least, h.cancels*(1+int(h.wait/after)))
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

// unanswered takes note of a net cancel that the core did not answer, and that was
// waited for so long.
func (h *hand) unanswered(after time.Duration) { h.answered(max(after, quickAnswer+1)) }
