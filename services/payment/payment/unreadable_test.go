package payment_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// errUnreadable is a ledger that answers, with a row that cannot be.
var errUnreadable = fmt.Errorf("read it: %w", ledger.ErrUnreadable)

// Who reads a row that cannot be must not be told to wait for the ledger.
func TestReads_OfARowThatCannotBeAreInternal(t *testing.T) {
	inHouse(t, ends(corelink.SentAll, corelink.ErrTimeout), nil, func(t *testing.T, h *house) {
		_ = errorOf(h.service.Create(t.Context(), h.pay()))
		id, reads := h.bound().ID, 0
		h.store.get = func(ctx context.Context, id tranid.ID) (ledger.Transaction, error) {
			if reads++; reads > 3 {
				return ledger.Transaction{}, errUnreadable
			}
			return h.store.Store.Get(ctx, id)
		}
		_, err := h.watch(t.Context(), id)
		refused(t, err, ledger.ReasonInternal)
		_, err = h.service.Get(t.Context(), client, id)
		refused(t, err, ledger.ReasonInternal)
		h.store.getByKey = func() error { return errUnreadable }
		_, err = h.service.GetByKey(t.Context(), client, "order-1")
		refused(t, err, ledger.ReasonInternal)
	})
}

func TestCreate_KeyOfARowThatCannotBe(t *testing.T) {
	for _, closed := range []bool{true, false} {
		inHouse(t, answers("0000"), nil, func(t *testing.T, h *house) {
			if !closed {
				h.core.open = shut
			}
			h.store.bound = func() error { return errUnreadable }
			h.store.createIntent = func(context.Context, ledger.Intent) (ledger.Admission, error) {
				return ledger.Admission{}, errUnreadable
			}
			refused(t, errorOf(h.service.Create(t.Context(), h.pay())), ledger.ReasonInternal)
		})
	}
}
