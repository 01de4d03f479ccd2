package gormstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// spoil changes a row past the constraints, as someone with a SQL prompt can.
func spoil(t *testing.T, dsn, change string) {
	t.Helper()
	db := raw(t, dsn)
	db.SetMaxOpenConns(1)
	if strings.HasPrefix(dsn, "sqlite:") {
		mustExec(t, db, "PRAGMA ignore_check_constraints = ON")
	} else {
		mustExec(t, db, "ALTER TABLE transactions DROP CONSTRAINT IF EXISTS sound")
	}
	mustExec(t, db, change)
}

// garbage is what may be found in a row, by whom it is an error.
var garbage = map[string]string{
	"kind unknown":           "kind = 'REFUND'",
	"evidence unknown":       "evidence = 'HEARSAY'",
	"method unknown":         "resolution_method = 'ORACLE'",
	"policy unknown":         "resolution_policy = 'MAYBE'",
	"decision unknown":       "decision = 'CONFIRM'",
	"account not masked":     "account_masked = '12345678901234'",
	"account hash too short": "account_hash = substr(account_hash, 1, 5)",
	"amount negative":        "amount = -1",
	"evidence without end":   "evidence = 'PROCESSED'",
}

func TestGarbage_IsItsOwnClaimsErrorAndNobodyElses(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		s := openBook(t, dsn)
		ctx := context.Background()
		bad := map[tranid.ID]string{}
		var number int64
		for what, set := range garbage {
			number += 2
			id := inStatus(t, s, number, ledger.StatusUnknown).ID
			inStatus(t, s, number+1, ledger.StatusUnknown)
			bad[id] = what
			spoil(t, dsn, "UPDATE transactions SET "+set+" WHERE transaction_id = '"+string(id)+"'")
		}
		claims, err := s.Claim(ctx, ledger.ClaimOptions{Limit: ledger.MaxClaim, Lease: time.Hour})
		if err != nil || len(claims) != 2*len(garbage) {
			t.Fatalf("claimed %d of %d, error %v", len(claims), 2*len(garbage), err)
		}
		for _, c := range claims {
			what, isBad := bad[c.Transaction.ID]
			if isBad != (c.Err != nil) || c.Token == "" {
				t.Errorf("%s %q: error %v, token %q", c.Transaction.ID, what, c.Err, c.Token)
			}
			if isBad && c.Transaction != (ledger.Transaction{ID: c.Transaction.ID}) {
				t.Errorf("%q shows %+v", what, c.Transaction)
			}
			if !isBad {
				continue
			}
			if _, err := s.Get(ctx, c.Transaction.ID); !errors.Is(err, ledger.ErrUnreadable) || errors.Is(err, ledger.ErrUnavailable) {
				t.Errorf("%q is read with error %v", what, err)
			}
			one, err := s.ClaimOne(ctx, c.Transaction.ID, time.Hour, payer)
			if err != nil || one.Err == nil || one.Token != "" {
				t.Errorf("%q claimed alone: token %q, %v, error %v", what, one.Token, one.Err, err)
			}
			// It can be put off, so that it does not come back at once.
			if err := s.Postpone(ctx, ledger.Postponement{
				ID: c.Transaction.ID, Token: c.Token, Delay: time.Hour, NeedsReview: true, Detail: "garbage", By: payer,
			}); err != nil {
				t.Errorf("postpone %q: %v", what, err)
			}
		}
	})
}

func TestGarbage_IsAdoptedWithoutHarmToOthers(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		s := openBook(t, dsn)
		ctx := context.Background()
		for i := range int64(4) {
			in := intent(i)
			in.AdoptAfter = -time.Minute
			if _, err := s.CreateIntent(ctx, in); err != nil {
				t.Fatal(err)
			}
		}
		spoil(t, dsn, "UPDATE transactions SET amount = -1 WHERE transaction_id = 'GWMNU20260725000000000'")
		if n, err := s.Adopt(ctx, ledger.MaxClaim, payer); n != 4 || err != nil {
			t.Errorf("adopted %d, error %v", n, err)
		}
	})
}

func TestGarbage_TimeThatIsNoneIsAnErrorOfItsRow(t *testing.T) {
	dsn := sqliteDSN(t) // PostgreSQL has a type for it
	s := openBook(t, dsn)
	bad, good := inStatus(t, s, 1, ledger.StatusUnknown), inStatus(t, s, 2, ledger.StatusUnknown)
	spoil(t, dsn, "UPDATE transactions SET requested_at = 'yesterday' WHERE transaction_id = '"+string(bad.ID)+"'")
	claims, err := s.Claim(context.Background(), ledger.ClaimOptions{Limit: 2, Lease: time.Hour})
	if err != nil || len(claims) != 2 {
		t.Fatalf("claimed %d, error %v", len(claims), err)
	}
	if claims[0].Transaction.ID != bad.ID || claims[0].Err == nil || claims[1].Transaction != good || claims[1].Err != nil {
		t.Errorf("claims %+v", claims)
	}
}
