package payment

import (
	"context"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

const (
	// recordTimeout bounds the write of a row that proves nothing about money. A
	// ledger that is down does not fail an inquiry, nor hold up a refusal.
	recordTimeout = time.Second
	// maxBehind is how many rows may wait to be written behind their answers.
	// What finds no place is counted and said.
	maxBehind = 4096
)

// What may be dropped, as its counter names it.
const (
	droppedOutcome = "outcome"
	droppedInquiry = "inquiry"
	droppedRefusal = "refusal"
)

// record writes the row of a transaction that ended without an intent: an
// inquiry, or a payment of which nothing left. A row that cannot be written is
// counted and said; the call does not fail for it.
func (s *Service) record(ctx context.Context, t ledger.Transaction) {
	s.settled.WithLabelValues(t.Status.String()).Inc()
	s.write(ctx, t)
}

func (s *Service) write(ctx context.Context, t ledger.Transaction) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := s.Store.Record(ctx, []ledger.Transaction{t}, s.by); err != nil {
		s.dropped.WithLabelValues(droppedKind(&t)).Inc()
		s.Logger.WarnContext(ctx, "row not recorded", "transaction_id", t.ID, "kind", t.Kind.String(), "error", err)
	}
}

// recordBehind is record, behind the answer: a refusal by an open circuit must
// cost less than a call that the core answers. The outcome is counted at once.
func (s *Service) recordBehind(ctx context.Context, t ledger.Transaction) {
	s.settled.WithLabelValues(t.Status.String()).Inc()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.behind) >= maxBehind {
		s.dropped.WithLabelValues(droppedKind(&t)).Inc()
		s.overflow++
		return
	}
	s.behind = append(s.behind, t)
	if !s.writing {
		s.writing = true
		s.work.Add(1) // from a call that is work itself, so that Drain waits for it
		go s.catchUp(context.WithoutCancel(ctx))
	}
}

// catchUp writes rows until none waits.
func (s *Service) catchUp(ctx context.Context) {
	defer s.work.Done()
	for {
		s.mu.Lock()
		rows, overflow := s.behind, s.overflow
		s.behind, s.overflow = nil, 0
		s.writing = len(rows) > 0
		s.mu.Unlock()
		if overflow > 0 { // one line for all of them
			s.Logger.WarnContext(ctx, "rows not recorded: too many waited", "count", overflow)
		}
		if len(rows) == 0 {
			return
		}
		for _, t := range rows {
			s.write(ctx, t)
		}
	}
}

// waiting is how many rows wait to be written.
func (s *Service) waiting() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return float64(len(s.behind))
}

func droppedKind(t *ledger.Transaction) string {
	if t.Kind.MovesMoney() {
		return droppedRefusal
	}
	return droppedInquiry
}
