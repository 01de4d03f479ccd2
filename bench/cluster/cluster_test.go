package cluster

import (
	"os"
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
	c, err := Start(t.Context(), filepath.Join(dir, "pg"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if text, err := c.Durability(t.Context()); err != nil || !strings.Contains(text, "fsync on, synchronous_commit on") {
		t.Errorf("%q, error %v", text, err)
	}
	if _, err := c.Admin.Exec(t.Context(), "CREATE TABLE here (n int)"); err != nil {
		t.Fatal(err)
	}
	before, err := c.Writes()
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"INSERT INTO here VALUES (1), (2), (3)", "SELECT * FROM here", "UPDATE here SET n = 4"} {
		if _, err := c.Admin.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if after, err := c.Writes(); err != nil || after-before != 2 {
		t.Errorf("%v transactions wrote, error %v; want 2", after-before, err)
	}
	if runtime.GOOS == "linux" {
		if cpu, err := c.CPU(); err != nil || cpu <= 0 {
			t.Errorf("%v CPU time, error %v", cpu, err)
		}
	}
}
