package gormstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// claiming is one Claim, and the token of its leases.
type claiming struct {
	ledger.ClaimOptions
	token string
}

// Claim implements ledger.Queue. On SQLite it too asks for no lock unless something
// is due; on PostgreSQL claims of the same kind that come at once are one statement,
// which looks once for what is due.
func (s *Store) Claim(ctx context.Context, o ledger.ClaimOptions) ([]ledger.Claim, error) {
	if o.Limit < 1 || o.Limit > ledger.MaxClaim {
		return nil, fmt.Errorf("claim %d rows: %w", o.Limit, errArgument)
	}
	c := &claiming{o, rand.Text()}
	claim := s.claimLocked
	if s.dialect.arrays {
		claim = s.claimPlain
	}
	rows, err := claim(ctx, c)
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
		return cmp.Or(count(a.Row.Asked.set)-count(b.Row.Asked.set), due)
	})
	claims := make([]ledger.Claim, len(rows))
	for i := range rows {
		claims[i] = newClaim(&rows[i], c.token)
	}
	s.claimed.remember(claims)
	return claims, nil
}

// claimPlain leases what is due, each part in one statement. Should it fail after
// the first, its leases run out by themselves.
func (s *Store) claimPlain(ctx context.Context, c *claiming) (rows []clockedRow, err error) {
	for _, part := range c.parts() {
		if part.Limit = c.Limit - len(rows); part.Limit == 0 {
			break
		}
		due, err := together(ctx, s, s.claims, part, asking[[]clockedRow]{
			doing: "claim",
			alone: func(ctx context.Context, _ error) (due []clockedRow, err error) {
				err = s.noted(s.try(ctx, "claim", s.writeAgain, func(ctx context.Context) error {
					found, err := s.claimMany(ctx, []*claiming{part})
					due = found[part.token]
					return err
				}))
				return due, err
			},
		})
		if err != nil {
			return nil, err
		}
		rows = append(rows, due...)
	}
	return rows, nil
}

// parts are the claim, or one for each part that it is of.
func (c *claiming) parts() []*claiming {
	if c.Owed {
		return []*claiming{{c.ClaimOptions, c.token}}
	}
	var all []*claiming
	for _, part := range c.Only.Parts() {
		p := *c
		p.Only = part
		all = append(all, &p)
	}
	return all
}

// maxClaims is how many claims are one statement.
const maxClaims = 5

// writeClaims makes claims, those of the same kind in one statement. Of what fails
// each is made alone, unless it may have been made.
func (s *Store) writeClaims(ctx context.Context, batch []*claiming) []reply[[]clockedRow] {
	replies := make([]reply[[]clockedRow], 0, len(batch))
	for len(replies) < len(batch) {
		rest := batch[len(replies):]
		alike := rest[:1]
		for len(alike) < min(maxClaims, len(rest)) && rest[len(alike)].ClaimOptions == rest[0].ClaimOptions {
			alike = rest[:len(alike)+1]
		}
		var found map[string][]clockedRow
		err := s.retried(ctx, func(ctx context.Context) (err error) {
			found, err = s.claimMany(ctx, alike)
			return err
		})
		if err != nil && !errors.As(err, new(*commitError)) {
			err = errors.Join(errAlone, err)
		}
		for _, c := range alike {
			replies = append(replies, reply[[]clockedRow]{answer: found[c.token], err: err})
		}
	}
	return replies
}

// claimMany makes claims that differ in their tokens alone, and returns what each
// has: the first of them as many as it wants, then the next.
func (s *Store) claimMany(ctx context.Context, alike []*claiming) (map[string][]clockedRow, error) {
	o := &alike[0].ClaimOptions
	due := s.searches(o)[0]
	tokens := make([]string, len(alike))
	for i, c := range alike {
		tokens[i] = c.token
	}
	found := make(map[string][]clockedRow, len(alike))
	err := s.single(ctx, func(db *gorm.DB) error {
		var row clockedRow
		var token string
		return eachRow(db.Raw(`WITH due AS MATERIALIZED (
	SELECT ctid AS due_place FROM transactions
	WHERE `+due.where+`
	ORDER BY `+due.order+` LIMIT ? `+s.dialect.skipLocked+`
), shared AS MATERIALIZED (
	SELECT due_place, (CAST(? AS text[]))[1 + (row_number() OVER () - 1) / CAST(? AS bigint)] AS due_token FROM due
)
UPDATE transactions SET lease_token = due_token, lease_until = ? FROM shared WHERE ctid = due_place
RETURNING `+columns+`, ? AS clock, lease_token`,
			append(slices.Clone(due.values), o.Limit*len(alike), &tokens, o.Limit, s.dialect.clock(o.Lease), s.dialect.clock(0))...),
			func() {
				found[token] = append(found[token], row)
				row.Row.AccountHash = nil // the next is scanned into memory of its own
			}, append(row.Row.targets(), &row.Clock, &token)...)
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// claimLocked leases what is due, one part after the other, if anything is.
func (s *Store) claimLocked(ctx context.Context, c *claiming) (rows []clockedRow, err error) {
	searches := s.searches(&c.ClaimOptions)
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
		for _, search := range s.searches(&c.ClaimOptions) {
			if len(rows) == c.Limit {
				break
			}
			due, err := s.claimDue(tx, &search, c.Limit-len(rows), c)
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

// claimDue leases rows that a search finds, while nobody else writes.
func (s *Store) claimDue(tx *gorm.DB, due *search, limit int, c *claiming) ([]clockedRow, error) {
	rows := make([]clockedRow, 0, limit)
	var row clockedRow
	err := eachRow(tx.Raw(`WITH due AS MATERIALIZED (
	SELECT business_date AS due_date, transaction_id AS due_id FROM transactions
	WHERE `+due.where+`
	ORDER BY `+due.order+` LIMIT ?)
UPDATE transactions SET lease_token = ?, lease_until = ? FROM due
WHERE business_date = due_date AND transaction_id = due_id
RETURNING `+columns+`, ? AS clock`,
		append(slices.Clone(due.values), limit, c.token, s.dialect.clock(c.Lease), s.dialect.clock(0))...),
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
