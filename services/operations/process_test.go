package operations

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// patience is how long a test waits for what must come.
	patience = 30 * time.Second
	// look is how often it looks.
	look = 20 * time.Millisecond
)

// process is one child: a real binary whose log goes into a file.
type process struct {
	name, log string
	cmd       *exec.Cmd
	// exited is closed when it has ended; code is then its exit code.
	exited chan struct{}
	code   int
	// ended says that the test has ended it, and how is the test's matter.
	ended bool
}

// spawn starts a binary in a folder, and waits for nothing. What it writes goes
// to the end of var/NAME.log there. It is ended with the test.
func spawn(t testing.TB, dir, log, name string, args ...string) *process {
	t.Helper()
	p := &process{name: name, log: filepath.Join(dir, "var", log+".log"), exited: make(chan struct{})}
	file, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatalf("open the log of %s: %v", name, err)
	}
	defer func() { _ = file.Close() }() // the child has its own
	p.cmd = exec.Command(filepath.Join(binaries, name), args...)
	p.cmd.SysProcAttr = childAttributes()
	p.cmd.Dir = dir
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "GWANMUN_") {
			p.cmd.Env = append(p.cmd.Env, pair)
		}
	}
	p.cmd.Stdout, p.cmd.Stderr = file, file
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

// anywhere makes a service listen on free ports.
var anywhere = []string{"--grpc-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0"}

// start is spawn on free ports that waits until the service is ready.
func start(t testing.TB, dir, log, name string, args ...string) *process {
	t.Helper()
	p := spawn(t, dir, log, name, append(args, anywhere...)...)
	url := "http://" + p.address(t, "admin") + "/readyz"
	await(t, p.name+" is ready", func() bool { return p.has(t, url) })
	return p
}

// has reports whether a page of the process answers OK. A process that has ended
// fails the test.
func (p *process) has(t testing.TB, url string) bool {
	t.Helper()
	select {
	case <-p.exited:
		t.Fatalf("%s has ended with code %d:\n%s", p.name, p.code, p.text(t))
	default:
	}
	code, _ := fetch(t, url)
	return code == http.StatusOK
}

// terminate asks the process to stop, and returns its exit code.
func (p *process) terminate(t testing.TB) int {
	t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	return p.wait(t)
}

// wait waits for the end of the process, and returns its exit code.
func (p *process) wait(t testing.TB) int {
	t.Helper()
	p.ended = true
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-p.exited:
	case <-limit.C:
		t.Errorf("%s has not ended", p.name)
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
	return p.code
}

// finish ends the process with its test, and shows its log if that has failed.
func (p *process) finish(t testing.TB) {
	if !p.ended {
		if code := p.terminate(t); code != 0 {
			t.Errorf("%s ended with exit code %d", p.name, code)
		}
	}
	if t.Failed() {
		text := p.text(t)
		t.Logf("the end of the log of %s:\n%s", p.name, text[max(0, len(text)-3000):])
	}
}

// text is all that the process and those before it wrote into its log.
func (p *process) text(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile(p.log)
	if err != nil {
		t.Errorf("read the log of %s: %v", p.name, err)
	}
	return string(b)
}

// address waits until the process listens under a name, and returns where.
func (p *process) address(t testing.TB, name string) string {
	t.Helper()
	var address string
	await(t, p.name+" listens for "+name, func() bool {
		select {
		case <-p.exited:
			t.Fatalf("%s has ended with code %d:\n%s", p.name, p.code, p.text(t))
		default:
		}
		for text := range strings.Lines(p.text(t)) {
			var line struct{ Msg, Name, Address string }
			if json.Unmarshal([]byte(text), &line) == nil && line.Msg == "listening" && line.Name == name {
				address = line.Address // the last one counts: the log may be of several lives
			}
		}
		return address != ""
	})
	return address
}

// await waits until something is so.
func await(t testing.TB, what string, so func() bool) {
	t.Helper()
	limit, tick := time.NewTimer(patience), time.NewTicker(look)
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

// fetch gets a page; code 0 if nobody answers.
func fetch(t testing.TB, url string) (code int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
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
