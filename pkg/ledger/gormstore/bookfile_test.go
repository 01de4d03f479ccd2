package gormstore_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/gormstore"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// losses are what can happen to the file of a book while a store has it open.
var losses = map[string]func(t *testing.T, path string){
	"removed": func(t *testing.T, path string) { must(t, os.Remove(path)) },
	"removed with all that is beside it": func(t *testing.T, path string) {
		files, err := filepath.Glob(path + "*")
		must(t, err)
		for _, file := range files {
			must(t, os.Remove(file))
		}
	},
	"moved":             func(t *testing.T, path string) { must(t, os.Rename(path, path+".moved")) },
	"moved, its folder": func(t *testing.T, path string) { must(t, os.Rename(filepath.Dir(path), filepath.Dir(path)+".moved")) },
	"replaced by a copy": func(t *testing.T, path string) {
		text, err := os.ReadFile(path)
		must(t, err)
		must(t, os.WriteFile(path+".copy", text, 0o600))
		must(t, os.Rename(path+".copy", path))
	},
	"replaced by an empty one": func(t *testing.T, path string) {
		must(t, os.Remove(path))
		must(t, os.WriteFile(path, nil, 0o600))
	},
	"without its latest commits": func(t *testing.T, path string) { must(t, os.Remove(path+"-wal")) },
}

func TestLostFile_EndsEveryCallForGoodAndIsToldOnce(t *testing.T) {
	for what, lose := range losses {
		t.Run(what, func(t *testing.T) {
			var log bytes.Buffer
			path := filepath.Join(t.TempDir(), "var", "ledger.db")
			o := options("sqlite:" + path)
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			s, ctx := openWith(t, o), context.Background()
			before := inStatus(t, s, 1, ledger.StatusUnknown)
			lose(t, path)
			left, err := os.Stat(path)
			if _, err := s.CreateIntent(ctx, intent(2)); !errors.Is(err, ledger.ErrUnavailable) {
				t.Errorf("intent: error %v", err)
			}
			if err != nil { // and no call makes a file anew
				left = nil
			}
			for i, err := range []error{
				s.Ping(ctx), second(s.Get(ctx, before.ID)), second(s.Decide(ctx, before.ID, payer, "")),
				second(s.CreateIntent(ctx, intent(1))), second(s.Bound(ctx, "shop", "key", ledger.Hash{})),
			} {
				if !errors.Is(err, ledger.ErrUnavailable) || !strings.Contains(err.Error(), "removed or replaced") {
					t.Errorf("call %d: error %v", i, err)
				}
			}
			now, err := os.Stat(path)
			if left == nil && !errors.Is(err, fs.ErrNotExist) || left != nil && (err != nil || now.Size() != left.Size()) {
				t.Errorf("the file that was left is changed: %v, error %v", now, err)
			}
			if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
				t.Errorf("%d errors are told: %s", n, log.String())
			}
		})
	}
}

func TestLostFile_ThatIsPutBackIsReadAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	o := options("sqlite:" + path)
	s, _, err := gormstore.Open(context.Background(), o)
	must(t, err)
	want := inStatus(t, s, 1, ledger.StatusUnknown)
	must(t, os.Rename(path, path+".moved"))
	if err := s.Ping(context.Background()); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	must(t, os.Rename(path+".moved", path))
	if err := s.Ping(context.Background()); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("put back: error %v", err)
	}
	must(t, s.Close())
	if got, err := openWith(t, o).Get(context.Background(), want.ID); err != nil || got != want {
		t.Errorf("row is %+v, error %v", got, err)
	}
}

func TestLostFile_UnderASymbolicLinkIsFoundOut(t *testing.T) {
	target := filepath.Join(t.TempDir(), "target.db")
	must(t, os.WriteFile(target, nil, 0o600))
	link := filepath.Join(t.TempDir(), "ledger.db")
	must(t, os.Symlink(target, link))
	s := openBook(t, "sqlite:"+link)
	inStatus(t, s, 1, ledger.StatusSuccess)
	must(t, os.Remove(target+"-wal"))
	if err := s.Ping(context.Background()); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
}

// absences are what can be left of a book that was in use. None of it is a place
// for a new one.
var absences = map[string]func(t *testing.T, path string){
	"removed":                func(t *testing.T, path string) { must(t, os.Remove(path)) },
	"removed, with its lock": func(t *testing.T, path string) { must(t, errors.Join(os.Remove(path), os.Remove(path+".lock"))) },
	"removed, with its key":  func(t *testing.T, path string) { must(t, errors.Join(os.Remove(path), os.Remove(path+".key"))) },
	"emptied":                func(t *testing.T, path string) { must(t, os.Truncate(path, 0)) },
	"replaced by another database": func(t *testing.T, path string) {
		must(t, os.Remove(path))
		mustExec(t, raw(t, "sqlite:"+path), "CREATE TABLE another (id INTEGER)")
	},
}

func TestOpen_BookThatWasInUseIsNotMadeAnew(t *testing.T) {
	for what, lose := range absences {
		t.Run(what, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			o := options("sqlite:" + path)
			o.Flags.HashKey = ""
			s, _, err := gormstore.Open(context.Background(), o)
			must(t, err)
			must(t, s.Close())
			lose(t, path)
			before, _ := os.Stat(path)
			err = refuseToOpen(t, o)
			if isUsage(err) || !strings.Contains(err.Error(), "restore it") || !strings.Contains(err.Error(), path+".lock") {
				t.Errorf("error %v", err)
			}
			after, err := os.Stat(path)
			if before == nil && !errors.Is(err, fs.ErrNotExist) || before != nil && (err != nil || before.Size() != after.Size()) {
				t.Errorf("there is a file now: %v, error %v", after, err)
			}
		})
	}
}

func TestOpen_BookThatWasInUseUnderAGivenKeyIsNotMadeAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	running := openBook(t, "sqlite:"+path)
	inStatus(t, running, 1, ledger.StatusSuccess)
	must(t, os.Remove(path))
	if err := refuseToOpen(t, options("sqlite:"+path)); !strings.Contains(err.Error(), "restore it") {
		t.Errorf("a second instance: error %v", err)
	}
	// What the error says makes room for a new one.
	must(t, os.Remove(path+".lock"))
	openBook(t, "sqlite:"+path)
}

// A process that is killed in its first start leaves files, and no book.
func TestOpen_FirstStartThatWasCutShortIsTakenUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	for _, name := range []string{path, path + ".lock"} {
		must(t, os.WriteFile(name, nil, 0o600))
	}
	must(t, os.WriteFile(path+".key", []byte(testKey+"\n"), 0o600))
	o := options("sqlite:" + path)
	o.Flags.HashKey = ""
	if err := openWith(t, o).Ping(context.Background()); err != nil {
		t.Error(err)
	}
}
