package cmdline

import "runtime/debug"

const (
	// garbagePercent is how much garbage may pile up, in parts of what is in use.
	// A service that takes a thousand small calls a second has little in use, and
	// with Go's 100 spends an eighth of its time on collecting it.
	garbagePercent = 400
	// memoryLimit is from where on garbage is collected sooner, however much is in
	// use: the rows that wait while a ledger hangs must not cost five times their
	// size.
	memoryLimit = 512 << 20
)

// RoomForGarbage lets garbage pile up further than Go does, within bounds, for a
// binary whose calls are many and small. The variables GOGC and GOMEMLIMIT, which
// lookup finds, have the last word about what each of them is for.
func RoomForGarbage(lookup func(name string) (string, bool)) {
	if value, _ := lookup("GOGC"); value == "" {
		debug.SetGCPercent(garbagePercent)
	}
	if value, _ := lookup("GOMEMLIMIT"); value == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
