package payment

import (
	"context"
	"sync"
	"time"
)

// spellSlices is into how many parts the limit of a spell is cut.
const spellSlices = 64

// spells bound steps with the ledger. Steps that begin within a slice of the limit
// share a spell, and its timer: for a lone caller a timer for each step is a
// thread that is woken. A step has the limit or up to a slice less, never more.
type spells struct {
	limit time.Duration

	mu    sync.Mutex
	spell context.Context //nolint:containedctx // it is what is shared
	// over is when a new spell begins.
	over time.Time
}

// step is a context with the values of ctx that ends with the spell, and does not
// end with ctx.
func (s *spells) step(ctx context.Context) context.Context {
	return &step{Context: s.now(), values: ctx}
}

// now is the spell of a step that begins now.
func (s *spells) now() context.Context {
	at := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spell == nil || !at.Before(s.over) {
		spell, end := context.WithTimeout(context.Background(), s.limit)
		_ = end // its timer ends it: nobody knows who is the last in it
		s.spell, s.over = spell, at.Add(s.limit/spellSlices)
	}
	return s.spell
}

// step is a spell with the values of a call.
type step struct {
	context.Context //nolint:containedctx // it is a context

	values context.Context
}

// Value implements context.Context. The spell has no values but for package
// context, whose contexts under this one end with the spell by them.
func (s *step) Value(key any) any {
	if value := s.Context.Value(key); value != nil {
		return value
	}
	return s.values.Value(key)
}
