package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gwanmun/gwanmun/bench/child"
	"github.com/gwanmun/gwanmun/bench/cluster"
	"github.com/gwanmun/gwanmun/bench/machine"
	"github.com/gwanmun/gwanmun/bench/paired"
)

// The sides that there are.
const (
	product       = "product"
	naive         = "naive"
	naiveTuned    = "naive-tuned"
	bridge        = "bridge"
	productSQLite = "product-sqlite"
	naiveSQLite   = "naive-sqlite"
)

// hashKey is the key of the product's digests.
var hashKey = strings.Repeat("0f", 32)

// house is all that is up for a run.
type house struct {
	cfg config
	dir string
	// run names this run.
	run      string
	core     *child.Process
	coreAddr string
	// postgres is nil unless a comparison needs it; database says what it is.
	postgres *cluster.Cluster
	database string

	children []*child.Process
	readers  []*reader
	sides    map[string]*side
}

// raise starts what the comparisons of a run need. The house is never nil:
// whatever was started must be ended.
func raise(ctx context.Context, cfg config) (*house, error) {
	h := &house{cfg: cfg, run: strconv.FormatInt(time.Now().Unix(), 36), database: "SQLite alone", sides: map[string]*side{}}
	dir, err := os.MkdirTemp(cfg.Dir, "gwanmun-bench-")
	if err != nil {
		return h, fmt.Errorf("make a folder: %w", err)
	}
	h.dir = dir
	// The server's user must get through it.
	if err := errors.Join(onDisk(dir), os.Chmod(dir, 0o711)); err != nil {
		return h, err
	}
	if err := h.startCore(ctx); err != nil {
		return h, err
	}
	for _, c := range cfg.selected() {
		for _, name := range []string{c.base, c.subject} {
			if h.sides[name] != nil {
				continue
			}
			if err := h.add(ctx, name); err != nil {
				return h, err
			}
		}
	}
	return h, nil
}

// startCore starts the core, which is this program in another process.
func (h *house) startCore(ctx context.Context) (err error) {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if h.core, err = h.start(coreArg, self, coreArg); err != nil {
		return err
	}
	h.coreAddr, err = h.core.Listens(ctx, "frame")
	return err
}

// start starts a program of the house. A name may be a path.
func (h *house) start(name, path string, args ...string) (*child.Process, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", name, err)
	}
	cmd := exec.Command(absolute, args...) //nolint:noctx // it is stopped by a signal, in stop
	c, err := child.Launch(name, filepath.Join(h.dir, name+".log"), cmd)
	if err != nil {
		return nil, err
	}
	h.children = append(h.children, c)
	return c, nil
}

// add starts a side.
func (h *house) add(ctx context.Context, name string) error {
	s := &side{name: name, run: h.run, patience: auditWithin}
	h.sides[name] = s
	dsn, err := h.book(ctx, s)
	if err != nil {
		return err
	}
	service, err := h.service(name, dsn)
	if err != nil {
		return err
	}
	addr, err := service.Listens(ctx, "grpc")
	if err != nil {
		return err
	}
	onPostgres := strings.HasPrefix(dsn, "postgres:")
	s.cpu = h.cpuOf(service, onPostgres)
	s.meters = []paired.Meter{
		seconds(func() (time.Duration, error) { return machine.CPU(service.PID()) }),
		seconds(paired.OwnCPU),
	}
	if onPostgres {
		s.meters = append(s.meters, h.postgres.Writes)
	}
	return s.dial(ctx, addr, h.cfg.Connections, h.cfg.Stubs)
}

func seconds(cpu func() (time.Duration, error)) paired.Meter {
	return func() (float64, error) {
		used, err := cpu()
		return used.Seconds(), err
	}
}

// service starts the process of a side.
func (h *house) service(name, dsn string) (*child.Process, error) {
	common := []string{"--grpc-addr=127.0.0.1:0", "--core-addr=" + h.coreAddr}
	switch name {
	case product, productSQLite:
		return h.start(name, filepath.Join(h.cfg.Bin, "payment"),
			append(common, "--admin-addr=127.0.0.1:0", "--ledger-dsn="+dsn, "--hash-key="+hashKey)...)
	case naive, naiveSQLite:
		return h.start(name, filepath.Join(h.cfg.Reference, "naive"), append(common, "--dsn="+dsn)...)
	case naiveTuned:
		return h.start(name, filepath.Join(h.cfg.Reference, "naive"), append(common, "--dsn="+dsn, "--tuned")...)
	case bridge:
		return h.start(name, filepath.Join(h.cfg.Reference, "bridge"), common...)
	default:
		return nil, fmt.Errorf("there is no side %q", name)
	}
}

// book makes the database of a side, and how it is read.
func (h *house) book(ctx context.Context, s *side) (dsn string, err error) {
	switch s.name {
	case product, naive, naiveTuned:
		if err := h.needPostgres(ctx); err != nil {
			return "", err
		}
		if dsn, err = h.postgres.Create(ctx, s.name); err != nil {
			return "", err
		}
	case productSQLite, naiveSQLite:
		dsn = "sqlite:" + filepath.Join(h.dir, s.name+".db")
	default:
		return "", nil
	}
	query := productRows
	if strings.HasPrefix(s.name, naive) {
		query = naiveRows
	}
	r, err := openReader(dsn, query)
	if err != nil {
		return "", err
	}
	h.readers = append(h.readers, r)
	s.read = r.read
	return dsn, nil
}

func (h *house) needPostgres(ctx context.Context) (err error) {
	if h.postgres != nil {
		return nil
	}
	if h.postgres, err = cluster.Start(ctx, filepath.Join(h.dir, "pg")); err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	h.database, err = h.postgres.Durability(ctx)
	return err
}

// cpuOf adds up all that serves a side. During its turn the others rest.
func (h *house) cpuOf(service *child.Process, onPostgres bool) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		own, errOwn := machine.CPU(service.PID())
		core, errCore := machine.CPU(h.core.PID())
		var database time.Duration
		var errDatabase error
		if onPostgres {
			database, errDatabase = h.postgres.CPU()
		}
		return own + core + database, errors.Join(errOwn, errCore, errDatabase)
	}
}

// end stops everything, the last started first, and removes what it left, unless
// that is to be kept.
func (h *house) end(ctx context.Context) error {
	var errs []error
	for _, s := range h.sides {
		errs = append(errs, s.hangUp())
	}
	for _, r := range h.readers {
		errs = append(errs, r.pool.Close())
	}
	for _, c := range slices.Backward(h.children) {
		errs = append(errs, c.Stop())
	}
	if h.postgres != nil {
		errs = append(errs, h.postgres.Stop(ctx))
	}
	if h.dir != "" && !h.cfg.Keep {
		errs = append(errs, os.RemoveAll(h.dir))
	}
	return errors.Join(errs...)
}
