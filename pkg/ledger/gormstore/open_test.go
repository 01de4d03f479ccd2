package gormstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/gormstore"
	"github.com/gwanmun/gwanmun/pkg/postgrestest"
)

// refuseToOpen fails the test if the book opens, and returns why it does not.
func refuseToOpen(t *testing.T, o gormstore.Options) error {
	t.Helper()
	s, _, err := gormstore.Open(context.Background(), o)
	if err == nil {
		t.Fatal("opened", s.Name(), s.Close())
	}
	return err
}

func isUsage(err error) bool {
	var usage *gormstore.UsageError
	return errors.As(err, &usage)
}

func TestOpen_DSNThatCannotBeRightIsAUsageErrorWithoutThePassword(t *testing.T) {
	folder := t.TempDir()
	for _, dsn := range []string{
		"", "ledger.db", "sqlite", "sqlite:", "sqlite::memory:", "sqlite:file:x.db", "sqlite:x.db?mode=ro", "sqlite:x#y",
		"sqlite:" + folder, "SQLITE:x.db", "mysql://root:hunter2@localhost/x", "postgres://user:hunter2@localhost:port/x",
		"postgres://user:hunter2@host/x?sslmode=maybe", "postgresql://user:hunter2@[::1/x", "host=localhost password=hunter2",
		"postgres://u:hun%zzter2@localhost/x",
	} {
		err := refuseToOpen(t, options(dsn))
		if !isUsage(err) {
			t.Errorf("%s: %v is no usage error", dsn, err)
		}
		if text := fmt.Sprintf("%v %+v", err, err); strings.Contains(text, "hunter2") || strings.Contains(text, "hun") ||
			strings.Contains(text, "\n") {
			t.Errorf("%s: error %q", dsn, text)
		}
	}
}

func TestOpen_SQLiteFilesAreTheirOwnersAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "한글 folder", "deep", "ledger.db")
	o := options("sqlite:" + path)
	o.Flags.HashKey = ""
	s := openWith(t, o)
	inStatus(t, s, 1, ledger.StatusSuccess)
	for name, want := range map[string]fs.FileMode{
		path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600, path + ".lock": 0o600, path + ".key": 0o600,
		filepath.Dir(path): 0o700 | fs.ModeDir, filepath.Dir(filepath.Dir(path)): 0o700 | fs.ModeDir,
	} {
		stat, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if stat.Mode() != want {
			t.Errorf("%s: %s, want %s", filepath.Base(name), stat.Mode(), want)
		}
	}
}

func TestOpen_HashKeyOfSQLiteIsMadeOnceAndFoundAgain(t *testing.T) {
	o := options(sqliteDSN(t))
	o.Flags.HashKey = ""
	first, key, err := gormstore.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, again, err := gormstore.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = second.Close() })
	if key != again || key == (ledger.HashKey{}) {
		t.Error("the key is another at the second start")
	}
	path := strings.TrimPrefix(o.Flags.LedgerDSN, "sqlite:")
	o.Flags.HashKey = "file:" + path + ".key"
	openWith(t, o)
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".hash-key-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("drafts left: %v, error %v", left, err)
	}
}

func TestOpen_HashKeyThatIsGoneIsNotMadeAnew(t *testing.T) {
	o := options(sqliteDSN(t))
	o.Flags.HashKey = ""
	s, _, err := gormstore.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	keyFile := strings.TrimPrefix(o.Flags.LedgerDSN, "sqlite:") + ".key"
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	if err := refuseToOpen(t, o); !isUsage(err) || !strings.Contains(err.Error(), "--hash-key") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(keyFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("key file: %v", err)
	}
}

func TestOpen_BadHashKeyIsAUsageErrorThatDoesNotRepeatIt(t *testing.T) {
	secret := strings.Repeat("c0ffee", 10)
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{secret, secret + "zzzz", "file:" + file, "file:" + file + ".missing", "file:"} {
		folder := filepath.Join(t.TempDir(), "var")
		o := options("sqlite:" + filepath.Join(folder, "ledger.db"))
		o.Flags.HashKey = flag
		err := refuseToOpen(t, o)
		if !isUsage(err) || strings.Contains(err.Error(), "c0ffee") {
			t.Errorf("%s: error %v", flag, err)
		}
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: files were made, error %v", flag, err)
		}
	}
	o := options("postgres://localhost/x")
	o.Flags.HashKey = ""
	if err := refuseToOpen(t, o); !isUsage(err) || !strings.Contains(err.Error(), "--hash-key") {
		t.Errorf("PostgreSQL without a key: %v", err)
	}
}

func TestOpen_BookMadeWithAnotherKeyIsRefused(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		openBook(t, dsn)
		o := options(dsn)
		o.Flags.HashKey = strings.Repeat("5b", 32)
		if err := refuseToOpen(t, o); isUsage(err) || !strings.Contains(err.Error(), "another hash key") {
			t.Errorf("error %v", err)
		}
		openBook(t, dsn)
	})
}

