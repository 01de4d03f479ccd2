package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// The bounds of trying again.
const (
	maxTries  = 100
	firstWait = 2 * time.Millisecond
	lastWait  = 50 * time.Millisecond
)

// verdicts are what a database transaction can find out: they are answers, and
// trying again would not change them. Any other error is the database's.
var verdicts = []error{
	ledger.ErrNotFound, ledger.ErrKeyReused, ledger.ErrOrderTaken, ledger.ErrDuplicateID, ledger.ErrLost,
	ledger.ErrIllegalMove, ledger.ErrInvalidRow, ledger.ErrRunNotFound, ledger.ErrRunOver, ledger.ErrDayRetired,
	ledger.ErrDiscrepancyNotFound, tranid.ErrDayExhausted, account.ErrOverflow,
	ledger.ErrUnreadable, errArgument,
	gorm.ErrCheckConstraintViolated, gorm.ErrForeignKeyViolated, gorm.ErrDuplicatedKey,
}

// errArgument says that a caller of ours asks for what the interface forbids.
var errArgument = errors.New("out of range")

// isVerdict reports whether trying again would not change the error.
func (s *Store) isVerdict(err error) bool {
	return s.dialect.fault(err) || slices.ContainsFunc(verdicts, func(v error) bool { return errors.Is(err, v) })
}

// beginError is a BEGIN that failed: nothing has been done.
type beginError struct {
	cause error
}

// Error says so.
func (e *beginError) Error() string { return "begin: " + e.cause.Error() }

// Unwrap is what the database said.
func (e *beginError) Unwrap() error { return e.cause }

// commitError is a COMMIT that may have happened.
type commitError struct {
	cause error
}

// Error says so.
func (e *commitError) Error() string { return "commit: " + e.cause.Error() }

// Unwrap is what the database said.
func (e *commitError) Unwrap() error { return e.cause }

// write runs f in one database transaction, and again while the database refuses
// it for another writer's sake, or where nothing was done. f must leave nothing
// behind outside the database but what it sets anew each time.
func (s *Store) write(ctx context.Context, doing string, f func(tx *gorm.DB) error) error {
	return s.noted(s.try(ctx, doing, s.writeAgain, func(ctx context.Context) error { return s.transact(ctx, f) }))
}

func (s *Store) writeAgain(err error) bool {
	var begin *beginError
	return s.dialect.again(err) || s.allowed.helps(err) || errors.As(err, &begin) && s.dialect.stale(err)
}

// read runs f, SELECTs that need not agree, outside of any transaction.
func (s *Store) read(ctx context.Context, doing string, f func(db *gorm.DB) error) error {
	again := func(err error) bool {
		return s.dialect.again(err) || s.allowed.helps(err) || s.dialect.stale(err) && !s.isVerdict(err)
	}
	err := s.try(ctx, doing, again, func(ctx context.Context) error { return f(s.db.WithContext(ctx)) })
	if errors.Is(err, ledger.ErrUnreadable) {
		s.unreadable.count(1)
	}
	return err
}

// try makes attempts until one ends otherwise than again says, within the
// caller's deadline, and says what was being done when it failed.
func (s *Store) try(
	ctx context.Context, doing string, again func(error) bool, attempt func(context.Context) error,
) error {
	if err := s.ready(); err != nil {
		return fmt.Errorf("%s: %w: %w", doing, ledger.ErrUnavailable, err)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	err := attempt(ctx)
	for tries := 1; tries < maxTries && again(err) && pause(ctx, tries); tries++ {
		err = attempt(ctx)
	}
	if errors.Is(err, errGone) {
		s.giveUp(ctx, errGone)
	}
	switch {
	case err == nil:
		return nil
	case s.isVerdict(err):
		return fmt.Errorf("%s: %w", doing, err)
	case ctx.Err() != nil && !errors.Is(err, ctx.Err()):
		return fmt.Errorf("%s: %w: %w: %w", doing, ledger.ErrUnavailable, ctx.Err(), err)
	default:
		return fmt.Errorf("%s: %w: %w", doing, ledger.ErrUnavailable, err)
	}
}

// bounded is a context that ends.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, bounded := ctx.Deadline(); bounded {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, defaultTimeout)
}

// pause waits longer after each try, at random so that those who met do not meet
// again; it reports false when the time is up.
func pause(ctx context.Context, tries int) bool {
	longest := min(firstWait<<min(tries, 10), lastWait)
	timer := time.NewTimer(rand.N(longest) + time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// transact runs f in one database transaction on one connection.
func (s *Store) transact(ctx context.Context, f func(tx *gorm.DB) error) error {
	select {
	case s.writing <- struct{}{}:
		defer func() { <-s.writing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	tx := s.db.WithContext(ctx).Begin(&sql.TxOptions{Isolation: s.dialect.isolation})
	if tx.Error != nil {
		return &beginError{cause: tx.Error}
	}
	ended := false
	defer func() {
		if !ended {
			// What failed is told; a transaction whose context is done is
			// rolled back already.
			tx.Rollback()
		}
	}()
	if err := f(tx); err != nil {
		return err
	}
	if err := s.dialect.file.checkInside(); err != nil {
		return err
	}
	ended = true
	if err := tx.Commit().Error; err != nil {
		return &commitError{cause: err}
	}
	// What was committed counts only if who starts next will find it.
	return s.dialect.file.check()
}

// one checks that a statement that was to change one row did: found says what to
// return if it changed none.
func one(result *gorm.DB, none error) error {
	switch {
	case result.Error != nil:
		return result.Error
	case result.RowsAffected == 0:
		return none
	case result.RowsAffected > 1:
		return fmt.Errorf("%d rows changed in place of one: %w", result.RowsAffected, ledger.ErrUnreadable)
	default:
		return nil
	}
}
