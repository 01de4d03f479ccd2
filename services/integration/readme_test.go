package integration

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadme_EveryGrpcurlLineWorks runs the lines that README shows, one after
// the other as a reader would, against a stack of its own.
func TestReadme_EveryGrpcurlLineWorks(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "bin", "grpcurl")); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("bin/grpcurl is not there: make tools builds it")
		}
		t.Skip("SKIPPED, THE LINES OF README NOT TESTED: bin/grpcurl is not there; make tools builds it")
	}
	lines := grpcurlLines(t, filepath.Join(root, "README.md"))
	if len(lines) == 0 {
		t.Fatal("README shows no call with grpcurl")
	}
	s := newStack(t, newSQLite(t))
	p, r := s.startPayment(t), s.startReconciler(t)
	ports := strings.NewReplacer(
		"127.0.0.1:9090", p.address(t, "grpc"), "127.0.0.1:9091", s.core.address(t, "grpc"), "127.0.0.1:9092", r.address(t, "grpc"),
	)
	for _, line := range lines {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		cmd := exec.CommandContext(ctx, "sh", "-c", ports.Replace(line))
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil || len(out) == 0 {
			t.Errorf("%s\n%v\n%s", line, err, out)
		}
		s.canary.look(t, line, string(out))
	}
	s.audit(t, p)
}

// grpcurlLines are the calls with grpcurl in the code blocks of a file, with
// lines that go on joined.
func grpcurlLines(t testing.TB, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	inBlock := false
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			inBlock = !inBlock
		case inBlock && strings.HasPrefix(line, "bin/grpcurl "):
			lines = append(lines, line)
		}
	}
	return lines
}
