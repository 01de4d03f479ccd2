package main

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"time"
)

// serving starts the core in this process, which takes so long to answer.
func serving(t *testing.T, takes time.Duration) *core {
	t.Helper()
	in, asks := io.Pipe()
	out, says := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- serveCore(t.Context(), takes, in, says) }()
	c := &core{takes: takes, in: asks, out: bufio.NewReader(out)}
	addr, err := c.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	c.addr = strings.TrimSpace(addr)
	t.Cleanup(func() {
		_ = asks.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestCore_TellsOfTheExchangesThatTheBaseMade(t *testing.T) {
	core := serving(t, 0)
	perSecond, err := base(t.Context(), core.addr, 10*time.Millisecond)
	if err != nil || perSecond <= 0 {
		t.Fatalf("%v a second, error %v", perSecond, err)
	}
	if n, took, err := core.tell(true); n == 0 || took <= 0 || err != nil {
		t.Errorf("it tells of %d requests in %v, error %v", n, took, err)
	}
	if n, _, err := core.tell(false); n != 0 || err != nil {
		t.Errorf("after forgetting it tells of %d requests, error %v", n, err)
	}
}

func TestCore_TakesAsLongToAnswerAsItIsTold(t *testing.T) {
	const takes = 10 * time.Millisecond
	perSecond, err := base(t.Context(), serving(t, takes).addr, 10*takes)
	if most := connections / takes.Seconds(); err != nil || perSecond > 1.2*most { // the burst may catch one more of each
		t.Errorf("%v a second, error %v; want at most %v", perSecond, err, most)
	}
}

func TestBase_CoreThatIsGoneIsAnError(t *testing.T) {
	if _, err := base(t.Context(), "127.0.0.1:1", time.Millisecond); err == nil {
		t.Error("no error")
	}
}

func TestLine_SaysWhetherTheGoalIsMet(t *testing.T) {
	for want, r := range map[string]struct{ before, drained, after float64 }{
		"met":      {100, 25, 100},
		"MISSED":   {100, 24, 100},
		"rejected": {100, 50, 80},
	} {
		var sum result
		sum.add(r.before, r.drained, r.after, cpus{time.Microsecond, time.Microsecond})
		line, met := sum.line("sqlite", 0)
		if met != (want == "met") || !strings.HasSuffix(line, "| "+want+" |\n") || strings.Count(line, "|") != strings.Count(strings.SplitN(heading, "\n", 2)[0], "|") {
			t.Errorf("%s: met %t: %s", want, met, line)
		}
	}
}
