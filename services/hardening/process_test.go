package hardening

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	// patience is how long a test waits for what must come; it is spent only
	// where something is broken.
	patience = 60 * time.Second
	// lookEvery is how often it looks.
	lookEvery = 20 * time.Millisecond
	// shownLog is how much of a log a failed test shows, from its end, in bytes.
	shownLog = 1500
)

// process is one child: a real binary, and all it wrote to stderr.
type process struct {
	name string
	cmd  *exec.Cmd
	log  logText
	// exited is closed when it has ended; code is then its exit code.
	exited chan struct{}
	code   int
	// gone says that the test has ended it, and how is the test's matter.
	gone bool
}

// logText keeps what a process writes.
type logText struct {
	mu  sync.Mutex
	all bytes.Buffer
}

// Write takes what the process wrote.
func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *logText) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// logLine is what the tests look for in a line.
type logLine struct {
	Msg, Level, Name, Address, Method string
	Settings                          map[string]any
}

// of are the lines of one event that are there by now.
func (l *logText) of(event string) []logLine {
	var found []logLine
	for text := range strings.Lines(l.text()) {
		var line logLine
		if json.Unmarshal([]byte(text), &line) == nil && line.Msg == event {
			found = append(found, line)
		}
	}
	return found
}

// spawn starts a binary on free ports in a folder of its own, and waits until it
// is ready. It is ended with the test.
func spawn(t testing.TB, name string, args ...string) *process {
	t.Helper()
	args = append([]string{"--grpc-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0"}, args...)
	p := spawnCommand(t, name, exec.Command(filepath.Join(binaries, name), args...))
	await(t, name+" is ready", func() bool {
		if p.hasEnded() {
			t.Fatalf("%s has ended with code %d:\n%s", name, p.code, p.log.text())
		}
		code, _ := p.fetch(t, "/readyz", "")
		return code == http.StatusOK
	})
	return p
}

// spawnCommand starts a child and waits for nothing.
func spawnCommand(t testing.TB, name string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{name: name, cmd: cmd, exited: make(chan struct{})}
	cmd.SysProcAttr = childAttributes()
	cmd.Dir = t.TempDir()
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "GWANMUN_") {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	cmd.Stderr = &p.log
	started := make(chan error)
	starts <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		_ = cmd.Wait() // the exit code says how it ended
		p.code = cmd.ProcessState.ExitCode()
		close(p.exited)
	}()
	t.Cleanup(func() { p.finish(t) })
	return p
}

func (p *process) hasEnded() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

func (p *process) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) } // it may have ended

// wait waits for the end of the process, and returns its exit code.
func (p *process) wait(t testing.TB) int {
	t.Helper()
	p.gone = true
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-p.exited:
	case <-limit.C:
		t.Errorf("%s has not ended", p.name)
		p.signal(syscall.SIGKILL)
		<-p.exited
	}
	return p.code
}

// finish ends the process with its test, and shows its log if that has failed.
func (p *process) finish(t testing.TB) {
	if !p.gone {
		p.signal(syscall.SIGTERM)
		if code := p.wait(t); code != 0 {
			t.Errorf("%s ended with exit code %d", p.name, code)
		}
	}
	text := p.log.text()
	for _, never := range []string{"panic", "fatal error", `"level":"ERROR"`} {
		if strings.Contains(text, never) && !strings.Contains(text, `"setting":"fsync"`) {
			t.Errorf("the log of %s has %q", p.name, never)
		}
	}
	if t.Failed() {
		t.Logf("the end of the log of %s:\n%s", p.name, text[max(0, len(text)-shownLog):])
	}
}

// address waits until the process listens under a name, and returns where.
func (p *process) address(t testing.TB, name string) string {
	t.Helper()
	var address string
	await(t, p.name+" listens for "+name, func() bool {
		if p.hasEnded() {
			t.Fatalf("%s has ended with code %d:\n%s", p.name, p.code, p.log.text())
		}
		for _, line := range p.log.of("listening") {
			if line.Name == name {
				address = line.Address
			}
		}
		return address != ""
	})
	return address
}

// fetch gets a page of the admin port; code 0 if nobody answers.
func (p *process) fetch(t testing.TB, path, accept string) (code int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address(t, "admin")+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, ""
	}
	return resp.StatusCode, string(text)
}

// dial connects to the gRPC port of the process.
func (p *process) dial(t testing.TB, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient(p.address(t, "grpc"), options...)
	if err != nil {
		t.Fatalf("connect to %s: %v", p.name, err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// await waits until something is so.
func await(t testing.TB, what string, so func() bool) {
	t.Helper()
	limit, tick := time.NewTimer(patience), time.NewTicker(lookEvery)
	defer limit.Stop()
	defer tick.Stop()
	for !so() {
		select {
		case <-limit.C:
			t.Fatalf("waited in vain: %s", what)
		case <-tick.C:
		}
	}
}
