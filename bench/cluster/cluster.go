// Package cluster runs the PostgreSQL that a bench measures.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gwanmun/gwanmun/bench/child"
	"github.com/gwanmun/gwanmun/bench/machine"
)

const (
	// startsWithin is how long making the cluster, or starting it, may take.
	startsWithin = 60 * time.Second
	// stopsWithin is how long its connection may take to be closed.
	stopsWithin = 20 * time.Second
	// answersWithin is how long it may take to answer what it is asked of itself.
	answersWithin = 10 * time.Second
)

// Cluster is a throwaway PostgreSQL with its own default settings, on a Unix
// socket alone.
type Cluster struct {
	server *child.Process
	dir    string
	// Admin is connected for as long as the cluster runs, to a database that
	// nobody is measured on.
	Admin *pgx.Conn
}

// Start makes a cluster in dir, which must not be there, and starts it. Beside it is
// its log.
func Start(ctx context.Context, dir string) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, startsWithin)
	defer cancel()
	bin, err := findPostgres()
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of PostgreSQL: %w", err)
	}
	owner, err := giveToOwner(dir)
	if err != nil {
		return nil, err
	}
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "--pgdata", filepath.Join(dir, "data"),
		"--username", "postgres", "--auth", "trust", "--encoding", "UTF8", "--locale", "C")
	initdb.Dir, initdb.SysProcAttr = dir, owner()
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	// Not CommandContext: it is stopped by a signal, in stop.
	server := exec.Command(filepath.Join(bin, "postgres"), "-D", filepath.Join(dir, "data"), "-k", dir, "-c", "listen_addresses=") //nolint:noctx // see above
	server.Dir, server.SysProcAttr = dir, owner()
	process, err := child.Launch("postgres", filepath.Join(filepath.Dir(dir), "postgres.log"), server)
	if err != nil {
		return nil, err
	}
	process.StopBy(syscall.SIGINT) // a fast shutdown
	c := &Cluster{server: process, dir: dir}
	err = process.Await(ctx, func() bool {
		c.Admin, err = pgx.Connect(ctx, c.DSN("postgres"))
		return err == nil
	})
	if err != nil {
		return nil, errors.Join(err, process.Stop())
	}
	return c, nil
}

// DSN names a database.
func (c *Cluster) DSN(database string) string {
	return "postgres://postgres@/" + database + "?host=" + url.QueryEscape(c.dir)
}

// Create makes a database and returns its DSN.
func (c *Cluster) Create(ctx context.Context, database string) (string, error) {
	if _, err := c.Admin.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{database}.Sanitize()); err != nil {
		return "", fmt.Errorf("make the database %s: %w", database, err)
	}
	return c.DSN(database), nil
}

// Durability says what a commit is worth; it must be worth all.
func (c *Cluster) Durability(ctx context.Context) (string, error) {
	var version string
	if err := c.Admin.QueryRow(ctx, "SHOW server_version").Scan(&version); err != nil {
		return "", fmt.Errorf("ask for the version: %w", err)
	}
	text := "PostgreSQL " + version
	for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		var value string
		if err := c.Admin.QueryRow(ctx, "SELECT current_setting($1)", setting).Scan(&value); err != nil {
			return "", fmt.Errorf("ask for %s: %w", setting, err)
		}
		if value != "on" {
			return "", fmt.Errorf("%s is %s: this run would prove nothing", setting, value)
		}
		text += ", " + setting + " " + value
	}
	return text, nil
}

// Writes is how many transactions of the cluster wrote something so far: only
// those take a number. Unlike what pg_stat_database counts it has no reads, and is
// known at once.
func (c *Cluster) Writes() (float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answersWithin)
	defer cancel()
	var next int64
	if err := c.Admin.QueryRow(ctx, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").Scan(&next); err != nil {
		return 0, fmt.Errorf("ask for the next transaction: %w", err)
	}
	return float64(next), nil
}

// CPU is the CPU time of the server with all its processes.
func (c *Cluster) CPU() (time.Duration, error) { return machine.FamilyCPU(c.server.PID()) }

// Stop ends it.
func (c *Cluster) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopsWithin)
	defer cancel()
	return errors.Join(c.Admin.Close(ctx), c.server.Stop())
}

// findPostgres looks for the server's programs in PATH and where Debian has
// them, the newest last.
func findPostgres() (dir string, err error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errors.New("no PostgreSQL server found in PATH or /usr/lib/postgresql; without it, --only sqlite")
	}
	return filepath.Dir(found[len(found)-1]), nil
}

// giveToOwner gives a folder to the user that the server is to be run as, since
// it refuses to be root: then it is the user postgres, or else nobody.
func giveToOwner(dir string) (attributes func() *syscall.SysProcAttr, err error) {
	if os.Geteuid() != 0 {
		return func() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }, nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		if account, err = user.Lookup("nobody"); err != nil {
			return nil, fmt.Errorf("find a user for the server: %w", err)
		}
	}
	uid, errUID := strconv.ParseUint(account.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(account.Gid, 10, 32)
	if err := errors.Join(errUID, errGID, os.Chown(dir, int(uid), int(gid))); err != nil {
		return nil, fmt.Errorf("give %s to the server's user: %w", strings.TrimSpace(dir), err)
	}
	return func() *syscall.SysProcAttr {
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}, nil
}
