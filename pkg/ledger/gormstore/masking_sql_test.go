package gormstore

import (
	"bytes"
	"context"
	"fmt"

	"gorm.io/gorm"
)

// databaseWay is a way through GORM, a driver and the log of the statements.
type databaseWay struct {
	way
	// shows is whether a plain text gets out there. What is told of a statement
	// has no values; an error of a driver may have them.
	shows bool
}

// databaseWays are the errors, and what is logged, of all that a careless line
// could do with a value and a database.
func databaseWays(s *Store, logs *bytes.Buffer) []databaseWay {
	var ways []databaseWay
	for _, m := range misuses(s.dialect.path == "") {
		failure := func(v any) (text string) {
			logs.Reset()
			defer func() {
				if r := recover(); r != nil { // GORM looks into what it does not know
					text = fmt.Sprint(r)
				}
			}()
			err := m.run(s.db.Session(&gorm.Session{Context: context.Background()}), v)
			return fmt.Sprintf("%v %+v %#v", err, err, err)
		}
		ways = append(ways,
			databaseWay{way{"the error of " + m.name, func(_ *canary, v any) string { return failure(v) }}, m.inError},
			databaseWay{way{"the log of " + m.name, func(_ *canary, v any) string { _ = failure(v); return logs.String() }}, m.inLog})
	}
	return ways
}

// misuse is one of them, well or in vain.
type misuse struct {
	name           string
	inError, inLog bool
	run            func(db *gorm.DB, v any) error
}

// misuses says of each whether a plain text is in its error: pgx tells what it
// cannot encode.
func misuses(postgres bool) []misuse {
	var rows []map[string]any
	return []misuse{
		{"a select", postgres, false, func(db *gorm.DB, v any) error {
			return db.Raw("SELECT CAST(? AS text) AS told", v).Scan(&rows).Error
		}},
		{"a select that fails", false, false, func(db *gorm.DB, v any) error {
			return db.Raw("SELECT told FROM none WHERE told = ?", v).Scan(&rows).Error
		}},
		{"a number that is none", postgres, false, func(db *gorm.DB, v any) error {
			return db.Raw("SELECT next_number FROM tranid_blocks WHERE next_number = CAST(? AS integer)", v).Scan(&rows).Error
		}},
		{"a condition", postgres, false, func(db *gorm.DB, v any) error {
			return db.Table("transactions").Select("client_id").Where("client_id = ?", v).Find(&rows).Error
		}},
		{"a condition of a map", postgres, false, func(db *gorm.DB, v any) error {
			return db.Table("transactions").Select("client_id").Where(map[string]any{"client_id": v}).Find(&rows).Error
		}},
		{"a value as condition", false, false, func(db *gorm.DB, v any) error {
			return db.Table("transactions").Select("client_id").Where(v).Find(&rows).Error
		}},
		{"an insert that breaks a constraint", postgres, false, func(db *gorm.DB, v any) error {
			return db.Exec("INSERT INTO transactions (business_date, transaction_id, client_id) VALUES ('2026-07-25', ?, ?)", v, v).Error
		}},
		{"an insert into no table", false, false, func(db *gorm.DB, v any) error {
			return db.Exec("INSERT INTO none (told) VALUES (?)", v).Error
		}},
		{"a create from a map", postgres, false, func(db *gorm.DB, v any) error {
			return db.Table("transactions").Create(map[string]any{"client_id": v, "amount": v}).Error
		}},
		{"a create of a value", false, false, func(db *gorm.DB, v any) error {
			return db.Table("transactions").Create(v).Error
		}},
		{"an update", postgres, false, func(db *gorm.DB, v any) error {
			return db.Table("transactions").Where("client_id = ?", v).Updates(map[string]any{"reason": v}).Error
		}},
		{"a scan into a value", false, false, func(db *gorm.DB, v any) error {
			return db.Raw("SELECT 'nothing' AS told").Scan(v).Error
		}},
		{"database/sql", postgres, false, func(db *gorm.DB, v any) error {
			pool, err := db.DB()
			if err != nil {
				return err
			}
			_, err = pool.ExecContext(context.Background(), "UPDATE tranid_blocks SET next_number = $1 WHERE next_number = $1", v)
			return err
		}},
		{"a statement written out", true, false, func(db *gorm.DB, v any) error {
			text := db.ToSQL(func(tx *gorm.DB) *gorm.DB { return tx.Exec("DELETE FROM none WHERE told = ?", v) })
			return fmt.Errorf("statement %s", text)
		}},
		{"GORM itself", false, true, func(db *gorm.DB, v any) error {
			db.Logger.Error(context.Background(), "failed %v %+v", v, v)
			db.Logger.Warn(context.Background(), "slow %v", v)
			db.Logger.Info(context.Background(), "seen %s", v)
			return nil
		}},
	}
}
