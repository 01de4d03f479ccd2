package main

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// filled is a backlog of so many rows in a ledger of its own.
func filled(t *testing.T, c *core, rows int) (*backlog, ledger.Store) {
	t.Helper()
	b := &backlog{dsn: "sqlite:" + filepath.Join(t.TempDir(), "ledger.db"), rows: rows}
	if err := b.fill(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	store, err := b.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return b, store
}

// fence ends the n-th payment as corebank has it.
func fence(t *testing.T, store ledger.Store, n int64) {
	t.Helper()
	by := ledger.Actor{Name: ledger.ActorReconciler, Instance: "bench"}
	if _, err := store.Decide(t.Context(), transactionID(n), by, "to be net-canceled"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Transition(t.Context(), ledger.Change{
		ID: transactionID(n), From: ledger.StatusUnknown, To: ledger.StatusFailed, Evidence: ledger.EvidenceFenced,
		Method: ledger.MethodStatusInquiry, Reason: "not done", By: by,
	}); err != nil {
		t.Fatal(err)
	}
}

func TestAudit_EveryRowMustHaveEndedAsItShould(t *testing.T) {
	b, store := filled(t, new(core), 3)
	for n := range int64(3) {
		if err := audit(t.Context(), store, b, fenced); !errors.Is(err, errUndrained) {
			t.Errorf("with %d rows of 3 that ended: error %v", n, err)
		}
		fence(t, store, n+1)
	}
	if err := audit(t.Context(), store, b, fenced); err != nil {
		t.Errorf("with all rows that ended: %v", err)
	}
	if err := audit(t.Context(), store, b, canceled); !errors.Is(err, errUndrained) {
		t.Errorf("with rows that ended otherwise: error %v", err)
	}
	b.rows = 4
	if err := audit(t.Context(), store, b, fenced); !errors.Is(err, errUndrained) {
		t.Errorf("with a row that is missing: error %v", err)
	}
}

func TestAudit_RowsOfTheRoundBeforeDoNotCount(t *testing.T) {
	c := new(core)
	b, store := filled(t, c, 2)
	if err := b.fill(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	fence(t, store, 3)
	fence(t, store, 4)
	if err := audit(t.Context(), store, b, fenced); err != nil {
		t.Errorf("error %v", err)
	}
}

// paged is a ledger whose pages have one row each.
type paged struct{ ledger.Reader }

func (p paged) List(ctx context.Context, f ledger.Filter) (ledger.Page, error) {
	f.Limit = 1
	return p.Reader.List(ctx, f)
}

func TestAudit_ReadsEveryPage(t *testing.T) {
	b, store := filled(t, new(core), 3)
	fence(t, store, 3)
	fence(t, store, 2)
	if err := audit(t.Context(), paged{store}, b, fenced); !errors.Is(err, errUndrained) {
		t.Errorf("with the last row left: error %v", err)
	}
	fence(t, store, 1)
	if err := audit(t.Context(), paged{store}, b, fenced); err != nil {
		t.Errorf("with all rows that ended: %v", err)
	}
	b.rows = 2
	if err := audit(t.Context(), paged{store}, b, fenced); !errors.Is(err, errUndrained) {
		t.Errorf("with a row too many: error %v", err)
	}
}
