package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver named sqlite

	"github.com/gwanmun/gwanmun/bench/child"
	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// notDone is what corebank says of a payment that it never saw: that it has not
// done it, and then that there is nothing to undo, from when on it refuses it.
const notDone = "02"

// fenced is what becomes of such a payment.
var fenced = outcome{ledger.StatusFailed, ledger.EvidenceFenced}

// startBank starts corebank, with its book in a folder that it makes.
func startBank(ctx context.Context, program, dir string) (_ *core, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	path := filepath.Join(dir, "book.db")
	// Not CommandContext: it is stopped by a signal. The binary is the caller's choice.
	command := exec.Command(program, "--book-dsn", "sqlite:"+path, "--frame-addr", "127.0.0.1:0", //nolint:gosec,noctx // see above
		"--listing-addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0")
	bank, err := child.Launch("corebank", filepath.Join(dir, "log"), command)
	if err != nil {
		return nil, err
	}
	addr, err := bank.Listens(ctx, "frame")
	if err != nil {
		return nil, errors.Join(err, bank.Stop())
	}
	j, err := openJournal(path)
	if err != nil {
		return nil, errors.Join(err, bank.Stop())
	}
	return &core{
		addr: addr, answers: "durably (corebank)", flag: notDone, ends: fenced, tell: j.tell,
		stop: func() error { return errors.Join(j.pool.Close(), bank.Stop()) },
	}, nil
}

// journal reads corebank's: an entry for each request that was decided, in the
// order and with the time of the decision. It asks for two rows by their keys, in
// SQL of our own: through the rpc corebank would spend more on being watched.
type journal struct {
	pool *sql.DB
	// forgotten is the last entry that does not count.
	forgotten int64
}

// sinceForgotten is no row if there is no entry that counts.
const sinceForgotten = `SELECT last.sequence, last.at_unix_nano - first.at_unix_nano
FROM journal AS first, journal AS last
WHERE first.sequence = ? + 1 AND last.sequence = (SELECT max(sequence) FROM journal)`

func openJournal(path string) (*journal, error) {
	pool, err := sql.Open("sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, fmt.Errorf("open the core's journal: %w", err)
	}
	pool.SetMaxOpenConns(1)
	return &journal{pool: pool}, nil
}

// tell is a core's.
func (j *journal) tell(ctx context.Context, forget bool) (requests int64, took time.Duration, err error) {
	last := j.forgotten
	err = j.pool.QueryRowContext(ctx, sinceForgotten, j.forgotten).Scan(&last, &took)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, 0, fmt.Errorf("read the core's journal: %w", err)
	}
	requests = last - j.forgotten
	if forget {
		j.forgotten = last
	}
	return requests, took, nil
}
