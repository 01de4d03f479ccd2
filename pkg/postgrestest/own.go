package postgrestest

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Cluster is a server that one test has for itself, to do to it what none does to
// a server that others use. Its methods are for one goroutine.
type Cluster struct {
	*cluster

	t testing.TB
	// stalled is who was stopped.
	stalled []int
}

// Own starts a server of the test's own, whatever ServerVariable names; it ends
// with the test.
func Own(t testing.TB) *Cluster {
	t.Helper()
	made, err := startCluster()
	objectTo(t, err)
	c := &Cluster{cluster: made, t: t}
	t.Cleanup(func() {
		c.Resume()
		if err := c.stop(); err != nil {
			t.Errorf("stop PostgreSQL: %s", err)
		}
	})
	return c
}

// DSN returns the DSN of a fresh, empty database on the server.
func (c *Cluster) DSN() string {
	c.t.Helper()
	return createAt(c.t, c.dsn(), "template0")
}

// Stall stops every process of the server with SIGSTOP, as a machine does whose
// disk hangs: connections stand, and nobody answers. Resume lets them go on; it
// may be called more than once.
func (c *Cluster) Stall() {
	c.t.Helper()
	postmaster := c.server.Process.Pid
	if err := syscall.Kill(postmaster, syscall.SIGSTOP); err != nil {
		c.t.Fatalf("stall PostgreSQL: %s", err)
	}
	c.stalled = append(c.stalled, postmaster)
	// Nobody is born any more, but who ends meanwhile is no error.
	for _, pid := range children(c.t, postmaster) {
		if syscall.Kill(pid, syscall.SIGSTOP) == nil {
			c.stalled = append(c.stalled, pid)
		}
	}
}

// Resume lets a server that was stalled go on.
func (c *Cluster) Resume() {
	for i := len(c.stalled) - 1; i >= 0; i-- {
		_ = syscall.Kill(c.stalled[i], syscall.SIGCONT) // it may be gone
	}
	c.stalled = nil
}

// Restart ends the server as an operator does who is in a hurry (fast shutdown:
// sessions are cut off, what was committed stays), and starts it again.
func (c *Cluster) Restart() {
	c.t.Helper()
	if err := c.server.Process.Signal(syscall.SIGINT); err != nil {
		c.t.Fatalf("stop PostgreSQL: %s", err)
	}
	select {
	case <-c.exited:
	case <-time.After(stopTimeout):
		c.t.Fatalf("PostgreSQL has not stopped within %s", stopTimeout)
	}
	if err := c.launch(); err != nil {
		c.t.Fatalf("start PostgreSQL again: %s", err)
	}
}

// CutOff ends every session of a database from the server's side, as a failover
// does, and returns how many there were.
func (c *Cluster) CutOff(dsn string) (ended int) {
	c.t.Helper()
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		c.t.Fatal("read the DSN of a database to cut off")
	}
	err = execute(c.dsn(), func(ctx context.Context, conn *pgx.Conn) error {
		const query = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = $1"
		if err := conn.QueryRow(ctx, query, config.Database).Scan(&ended); err != nil {
			return fmt.Errorf("end the sessions of %s: %w", config.Database, err)
		}
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return ended
}
