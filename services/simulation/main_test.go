package simulation

import (
	"flag"
	"os"
	"runtime"
	"testing"
)

// TestMain leaves the goroutines one processor: what is woken at one moment of
// virtual time then runs in the same order each time, or nearly always. Several
// processors are used by several processes.
func TestMain(m *testing.M) {
	flag.Parse()
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}
