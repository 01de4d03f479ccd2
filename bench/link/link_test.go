package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/bench/paired"
	"github.com/gwanmun/gwanmun/pkg/corelink"
)

// core starts the core in this process and returns its address.
func core(t *testing.T) string {
	t.Helper()
	in, end := io.Pipe()
	out, said := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- servePeer(t.Context(), in, said) }()
	line := make([]byte, 64)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = end.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return strings.TrimSpace(string(line[:n]))
}

// Bursts this short say nothing of speed, but every side does what it should.
func TestCompare_PrintsALineForEach(t *testing.T) {
	var out bytes.Buffer
	all := comparisons(core(t))
	for n := range all {
		all[n].callers = min(all[n].callers, 2)
	}
	err := compare(t.Context(), config{Rounds: paired.MinRounds, Burst: 2 * time.Millisecond, Tries: 1}, all, &out)
	if err != nil && !errors.Is(err, errMissed) {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(out.String(), heading)
	if lines := strings.Count(table, "\n"); !found || lines != len(all) {
		t.Errorf("%d lines:\n%s", lines, out.String())
	}
	first, _, _ := strings.Cut(heading, "\n")
	columns := strings.Count(first, "|")
	for line := range strings.Lines(table) {
		if strings.Count(line, "|") != columns {
			t.Errorf("not %d columns: %s", columns, line)
		}
	}
}

func TestCompare_CoreThatIsGoneIsAnError(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	_ = listener.Close()
	cfg := config{Rounds: paired.MinRounds, Burst: 2 * time.Millisecond, Tries: 1}
	if err := compare(t.Context(), cfg, comparisons(addr), io.Discard); err == nil || errors.Is(err, errMissed) {
		t.Errorf("error %v", err)
	}
}

func TestLine_SaysWhetherTheGoalIsMet(t *testing.T) {
	goal := comparison{what: "it", callers: 1, goal: "at least 0.9", meets: func(r paired.Result) bool { return r.Ratio >= 0.9 }}
	cases := map[string]struct {
		c         comparison
		ratio, aa float64
		ends      string
		met       bool
	}{
		"met":      {goal, 0.9, 1, "| met |\n", true},
		"missed":   {goal, 0.89, 1, "| MISSED |\n", false},
		"rejected": {goal, 0.9, 0.89, "| rejected |\n", false},
		"no goal":  {comparison{what: "it"}, 0.5, 1.1, "|  |  |\n", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			line, met := c.c.line(paired.Result{Ratio: c.ratio, AA: c.aa})
			if met != c.met || !strings.HasSuffix(line, c.ends) {
				t.Errorf("met %t: %s", met, line)
			}
		})
	}
}

// What a side is measured by must be an exchange that is checked.
func TestSides_RefuseAnotherRequestsAnswer(t *testing.T) {
	answer := bytes.Repeat([]byte("1"), 61)
	if err := check(answer); !errors.Is(err, errEcho) {
		t.Errorf("error %v", err)
	}
	side := calls("side", straight{answer}, corelink.Inquiry)
	if err := side.Caller(t.Context(), 0)(); !errors.Is(err, errEcho) {
		t.Errorf("error %v", err)
	}
}

// straight answers with what it has.
type straight struct{ answer []byte }

func (s straight) Exchange(_ context.Context, call corelink.Call) corelink.Result {
	return corelink.Result{Sent: corelink.SentAll, Answer: s.answer, Err: call.Check(s.answer)}
}
