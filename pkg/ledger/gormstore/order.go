package gormstore

import (
	"errors"
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// guardOrder takes the order for the intent, or finds the payment that holds it.
// It waits for any other call that is taking the order or letting it go.
func guardOrder(tx *gorm.DB, in *ledger.Intent) error {
	if in.Order == "" {
		return nil
	}
	result := tx.Exec(`INSERT INTO order_guards (client_id, order_id, business_date, transaction_id) VALUES (?, ?, ?, ?)
ON CONFLICT (client_id, order_id) DO NOTHING`,
		string(in.Client), string(in.Order), in.ID.Date().String(), string(in.ID))
	if result.Error != nil || result.RowsAffected == 1 {
		return result.Error
	}
	holder, err := firstOf(tx.Raw(`SELECT `+columns+` FROM transactions WHERE (business_date, transaction_id) =
	(SELECT business_date, transaction_id FROM order_guards WHERE client_id = ? AND order_id = ?)`,
		string(in.Client), string(in.Order)))
	switch {
	case errors.Is(err, ledger.ErrNotFound): // it was let go meanwhile
		return errOvertaken
	case err != nil:
		return err
	default:
		return &ledger.OrderError{Holder: holder}
	}
}

// freeOrder lets the order of a payment go that failed or was canceled.
func freeOrder(tx *gorm.DB, t *ledger.Transaction) error {
	if t.Order == "" || !t.FreesOrder() {
		return nil
	}
	return tx.Exec("DELETE FROM order_guards WHERE client_id = ? AND order_id = ? AND transaction_id = ?",
		string(t.Client), string(t.Order), string(t.ID)).Error
}

// clientRow is what a client has under a name, a key or an order, and for which
// transaction.
type clientRow struct {
	client, name, id string
}

// deleteOf deletes rows of clients that nobody else may change, each if it is for
// that transaction.
func (s *Store) deleteOf(tx *gorm.DB, table, column string, rows []clientRow) error {
	switch {
	case len(rows) == 0:
		return nil
	case s.dialect.arrays:
		text, values := soughtOf(table, column, rows)
		return tx.Exec("DELETE FROM "+table+" WHERE ctid = ANY(ARRAY("+text+"))", values...).Error
	}
	names, ids := make(map[string][]string), make(map[string][]string)
	for _, r := range rows {
		names[r.client], ids[r.client] = append(names[r.client], r.name), append(ids[r.client], r.id)
	}
	for _, client := range slices.Sorted(maps.Keys(names)) {
		err := tx.Exec("DELETE FROM "+table+" WHERE client_id = ? AND "+column+" IN ? AND transaction_id IN ?",
			client, names[client], ids[client]).Error
		if err != nil {
			return err
		}
	}
	return nil
}
