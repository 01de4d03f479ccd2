package matrix

import (
	"math"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/resilience"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

const (
	// ofEach is how many calls of each type a fault strikes.
	ofEach = 50
	// atOnce is how many of them are under way, and how many connections a pool
	// may have.
	atOnce = 16
)

// After each fault has struck two hundred calls, everything is where it was: no
// place in a pool is lost, no goroutine waits, no socket is open that is not idle
// in a pool, and every row that the core did not lie about is true.
func TestMany_LeaveNothingBehind(t *testing.T) {
	files, routines := openFiles(t), runtime.NumGoroutine()
	for _, l := range lines {
		t.Run(l.name, func(t *testing.T) {
			tn := buildTown(t, atOnce)
			for _, mti := range mtis {
				l.storm(tn, mti)
			}
			tn.atRest()
			for range 2 {
				tn.paid(tn.pay(subject, nextAmount, ledger.PolicyNetCancel), nextAmount)
				if _, row := tn.balance(subject); row.Status != ledger.StatusSuccess {
					t.Errorf("a healthy balance inquiry is %s: %s", row.Status, row.Reason)
				}
			}
			tn.settle()
			if l.trait != lies {
				tn.audit()
			}
			tn.close()
		})
		eventually(t, "the goroutines are as many as before", func() bool { return runtime.NumGoroutine() <= routines })
		eventually(t, "the open files are as many as before", func() bool { return openFiles(t) <= files })
	}
}

// storm makes calls whose frames of this type are all struck.
func (l *line) storm(tn *town, mti string) {
	fault, ok := l.on(mti)
	if !ok {
		return
	}
	subjects := make([]tranid.ID, ofEach)
	for i := range subjects {
		subjects[i] = (&cell{mti: mti}).prepare(tn)
	}
	before := len(tn.core.frames(mti, ""))
	tn.core.strike(fault)
	tn.core.door.delay(lateness{l.trait, mti, math.MaxInt, tn.way(circuitOf(mti))})
	each(subjects, func(id tranid.ID) {
		row := tn.call(mti, id)
		got, want := outcomeOf(row), outcomes[l.end][mti]
		lost := l.trait == behind && (got == outcomes[lost][mti] || got == outcomes[garbled][mti])
		if got != want && !lost {
			tn.t.Errorf("%s is %+v, want %+v: %s", mti, got, want, row.Reason)
		}
	})
	tn.core.door.delay(lateness{})
	tn.core.faults.Clear("")
	tn.core.door.quiet(tn.t)
	if l.core != holds {
		return
	}
	attempts := ofEach
	if inquiry(mti) {
		attempts *= 1 + retries
	}
	eventually(tn.t, "the core has decided what it held", func() bool {
		return len(tn.core.frames(mti, ""))-before == attempts
	})
}

// each calls do for each subject, atOnce of them at a time.
func each(subjects []tranid.ID, do func(tranid.ID)) {
	queue := make(chan tranid.ID)
	var crew sync.WaitGroup
	for range atOnce {
		crew.Go(func() {
			for id := range queue {
				do(id)
			}
		})
	}
	for _, id := range subjects {
		queue <- id
	}
	close(queue)
	crew.Wait()
}

// atRest checks that nothing is under way, and that who has a connection open
// knows it: ours are those that are idle in a pool, the core's are ours.
func (tn *town) atRest() {
	tn.t.Helper()
	for _, name := range []string{resilience.CoreRequest, resilience.CoreQuery} {
		p := tn.pool(name)
		if p.active != 0 || p.opened-p.destroyed-p.expired != p.idle || p.idle != tn.way(name).sockets() || p.idle > atOnce {
			tn.t.Errorf("pool %s is %+v, and %d connections are open", name, p, tn.way(name).sockets())
		}
		if c := tn.circuit(name); c.neutral+c.stale+c.rejected != 0 {
			tn.t.Errorf("circuit %s has counted %+v", name, c)
		}
	}
	eventually(tn.t, "the core has no connection but those that are idle", func() bool {
		return tn.core.door.open() <= tn.sockets()
	})
}

// openFiles is how many descriptors this process has open; 0 where the system
// does not say.
func openFiles(t testing.TB) int {
	t.Helper()
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(dir)
}
