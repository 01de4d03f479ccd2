package main

import (
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The server of the benches has the durability that it says.
func TestCluster_IsDurableAndCountsWhatWrites(t *testing.T) {
	if _, err := findPostgres(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("", "gwanmun-bench-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	c, err := startCluster(t.Context(), filepath.Join(dir, "pg"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.end(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if text, err := c.durability(t.Context()); err != nil || !strings.Contains(text, "fsync on, synchronous_commit on") {
		t.Errorf("%q, error %v", text, err)
	}
	if _, err := c.admin.Exec(t.Context(), "CREATE TABLE here (n int)"); err != nil {
		t.Fatal(err)
	}
	before, err := c.writes()
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"INSERT INTO here VALUES (1), (2), (3)", "SELECT * FROM here", "UPDATE here SET n = 4"} {
		if _, err := c.admin.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if after, err := c.writes(); err != nil || after-before != 2 {
		t.Errorf("%v transactions wrote, error %v; want 2", after-before, err)
	}
	if runtime.GOOS == "linux" {
		if cpu, err := c.cpu(); err != nil || cpu <= 0 {
			t.Errorf("%v CPU time, error %v", cpu, err)
		}
	}
}

func TestReader_CountsWhatIsSuccess(t *testing.T) {
	for name, c := range map[string]struct {
		table, query string
		want         tally
	}{
		"product": {
			`CREATE TABLE transactions (kind text, status text);
			 INSERT INTO transactions VALUES ('PAYMENT', 'SUCCESS'), ('PAYMENT', 'SUCCESS'), ('PAYMENT', 'REQUESTED'),
			 ('BALANCE_INQUIRY', 'SUCCESS'), ('BALANCE_INQUIRY', 'UNKNOWN')`, productRows, tally{2, 1},
		},
		"naive": {
			`CREATE TABLE payments (status text); INSERT INTO payments VALUES ('SUCCESS'), ('UNKNOWN')`, naiveRows, tally{1, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "book.db")
			writer, err := sql.Open("sqlite", "file:"+path)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = writer.Close() }()
			if _, err := writer.ExecContext(t.Context(), c.table); err != nil {
				t.Fatal(err)
			}
			r, err := openReader("sqlite:"+path, c.query)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.pool.Close() }()
			if _, err := r.pool.ExecContext(t.Context(), "CREATE TABLE other (n int)"); err == nil {
				t.Error("a reader wrote")
			}
			if got, err := r.read(t.Context()); err != nil || got != c.want {
				t.Errorf("%+v, error %v; want %+v", got, err, c.want)
			}
		})
	}
}

func TestChild_EndsAsItIsToldTo(t *testing.T) {
	c, err := launch("child", filepath.Join(t.TempDir(), "log"), exec.Command("sh", "-c",
		`trap 'exit 0' TERM; echo '{"msg":"listening","name":"grpc","address":"here"}'; while :; do sleep 0.01; done`))
	if err != nil {
		t.Fatal(err)
	}
	if addr, err := c.listens(t.Context(), "grpc"); err != nil || addr != "here" {
		t.Errorf("%q, error %v", addr, err)
	}
	if err := c.stop(); err != nil {
		t.Error(err)
	}
}

func TestChild_DeathIsAnErrorWithItsLog(t *testing.T) {
	c, err := launch("child", filepath.Join(t.TempDir(), "log"), exec.Command("sh", "-c", "echo no such thing; exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.listens(t.Context(), "grpc"); err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("error %v", err)
	}
	if err := c.stop(); err == nil {
		t.Error("it ended well")
	}
}
