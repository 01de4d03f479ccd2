package gormstore

import (
	"slices"

	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// A PostgreSQL session keeps the plan of a statement that it does often. It is made
// for arrays of any size, and of tables that were empty, or of which nobody had
// counted the rows of this day yet: then a join of what is given with what is
// found compares each with each, and a search for some IDs of a day reads the day.
// No plan made anew is safe from the second either. So statements about many rows
// leave a planner no choice: OFFSET keeps it from looking into the search for one
// row, which it can but do once for each row given, in their order and by the
// primary key, and an UPDATE then goes where the row was found.

// soughtRow is the search of PostgreSQL for the row of an at_date and an at_id.
func soughtRow(columns, lock string) string {
	return "SELECT " + columns + " FROM transactions WHERE business_date = at_date AND transaction_id = at_id OFFSET 0 " + lock
}

// soughtRows are the rows of PostgreSQL that have those IDs, in their order.
func (d *dialect) soughtRows(columns, names string, ids []string, lock string) (text string, values []any) {
	text, values = (&relation{count: len(ids), columns: []column{
		dates("at_date", ids, func(id *string) string { return tranid.ID(*id).Date().String() }),
		texts("at_id", ids, func(id *string) string { return *id }),
	}}).arrays()
	return "SELECT " + names + " FROM (" + text + ") AS wanted CROSS JOIN LATERAL (" + soughtRow(columns, lock) + ") AS sought", values
}

// each reads the rows that have those IDs, which are sorted, in that order.
func (d *dialect) each(columns string, ids []string, lock string) (text string, values []any) {
	if d.arrays {
		return d.soughtRows(columns, "sought.*", ids, lock)
	}
	days, values := amongIDs(ids)
	return "SELECT " + columns + " FROM transactions WHERE " + days + " ORDER BY business_date, transaction_id", values
}

// amongRows is the condition that a row has one of those IDs.
func (d *dialect) amongRows(ids []string) (text string, values []any) {
	if d.arrays {
		text, values = d.soughtRows("ctid AS place", "place", ids, "")
		return "ctid = ANY(ARRAY(" + text + "))", values
	}
	return amongIDs(ids)
}

// amongIDs is amongRows as SQLite, which has no other plan for it, is asked.
func amongIDs(ids []string) (text string, values []any) {
	days := make([]string, len(ids))
	for i, id := range ids {
		days[i] = tranid.ID(id).Date().String()
	}
	slices.Sort(days)
	return "business_date IN ? AND transaction_id IN ?", []any{slices.Compact(days), ids}
}

// soughtOf is where PostgreSQL finds what clients have under names, for those
// transactions.
func soughtOf(table, name string, rows []clientRow) (text string, values []any) {
	text, values = (&relation{count: len(rows), columns: []column{
		texts("of_client", rows, func(r *clientRow) string { return r.client }),
		texts("of_name", rows, func(r *clientRow) string { return r.name }),
		texts("of_id", rows, func(r *clientRow) string { return r.id }),
	}}).arrays()
	return "SELECT place FROM (" + text + ") AS wanted CROSS JOIN LATERAL (SELECT ctid AS place FROM " + table +
		" WHERE client_id = of_client AND " + name + " = of_name AND transaction_id = of_id OFFSET 0) AS sought", values
}
