package gormstore

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// givenHashKey reads the key that the flag gives or names; without a flag it is
// the zero key, which is no key. It never repeats what it could not read.
func (d *dialect) givenHashKey(flag string) (ledger.HashKey, error) {
	path, named := strings.CutPrefix(flag, "file:")
	switch {
	case named:
		key, err := readHashKey(path)
		if err != nil {
			return ledger.HashKey{}, usagef("read hash key: %w", err)
		}
		return key, nil
	case flag != "":
		key, err := ledger.ParseHashKey(flag)
		if err != nil {
			return ledger.HashKey{}, usagef("%w, or file:PATH", err)
		}
		return key, nil
	case d.path == "":
		return ledger.HashKey{}, usagef("a ledger in PostgreSQL needs --hash-key: 64 hexadecimal digits or file:PATH")
	default:
		return ledger.HashKey{}, nil
	}
}

// keptHashKey reads the key in the file beside a SQLite book, and makes it with a
// new book.
func keptHashKey(beside string, isNew bool) (ledger.HashKey, error) {
	key, err := readHashKey(beside)
	switch {
	case errors.Is(err, fs.ErrNotExist) && isNew:
		if err := makeHashKey(beside); err != nil {
			return ledger.HashKey{}, fmt.Errorf("make hash key: %w", err)
		}
		key, err = readHashKey(beside)
	case errors.Is(err, fs.ErrNotExist):
		return ledger.HashKey{}, usagef("the ledger is there, but not its key %s: name the key with --hash-key", beside)
	}
	if err != nil {
		return ledger.HashKey{}, fmt.Errorf("read hash key beside the ledger: %w", err)
	}
	return key, nil
}

func readHashKey(path string) (ledger.HashKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return ledger.HashKey{}, err
	}
	key, err := ledger.ParseHashKey(strings.TrimSpace(string(text)))
	if err != nil {
		return ledger.HashKey{}, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

// makeHashKey makes a key file that is whole or not there. Of several processes
// that start together one makes it, and all read that one's.
func makeHashKey(path string) (err error) {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return err
	}
	draft, err := os.CreateTemp(filepath.Dir(path), ".hash-key-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(draft.Name())) }()
	_, err = draft.WriteString(hex.EncodeToString(secret) + "\n")
	if err = errors.Join(err, draft.Sync(), draft.Close()); err != nil {
		return err
	}
	if err := os.Link(draft.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