func TestOpen_BookOfANewerVersionIsRefusedNamingBoth(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		openBook(t, dsn)
		mustExec(t, raw(t, dsn), "INSERT INTO ledger_version (version_id, is_applied) VALUES (9999, TRUE)")
		for _, migrate := range []bool{true, false} {
			o := options(dsn)
			o.Flags.Migrate = migrate
			err := refuseToOpen(t, o)
			if !strings.Contains(err.Error(), "9999") || !strings.Contains(err.Error(), "up to version 8") {
				t.Errorf("error %v", err)
			}
		}
	})
}

func TestOpen_BookThatIsBehindIsRefusedWhereMigratingIsOff(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		o := options(dsn)
		o.Flags.Migrate = false
		query := "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
		if path, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
			query = "SELECT count(*) FROM sqlite_master"
			// A file of SQLite with nothing in it.
			mustExec(t, raw(t, "sqlite:"+path), "PRAGMA user_version = 1")
		}
		if err := refuseToOpen(t, o); !strings.Contains(err.Error(), "behind version 8") {
			t.Errorf("error %v", err)
		}
		var tables int
		if err := raw(t, dsn).QueryRowContext(context.Background(), query).Scan(&tables); err != nil || tables != 0 {
			t.Errorf("%d tables were made, error %v", tables, err)
		}
		openBook(t, dsn)
		openWith(t, o)
	})
}

func TestOpen_MissingFileIsNotMadeWhereMigratingIsOff(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "var")
	o := options("sqlite:" + filepath.Join(folder, "ledger.db"))
	o.Flags.Migrate, o.Flags.HashKey = false, ""
	if err := refuseToOpen(t, o); isUsage(err) || !strings.Contains(err.Error(), "not there, and migrating is off") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("files were made, error %v", err)
	}
}

func TestOpen_ErrorIsNotOfWhatItsCallerSays(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		openBook(t, dsn)
		o := options(dsn)
		o.Flags.HashKey = strings.Repeat("5b", 32)
		if err := refuseToOpen(t, o); strings.Contains(err.Error(), "open ledger") {
			t.Errorf("error %v", err)
		}
	})
}

func TestOpen_ManyAtOnceMakeOneBookWithOneKey(t *testing.T) {
	eachDatabase(t, func(t *testing.T, dsn string) {
		o := options(dsn)
		if strings.HasPrefix(dsn, "sqlite") {
			o.Flags.HashKey = ""
		}
		o.Flags.LedgerMaxConns = 2
		keys := make([]ledger.HashKey, 8)
		var all sync.WaitGroup
		for i := range keys {
			all.Go(func() {
				s, key, err := gormstore.Open(context.Background(), o)
				if err != nil {
					t.Error(err)
					return
				}
				keys[i] = key
				if err := errors.Join(s.Ping(context.Background()), s.Close()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for _, key := range keys {
			if key != keys[0] {
				t.Error("two keys")
			}
		}
	})
}

// Processes, since the lock of a file is a process's.
func TestOpen_ManyProcessesAtOnceMakeOneBook(t *testing.T) {
	if dsn := os.Getenv("GWANMUN_TEST_OPEN"); dsn != "" {
		o := options(dsn)
		if strings.HasPrefix(dsn, "sqlite") {
			o.Flags.HashKey = ""
		}
		inStatus(t, openWith(t, o), int64(os.Getpid()), ledger.StatusSuccess)
		return
	}
	eachDatabase(t, func(t *testing.T, dsn string) {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				cmd := exec.Command(os.Args[0], "-test.run", "^TestOpen_ManyProcessesAtOnceMakeOneBook$", "-test.count", "1")
				cmd.Env = append(os.Environ(), "GWANMUN_TEST_OPEN="+dsn)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			})
		}
		all.Wait()
		o := options(dsn)
		if strings.HasPrefix(dsn, "sqlite") {
			o.Flags.HashKey = ""
		}
		page, err := openWith(t, o).List(context.Background(), ledger.Filter{Limit: 10})
		if err != nil || len(page.Transactions) != 4 {
			t.Errorf("%d rows of 4, error %v", len(page.Transactions), err)
		}
	})
}

func TestOpen_ServerThatDoesNotLetUsInIsAnErrorWithoutThePassword(t *testing.T) {
	server := postgrestest.DSN(t)
	missing := strings.Replace(server, "gwanmun_test_", "gwanmun_none_", 1)
	err := refuseToOpen(t, options(missing))
	if isUsage(err) || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("error %v", err)
	}
}

func TestOpen_SaysLoudlyWhenACommitMayBeLost(t *testing.T) {
	dsn := postgrestest.DSN(t)
	var log bytes.Buffer
	o := options(dsn)
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	db := raw(t, dsn)
	var name string
	if err := db.QueryRowContext(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	mustExec(t, db, "ALTER DATABASE "+name+" SET synchronous_commit = off")
	openWith(t, o)
	if text := log.String(); !strings.Contains(text, "level=ERROR") || !strings.Contains(text, "setting=synchronous_commit value=off") {
		t.Errorf("log: %s", text)
	}
}

func TestOpen_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, dsn := range []string{sqliteDSN(t), "postgres://user:hunter2@127.0.0.1:1/x"} {
		begin := time.Now()
		s, _, err := gormstore.Open(ctx, options(dsn))
		if err == nil {
			t.Error("opened", s.Close())
		} else if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error %v", err)
		}
		if time.Since(begin) > 3*time.Second {
			t.Errorf("ended after %s", time.Since(begin))
		}
	}
}
