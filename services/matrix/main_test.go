package matrix

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/gwanmun/gwanmun/pkg/postgrestest"
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if code := postgrestest.Main(m); code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, "matrix: left running:", err)
		return 1
	}
	return 0
}
