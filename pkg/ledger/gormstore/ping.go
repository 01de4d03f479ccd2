package gormstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// probeSize is more than an intent takes with its indexes and events: on a disk
// that is all but full, less would find room where a payment finds none.
const probeSize = 128 << 10

// Ping reports whether the book can be written now. Where the book was refused,
// it says why. It writes nothing, unless a write has failed: then the book counts
// as one that cannot be written until a write like it succeeds.
func (s *Store) Ping(ctx context.Context) error {
	failed := s.failed.Load()
	if failed == nil {
		return s.renewed(s.write(ctx, "ping ledger", s.dialect.ping))
	}
	if err := s.probe(ctx); err != nil {
		return s.renewed(err)
	}
	s.failed.CompareAndSwap(failed, nil) // unless another has failed meanwhile
	return nil
}

// renewed lets idle connections go after an error that may be theirs: a session
// that began while the database was set to be read only stays so for good.
func (s *Store) renewed(err error) error {
	if !errors.Is(err, errReadOnly) && !hasClass(err, "25006") {
		return err
	}
	s.allowed.renew()
	return err
}

// probe takes as much room as a payment, and gives it back.
func (s *Store) probe(ctx context.Context) error {
	filler := make([]byte, probeSize)
	if _, err := rand.Read(filler); err != nil { // what is random is not compressed
		return fmt.Errorf("probe ledger: %w", err)
	}
	for _, filler := range [][]byte{filler, {}} {
		err := s.write(ctx, "probe ledger, since a write has failed", func(tx *gorm.DB) error {
			return one(tx.Exec("UPDATE write_probe SET filler = ? WHERE id = 1", filler), ledger.ErrUnreadable)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// noted remembers a write that failed, for Ping. What the database found out is
// no failure, nor is a caller who left.
func (s *Store) noted(err error) error {
	if err != nil && !s.isVerdict(err) && !errors.Is(err, context.Canceled) {
		s.failed.Store(&err)
	}
	return err
}
