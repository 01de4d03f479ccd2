package child

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestChild_EndsAsItIsToldTo(t *testing.T) {
	c, err := Launch("child", filepath.Join(t.TempDir(), "log"), exec.Command("sh", "-c",
		`trap 'exit 0' TERM; echo '{"msg":"listening","name":"grpc","address":"here"}'; while :; do sleep 0.01; done`))
	if err != nil {
		t.Fatal(err)
	}
	if addr, err := c.Listens(t.Context(), "grpc"); err != nil || addr != "here" {
		t.Errorf("%q, error %v", addr, err)
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
}

func TestChild_DeathIsAnErrorWithItsLog(t *testing.T) {
	c, err := Launch("child", filepath.Join(t.TempDir(), "log"), exec.Command("sh", "-c", "echo no such thing; exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Listens(t.Context(), "grpc"); err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("error %v", err)
	}
	if err := c.Stop(); err == nil {
		t.Error("it ended well")
	}
}
