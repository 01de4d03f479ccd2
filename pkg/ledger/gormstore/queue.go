package gormstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// adopted is a row that was adopted.
type adopted struct {
	TransactionID string
	NextResolveAt instant
}

// isAbandoned and isDue are what Adopt and Claim look for, and when. The statuses
// are literals, as the partial indexes need them.
const (
	isAbandoned = "status = 'REQUESTED' AND adopt_at <= ?"
	isDue       = `status = 'UNKNOWN' AND needs_review = ? AND asked = ? AND next_resolve_at <= ?
		AND (lease_until IS NULL OR lease_until <= ?)`
	isOwed = `evidence = 'OPERATOR' AND next_resolve_at IS NOT NULL AND next_resolve_at <= ?
		AND (lease_until IS NULL OR lease_until <= ?)`
)

// Adopt implements ledger.Queue. It reads no row, so that one that holds garbage
// keeps nobody waiting; and it asks for no lock, which on SQLite a payment would
// wait for, unless there is something to adopt.
func (s *Store) Adopt(ctx context.Context, limit int, by ledger.Actor) (int, error) {
	if limit < 1 || limit > ledger.MaxClaim {
		return 0, fmt.Errorf("adopt %d rows: %w", limit, errArgument)
	}
	found, err := s.anyFound(ctx, "look for what is abandoned",
		"SELECT 1 FROM transactions WHERE "+isAbandoned+" ORDER BY adopt_at", s.dialect.due())
	if err != nil || !found {
		return 0, err
	}
	count := 0
	err = s.write(ctx, "adopt", func(tx *gorm.DB) error {
		adoption := ledger.Adoption("", by)
		var rows []adopted
		clock := s.dialect.clock(0)
		err := tx.Raw(`WITH abandoned AS MATERIALIZED (
	SELECT business_date AS due_date, transaction_id AS due_id FROM transactions
	WHERE `+isAbandoned+` ORDER BY adopt_at LIMIT ? `+s.dialect.skipLocked+`)
UPDATE transactions SET status = ?, reason = ?, next_resolve_at = ? FROM abandoned
WHERE business_date = due_date AND transaction_id = due_id
RETURNING transaction_id, next_resolve_at`,
			s.dialect.due(), limit, adoption.To.String(), adoption.Reason, clock).Scan(&rows).Error
		count = len(rows)
		if err != nil || count == 0 {
			return err
		}
		ids := make([]tranid.ID, count)
		for i, r := range rows {
			ids[i] = tranid.ID(r.TransactionID)
		}
		return appendEvents(tx, adoption.Event(rows[0].NextResolveAt.at), ids...)
	})
	if err != nil {
		return 0, err
	}
	return count, nil
}

// ClaimOne implements ledger.Queue.
func (s *Store) ClaimOne(
	ctx context.Context, id tranid.ID, lease time.Duration, by ledger.Actor,
) (ledger.Claim, error) {
	var claim ledger.Claim
	err := s.write(ctx, "claim "+string(id), func(tx *gorm.DB) error {
		row, err := s.lockRow(tx, id)
		if err != nil {
			return err
		}
		claim = newClaim(row, "")
		if claim.Err != nil {
			return nil //nolint:nilerr // the claim tells it
		}
		t := &claim.Transaction
		if t.Status == ledger.StatusRequested && !t.AdoptAt.After(claim.At) {
			adoption := ledger.Adoption(id, by)
			if *t, err = s.move(tx, *t, &adoption, claim.At); err != nil {
				return err
			}
		}
		if !t.Resolvable() {
			return nil
		}
		claim.Token = rand.Text()
		return one(tx.Exec("UPDATE transactions SET lease_token = ?, lease_until = ? WHERE "+whileResolvable,
			claim.Token, s.dialect.clock(lease), id.Date().String(), string(id)), ledger.ErrNotFound)
	})
	if err != nil {
		return ledger.Claim{}, err
	}
	s.claimed.remember([]ledger.Claim{claim})
	return claim, nil
}

// byID is how one row is found. The status that it must still have is asked for
// in a form that no planner takes for that of a partial index: without statistics
// PostgreSQL would read all that is pending to find one row of it.
const (
	byID         = "business_date = ? AND transaction_id = ?"
	whileStatus  = byID + " AND status IS NOT DISTINCT FROM ?"
	whileUnknown = byID + " AND status IS NOT DISTINCT FROM 'UNKNOWN'"
	whileOwed    = byID + " AND evidence IS NOT DISTINCT FROM 'OPERATOR' AND next_resolve_at IS NOT NULL"

	whileResolvable = byID + ` AND (status IS NOT DISTINCT FROM 'UNKNOWN'
		OR evidence IS NOT DISTINCT FROM 'OPERATOR' AND next_resolve_at IS NOT NULL)`
)

// Decide implements ledger.Queue. Decisions that come at once are stored together.
func (s *Store) Decide(
	ctx context.Context, id tranid.ID, by ledger.Actor, detail string,
) (ledger.Transaction, error) {
	d := &decision{id: id, by: by, detail: detail}
	doing := "decide on " + string(id)
	return together(ctx, s, s.decisions, d, asking[ledger.Transaction]{
		doing: doing,
		alone: func(ctx context.Context, _ error) (t ledger.Transaction, err error) {
			err = s.write(ctx, doing, func(tx *gorm.DB) error {
				replies, err := s.decideMany(tx, []*decision{d})
				if err != nil {
					return err
				}
				t = replies[0].answer
				return replies[0].err
			})
			return t, err
		},
	})
}

// lostTo is the error of a compare-and-set that lost, with the row that won.
func (s *Store) lostTo(tx *gorm.DB, id tranid.ID) error {
	t, _, err := s.lockTransaction(tx, id)
	if err != nil {
		return err
	}
	return &ledger.LostError{Current: t}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Release implements ledger.Queue.
func (s *Store) Release(ctx context.Context, token string) error {
	if token == "" {
		return nil
	}
	return s.write(ctx, "release claims", func(tx *gorm.DB) error {
		for _, pending := range []string{"status = 'UNKNOWN'", "evidence = 'OPERATOR' AND next_resolve_at IS NOT NULL"} {
			err := tx.Exec("UPDATE transactions SET lease_token = '', lease_until = NULL WHERE "+pending+" AND lease_token = ?", token).Error
			if err != nil {
				return err
			}
		}
		return nil
	})
}
