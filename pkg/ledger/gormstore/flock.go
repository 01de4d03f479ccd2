package gormstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// startLock is the lock beside a SQLite book, so that of several processes that
// start together one at a time makes its files and tables. Its file is empty
// until the book is made. PostgreSQL needs none: a startLock without a file.
type startLock struct {
	file *os.File
	// made is true when a book was made here before.
	made bool
}

// lockFile takes the lock, and waits for it.
func (d *dialect) lockFile(ctx context.Context) (*startLock, error) {
	if d.path == "" {
		return &startLock{}, nil
	}
	if err := os.MkdirAll(filepath.Dir(d.path), 0o700); err != nil {
		return nil, fmt.Errorf("make the ledger's folder: %w", err)
	}
	file, err := os.OpenFile(d.path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the ledger: %w", err)
	}
	if err := flock(ctx, file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	stat, err := file.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the ledger: %w", err), file.Close())
	}
	return &startLock{file: file, made: stat.Size() > 0}, nil
}

func flock(ctx context.Context, file *os.File) error {
	for tries := 1; ; tries++ {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return fmt.Errorf("lock the ledger: %w", err)
		case !pause(ctx, tries):
			return fmt.Errorf("wait for the ledger's lock: %w", ctx.Err())
		}
	}
}

// markMade remembers that the book is made: from now on it must be there.
func (l *startLock) markMade() error {
	if l.file == nil || l.made {
		return nil
	}
	_, err := l.file.WriteString("The ledger beside this file is in use. Should it be missing, it is not made anew.\n")
	if err = errors.Join(err, l.file.Sync()); err != nil {
		return fmt.Errorf("mark the ledger as made: %w", err)
	}
	return nil
}

// release gives the lock back.
func (l *startLock) release() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close() // and the lock goes with it
}
