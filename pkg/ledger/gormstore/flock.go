package gormstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockFile takes the lock beside a SQLite book, so that of several processes that
// start together one at a time makes its files and tables. PostgreSQL needs none.
func (d *dialect) lockFile(ctx context.Context) (unlock func() error, err error) {
	if d.path == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(filepath.Dir(d.path), 0o700); err != nil {
		return nil, fmt.Errorf("make the ledger's folder: %w", err)
	}
	file, err := os.OpenFile(d.path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the ledger: %w", err)
	}
	for tries := 1; ; tries++ {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return file.Close, nil // and the lock goes with it
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return nil, errors.Join(fmt.Errorf("lock the ledger: %w", err), file.Close())
		case !pause(ctx, tries):
			return nil, errors.Join(fmt.Errorf("wait for the ledger's lock: %w", ctx.Err()), file.Close())
		}
	}
}
