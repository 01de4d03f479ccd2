package reload_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/reload"
)

// watched is a file whose content may not be "bad", under a clock set by hand.
type watched struct {
	*reload.Files[string]
	t     *testing.T
	path  string
	log   bytes.Buffer
	mu    sync.Mutex
	now   time.Time
	reads int
}

func watch(t *testing.T, content string) (*watched, error) {
	t.Helper()
	w := &watched{t: t, path: filepath.Join(t.TempDir(), "file"), now: time.Unix(1_800_000_000, 0)}
	w.write(content)
	files, err := reload.Open(reload.Options{
		Name: "file", Logger: slog.New(slog.NewTextHandler(&w.log, nil)), Now: w.clock,
	}, w.read, w.path)
	w.Files = files
	return w, err
}

func (w *watched) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(time.Nanosecond)
	return w.now
}

func (w *watched) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *watched) read() (string, error) {
	w.reads++
	b, err := os.ReadFile(w.path)
	if string(b) == "bad" {
		err = errors.New("it is bad")
	}
	return string(b), err
}

// write writes the file, with a time of its own: two writes may be of one tick.
func (w *watched) write(content string) {
	w.t.Helper()
	at := w.now.Add(time.Duration(w.reads) * time.Hour)
	if err := errors.Join(os.WriteFile(w.path, []byte(content), 0o600), os.Chtimes(w.path, at, at)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *watched) expect(content string) {
	w.t.Helper()
	if got := w.Get(); got != content {
		w.t.Errorf("%q, want %q", got, content)
	}
}

func TestFiles_AreReadAgainWhenTheyChange(t *testing.T) {
	w, err := watch(t, "one")
	if err != nil {
		t.Fatal(err)
	}
	w.expect("one")
	w.write("two")
	w.expect("one") // looked at a moment ago
	w.pass(time.Second)
	w.expect("two")
	w.pass(time.Second)
	w.expect("two")
	if w.reads != 2 {
		t.Errorf("read %d times, want 2", w.reads)
	}
}

func TestFiles_ThatAreBadAreNotUsedAndSaidOnce(t *testing.T) {
	w, err := watch(t, "one")
	if err != nil {
		t.Fatal(err)
	}
	w.write("bad")
	for range 3 {
		w.pass(time.Second)
		w.expect("one")
	}
	if lines := strings.Count(w.log.String(), "it is bad"); lines != 1 {
		t.Errorf("said %d times:\n%s", lines, w.log.String())
	}
	if err := os.Remove(w.path); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Second)
	w.expect("one")
	w.write("good")
	w.pass(time.Second)
	w.expect("good")
}

func TestOpen_RefusesWhatIsBadOrMissing(t *testing.T) {
	if _, err := watch(t, "bad"); err == nil {
		t.Error("no error")
	}
	_, err := reload.Open(reload.Options{Name: "x", Logger: slog.New(slog.DiscardHandler), Now: time.Now},
		func() ([]byte, error) { return os.ReadFile("/nowhere/at/all") }, "/nowhere/at/all")
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

func TestFiles_ManyAtOnceReadOnce(t *testing.T) {
	w, err := watch(t, "one")
	if err != nil {
		t.Fatal(err)
	}
	w.write("two")
	w.pass(time.Second)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { w.Get() })
	}
	all.Wait()
	w.expect("two")
	if w.reads != 2 {
		t.Errorf("read %d times, want 2", w.reads)
	}
}
