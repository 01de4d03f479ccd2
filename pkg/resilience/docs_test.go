package resilience

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
)

var writeDocs = flag.Bool("write-docs", false, "write the tables into docs/resilience.md instead of comparing them")

const page = "../../docs/resilience.md"

// The tables of the page are made here, by the circuits that they speak of.
func TestDocs_TablesShowWhatTheCircuitsDo(t *testing.T) {
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for name, table := range map[string]string{
		"half-open 15": halfOpenTable(t, 15),
		"half-open 50": halfOpenTable(t, 50),
		"closed":       closedTable(),
		"one failure":  oneFailureTable(t),
	} {
		begin, end := "<!-- table "+name+" -->\n", "<!-- end -->"
		_, rest, found := strings.Cut(text, begin)
		old, _, ended := strings.Cut(rest, end)
		if !found || !ended {
			t.Fatalf("the page has no place for the table %q", name)
		}
		if *writeDocs {
			text = strings.Replace(text, begin+old+end, begin+table+end, 1)
		} else if old != table {
			t.Errorf("the page's table %q is\n%swhile the circuits give\n%s", name, old, table)
		}
	}
	if *writeDocs {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// halfOpenSequences are results of probes, in their order: o good, x bad.
var halfOpenSequences = []string{"ooooo", "oox", "xoooo", "xxooo", "xoxoo", "xoxox", "xxx"}

func halfOpenTable(t *testing.T, percent int) string {
	var b strings.Builder
	b.WriteString("| probes, in their order | here | resilience4j | failsafe-go alone |\n|---|---|---|---|\n")
	for _, s := range halfOpenSequences {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", words(s), ourEnd(t, percent, s), resilience4jEnd(percent, s), plainEnd(percent, s))
	}
	return b.String()
}

func words(sequence string) string {
	return strings.TrimSuffix(strings.NewReplacer("o", "ok, ", "x", "fail, ").Replace(sequence), ", ")
}

func at(state any, n int) string { return fmt.Sprintf("%s at %d", state, n) }

const stays = "HALF_OPEN"

func ourEnd(t *testing.T, percent int, sequence string) (end string) {
	synctest.Test(t, func(t *testing.T) {
		f := standard()
		c := circuitOf(f, percent)
		feed(t, c, times(f.CircuitMinCalls, bad)...)
		time.Sleep(f.CircuitOpenWait)
		for i, r := range sequence {
			feed(t, c, map[rune]verdict{'o': good, 'x': bad}[r])
			if s := c.stats().State; s != HalfOpen {
				end = at(s, i+1)
				return
			}
		}
		end = stays
	})
	return end
}

// resilience4jEnd is resilience4j's rule: it judges once, both ways, when
// min(minimum, permitted) results are in.
func resilience4jEnd(percent int, sequence string) string {
	const minimum, permitted = 3, 5
	failures := 0
	for i, r := range sequence {
		if r == 'x' {
			failures++
		}
		if i+1 < min(minimum, permitted) {
			continue
		}
		if failures*100 >= percent*(i+1) {
			return at(Open, i+1)
		}
		return at(Closed, i+1)
	}
	return stays
}

func plainEnd(percent int, sequence string) string {
	b := circuitbreaker.NewBuilder[any]().WithFailureRateThreshold(float64(percent)/100, 3, time.Minute).Build()
	b.HalfOpen()
	for i, r := range sequence {
		b.TryAcquirePermit()
		if r == 'x' {
			b.RecordFailure()
		} else {
			b.RecordSuccess()
		}
		if !b.IsHalfOpen() {
			return at(stateOf(b.State()), i+1)
		}
	}
	return stays
}

// closedTable is the fewest failures that open a closed circuit.
func closedTable() string {
	var b strings.Builder
	b.WriteString("| calls known | at 15 % | at 20 % | at 50 % |\n|---|---|---|---|\n")
	f := standard()
	for calls := f.CircuitMinCalls; calls <= f.CircuitWindow; calls += 2 {
		fmt.Fprintf(&b, "| %d |", calls)
		for _, percent := range []int{15, 20, 50} {
			r := f.rules(percent)
			failures := 0
			for !r.opens(calls, failures) {
				failures++
			}
			fmt.Fprintf(&b, " %d |", failures)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// oneFailureTable is what a single failure does, by where among otherwise good
// calls it falls.
func oneFailureTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| the only failure is call | minimum 3 | minimum 10 |\n|---|---|---|\n")
	for position := 1; position <= 8; position++ {
		fmt.Fprintf(&b, "| %d | %s | %s |\n", position, oneFailure(t, 3, position), oneFailure(t, 10, position))
	}
	return b.String()
}

func oneFailure(t *testing.T, minimum, position int) string {
	f := standard()
	f.CircuitMinCalls = minimum
	c := circuitOf(f, 15)
	for n := 1; n <= 100; n++ {
		v := good
		if n == position {
			v = bad
		}
		feed(t, c, v)
		if s := c.stats(); s.State == Open {
			return fmt.Sprintf("OPEN at %d (1 of %d = %.1f %%)", n, s.Buffered, s.FailureRate)
		}
	}
	return "CLOSED"
}
