package gormstore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// A text that is kept must be the one that would be made now, whatever was asked
// for before.
func TestWordings_KeptTextIsTheOneThatWouldBeMade(t *testing.T) {
	kept := &dialect{arrays: true, joined: "given WHERE true"}
	for range 2 {
		for _, rows := range []int{1, 2, 3} {
			for _, ordered := range []int{0, 1, rows} {
				batch := intentsOf(t, rows, ordered)
				text, values := kept.intents(batch)
				again, _ := (&dialect{arrays: true}).intents(batch)
				checkWorded(t, fmt.Sprintf("%d intents, %d with an order", rows, ordered), text, again, values)
			}
			moves := make([]*outcome, rows)
			for i := range moves {
				moves[i] = &outcome{before: &ledger.Transaction{}}
			}
			text, values := kept.outcomes(moves)
			again, _ := (&dialect{arrays: true, joined: kept.joined}).outcomes(moves)
			checkWorded(t, fmt.Sprintf("%d outcomes", rows), text, again, values)
		}
	}
}

func checkWorded(t *testing.T, name, text, fresh string, values []any) {
	t.Helper()
	if text != fresh {
		t.Errorf("%s: the text is kept of others:\n%s\nwould now be\n%s", name, text, fresh)
	}
	last := fmt.Sprintf("$%d", len(values))
	if strings.Contains(text, "?") || !strings.Contains(text, last) || strings.Contains(text, fmt.Sprintf("$%d", len(values)+1)) {
		t.Errorf("%s: %d values, and not as many marks in\n%s", name, len(values), text)
	}
}

// intentsOf are so many intents, some of them with an order.
func intentsOf(t *testing.T, rows, ordered int) []*intention {
	t.Helper()
	batch := make([]*intention, rows)
	for i := range batch {
		in := numbered(i)
		if in.Order = ""; i < ordered {
			in.Order = ledger.OrderID(fmt.Sprintf("order-%d", i))
		}
		batch[i] = intended(t, in)
	}
	return batch
}
