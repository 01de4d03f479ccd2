package integration

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// stopWithin is how long a service may take to stop when it is told to.
	stopWithin = 20 * time.Second
	// shownLog is how much of a log a failed test shows, from its end, in lines.
	shownLog = 120
)

// process is one child: a real binary, and all it wrote.
type process struct {
	name string
	cmd  *exec.Cmd
	log  logBook
	out  logBook // stdout, where only --help and --version write
	// exited is closed when it has ended; code is then its exit code, -1 if a
	// signal ended it.
	exited chan struct{}
	code   int
	// gone says that the test has ended it, and how is the test's matter.
	gone bool
	// dirty says that its log may have lines of level ERROR.
	dirty  bool
	canary *canary
}

// spawn starts a binary. It is ended with the test.
func spawn(t testing.TB, c *canary, name string, args ...string) *process {
	t.Helper()
	return spawnIn(t, c, nil, name, args...)
}

// spawnIn is spawn in an environment that has these variables too.
func spawnIn(t testing.TB, c *canary, env []string, name string, args ...string) *process {
	t.Helper()
	p := &process{name: name, exited: make(chan struct{}), canary: c}
	p.cmd = exec.Command(filepath.Join(binaries, name), args...)
	p.cmd.SysProcAttr = childAttributes()
	p.cmd.Env = append(cleanEnvironment(), env...)
	p.cmd.Dir = t.TempDir() // for whatever a default would make
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.log
	started := make(chan error)
	starts <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // the exit code says how it ended
		p.code = p.cmd.ProcessState.ExitCode()
		close(p.exited)
	}()
	t.Cleanup(func() { p.finish(t) })
	return p
}

// cleanEnvironment is ours without what would set a flag.
func cleanEnvironment() []string {
	var env []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "GWANMUN_") {
			env = append(env, pair)
		}
	}
	return env
}

// signal sends a signal to a process that may have ended.
func (p *process) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// stop pauses the process, until SIGCONT.
func (p *process) stop(t testing.TB) {
	t.Helper()
	p.signal(syscall.SIGSTOP)
	eventually(t, p.name+" is paused", func(context.Context) error {
		if !hasStopped(p.cmd.Process.Pid) {
			return errUnseen
		}
		return nil
	})
}

// kill ends the process at once, as kill -9 does, and waits until it is gone.
func (p *process) kill() {
	p.gone = true
	p.signal(syscall.SIGKILL)
	<-p.exited
}

// terminate asks the process to stop, and returns its exit code.
func (p *process) terminate(t testing.TB) int {
	t.Helper()
	p.gone = true
	p.signal(syscall.SIGTERM)
	return p.wait(t, stopWithin)
}

// wait waits for the end of the process, and returns its exit code.
func (p *process) wait(t testing.TB, limit time.Duration) int {
	t.Helper()
	p.gone = true
	if !closedWithin(p.exited, limit) {
		t.Errorf("%s has not ended within %s", p.name, limit)
		p.kill()
	}
	return p.code
}

// finish ends the process with its test, looks at what it wrote, and shows that
// if the test has failed.
func (p *process) finish(t testing.TB) {
	if !p.gone {
		p.signal(syscall.SIGCONT)
		if code := p.terminate(t); code != 0 {
			t.Errorf("%s ended with exit code %d", p.name, code)
		}
	}
	p.inspect(t)
	if t.Failed() {
		lines := p.log.all()
		lines = lines[max(0, len(lines)-shownLog):]
		t.Logf("the log of %s (process %d):\n%s", p.name, p.cmd.Process.Pid, strings.Join(lines, "\n"))
	}
}

// inspect objects to what no log may hold.
func (p *process) inspect(t testing.TB) {
	text := p.log.text()
	for _, never := range []string{"DATA RACE", "panic", "fatal error", "goroutine "} {
		if strings.Contains(text, never) {
			t.Errorf("the log of %s has %q", p.name, never)
		}
	}
	p.canary.look(t, "the log of "+p.name, text+p.out.text())
	if p.dirty {
		return
	}
	lines, broken := p.log.parsed()
	for _, line := range broken {
		t.Errorf("the log of %s has a line that is no JSON object: %q", p.name, line)
	}
	for _, line := range lines {
		// The test's own PostgreSQL gives up durability for speed, and says so.
		if line.field("level") == "ERROR" && line.field("setting") != "fsync" {
			t.Errorf("the log of %s has an error: %v", p.name, line)
		}
	}
}

// address waits until the process listens under a name, and returns where.
func (p *process) address(t testing.TB, name string) string {
	t.Helper()
	var address string
	eventually(t, p.name+" listens for "+name, func(context.Context) error {
		ended := closedWithin(p.exited, 0)
		for _, line := range p.log.with("msg", "listening") {
			if line.field("name") == name {
				address = line.field("address")
				return nil
			}
		}
		if ended {
			t.Fatalf("%s does not listen for %s: it has ended, with code %d", p.name, name, p.code)
		}
		return errUnseen
	})
	return address
}

// probe asks the admin port, and returns the status code; 0 if nobody answers.
func (p *process) probe(t testing.TB, path string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	code, _ := p.fetch(ctx, t, path)
	return code
}

// fetch gets a page of the admin port.
func (p *process) fetch(ctx context.Context, t testing.TB, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address(t, "admin")+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, ""
	}
	return resp.StatusCode, string(body)
}

// awaitReady waits until the process says that it is ready.
func (p *process) awaitReady(t testing.TB) {
	t.Helper()
	eventually(t, p.name+" is ready", func(ctx context.Context) error {
		if closedWithin(p.exited, 0) {
			t.Fatalf("%s is not ready: it has ended, with code %d", p.name, p.code)
		}
		if code, _ := p.fetch(ctx, t, "/readyz"); code != http.StatusOK {
			return fmt.Errorf("/readyz answers %d", code)
		}
		return nil
	})
}

// startedCalls is how many calls of an rpc have begun so far.
func (p *process) startedCalls(ctx context.Context, t testing.TB, rpc string) int {
	t.Helper()
	_, page := p.fetch(ctx, t, "/metrics")
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "grpc_server_started_total{") && strings.Contains(line, `grpc_method="`+rpc+`"`) {
			fields := strings.Fields(line)
			n, err := strconv.Atoi(fields[len(fields)-1])
			if err != nil {
				t.Errorf("read the metric %q: %v", line, err)
			}
			return n
		}
	}
	return 0
}

// awaitCalls waits until n calls of an rpc have begun.
func (p *process) awaitCalls(t testing.TB, rpc string, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d calls of %s", n, rpc), func(ctx context.Context) error {
		if so := p.startedCalls(ctx, t, rpc); so < n {
			return fmt.Errorf("%d so far", so)
		}
		return nil
	})
}
