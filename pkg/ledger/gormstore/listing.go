package gormstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

const (
	// maxSeen is how many rows a page looks at, if it can say where it stopped.
	maxSeen = 4 * ledger.MaxPage
	// fewestMore is how many rows are asked for at least, once some were bad.
	fewestMore = 100
)

// List implements ledger.Reader. Rows that hold what no row may are stepped over,
// told and counted.
func (s *Store) List(ctx context.Context, f ledger.Filter) (ledger.Page, error) {
	if f.Limit < 1 || f.Limit > ledger.MaxPage {
		return ledger.Page{}, fmt.Errorf("list %d rows: %w", f.Limit, errArgument)
	}
	var l listing
	err := s.read(ctx, "list transactions", func(db *gorm.DB) error {
		l = listing{filter: f}
		for more := true; more; {
			wanted := l.wanted()
			var rows []transactionRow
			if err := l.query(db, s.dialect, wanted).Find(&rows).Error; err != nil {
				return err
			}
			more = l.take(rows) && len(rows) == wanted
		}
		return nil
	})
	if err != nil {
		return ledger.Page{}, err
	}
	for _, bad := range l.bad {
		s.unreadable.tell(ctx, bad.id, bad.err)
	}
	l.page.Unreadable = len(l.bad)
	s.unreadable.count(int64(len(l.bad)))
	return l.page, nil
}

// listing is a page that is being read.
type listing struct {
	// filter has where the page goes on: after the last row that was seen, but for
	// placeless ones that came since. Those hold no time, or no ID.
	filter    ledger.Filter
	placeless int
	seen      int
	page      ledger.Page
	bad       []badRow
}

// badRow is a row that was stepped over, and why.
type badRow struct {
	id  string
	err error
}

// wanted is how many rows are to be read next: one more than the page lacks, to
// know whether there are more.
func (l *listing) wanted() int {
	missing := l.filter.Limit - len(l.page.Transactions) + 1
	if l.seen > 0 {
		return max(missing, fewestMore)
	}
	return missing
}

// inOrder is the order of lists.
const inOrder = "requested_at DESC, transaction_id DESC"

func (l *listing) query(db *gorm.DB, d *dialect, wanted int) *gorm.DB {
	parts := d.partsOf(db, &l.filter, columns)
	if len(parts) == 1 {
		return parts[0].Order(inOrder).Limit(wanted).Offset(l.placeless)
	}
	for i, part := range parts {
		parts[i] = part.Order(inOrder).Limit(wanted + l.placeless)
	}
	return union(db, parts).Order(inOrder).Limit(wanted).Offset(l.placeless)
}

// take adds rows to the page, and reports whether it wants more.
func (l *listing) take(rows []transactionRow) bool {
	for i := range rows {
		if len(l.page.Transactions) == l.filter.Limit || l.seen >= maxSeen && l.placeless == 0 {
			l.page.Next = l.filter.After
			return false
		}
		l.add(&rows[i])
	}
	return true
}

func (l *listing) add(row *transactionRow) {
	l.seen++
	if t, err := row.transaction(); err == nil {
		l.page.Transactions = append(l.page.Transactions, t)
	} else {
		l.bad = append(l.bad, badRow{row.TransactionID, err})
	}
	if id, err := tranid.Parse(row.TransactionID); err == nil && !row.RequestedAt.garbage {
		l.filter.After, l.placeless = &ledger.Cursor{RequestedAt: row.RequestedAt.at, ID: id}, 0
	} else {
		l.placeless++
	}
}

// The indexes of lists in PostgreSQL leave out what is REQUESTED: nearly every row
// is that for a moment, and would be entered into each of them twice. It is looked
// for apart, in the index of what may have been abandoned, which holds little else.
const (
	answered = "status <> 'REQUESTED'"
	underWay = "status = 'REQUESTED' AND adopt_at > '0001-01-01 00:00:00+00'"
)

// partsOf are queries for the columns of what passes the filter: each row passes
// one of them.
func (d *dialect) partsOf(db *gorm.DB, f *ledger.Filter, columns string) []*gorm.DB {
	var parts []*gorm.DB
	for _, condition := range d.conditions(f) {
		part := selected(db.Table("transactions").Select(columns), f)
		if condition != "" {
			part = part.Where(condition)
		}
		parts = append(parts, part)
	}
	return parts
}

// conditions repeat what the filter says of the status in the words of the partial
// indexes that hold just that. Of what is pending there is little, and in all that
// is in the book it is hard to find.
func (d *dialect) conditions(f *ledger.Filter) []string {
	review := f.NeedsReview != nil && *f.NeedsReview
	unknown := slices.Equal(f.Statuses, []ledger.Status{ledger.StatusUnknown})
	pending := slices.Equal(f.Statuses, []ledger.Status{ledger.StatusRequested})
	switch {
	case review && !isNarrow(f):
		return []string{"status = 'UNKNOWN'"}
	case unknown && !isNarrow(f):
		return []string{"status = 'UNKNOWN' AND needs_review IN (FALSE, TRUE)"}
	case pending && (d.listsApart || !isNarrow(f)):
		return []string{underWay}
	case !d.listsApart:
		return []string{""}
	case review || len(f.Statuses) > 0 && !slices.Contains(f.Statuses, ledger.StatusRequested):
		return []string{answered}
	default:
		return []string{answered, underWay}
	}
}

// union is the rows of all parts.
func union(db *gorm.DB, parts []*gorm.DB) *gorm.DB {
	texts, values := make([]string, len(parts)), make([]any, len(parts))
	for i, part := range parts {
		texts[i], values[i] = "(?)", part
	}
	return db.Table("("+strings.Join(texts, " UNION ALL ")+") AS parts", values...)
}

// isNarrow reports whether the filter asks for what is in few rows.
func isNarrow(f *ledger.Filter) bool {
	return f.Order != "" || f.CorrelationID != "" || f.AccountHash != nil
}

// selected adds what the filter asks for. What is in few rows is found by its
// index; the client is then only compared, in words that SQLite, which knows
// nothing of how many rows a client has, finds no index for.
func selected(query *gorm.DB, f *ledger.Filter) *gorm.DB {
	where := func(set bool, condition string, values ...any) {
		if set {
			query = query.Where(condition, values...)
		}
	}
	narrow := isNarrow(f)
	where(f.Client != "" && !narrow, "client_id = ?", string(f.Client))
	where(f.Client != "" && narrow, "CASE WHEN TRUE THEN client_id END = ?", string(f.Client))
	where(len(f.Statuses) > 0, "status IN ?", names(f.Statuses))
	where(len(f.Kinds) > 0, "kind IN ?", names(f.Kinds))
	if f.NeedsReview != nil {
		where(true, "needs_review = ?", *f.NeedsReview)
	}
	// The second half of these is what the partial indexes are for.
	where(f.Order != "", "order_id = ? AND order_id <> ''", string(f.Order))
	where(f.CorrelationID != "", "correlation_id = ? AND correlation_id <> ''", f.CorrelationID)
	if f.AccountHash != nil {
		where(true, "account_hash = ?", f.AccountHash[:])
	}
	where(!f.RequestedFrom.IsZero(), "requested_at >= ?", instant{at: f.RequestedFrom})
	where(!f.RequestedTo.IsZero(), "requested_at < ?", instant{at: f.RequestedTo})
	if f.After != nil {
		where(true, "(requested_at, transaction_id) < (?, ?)", instant{at: f.After.RequestedAt}, string(f.After.ID))
	}
	return query
}
