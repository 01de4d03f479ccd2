package cmdline_test

import (
	"math"
	"runtime/debug"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/cmdline"
)

func TestRoomForGarbage_LeavesWhatTheEnvironmentSays(t *testing.T) {
	for what, c := range map[string]struct {
		env     map[string]string
		percent int
		limit   int64
	}{
		"unset":    {nil, 400, 512 << 20},
		"empty":    {map[string]string{"GOGC": "", "GOMEMLIMIT": ""}, 400, 512 << 20},
		"percent":  {map[string]string{"GOGC": "50"}, 77, 512 << 20},
		"limit":    {map[string]string{"GOMEMLIMIT": "1GiB"}, 400, math.MaxInt64},
		"both set": {map[string]string{"GOGC": "off", "GOMEMLIMIT": "1GiB"}, 77, math.MaxInt64},
	} {
		percent, limit := debug.SetGCPercent(77), debug.SetMemoryLimit(math.MaxInt64)
		cmdline.RoomForGarbage(func(name string) (string, bool) {
			value, ok := c.env[name]
			return value, ok
		})
		if got := debug.SetGCPercent(percent); got != c.percent {
			t.Errorf("%s: GC percent %d, want %d", what, got, c.percent)
		}
		if got := debug.SetMemoryLimit(limit); got != c.limit {
			t.Errorf("%s: memory limit %d, want %d", what, got, c.limit)
		}
	}
}
