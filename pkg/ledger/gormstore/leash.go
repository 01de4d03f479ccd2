package gormstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/gorm"
)

// onLeash runs a statement, and reads its rows, on a connection that is cut when
// the context ends. The statement itself sees a context that has no end: for one
// that has, database/sql and pgx keep a goroutine each, to wake which costs a lone
// payment more than what it writes. The pool gives no connection: a *beginError.
func (s *Store) onLeash(ctx context.Context, query func(db *gorm.DB) error) (err error) {
	pool, err := s.db.DB()
	if err != nil {
		return &beginError{cause: err}
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return &beginError{cause: err}
	}
	defer func() { _ = conn.Close() }() // it goes back to the pool
	line := lineOf(conn)
	if line == nil {
		db := s.db.WithContext(ctx)
		db.Statement.ConnPool = conn
		return query(db)
	}
	cut := make(chan struct{})
	hold := context.AfterFunc(ctx, func() {
		defer close(cut)
		_ = line.SetDeadline(time.Unix(1, 0)) // of what is closed there is nothing to cut
	})
	db := s.db.WithContext(context.WithoutCancel(ctx))
	db.Statement.ConnPool = conn
	err = query(db)
	if hold() {
		return err
	}
	<-cut
	if err == nil { // it came first
		return line.SetDeadline(time.Time{})
	}
	discard(conn)
	return errors.Join(context.Cause(ctx), err)
}

// lineOf is what a connection of the pool reads and writes; nil if it is none of
// pgx's.
func lineOf(conn *sql.Conn) net.Conn {
	if pg := sessionOf(conn); pg != nil {
		return pg.Conn()
	}
	return nil
}

// sessionOf is the session of a connection of the pool; nil if it is none of pgx's.
func sessionOf(conn *sql.Conn) (session *pgconn.PgConn) {
	_ = conn.Raw(func(dc any) error { // whatever is wrong with it, the statement finds out
		if wrapped, ok := dc.(interface{ Raw() driver.Conn }); ok {
			dc = wrapped.Raw()
		}
		if pg, ok := dc.(*stdlib.Conn); ok {
			session = pg.Conn().PgConn()
		}
		return nil
	})
	return session
}

// discard takes a connection out of the pool.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // that is all it says
}
