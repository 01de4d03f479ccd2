package main

import (
	"io"
	"strings"
	"testing"
	"time"
)

// serving starts the core in this process, which takes so long to answer.
func serving(t *testing.T, takes time.Duration) (addr string, tell func(string) string) {
	t.Helper()
	in, asks := io.Pipe()
	out, says := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- serveCore(t.Context(), takes, in, says) }()
	read := func() string {
		line := make([]byte, 100)
		n, err := out.Read(line)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(line[:n]))
	}
	t.Cleanup(func() {
		_ = asks.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return read(), func(line string) string {
		if _, err := io.WriteString(asks, line+"\n"); err != nil {
			t.Fatal(err)
		}
		return read()
	}
}

func TestCore_TellsOfTheExchangesThatTheBaseMade(t *testing.T) {
	addr, tell := serving(t, 0)
	perSecond, err := base(t.Context(), addr, 10*time.Millisecond)
	if err != nil || perSecond <= 0 {
		t.Fatalf("%v a second, error %v", perSecond, err)
	}
	if said := tell("true"); strings.HasPrefix(said, "0 ") {
		t.Errorf("it tells of %q", said)
	}
	if said := tell("false"); !strings.HasPrefix(said, "0 ") {
		t.Errorf("after forgetting it tells of %q", said)
	}
}

func TestCore_TakesAsLongToAnswerAsItIsTold(t *testing.T) {
	const takes = 10 * time.Millisecond
	addr, _ := serving(t, takes)
	perSecond, err := base(t.Context(), addr, 10*takes)
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
