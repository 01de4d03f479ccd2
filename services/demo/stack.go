package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

const (
	// readyWithin is how long a service may take to listen.
	readyWithin = 30 * time.Second
	// stopWithin is how long a service may take to stop before it is killed;
	// longer than its own budget.
	stopWithin = 20 * time.Second
)

// service is one child process.
type service struct {
	name string
	cmd  *exec.Cmd
	// listens has the address of each of its listeners, by name.
	listens map[string]string
	args    []string
	// exited is closed when it has ended; err is then how.
	exited chan struct{}
	err    error
	// killed is set where it was to end badly.
	killed bool
}

// stack is the three services.
type stack struct {
	bin, dir string
	all      []*service
}

// arguments are the flags of each service, given where the core listens.
type arguments struct {
	corebank   []string
	payment    func(core *service) []string
	reconciler func(core *service) []string
}

// freePorts keeps everything apart from whatever else runs on the machine.
func freePorts(dir string) arguments {
	free := []string{"--grpc-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0"}
	ledger := "--ledger-dsn=sqlite:" + filepath.Join(dir, "ledger.db")
	return arguments{
		corebank: append([]string{"--frame-addr=127.0.0.1:0", "--listing-addr=127.0.0.1:0", "--book-dsn=sqlite:" + filepath.Join(dir, "book.db")}, free...),
		payment: func(core *service) []string {
			return slices.Concat([]string{ledger, "--circuit-mode=consecutive", "--circuit-open-wait=2s"}, core.reached(), free)
		},
		reconciler: func(core *service) []string {
			return slices.Concat([]string{ledger, "--sweep-interval=1s"}, core.reached(), free)
		},
	}
}

// fixedPorts is the services' defaults.
func fixedPorts(dir string) arguments {
	ledger := "--ledger-dsn=sqlite:" + filepath.Join(dir, "ledger.db")
	return arguments{
		corebank:   []string{"--book-dsn=sqlite:" + filepath.Join(dir, "book.db")},
		payment:    func(*service) []string { return []string{ledger} },
		reconciler: func(*service) []string { return []string{ledger} },
	}
}

// reached is the flags of whoever connects to the core.
func (p *service) reached() []string {
	return []string{"--core-addr=" + p.listens["frame"], "--listing-addr=" + p.listens["listing"]}
}

// start starts the core first, then the two that connect to it. The stack is
// never nil: whatever was started must be stopped.
func start(ctx context.Context, bin, dir string, args arguments) (*stack, error) {
	s := &stack{bin: bin, dir: dir}
	core, err := s.launch(ctx, "corebank", []string{"grpc", "admin", "frame", "listing"}, args.corebank)
	if err != nil {
		return s, err
	}
	if _, err := s.launch(ctx, "payment", []string{"grpc", "admin"}, args.payment(core)); err != nil {
		return s, err
	}
	_, err = s.launch(ctx, "reconciler", []string{"grpc", "admin"}, args.reconciler(core))
	return s, err
}

// launch starts one service and waits until each of its listeners is there.
func (s *stack) launch(ctx context.Context, name string, listeners, args []string) (*service, error) {
	logPath := filepath.Join(s.dir, name+".log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", name, err)
	}
	path, err := filepath.Abs(filepath.Join(s.bin, name))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("find %s: %w", name, err), log.Close())
	}
	// Not CommandContext: a service is stopped by a signal, in stop.
	cmd := exec.Command(path, args...) //nolint:noctx // see above
	cmd.SysProcAttr = childAttributes()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the log of %s: %w", name, err), log.Close())
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), log.Close())
	}
	p := &service{name: name, args: args, cmd: cmd, listens: map[string]string{}, exited: make(chan struct{})}
	s.all = append(s.all, p)
	// A place for each listener there can be, so that following never waits.
	heard := make(chan listening, 16)
	go p.follow(stderr, log, heard)

	ready := time.NewTimer(readyWithin)
	defer ready.Stop()
	for len(p.listens) < len(listeners) {
		select {
		case l := <-heard:
			p.listens[l.Name] = l.Address
		case <-p.exited:
			return nil, fmt.Errorf("%s ended at its start: %w (its log is %s)", name, p.err, logPath)
		case <-ready.C:
			return nil, fmt.Errorf("%s does not listen after %s (its log is %s)", name, readyWithin, logPath)
		case <-ctx.Done():
			return nil, fmt.Errorf("start %s: %w", name, ctx.Err())
		}
	}
	return p, nil
}

// kill ends a service as a crash would.
func (s *stack) kill(p *service) {
	p.killed = true
	// It may have ended by itself.
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// revive starts a service that was killed again, where it listened before, in
// its place of the stack.
func (s *stack) revive(ctx context.Context, p *service) error {
	args := append([]string(nil), p.args...)
	var names []string
	for name, address := range p.listens {
		names = append(names, name)
		args = append(args, fmt.Sprintf("--%s-addr=%s", name, address))
	}
	again, err := s.launch(ctx, p.name, names, args)
	if err != nil {
		return err
	}
	s.all = s.all[:len(s.all)-1]
	s.all[slices.Index(s.all, p)] = again
	return nil
}

// listening is the log line by which a service says where it listens.
type listening struct {
	Msg     string `json:"msg"`
	Name    string `json:"name"`
	Address string `json:"address"`
}

// follow copies the log into its file, passes on where the service listens, and
// waits for the end of the process.
func (p *service) follow(stderr io.Reader, log io.WriteCloser, heard chan<- listening) {
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		// A log that cannot be written must not stop the story.
		_, _ = log.Write(append(lines.Bytes(), '\n'))
		var l listening
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.Msg == "listening" {
			select {
			case heard <- l:
			default:
			}
		}
	}
	// A line past all bounds ends the scan; the rest is not to block the child.
	_, _ = io.Copy(log, stderr)
	p.err = p.cmd.Wait()
	_ = log.Close()
	close(p.exited)
}

// wait returns when ctx is done, or a service has ended by itself.
func (s *stack) wait(ctx context.Context) error {
	ended := make(chan *service, len(s.all))
	for _, p := range s.all {
		go func() {
			<-p.exited
			ended <- p
		}()
	}
	select {
	case <-ctx.Done():
		return nil
	case p := <-ended:
		return fmt.Errorf("%s ended: %w", p.name, p.err)
	}
}

// stop ends the services, the last started first, and says which did not end
// well.
func (s *stack) stop() error {
	var errs []error
	for i := len(s.all) - 1; i >= 0; i-- {
		p := s.all[i]
		// It may have ended by itself.
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		limit := time.NewTimer(stopWithin)
		select {
		case <-p.exited:
		case <-limit.C:
			_ = p.cmd.Process.Kill()
			<-p.exited
		}
		limit.Stop()
		if p.err != nil && !p.killed {
			errs = append(errs, fmt.Errorf("%s did not end well: %w", p.name, p.err))
		}
	}
	return errors.Join(errs...)
}
