package gormstore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/gormstore"
)

func TestSQLite_WaitsForAnotherWriterWithinTheDeadline(t *testing.T) {
	dsn := sqliteDSN(t)
	s, db := openBook(t, dsn), raw(t, dsn)
	other, err := db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	lock := func(statement string) {
		t.Helper()
		if _, err := other.ExecContext(context.Background(), statement); err != nil {
			t.Fatal(err)
		}
	}
	lock("BEGIN IMMEDIATE")
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err = s.CreateIntent(ctx, intent(1))
	if !errors.Is(err, ledger.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("ended after %s", took)
	}
	stored := make(chan error, 1)
	go func() {
		_, err := s.CreateIntent(context.Background(), intent(1))
		stored <- err
	}()
	select {
	case err := <-stored:
		t.Fatalf("did not wait: %v", err)
	case <-time.After(1500 * time.Millisecond): // longer than SQLite itself waits
	}
	lock("ROLLBACK")
	if err := <-stored; err != nil {
		t.Error(err)
	}
}

func TestSQLite_StartsWhileAnotherWrites(t *testing.T) {
	dsn := sqliteDSN(t)
	inStatus(t, openBook(t, dsn), 1, ledger.StatusSuccess)
	other, err := raw(t, dsn).Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	for _, statement := range []string{"BEGIN IMMEDIATE", "UPDATE tranid_blocks SET next_number = 1"} {
		if _, err := other.ExecContext(context.Background(), statement); err != nil {
			t.Fatal(err)
		}
	}
	s := openBook(t, dsn)
	if _, err := s.Get(context.Background(), intent(1).ID); err != nil {
		t.Error(err)
	}
	short, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := s.Ping(short); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("can be written: %v", err)
	}
}

func TestSQLite_StartThatMustWriteWaitsForAnotherWriter(t *testing.T) {
	dsn := sqliteDSN(t)
	openBook(t, dsn)
	other, err := raw(t, dsn).Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	for _, statement := range []string{"DELETE FROM hash_key_check", "BEGIN IMMEDIATE"} {
		if _, err := other.ExecContext(context.Background(), statement); err != nil {
			t.Fatal(err)
		}
	}
	opened := make(chan error, 1)
	go func() {
		s, _, err := gormstore.Open(context.Background(), options(dsn))
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Fatalf("did not wait: %v", err)
	case <-time.After(1500 * time.Millisecond): // longer than SQLite itself waits
	}
	if _, err := other.ExecContext(context.Background(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

func TestSmallPool_NeverWaitsOnItself(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		o := options(dsn)
		o.Flags.LedgerMaxConns = 2
		s := openWith(t, o)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		var all, resolving sync.WaitGroup
		done := make(chan struct{})
		resolving.Go(func() { // as the reconciler does
			for open := true; open; {
				if _, err := s.Adopt(ctx, ledger.MaxClaim, payer); err != nil {
					t.Error(err)
				}
				if _, err := s.Claim(ctx, ledger.ClaimOptions{Limit: ledger.MaxClaim, Lease: time.Hour}); err != nil {
					t.Error(err)
				}
				select {
				case <-done:
					open = false
				default:
				}
			}
		})
		for i := range 50 {
			all.Go(func() {
				in := intent(int64(i))
				if _, err := s.CreateIntent(ctx, in); err != nil {
					t.Error(err)
				}
				if _, err := s.Transition(ctx, ledger.Change{
					ID: in.ID, From: ledger.StatusRequested, To: ledger.StatusUnknown, By: payer,
				}); err != nil {
					t.Error(err)
				}
				if _, err := s.Claim(ctx, ledger.ClaimOptions{Limit: 5, Lease: time.Hour}); err != nil {
					t.Error(err)
				}
				if _, err := s.NextBlock(ctx, today, 10, 0); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		close(done)
		resolving.Wait()
	})
}

func TestCanceledAnywhere_LeavesNoHalfTransactionAndNoConnection(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		s, db := openBook(t, dsn), raw(t, dsn)
		const payments = 200
		var all sync.WaitGroup
		for worker := range 4 {
			all.Go(func() {
				for i := worker; i < payments; i += 4 {
					ctx, cancel := context.WithTimeout(context.Background(), rand.N(4*time.Millisecond))
					_, err := s.CreateIntent(ctx, intent(int64(i)))
					cancel()
					if err != nil && !errors.Is(err, ledger.ErrUnavailable) {
						t.Errorf("error %v", err)
					}
				}
			})
		}
		all.Wait()
		await(t, "no connection in use", func() bool { return gormstore.InUse(s) == 0 })
		var rows, keys, events int
		for query, into := range map[string]*int{
			"SELECT count(*) FROM transactions": &rows, "SELECT count(*) FROM idempotency_keys": &keys,
			"SELECT count(*) FROM transaction_events": &events,
		} {
			if err := db.QueryRowContext(context.Background(), query).Scan(into); err != nil {
				t.Fatal(err)
			}
		}
		if rows != keys || rows != events {
			t.Errorf("%d transactions, %d keys, %d events", rows, keys, events)
		}
		for i := range int64(payments) {
			if _, err := s.CreateIntent(context.Background(), intent(i)); err != nil {
				t.Fatalf("again: %v", err)
			}
		}
	})
}
