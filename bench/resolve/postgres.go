package main

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
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// startsWithin is how long PostgreSQL may take to be there.
const startsWithin = 60 * time.Second

// startPostgres makes a cluster with its own default settings in dir, on a Unix
// socket alone, and starts its server.
func startPostgres(ctx context.Context, dir string) (dsn string, stop func() error, err error) {
	bin, err := findPostgres()
	if err != nil {
		return "", nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", nil, err
	}
	owner, err := giveToOwner(dir)
	if err != nil {
		return "", nil, err
	}
	within, cancel := context.WithTimeout(ctx, startsWithin)
	defer cancel()
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(within, filepath.Join(bin, "initdb"), "--pgdata", data, "--username", "postgres", "--auth", "trust") //nolint:gosec // found on this machine
	initdb.Dir, initdb.SysProcAttr = dir, owner
	if out, err := initdb.CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	server := exec.CommandContext(ctx, filepath.Join(bin, "postgres"), "-D", data, "-k", dir, "-c", "listen_addresses=") //nolint:gosec // as above
	server.Dir, server.SysProcAttr = dir, owner
	server.Cancel = func() error { return server.Process.Signal(syscall.SIGINT) } // a fast shutdown
	server.WaitDelay = stopsWithin
	if err := server.Start(); err != nil {
		return "", nil, fmt.Errorf("start postgres: %w", err)
	}
	stop = func() error { return errors.Join(server.Cancel(), server.Wait()) }
	dsn = "postgres://postgres@/postgres?host=" + url.QueryEscape(dir)
	for {
		conn, err := pgx.Connect(within, dsn)
		if err == nil {
			return dsn, stop, conn.Close(ctx)
		}
		select {
		case <-time.After(lookEvery):
		case <-within.Done():
			return "", nil, errors.Join(fmt.Errorf("wait for postgres: %w", err), stop())
		}
	}
}

// findPostgres looks for the server's programs in PATH and where Debian has them,
// the newest last.
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

// giveToOwner gives a folder to the user that the server runs as, since it refuses
// to be root.
func giveToOwner(dir string) (*syscall.SysProcAttr, error) {
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
