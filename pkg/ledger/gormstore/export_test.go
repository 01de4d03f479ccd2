package gormstore

import (
	"context"

	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// InUse is how many connections are with someone now.
func InUse(s *Store) int {
	pool, err := s.db.DB()
	if err != nil {
		return -1
	}
	return pool.Stats().InUse
}

// Waiting is how many wait to be written with the next batches.
func Waiting(s *Store) int {
	return s.intents.length() + s.outcomes.length() +
		s.decisions.length() + s.resolutions.length() + s.postponements.length() + s.claims.length()
}

// CreateAlone is CreateIntent with a commit of its own.
func CreateAlone(ctx context.Context, s *Store, in ledger.Intent) (ledger.Admission, error) {
	admission, err := s.createIntent(ctx, &in, false)
	if err != nil {
		return ledger.Admission{}, err
	}
	return *admission, nil
}

// MoveAlone is Transition with a commit of its own.
func MoveAlone(ctx context.Context, s *Store, c ledger.Change) (after ledger.Transaction, err error) {
	err = s.write(ctx, "move alone", func(tx *gorm.DB) error {
		moved, err := s.moveOne(tx, &c)
		if err == nil {
			after = *moved
		}
		return err
	})
	return after, err
}
