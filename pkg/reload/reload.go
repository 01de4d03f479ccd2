// Package reload keeps what stands in files, and reads them again when they have
// changed: certificates and the clients' keys are replaced without a restart.
package reload

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// every is how often the files are looked at, at most.
const every = time.Second

// Options are what Files work with. All are required.
type Options struct {
	// Name is what the content is called in the log.
	Name   string
	Logger *slog.Logger
	Now    func() time.Time
}

// Files is the content of some files that belong together. It is safe for
// concurrent use, and starts nothing: who gets the content looks after it, once
// a second at most.
type Files[T any] struct {
	Options
	read    func() (T, error)
	paths   []string
	current atomic.Pointer[T]
	// next is when the files are to be looked at again, in nanoseconds.
	next atomic.Int64

	mu     sync.Mutex
	stamps []stamp // of what was read last, or could not be
}

// stamp is how a file looks from outside.
type stamp struct {
	modified time.Time
	size     int64
	err      string
}

// Open reads the files, or says what is wrong with them. read makes the content
// of them anew each time.
func Open[T any](o Options, read func() (T, error), paths ...string) (*Files[T], error) {
	f := &Files[T]{Options: o, read: read, paths: paths, stamps: look(paths)}
	content, err := read()
	if err != nil {
		return nil, err
	}
	f.current.Store(&content)
	f.next.Store(o.Now().Add(every).UnixNano())
	return f, nil
}

// Get returns the content. Where the files have changed and cannot be read, it
// stays what it was, and the log says so once for each change.
func (f *Files[T]) Get() T {
	now := f.Now().UnixNano()
	due := f.next.Load()
	if now >= due && f.next.CompareAndSwap(due, now+every.Nanoseconds()) {
		f.refresh()
	}
	return *f.current.Load()
}

func (f *Files[T]) refresh() {
	f.mu.Lock()
	defer f.mu.Unlock()
	stamps := look(f.paths)
	if same(stamps, f.stamps) {
		return
	}
	f.stamps = stamps
	content, err := f.read()
	if err != nil {
		f.Logger.Error("changed files are not used", "name", f.Name, "error", err)
		return
	}
	f.current.Store(&content)
	f.Logger.Info("changed files are used from now on", "name", f.Name)
}

func look(paths []string) []stamp {
	stamps := make([]stamp, len(paths))
	for i, path := range paths {
		switch info, err := os.Stat(path); {
		case err != nil:
			stamps[i].err = fmt.Sprint(err)
		default:
			stamps[i] = stamp{modified: info.ModTime(), size: info.Size()}
		}
	}
	return stamps
}

func same(a, b []stamp) bool {
	for i := range a {
		if !a[i].modified.Equal(b[i].modified) || a[i].size != b[i].size || a[i].err != b[i].err {
			return false
		}
	}
	return true
}
