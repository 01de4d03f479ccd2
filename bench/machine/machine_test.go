package machine

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

func TestParseStat_NameMayHoldAnything(t *testing.T) {
	const line = "42 (a ) b (c) S 7 42 42 0 -1 4194560 100 0 0 0 150 50 3 4 20 0 5 0 1000 1 1\n"
	got, err := parseStat(line)
	if want := (stat{parent: 7, own: 2 * time.Second, ended: 70 * time.Millisecond}); err != nil || got != want {
		t.Errorf("%+v, error %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", "42 (name)", "42 (name) S 7 1 1 0 -1 1 1 0 0 0 x 50 3 4"} {
		if got, err := parseStat(bad); err == nil {
			t.Errorf("%q is %+v", bad, got)
		}
	}
}

// burn uses CPU time until it shows in ticks.
func burn(t *testing.T, shows func() time.Duration, from time.Duration) {
	t.Helper()
	for end := time.Now().Add(time.Minute); shows() <= from; {
		if time.Now().After(end) {
			t.Fatal("no CPU time counted in a minute of work")
		}
	}
}

func TestCPU_Grows(t *testing.T) {
	onLinux(t)
	read := func() time.Duration {
		cpu, err := CPU(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		return cpu
	}
	burn(t, read, read())
}

func TestFamilyCPU_HasChildrenThatEnded(t *testing.T) {
	onLinux(t)
	own, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done").Run(); err != nil {
		t.Fatal(err)
	}
	family, err := FamilyCPU(os.Getpid())
	if now, _ := CPU(os.Getpid()); err != nil || family-now < 5*tick {
		t.Errorf("the family used %v, this process %v, and %v before; error %v", family, now, own, err)
	}
}

func TestCPU_ProcessThatIsGone(t *testing.T) {
	onLinux(t)
	const none = 1 << 30
	if cpu, err := CPU(none); err == nil {
		t.Errorf("used %v", cpu)
	}
	if cpu, err := FamilyCPU(none); err == nil {
		t.Errorf("used %v", cpu)
	}
}

func onLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("CPU times of other processes need Linux")
	}
}
