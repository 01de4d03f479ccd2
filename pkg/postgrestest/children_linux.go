package postgrestest

import (
	"bytes"
	"os"
	"strconv"
	"testing"
)

// children are the processes that a process has started and that run.
func children(t testing.TB, parent int) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatalf("list the processes: %s", err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil { // it has ended
			continue
		}
		// pid (name) state parent ...; a name may hold anything, ')' too.
		const parentField = 1
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > parentField && string(fields[parentField]) == strconv.Itoa(parent) {
			pids = append(pids, pid)
		}
	}
	return pids
}
