package gormstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
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

// Claim implements ledger.Queue. On SQLite it too asks for no lock unless something
// is due.
func (s *Store) Claim(ctx context.Context, o ledger.ClaimOptions) ([]ledger.Claim, error) {
	if o.Limit < 1 || o.Limit > ledger.MaxClaim {
		return nil, fmt.Errorf("claim %d rows: %w", o.Limit, errArgument)
	}
	var rows []clockedRow
	var err error
	token := rand.Text()
	if s.dialect.arrays {
		rows, err = s.claimPlain(ctx, &o, token)
	} else {
		rows, err = s.claimLocked(ctx, &o, token)
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rows, func(a, b clockedRow) int {
		due := cmp.Or(a.Row.NextResolveAt.at.Compare(b.Row.NextResolveAt.at), cmp.Compare(a.Row.TransactionID, b.Row.TransactionID))
		switch {
		case o.Owed:
			return due
		case o.Newest:
			due = -due
		}
		return cmp.Or(count(a.Row.Asked)-count(b.Row.Asked), due)
	})
	claims := make([]ledger.Claim, len(rows))
	for i := range rows {
		claims[i] = newClaim(&rows[i], token)
	}
	s.claimed.remember(claims)
	return claims, nil
}

// claimPlain leases what is due, each part in one statement. Should it fail after
// the first, its leases run out by themselves.
func (s *Store) claimPlain(ctx context.Context, o *ledger.ClaimOptions, token string) (rows []clockedRow, err error) {
	for _, search := range s.searches(o) {
		if len(rows) == o.Limit {
			break
		}
		var due []clockedRow
		err := s.noted(s.try(ctx, "claim", s.writeAgain, func(ctx context.Context) error {
			return s.single(ctx, func(db *gorm.DB) (err error) {
				due, err = s.claimDue(db, &search, o.Limit-len(rows), lease{token, o.Lease})
				return err
			})
		}))
		if err != nil {
			return nil, err
		}
		rows = append(rows, due...)
	}
	return rows, nil
}

// claimLocked leases what is due, one part after the other, if anything is.
func (s *Store) claimLocked(ctx context.Context, o *ledger.ClaimOptions, token string) (rows []clockedRow, err error) {
	searches := s.searches(o)
	found := false
	for i := 0; i < len(searches) && !found; i++ {
		found, err = s.anyFound(ctx, "look for what is due",
			"SELECT 1 FROM transactions WHERE "+searches[i].where+" ORDER BY next_resolve_at", searches[i].values...)
		if err != nil {
			return nil, err
		}
	}
	if !found {
		return nil, nil
	}
	err = s.write(ctx, "claim", func(tx *gorm.DB) error {
		rows = nil
		for _, search := range s.searches(o) {
			if len(rows) == o.Limit {
				break
			}
			due, err := s.claimDue(tx, &search, o.Limit-len(rows), lease{token, o.Lease})
			if err != nil {
				return err
			}
			rows = append(rows, due...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// search is how one kind of rows that are due is found.
type search struct {
	where, order string
	values       []any
}

// searches are those of a claim, one after the other: each part of what is UNKNOWN
// apart, since an index can then be searched by when they are due, from either end.
func (s *Store) searches(o *ledger.ClaimOptions) []search {
	order := "next_resolve_at, transaction_id"
	if o.Owed {
		return []search{{isOwed, order, []any{s.dialect.due(), s.dialect.due()}}}
	}
	if o.Newest {
		order = "next_resolve_at DESC, transaction_id DESC"
	}
	var all []search
	for _, part := range o.Only.Parts() {
		all = append(all, search{
			isDue, order,
			[]any{o.Review, part == ledger.PartAsked, s.dialect.due(), s.dialect.due()},
		})
	}
	return all
}

// lease is what a claim gives.
type lease struct {
	token string
	life  time.Duration
}

// claimDue leases rows that a search finds.
func (s *Store) claimDue(tx *gorm.DB, due *search, limit int, l lease) ([]clockedRow, error) {
	rows := make([]clockedRow, 0, limit)
	var row clockedRow
	err := eachRow(tx.Raw(`WITH due AS MATERIALIZED (
	SELECT business_date AS due_date, transaction_id AS due_id FROM transactions
	WHERE `+due.where+`
	ORDER BY `+due.order+` LIMIT ? `+s.dialect.skipLocked+`)
UPDATE transactions SET lease_token = ?, lease_until = ? FROM due
WHERE business_date = due_date AND transaction_id = due_id
RETURNING `+columns+`, ? AS clock`,
		append(slices.Clone(due.values), limit, l.token, s.dialect.clock(l.life), s.dialect.clock(0))...),
		func() {
			rows = append(rows, row)
			row.Row.AccountHash = nil // the next is scanned into memory of its own
		}, append(row.Row.targets(), &row.Clock)...)
	return rows, err
}

// newClaim reads a claimed row; one that holds garbage is the claim's error.
func newClaim(row *clockedRow, token string) ledger.Claim {
	t, err := row.Row.transaction()
	if err != nil {
		t = ledger.Transaction{ID: tranid.ID(row.Row.TransactionID)}
	}
	return ledger.Claim{Transaction: t, Token: token, At: row.Clock.at, Err: err}
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
