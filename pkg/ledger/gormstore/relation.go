package gormstore

import (
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// column is one column of rows that are written in one statement.
type column struct {
	name string
	// value is what one row has, as a value of a list of VALUES.
	value func(row int) any
	// array points to what all rows have, and single to what the first has: GORM
	// takes a pointer for one value.
	array, single any
	// element is the type in PostgreSQL of what is in array, and term how an
	// element becomes the column's value.
	element, term string
	// shared columns have one value for all rows: single, and no array.
	shared bool
}

// relation is rows that are written in one statement: as arrays to PostgreSQL, so
// that the text of a statement is the same for any number of rows, and as a list
// of VALUES to SQLite, which keeps no statement.
type relation struct {
	count   int
	columns []column
}

// plain is a column whose values are in the database what they are in Go.
func plain[R, V any](name, element string, rows []R, of func(row *R) V) column {
	values := make([]V, len(rows))
	for i := range rows {
		values[i] = of(&rows[i])
	}
	return column{
		name: name, value: func(i int) any { return values[i] }, array: &values, single: first(values), element: element, term: "%s",
	}
}

// first points to the first of the values, if there is one.
func first[V any](values []V) *V {
	if len(values) == 0 {
		return nil
	}
	return &values[0]
}

// shared is a column that has one value for all rows of a statement to PostgreSQL.
func shared[V any](name, element string, value V) column {
	return column{name: name, single: &value, element: element, term: "%s", shared: true}
}

// sharedDate is shared of a day.
func sharedDate(name string, day tranid.Date) column {
	c := shared(name, "text", day.String())
	c.term = "CAST(%s AS date)"
	return c
}

func texts[R any](name string, rows []R, of func(row *R) string) column {
	return plain(name, "text", rows, of)
}

// dates is a column of days, which Go has as text.
func dates[R any](name string, rows []R, of func(row *R) string) column {
	c := texts(name, rows, of)
	c.term = "CAST(%s AS date)"
	return c
}

func instants[R any](name string, rows []R, of func(row *R) instant) column {
	values := make([]*time.Time, len(rows))
	for i := range rows {
		if at := of(&rows[i]).at; !at.IsZero() {
			values[i] = &at
		}
	}
	return column{
		name: name, value: func(i int) any { return of(&rows[i]) }, array: &values, single: first(values), element: "timestamptz", term: "%s",
	}
}

// clocks is a column of moments, each so long from now by the database's clock.
func clocks[R any](d *dialect, name string, rows []R, of func(row *R) time.Duration) column {
	c := plain(name, "bigint", rows, func(row *R) int64 { return of(row).Microseconds() })
	c.value = func(i int) any { return d.clock(of(&rows[i])) }
	c.term = "clock_timestamp() + %s * interval '1 microsecond'"
	return c
}

func (r *relation) names() string {
	names := make([]string, len(r.columns))
	for i, c := range r.columns {
		names[i] = c.name
	}
	return strings.Join(names, ", ")
}

// values is the rows as a list of VALUES.
func (r *relation) values() (text string, values []any) {
	row := "(?" + strings.Repeat(", ?", len(r.columns)-1) + ")"
	values = make([]any, 0, r.count*len(r.columns))
	for i := range r.count {
		for _, c := range r.columns {
			values = append(values, c.value(i))
		}
	}
	return "VALUES " + row + strings.Repeat(", "+row, r.count-1), values
}

// arrays is the rows as a SELECT from arrays, and what it carries.
func (r *relation) arrays() (text string, values []any) { return r.word(), r.carried() }

// word is the text of arrays. PostgreSQL would count what is in them, find that a
// plan for so few is cheaper than its plan for any number, and plan each time,
// which takes longer than to write a row: out of a SELECT it cannot. One row is a
// SELECT without arrays.
func (r *relation) word() string {
	var terms, names, arrays []string
	for _, c := range r.columns {
		if c.shared || r.count == 1 {
			terms = append(terms, c.cast()+" AS "+c.name)
			continue
		}
		terms = append(terms, fmt.Sprintf(c.term, c.name)+" AS "+c.name)
		names = append(names, c.name)
		arrays = append(arrays, "(SELECT CAST(? AS "+c.element+"[]))")
	}
	text := "SELECT " + strings.Join(terms, ", ")
	if len(arrays) == 0 {
		return text
	}
	return text + " FROM unnest(" + strings.Join(arrays, ", ") + ") AS given (" + strings.Join(names, ", ") + ")"
}

// carried is what the text of arrays has a place for, in the order of the places:
// what all rows share is named before the arrays.
func (r *relation) carried() []any {
	values := make([]any, 0, len(r.columns))
	for i := range r.columns {
		if c := &r.columns[i]; c.shared || r.count == 1 {
			values = append(values, c.single)
		}
	}
	for i := range r.columns {
		if c := &r.columns[i]; !c.shared && r.count != 1 {
			values = append(values, c.array)
		}
	}
	return values
}

// cast is the column's value as one parameter.
func (c *column) cast() string { return fmt.Sprintf(c.term, "CAST(? AS "+c.element+")") }

// table is the head of a statement in which what a text gives is a table of the
// name given.
func (r *relation) table(text string) string {
	return "WITH given (" + r.names() + ") AS (" + text + ")\n"
}

// insert is the statement, without its end, that inserts the rows. One row is a
// plain INSERT.
func (d *dialect) insert(table string, r *relation) (text string, values []any) {
	source := r.values
	if d.arrays && r.count > 1 {
		source = r.arrays
	}
	text, values = source()
	return "INSERT INTO " + table + " (" + r.names() + ") " + text, values
}

// given is the head of a statement in which the rows are a table of that name.
func (d *dialect) given(r *relation) (text string, values []any) {
	source := r.values
	if d.arrays {
		source = r.arrays
	}
	text, values = source()
	return r.table(text), values
}

// insertRows stores new rows of transactions.
func (d *dialect) insertRows(tx *gorm.DB, rows []transactionRow) error {
	text, values := d.insert("transactions", &relation{count: len(rows), columns: rowColumns(rows)})
	return tx.Exec(text, values...).Error
}

// insertEvents stores entries.
func (d *dialect) insertEvents(tx *gorm.DB, rows []eventRow) error {
	text, values := d.insert("transaction_events", &relation{count: len(rows), columns: eventColumnsOf(rows)})
	return tx.Exec(text, values...).Error
}

// rowColumns are those that are written with a new row.
func rowColumns(rows []transactionRow) []column {
	type row = transactionRow
	return []column{
		dates("business_date", rows, func(r *row) string { return r.BusinessDate }),
		texts("transaction_id", rows, func(r *row) string { return r.TransactionID }),
		texts("kind", rows, func(r *row) string { return r.Kind }),
		texts("status", rows, func(r *row) string { return r.Status }),
		texts("evidence", rows, func(r *row) string { return r.Evidence }),
		texts("resolution_method", rows, func(r *row) string { return r.ResolutionMethod }),
		texts("resolution_policy", rows, func(r *row) string { return r.ResolutionPolicy }),
		texts("decision", rows, func(r *row) string { return r.Decision }),
		plain("needs_review", "boolean", rows, func(r *row) bool { return r.NeedsReview.set }),
		texts("client_id", rows, func(r *row) string { return r.ClientID }),
		texts("idempotency_key", rows, func(r *row) string { return r.IdempotencyKey }),
		texts("order_id", rows, func(r *row) string { return r.OrderID }),
		texts("account_masked", rows, func(r *row) string { return r.AccountMasked }),
		plain("account_hash", "bytea", rows, func(r *row) []byte { return r.AccountHash }),
		plain("amount", "bigint", rows, func(r *row) int64 { return r.Amount }),
		texts("response_code", rows, func(r *row) string { return r.ResponseCode }),
		texts("response_message", rows, func(r *row) string { return r.ResponseMessage }),
		texts("approval_number", rows, func(r *row) string { return r.ApprovalNumber }),
		texts("reason", rows, func(r *row) string { return r.Reason }),
		plain("elapsed_us", "bigint", rows, func(r *row) int64 { return r.ElapsedUs }),
		instants("requested_at", rows, func(r *row) instant { return r.RequestedAt }),
		instants("sent_at", rows, func(r *row) instant { return r.SentAt }),
		instants("responded_at", rows, func(r *row) instant { return r.RespondedAt }),
		instants("resolved_at", rows, func(r *row) instant { return r.ResolvedAt }),
		instants("adopt_at", rows, func(r *row) instant { return r.AdoptAt }),
		plain("resolve_attempts", "integer", rows, func(r *row) int32 { return int32(r.ResolveAttempts) }), //nolint:gosec // small
		plain("not_found", "integer", rows, func(r *row) int32 { return int32(r.NotFound) }),               //nolint:gosec // small
		plain("asked", "boolean", rows, func(r *row) bool { return r.Asked.set }),
		instants("next_resolve_at", rows, func(r *row) instant { return r.NextResolveAt }),
		texts("correlation_id", rows, func(r *row) string { return r.CorrelationID }),
		texts("trace_id", rows, func(r *row) string { return r.TraceID }),
	}
}

// eventColumnsOf are those that are written with a new entry.
func eventColumnsOf(rows []eventRow) []column {
	type row = eventRow
	return []column{
		dates("business_date", rows, func(r *row) string { return r.BusinessDate }),
		texts("transaction_id", rows, func(r *row) string { return r.TransactionID }),
		instants("at", rows, func(r *row) instant { return r.At }),
		texts("from_status", rows, func(r *row) string { return r.FromStatus }),
		texts("to_status", rows, func(r *row) string { return r.ToStatus }),
		texts("evidence", rows, func(r *row) string { return r.Evidence }),
		texts("actor", rows, func(r *row) string { return r.Actor }),
		texts("instance", rows, func(r *row) string { return r.Instance }),
		texts("detail", rows, func(r *row) string { return r.Detail }),
		texts("trace_id", rows, func(r *row) string { return r.TraceID }),
	}
}
