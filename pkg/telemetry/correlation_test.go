package telemetry_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gwanmun/gwanmun/pkg/telemetry"
)

func TestValidCorrelationID(t *testing.T) {
	valid := regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	ids := []string{"", "a", "A.b_c-9", strings.Repeat("x", 64), strings.Repeat("x", 65), "a b", "a\n", "é", "a/b", "a\x00", "a:b", "１"}
	for _, id := range slices.Concat(ids, bytesAfterX()) {
		// In Go, $ without (?m) does not match before a last line feed.
		if got, want := telemetry.ValidCorrelationID(id), valid.MatchString(id); got != want {
			t.Errorf("ValidCorrelationID(%q) = %t, want %t", id, got, want)
		}
	}
}

// bytesAfterX are x and each byte there is.
func bytesAfterX() []string {
	all := make([]string, 256)
	for c := range all {
		all[c] = "x" + string([]byte{byte(c)})
	}
	return all
}

func TestNewCorrelationID_IsValidAndNewAndAscends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := map[string]bool{}
		for range 1000 {
			a := telemetry.NewCorrelationID()
			if !telemetry.ValidCorrelationID(a) || made[a] {
				t.Fatalf("made %q", a)
			}
			made[a] = true
		}
		first := slices.Max(slices.Collect(maps.Keys(made)))
		time.Sleep(time.Millisecond)
		if next := telemetry.NewCorrelationID(); next <= first {
			t.Errorf("made %q a millisecond after %q", next, first)
		}
	})
}

func TestNewInstance_HasSafeCharactersAndIsNew(t *testing.T) {
	safe := regexp.MustCompile(`^pay-ment-[A-Za-z0-9-]{1,32}-[0-9]+-[0-9a-f]{4}$`)
	if a := telemetry.NewInstance("pay/ment"); !safe.MatchString(a) {
		t.Errorf("made %q", a)
	}
}

func TestNewRegistry_ShowsTheBuildAndTheProcess(t *testing.T) {
	families, err := telemetry.NewRegistry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, f := range families {
		found[f.GetName()] = true
		if f.GetName() == "gwanmun_build_info" && f.GetMetric()[0].GetGauge().GetValue() != 1 {
			t.Errorf("gwanmun_build_info is %v", f.GetMetric()[0])
		}
	}
	for _, name := range []string{"gwanmun_build_info", "go_goroutines", "process_open_fds"} {
		if !found[name] {
			t.Errorf("%s is missing", name)
		}
	}
}
