package hardening

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/gwanmun/gwanmun/pkg/postgrestest"
)

// binaries is the folder with the three services, built once for all tests.
var binaries string

func TestMain(m *testing.M) {
	if kind := os.Getenv(measuredVariable); kind != "" {
		os.Exit(beMeasured(kind))
	}
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gwanmun-hardening-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "hardening: make a folder for the binaries:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary folder
	// Without the race detector, whatever the tests have: it multiplies memory,
	// which is measured here.
	build := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "../payment", "../corebank", "../reconciler")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "hardening: build the services: %v\n%s", err, out)
		return 1
	}
	binaries = dir
	stopStarting := startStarting()
	code := postgrestest.Main(m)
	stopStarting()
	if code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, "hardening: left running:", err)
		return 1
	}
	return 0
}

// starts is how children are started: by one goroutine on a thread of its own.
// A child is told to die with the thread that started it, so that thread must
// last as long as the tests.
var starts chan func()

// startStarting begins to start children, and returns how to end that.
func startStarting() func() {
	starts = make(chan func())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread()
		for start := range starts {
			start()
		}
	}()
	return func() {
		close(starts)
		<-ended
	}
}
