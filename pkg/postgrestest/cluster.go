package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	startTimeout = 60 * time.Second
	stopTimeout  = 10 * time.Second
)

// cluster is a PostgreSQL server of our own, on a Unix socket in its own folder.
type cluster struct {
	dir    string
	binary string
	owner  *syscall.SysProcAttr
	server *exec.Cmd
	exited chan struct{} // closed when the server has been waited for
}

// startCluster makes a cluster and starts its server as a child of this process,
// so that it cannot outlive it.
func startCluster() (c *cluster, err error) {
	bin, err := findBinaries()
	if err != nil {
		return nil, err
	}
	// Not t.TempDir: the path of a socket is at most 107 bytes long, and the
	// server's user must reach it.
	dir, err := os.MkdirTemp("/tmp", "gwanmun-pg-")
	if err != nil {
		return nil, err
	}
	c = &cluster{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	owner, err := serverUser(dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "--pgdata", c.data(), "--username", "postgres",
		"--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = dir, owner
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	c.binary, c.owner = filepath.Join(bin, "postgres"), owner
	return c, c.launch()
}

func (c *cluster) data() string { return filepath.Join(c.dir, "data") }

func (c *cluster) dsn() string {
	return "postgres://postgres@/postgres?host=" + url.QueryEscape(c.dir) + "&port=5432"
}

// launch starts the server and waits until it answers. It writes its log to a
// file: a pipe would keep a reader waiting on whatever child of it lives longest.
func (c *cluster) launch() error {
	log, err := os.OpenFile(filepath.Join(c.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the server has its own
	settings := []string{"-D", c.data(), "-k", c.dir, "-c", "listen_addresses=", "-c", "port=5432", "-c", "max_connections=200"}
	if os.Getenv(DurableVariable) == "" {
		settings = append(settings, "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "shared_buffers=32MB")
	}
	server, exited := exec.CommandContext(context.Background(), c.binary, settings...), make(chan struct{}) //nolint:gosec // our own server
	server.Dir, server.Stdout, server.Stderr, server.SysProcAttr = c.dir, log, log, c.owner
	dieWithParent(c.owner)
	started := make(chan error)
	go func() {
		// The kernel takes the thread that started the child for its parent.
		runtime.LockOSThread()
		err := server.Start()
		started <- err
		if err == nil {
			// How it ended does not matter: it was told to.
			_ = server.Wait()
		}
		close(exited)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	c.server, c.exited = server, exited
	return c.awaitReady()
}

func (c *cluster) awaitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		conn, err := pgx.Connect(ctx, c.dsn())
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-retry.C:
		case <-c.exited:
			log, _ := os.ReadFile(filepath.Join(c.dir, "log")) // what there is of it
			return fmt.Errorf("postgres ended: %s", log)
		case <-ctx.Done():
			return fmt.Errorf("postgres does not answer: %w", err)
		}
	}
}

// stop ends the server, with everything that is connected to it, and removes its
// files.
func (c *cluster) stop() error {
	if c.server != nil {
		// An error means that it has ended by itself.
		_ = c.server.Process.Signal(syscall.SIGQUIT)
		select {
		case <-c.exited:
		case <-time.After(stopTimeout):
			_ = c.server.Process.Kill()
			<-c.exited
		}
	}
	return os.RemoveAll(c.dir)
}

// findBinaries looks for the server's programs in PATH and where Debian has them,
// the newest last.
func findBinaries() (dir string, err error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), "postgres")); err == nil {
			return filepath.Dir(path), nil
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errNoBinaries
	}
	return filepath.Dir(found[len(found)-1]), nil
}

// serverUser says as whom to run the server, which refuses to be root: then it is
// the user postgres, or else nobody, to whom the folder is given.
func serverUser(dir string) (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return &syscall.SysProcAttr{}, nil
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
		return nil, fmt.Errorf("give the folder to the server's user: %w", err)
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}
