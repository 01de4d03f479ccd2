package gormstore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/gormstore"
)

// sweepOnce does what a reconciler does in each pass of its sweep.
func sweepOnce(ctx context.Context, s *gormstore.Store) error {
	if _, err := s.Adopt(ctx, ledger.MaxClaim, payer); err != nil {
		return err
	}
	for _, review := range []bool{false, true} {
		_, err := s.Claim(ctx, ledger.ClaimOptions{Limit: ledger.MaxClaim, Lease: time.Minute, Review: review})
		if err != nil {
			return err
		}
	}
	if _, err := s.PurgeKeys(ctx, ledger.MaxPurge); err != nil {
		return err
	}
	_, err := s.RetireDay(ctx, ledger.RetireOptions{RetainDays: 1, Today: today, Limit: ledger.MaxRetire})
	return err
}

func TestSweep_TakesNoLockWhereNothingIsDue(t *testing.T) {
	dsn := sqliteDSN(t)
	s := openBook(t, dsn)
	inStatus(t, s, 1, ledger.StatusRequested)
	inStatus(t, s, 2, ledger.StatusSuccess)
	writer, err := raw(t, dsn).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Close() }()
	for _, statement := range []string{"BEGIN IMMEDIATE", "UPDATE write_probe SET filler = x'00'"} {
		if _, err := writer.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := sweepOnce(ctx, s); err != nil {
		t.Errorf("while another writes: %v", err)
	}
	if _, err := writer.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
}

func TestSweep_LetsPaymentsThroughBesideTwoReconcilers(t *testing.T) {
	const payments, atATime = 120, 4
	dsn := sqliteDSN(t)
	payment := openBook(t, dsn)
	sweeping, stop := context.WithCancel(t.Context())
	var reconcilers, callers sync.WaitGroup
	for range 2 {
		s := openBook(t, dsn)
		reconcilers.Go(func() {
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for sweeping.Err() == nil {
				if err := sweepOnce(sweeping, s); err != nil && sweeping.Err() == nil {
					t.Errorf("sweep: %v", err)
				}
				select {
				case <-tick.C:
				case <-sweeping.Done():
				}
			}
		})
	}
	start := time.Now()
	for caller := range atATime {
		callers.Go(func() {
			for i := range payments / atATime {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				in := intent(int64(caller*payments + i))
				_, err := payment.CreateIntent(ctx, in)
				if err == nil {
					_, err = payment.Transition(ctx, ledger.Change{
						ID: in.ID, From: ledger.StatusRequested, To: ledger.StatusUnknown, By: payer,
					})
				}
				cancel()
				if err != nil {
					t.Errorf("payment beside two reconcilers: %v", err)
				}
			}
		})
	}
	callers.Wait()
	t.Logf("%d payments in %s", payments, time.Since(start).Round(time.Millisecond))
	stop()
	reconcilers.Wait()
}
