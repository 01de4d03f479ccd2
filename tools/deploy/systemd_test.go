package deploy

import (
	"os"
	"strings"
	"testing"
	"time"
)

// unit is a unit file: what it sets, by name, the last one counting.
func unit(t *testing.T, name string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(root + "/deploy/systemd/gwanmun-" + name + ".service")
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]string{}
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			set[key] = value
		}
	}
	return set
}

// Payment and reconciler share a SQLite book. As two dynamic users they would
// take its folder from each other at every start.
func TestSystemd_BothAreOneUserInOneFolder(t *testing.T) {
	payment, reconciler := unit(t, "payment"), unit(t, "reconciler")
	for _, key := range []string{"User", "StateDirectory", "WorkingDirectory", "UMask"} {
		if payment[key] == "" || payment[key] != reconciler[key] {
			t.Errorf("%s: %q and %q", key, payment[key], reconciler[key])
		}
	}
}

func TestSystemd_StartsAgainWhatMayRecoverAndNothingElse(t *testing.T) {
	for _, name := range []string{"payment", "reconciler"} {
		u := unit(t, name)
		if u["Restart"] != "on-failure" || u["RestartPreventExitStatus"] != "2" || u["StartLimitIntervalSec"] != "0" {
			t.Errorf("%s: restart %s, but not after %s, limited within %s", name, u["Restart"], u["RestartPreventExitStatus"], u["StartLimitIntervalSec"])
		}
		if stop, err := time.ParseDuration(u["TimeoutStopSec"]); err != nil || stop <= 15*time.Second { // --shutdown-timeout
			t.Errorf("%s has %s to stop", name, u["TimeoutStopSec"])
		}
		if !strings.HasSuffix(u["ExecStart"], "/gwanmun-"+name) {
			t.Errorf("%s runs %s", name, u["ExecStart"])
		}
	}
}
