package integration

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/gwanmun/gwanmun/pkg/postgrestest"
)

// parallelTests is how many tests run at a time where -parallel does not say:
// they wait much more than they work.
const parallelTests = 4

// binaries is the folder with the three services, built once for all tests.
var binaries string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := build()
	defer func() { _ = os.RemoveAll(dir) }() // a temporary folder
	if err == nil {
		err = allowParallel()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
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
		fmt.Fprintln(os.Stderr, "integration: left running:", err)
		return 1
	}
	return 0
}

// build builds the three services into a new folder, with the race detector
// where the tests have it.
func build() (string, error) {
	dir, err := os.MkdirTemp("", "gwanmun-integration-")
	if err != nil {
		return "", fmt.Errorf("make a folder for the binaries: %w", err)
	}
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	if raceDetector {
		args = append(args, "-race")
	}
	args = append(args, "../payment", "../corebank", "../reconciler")
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return dir, fmt.Errorf("build the services: %w\n%s", err, out)
	}
	return dir, nil
}

// allowParallel raises -parallel, which by default is the number of processors,
// unless the command line sets it.
func allowParallel() error {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(max(parallelTests, runtime.GOMAXPROCS(0))))
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

// errUnseen is why a wait goes on when there is nothing more to say.
var errUnseen = errors.New("not seen yet")
