// Package machine says what the benches were measured on, and how much of it a
// process used. What a system does not tell is left out, but for CPU times,
// which need Linux.
package machine

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// tick is the unit in which Linux tells CPU times, on every architecture.
const tick = 10 * time.Millisecond

// Name is the Go version, the system, and the processors.
func Name() string {
	return fmt.Sprintf("%s %s/%s, %d cores%s", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), processor())
}

// Load is the load average of the last minute; empty where it is not told.
func Load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	minute, _, _ := strings.Cut(string(text), " ")
	return minute
}

// processor is the name of the processor.
func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return " of " + strings.TrimSpace(value)
		}
	}
	return ""
}

// CPU is the CPU time that a process has used.
func CPU(pid int) (time.Duration, error) {
	s, err := readStat(strconv.Itoa(pid))
	if err != nil {
		return 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
	}
	return s.own, nil
}

// FamilyCPU is the CPU time that a process and its children have used, those
// that have ended included.
func FamilyCPU(pid int) (time.Duration, error) {
	parent, err := readStat(strconv.Itoa(pid))
	if err != nil {
		return 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
	}
	total := parent.own + parent.ended
	files, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, fmt.Errorf("list processes: %w", err)
	}
	for _, file := range files {
		// One that has ended meanwhile is in its parent's count the next time.
		if child, err := readStat(filepath.Base(file)); err == nil && child.parent == pid {
			total += child.own
		}
	}
	return total, nil
}

// stat is what the system tells of a process.
type stat struct {
	parent int
	own    time.Duration
	// ended is what its children used that have ended.
	ended time.Duration
}

func readStat(pid string) (stat, error) {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return stat{}, err
	}
	return parseStat(string(text))
}

// parseStat reads proc(5): behind the name, which may hold anything, the state
// is the third field, the parent the fourth, and the times are the 14th to 17th.
func parseStat(text string) (stat, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 15 {
		return stat{}, fmt.Errorf("%d fields behind the name", len(fields))
	}
	var numbers [5]int64
	for n, at := range []int{1, 11, 12, 13, 14} {
		var err error
		if numbers[n], err = strconv.ParseInt(fields[at], 10, 64); err != nil {
			return stat{}, fmt.Errorf("field %d: %w", at+3, err)
		}
	}
	return stat{
		parent: int(numbers[0]),
		own:    time.Duration(numbers[1]+numbers[2]) * tick,
		ended:  time.Duration(numbers[3]+numbers[4]) * tick,
	}, nil
}
