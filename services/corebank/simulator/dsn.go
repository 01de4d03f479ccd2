package simulator

import (
	"errors"
	"strings"
)

// ErrDSN says that a text names no book.
var ErrDSN = errors.New("book DSN must be sqlite:PATH")

// ParseDSN returns the path of the SQLite file that a DSN names. Its error does
// not repeat the text.
func ParseDSN(dsn string) (string, error) {
	path, ok := strings.CutPrefix(dsn, "sqlite:")
	if !ok || path == "" || strings.HasPrefix(path, ":") || strings.ContainsAny(path, "\x00?") {
		return "", ErrDSN
	}
	return path, nil
}
