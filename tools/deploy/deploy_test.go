// Package deploy holds what is in deploy/ and docker-compose.yml against the
// binaries that they run: it is read by the libraries of those who will read it,
// no flag is named that a binary does not know, and no metric that it does not
// have. Nothing of it is run by an engine here.
package deploy

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

const root = "../.."

var services = []string{"corebank", "payment", "reconciler"}

// bin is where the binaries are built, once.
var bin = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "gwanmun-deploy-")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", dir+"/", "./services/payment", "./services/corebank", "./services/reconciler")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := bin(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

func binary(t *testing.T, service string) string {
	t.Helper()
	dir, err := bin()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, service)
}

// help is what a binary says of its flags.
func help(t *testing.T, service string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), binary(t, service), "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%s --help: %v: %s", service, err, out)
	}
	return string(out)
}

// knowsVariable fails the test if the binary reads no such variable.
func knowsVariable(t *testing.T, service, name string) {
	t.Helper()
	if !regexp.MustCompile(regexp.QuoteMeta(name) + `\b`).MatchString(help(t, service)) {
		t.Errorf("%s reads no %s", service, name)
	}
}

func knowsFlag(t *testing.T, service, flag string) {
	t.Helper()
	name, _, _ := strings.Cut(flag, "=")
	if !regexp.MustCompile(regexp.QuoteMeta(name) + `\b`).MatchString(help(t, service)) {
		t.Errorf("%s has no %s", service, name)
	}
}

// listening is what a service logs of each port.
var listening = regexp.MustCompile(`"name":"(\w+)","address":"([^"]+)"`)

// start runs a service on free ports until the test ends, and returns where it
// listens, by name.
func start(t *testing.T, service string, ports int, args ...string) map[string]string {
	t.Helper()
	cmd := exec.Command(binary(t, service), append([]string{"--grpc-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0"}, args...)...)
	cmd.Dir = t.TempDir()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	found := map[string]string{}
	lines := bufio.NewScanner(stderr)
	for len(found) < ports && lines.Scan() {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil && strings.Contains(lines.Text(), `"msg":"listening"`) {
			found[m[1]] = m[2]
		}
	}
	if len(found) < ports {
		t.Fatalf("%s listens on %v", service, found)
	}
	go func() {
		for lines.Scan() { // what nobody reads would block it
		}
	}()
	return found
}

var metricLine = regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)`)

// metrics are the names of all series that the services have.
var metrics = func() func(t *testing.T) map[string]bool {
	var found map[string]bool
	return func(t *testing.T) map[string]bool {
		t.Helper()
		if found != nil {
			return found
		}
		core := start(t, "corebank", 4, "--frame-addr=127.0.0.1:0", "--listing-addr=127.0.0.1:0", "--book-dsn=sqlite:book.db")
		ledger := "--ledger-dsn=sqlite:" + filepath.Join(t.TempDir(), "ledger.db")
		found = map[string]bool{"up": true} // Prometheus makes that one
		for service, where := range map[string]map[string]string{
			"corebank":   core,
			"payment":    start(t, "payment", 2, ledger, "--core-addr="+core["frame"], "--listing-addr="+core["listing"]),
			"reconciler": start(t, "reconciler", 2, ledger, "--core-addr="+core["frame"], "--listing-addr="+core["listing"]),
		} {
			for _, m := range metricLine.FindAllStringSubmatch(scrape(t, service, where["admin"]), -1) {
				found[m[1]] = true
				if m[2] == "histogram" {
					found[m[1]+"_bucket"], found[m[1]+"_sum"], found[m[1]+"_count"] = true, true, true
				}
			}
		}
		return found
	}
}()

func scrape(t *testing.T, service, addr string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			var b strings.Builder
			_, err = bufio.NewReader(resp.Body).WriteTo(&b)
			_ = resp.Body.Close()
			if err == nil && resp.StatusCode == http.StatusOK {
				return b.String()
			}
		}
		if ctx.Err() != nil {
			t.Fatalf("scrape %s: %v", service, err)
		}
	}
}
