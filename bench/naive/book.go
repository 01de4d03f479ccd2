package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/libtnb/sqlite"    //nolint:depguard // the naive service has its SQL where everyone has it first
	"gorm.io/driver/postgres"     //nolint:depguard // the naive service has its SQL where everyone has it first
	"gorm.io/gorm"                //nolint:depguard // the naive service has its SQL where everyone has it first
	gormlog "gorm.io/gorm/logger" //nolint:depguard // the naive service has its SQL where everyone has it first
	_ "modernc.org/sqlite"        // the driver named sqlite
)

// sqliteParameters make a commit durable, as they must for payments.
const sqliteParameters = "?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"

// The states of a payment.
const (
	requested = "REQUESTED"
	success   = "SUCCESS"
	failed    = "FAILED"
	unknown   = "UNKNOWN"
)

// payment is a row: what the product keeps of a payment too.
type payment struct {
	TransactionID   string    `gorm:"primaryKey;size:22"`
	ClientID        string    `gorm:"size:64;not null;uniqueIndex:payments_by_key,priority:1"`
	IdempotencyKey  string    `gorm:"size:64;not null;uniqueIndex:payments_by_key,priority:2"`
	AccountMasked   string    `gorm:"size:14;not null"`
	Amount          int64     `gorm:"not null"`
	Status          string    `gorm:"size:16;not null"`
	ResponseCode    string    `gorm:"size:4;not null"`
	ResponseMessage string    `gorm:"size:300;not null"`
	ApprovalNumber  string    `gorm:"size:11;not null"`
	RequestedAt     time.Time `gorm:"not null;index"`
	RespondedAt     *time.Time
}

// errMoved says that a row is not REQUESTED any more.
var errMoved = errors.New("the payment is not REQUESTED")

// book is the payments' table.
type book struct{ db *gorm.DB }

// openBook opens sqlite:PATH or postgres://..., with so many connections at
// most, and makes the table. Tuned, it follows GORM's own advice on speed and has
// no transaction around a single statement.
func openBook(ctx context.Context, dsn string, maxConns int, tuned bool) (*book, error) {
	pool, dialector, err := dial(dsn)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	pool.SetMaxOpenConns(maxConns)
	pool.SetMaxIdleConns(maxConns)
	// The driver prepares each statement once for a connection.
	db, err := gorm.Open(dialector(pool), &gorm.Config{
		SkipDefaultTransaction: tuned, TranslateError: true, Logger: gormlog.Discard,
	})
	if err == nil {
		err = db.WithContext(ctx).AutoMigrate(&payment{})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the table: %w", err), pool.Close())
	}
	return &book{db: db}, nil
}

// dial opens a pool, and says what GORM is to make of it. SQLite has one writer,
// for which its statements wait in the pool rather than in the file.
func dial(dsn string) (*sql.DB, func(*sql.DB) gorm.Dialector, error) {
	if path, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
		pool, err := sql.Open("sqlite", "file:"+path+sqliteParameters)
		return pool, func(pool *sql.DB) gorm.Dialector { return sqlite.New(sqlite.Config{Conn: pool}) }, err
	}
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, nil, errors.New("the DSN cannot be read") // not wrapped: it may hold a password
	}
	return stdlib.OpenDB(*config), func(pool *sql.DB) gorm.Dialector {
		return postgres.New(postgres.Config{Conn: pool})
	}, nil
}

// Close closes the database.
func (b *book) Close() error {
	pool, err := b.db.DB()
	if err != nil {
		return err
	}
	return pool.Close()
}

// insert stores a new payment; gorm.ErrDuplicatedKey where its key was used.
func (b *book) insert(ctx context.Context, p *payment) error {
	return b.db.WithContext(ctx).Create(p).Error
}

// settle stores what became of a payment that is REQUESTED.
func (b *book) settle(ctx context.Context, p *payment) error {
	res := b.db.WithContext(ctx).Model(p).Where("status = ?", requested).
		Select("Status", "ResponseCode", "ResponseMessage", "ApprovalNumber", "RespondedAt").Updates(p)
	if res.Error == nil && res.RowsAffected != 1 {
		return errMoved
	}
	return res.Error
}
