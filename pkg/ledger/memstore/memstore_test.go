package memstore_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/ledgertest"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
)

func TestConformance(t *testing.T) {
	ledgertest.Exercise(t, func(*testing.T) ledger.Store { return memstore.New(time.Now) })
}

func TestStore_FollowsTheClockOfABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(time.Now)
		by := ledger.Actor{Name: ledger.ActorReconciler}
		in := ledger.Intent{
			ID: "GWMNU20260725000000001", Client: "shop", Key: "key", AccountMasked: "****", Amount: 1,
			Policy: ledger.PolicyConfirm, RequestedAt: time.Now(), AdoptAfter: time.Hour, KeyLife: time.Hour, By: by,
		}
		if _, err := s.CreateIntent(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		adopt := func(want int) {
			t.Helper()
			if n, err := s.Adopt(t.Context(), 1, by); n != want || err != nil {
				t.Errorf("adopted %d, want %d, error %v", n, want, err)
			}
		}
		time.Sleep(time.Hour - time.Microsecond)
		adopt(0)
		time.Sleep(time.Microsecond)
		adopt(1)
		claim := func(want int) {
			t.Helper()
			claims, err := s.Claim(t.Context(), ledger.ClaimOptions{Limit: 1, Lease: time.Minute})
			if len(claims) != want || err != nil {
				t.Errorf("claimed %d, want %d, error %v", len(claims), want, err)
			}
		}
		claim(1)
		time.Sleep(time.Minute - time.Microsecond)
		claim(0)
		time.Sleep(time.Microsecond)
		claim(1)
	})
}

func TestStore_ThatIsClosedIsUnavailable(t *testing.T) {
	s := memstore.New(time.Now)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Ping(t.Context()); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
}
