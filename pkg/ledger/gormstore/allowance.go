package gormstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"log/slog"
	"sync"
	"time"
)

// tooMany is PostgreSQL's code for a connection that it refuses since the server, the
// database or the role has as many as it may.
const tooMany = "53300"

// moreAgain is how long after a refusal more connections are asked for.
const moreAgain = time.Minute

// allowance keeps a pool to the connections that it was given. A pool that may have
// more asks for one whenever none is free, and a statement that was refused one fails
// while those that the pool has come free all the time.
type allowance struct {
	log  *slog.Logger
	most int

	mu   sync.Mutex
	pool *sql.DB
	now  int
	more *time.Timer // until now is most again; nil while it is
}

// over is a connector that tells the allowance what is refused.
func (a *allowance) over(c driver.Connector) driver.Connector {
	return &watched{Connector: c, allowance: a}
}

// keeps bounds the pool, which was made of such a connector.
func (a *allowance) keeps(pool *sql.DB) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pool = pool
	a.set(a.most)
}

func (a *allowance) set(conns int) {
	a.now = conns
	a.pool.SetMaxOpenConns(conns)
	a.pool.SetMaxIdleConns(conns)
}

// refused is told of a connection that there was not.
func (a *allowance) refused(ctx context.Context) {
	if a.lower() {
		a.log.WarnContext(ctx, "database refuses connections, will do with those at hand", "wanted", a.most)
	}
}

// lower lowers the bound to the connections that there are, for a while, and reports
// whether that while begins.
func (a *allowance) lower() (begins bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	// The one that was refused is counted, and so are others that will be.
	has := max(fewestConns, a.pool.Stats().OpenConnections-1)
	if has >= a.now {
		return false
	}
	a.set(has)
	if begins = a.more == nil; begins {
		a.more = time.AfterFunc(moreAgain, a.askForMore)
	}
	return begins
}

func (a *allowance) askForMore() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.more = nil
	a.set(a.most)
}

// renew lets idle connections go, so that others are made.
func (a *allowance) renew() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pool.SetMaxIdleConns(-1)
	a.pool.SetMaxIdleConns(a.now)
}

// helps reports whether an attempt that failed is worth another, since it was refused
// a connection and there are others.
func (a *allowance) helps(err error) bool {
	return hasClass(err, tooMany) && a.pool.Stats().OpenConnections > 0
}

// end stops asking for more.
func (a *allowance) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.more != nil {
		a.more.Stop()
	}
}

type watched struct {
	driver.Connector
	allowance *allowance
}

// Connect makes a connection, if there may be one more.
func (w *watched) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := w.Connector.Connect(ctx)
	if hasClass(err, tooMany) {
		w.allowance.refused(ctx)
	}
	return conn, err
}
