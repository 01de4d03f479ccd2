package operations

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/telemetry/otlptest"
)

const (
	root     = "../.."
	pagePath = root + "/docs/operations.md"
)

// used are the programs that the page's lines use, besides ours.
var used = []string{"curl", "openssl", "sqlite3", "sha256sum"}

// house is where the page is tried: a folder as the repository's, with bin and
// var, and the three services on free ports in place of the fixed ones.
type house struct {
	dir   string
	names *names
	// addresses are the page's and this run's, in turns.
	addresses []string
	collector *otlptest.Collector

	core, payment, reconciler *process
}

// TestOperations_EveryLineShowsWhatThePageShows executes the lines of the page
// from its beginning to its end.
func TestOperations_EveryLineShowsWhatThePageShows(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(pagePath)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	h := newHouse(t, readNames(t, page))
	written, from := strings.Builder{}, 0
	for _, p := range parts(t, page) {
		if p.stage != "" {
			play, known := stages[p.stage]
			if !known {
				t.Fatalf("line %d: nobody knows the stage %q", p.at, p.stage)
			}
			play(t, h)
			continue
		}
		output := shorten(h.execute(t, p.lines), p.shown)
		if p.shows {
			written.WriteString(h.names.translate(page[from:p.from]) + output)
			from = p.to
		}
		if !*writePage && p.shows && steady(output) != steady(p.output) {
			t.Errorf("line %d of the page:\n%s\nshows\n%s\nand the page says\n%s", p.at, p.lines, output, p.output)
		}
	}
	written.WriteString(h.names.translate(page[from:]))
	comment := h.names.comment(t)
	if *writePage && !t.Failed() {
		whole := namesOf.ReplaceAllString(written.String(), comment)
		if err := os.WriteFile(pagePath, []byte(whole), 0o644); err != nil { //nolint:gosec // a page that everyone may read
			t.Fatal(err)
		}
	}
}

func newHouse(t *testing.T, n *names) *house {
	t.Helper()
	repository, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	grpcurl := filepath.Join(repository, "bin", "grpcurl")
	missing := ""
	if _, err := os.Stat(grpcurl); err != nil {
		missing = "bin/grpcurl (make tools)"
	}
	for _, name := range used {
		if _, err := exec.LookPath(name); err != nil {
			missing = name
		}
	}
	switch {
	case missing != "" && os.Getenv("CI") != "":
		t.Fatalf("the lines of the page need %s", missing)
	case missing != "":
		t.Skipf("SKIPPED, THE LINES OF docs/operations.md NOT TESTED: %s is not there", missing)
	}
	h := &house{dir: t.TempDir(), names: n, collector: otlptest.Start(t)}
	for _, dir := range []string{"bin", "var"} {
		if err := os.Mkdir(filepath.Join(h.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := func(from string) {
		if err := os.Symlink(from, filepath.Join(h.dir, "bin", filepath.Base(from))); err != nil {
			t.Fatal(err)
		}
	}
	link(grpcurl)
	for _, name := range []string{"payment", "reconciler", "corebank"} {
		link(filepath.Join(binaries, name))
	}
	return h
}

// know puts the address of a process in place of the page's.
func (h *house) know(t testing.TB, p *process, listener, page string) string {
	t.Helper()
	address := p.address(t, listener)
	h.addresses = append(h.addresses, page, address)
	return address
}

// local puts this run's addresses and names into lines of the page.
func (h *house) local(lines string) string {
	return strings.NewReplacer(h.addresses...).Replace(h.names.translate(lines))
}

// global puts the page's addresses into an output.
func (h *house) global(output string) string {
	var swapped []string
	for i := 0; i < len(h.addresses); i += 2 {
		swapped = append(swapped, h.addresses[i+1], h.addresses[i])
	}
	return strings.NewReplacer(swapped...).Replace(output)
}

var runID = regexp.MustCompile(`"runId": "([^"]+)"`)

// execute runs lines in the house, and returns all that they write.
func (h *house) execute(t testing.TB, lines string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", h.local(lines))
	cmd.Dir = h.dir
	out, _ := cmd.CombinedOutput() // what goes wrong is a part of it, and may be meant
	text := h.global(string(out))
	if m := runID.FindStringSubmatch(text); m != nil && h.names.run["run"] == "" {
		h.names.set(t, "run", m[1])
	}
	return text
}

// call calls an rpc as an operator would.
func (h *house) call(t testing.TB, address, method, body string, headers ...string) string {
	t.Helper()
	line := "bin/grpcurl -plaintext"
	for _, header := range headers {
		line += " -H '" + header + "'"
	}
	return h.execute(t, line+" -d '"+body+"' "+address+" "+method)
}

// dial connects to a port.
func dial(t testing.TB, address string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}
