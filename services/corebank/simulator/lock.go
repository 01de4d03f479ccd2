//go:build unix

package simulator

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockFile takes a lock that ends with the process or with the file's Close.
// The file stays: whoever removed it would let a second process in.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, ErrInUse
	}
	return nil, fmt.Errorf("lock the book: %w", err)
}
