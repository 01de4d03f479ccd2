package resilience

import (
	"fmt"
	"time"
)

// Mode is the rule by which a circuit opens and closes.
type Mode string

// The modes.
const (
	// ModeRate judges the share of failures among the last calls.
	ModeRate Mode = "rate"
	// ModeConsecutive judges failures in a row.
	ModeConsecutive Mode = "consecutive"
)

// Flags are the settings of both circuits and of the retries. No flag makes a
// Mutation be sent again.
type Flags struct {
	CircuitMode             Mode          `name:"circuit-mode" default:"rate" enum:"rate,consecutive" help:"What opens a circuit: the rate of failures among the last calls, or consecutive failures."`
	CircuitWindow           int           `name:"circuit-window" default:"20" help:"Mode rate: how many of the last calls are judged."`
	CircuitMinCalls         int           `name:"circuit-min-calls" default:"10" help:"Mode rate: how many calls must have ended before a circuit may open."`
	CircuitRequestThreshold int           `name:"circuit-request-threshold" default:"15" help:"Mode rate: the percentage of failures at which core-request opens."`
	CircuitQueryThreshold   int           `name:"circuit-query-threshold" default:"20" help:"Mode rate: the percentage of failures at which core-query opens."`
	CircuitFailures         int           `name:"circuit-failures" default:"3" help:"Mode consecutive: how many failures in a row open a circuit."`
	CircuitProbes           int           `name:"circuit-probes" default:"1" help:"Mode consecutive: how many probes a half-open circuit lets out."`
	CircuitOpenWait         time.Duration `name:"circuit-open-wait" default:"10s" help:"How long an open circuit refuses every call before it lets out probes."`
	HalfopenCalls           int           `name:"halfopen-calls" default:"5" help:"Mode rate: how many probes a half-open circuit lets out; when all have ended well enough, it closes."`
	HalfopenMinCalls        int           `name:"halfopen-min-calls" default:"3" help:"Mode rate: how many probes must have ended before a half-open circuit may open again."`
	Retries                 int           `name:"retries" default:"2" help:"How often an inquiry is tried again. A payment or a net cancel never is."`
	RetryBackoff            time.Duration `name:"retry-backoff" default:"200ms" help:"How long an inquiry waits before it is tried again; each further time twice as long."`
}

// The upper bounds. They are far above what makes sense; their purpose is that
// a slip of the hand is a line at start and not a circuit that never opens.
const (
	maxWindow  = 10_000
	maxProbes  = 1_000
	maxRetries = 10
	maxBackoff = time.Minute
	maxWait    = time.Hour
)

// Validate reports the first thing that is wrong with the settings, in one
// line. The settings of the other mode are checked too.
func (f *Flags) Validate() error {
	if f.CircuitMode != ModeRate && f.CircuitMode != ModeConsecutive {
		return fmt.Errorf("--circuit-mode: %q is neither rate nor consecutive", string(f.CircuitMode))
	}
	for _, n := range []struct {
		flag               string
		value, least, most int
	}{
		{"circuit-window", f.CircuitWindow, 1, maxWindow},
		{"circuit-min-calls", f.CircuitMinCalls, 1, maxWindow},
		{"circuit-request-threshold", f.CircuitRequestThreshold, 1, 100},
		{"circuit-query-threshold", f.CircuitQueryThreshold, 1, 100},
		{"circuit-failures", f.CircuitFailures, 1, maxWindow},
		{"circuit-probes", f.CircuitProbes, 1, maxProbes},
		{"halfopen-calls", f.HalfopenCalls, 1, maxProbes},
		{"halfopen-min-calls", f.HalfopenMinCalls, 1, maxProbes},
		{"retries", f.Retries, 0, maxRetries},
	} {
		if n.value < n.least || n.value > n.most {
			return fmt.Errorf("--%s must be %d to %d, not %d", n.flag, n.least, n.most, n.value)
		}
	}
	switch {
	case f.CircuitMinCalls > f.CircuitWindow:
		return fmt.Errorf("--circuit-min-calls (%d) must not be more than --circuit-window (%d), or the circuit never opens", f.CircuitMinCalls, f.CircuitWindow)
	case f.HalfopenMinCalls > f.HalfopenCalls:
		return fmt.Errorf("--halfopen-min-calls (%d) must not be more than --halfopen-calls (%d), or the circuit stays half-open", f.HalfopenMinCalls, f.HalfopenCalls)
	case f.CircuitOpenWait <= 0 || f.CircuitOpenWait > maxWait:
		return fmt.Errorf("--circuit-open-wait must be more than 0 and at most %s, not %s", maxWait, f.CircuitOpenWait)
	case f.RetryBackoff <= 0 || f.RetryBackoff > maxBackoff:
		return fmt.Errorf("--retry-backoff must be more than 0 and at most %s, not %s", maxBackoff, f.RetryBackoff)
	}
	return nil
}

// backoff is the wait between an inquiry's attempts, when so many were made.
func (f *Flags) backoff(attempts int) time.Duration {
	return f.RetryBackoff << (attempts - 1)
}

// rules are the numbers by which a circuit decides. One set serves both modes:
// consecutive failures are a window that must be all failures.
type rules struct {
	// A closed circuit opens when, of the last window calls, at least minimum
	// are known and at least percent of those are failures.
	window, minimum, percent int
	// A half-open circuit lets out probes. From decideFrom results on it opens
	// when closeAt results could no longer come below percent, and it closes at
	// closeAt results.
	probes, decideFrom, closeAt int
	openWait                    time.Duration
}

// rules are those of the mode; percent is the circuit's own threshold, which
// the consecutive mode does not use.
func (f *Flags) rules(percent int) rules {
	if f.CircuitMode == ModeConsecutive {
		return rules{
			window: f.CircuitFailures, minimum: f.CircuitFailures, percent: 100,
			probes: f.CircuitProbes, decideFrom: 1, closeAt: 1,
			openWait: f.CircuitOpenWait,
		}
	}
	return rules{
		window: f.CircuitWindow, minimum: f.CircuitMinCalls, percent: percent,
		probes: f.HalfopenCalls, decideFrom: f.HalfopenMinCalls, closeAt: f.HalfopenCalls,
		openWait: f.CircuitOpenWait,
	}
}

// opens reports whether a closed circuit with these results must open. It
// counts in integers, at or above: a rate that is rounded opens too early.
func (r *rules) opens(calls, failures int) bool {
	return calls >= r.minimum && failures*100 >= r.percent*calls
}

// reopens reports whether a half-open circuit with these results must open:
// even if all that are still to come were successes, the last word would be at
// or above the threshold.
func (r *rules) reopens(calls, failures int) bool {
	return calls >= r.decideFrom && failures*100 >= r.percent*r.closeAt
}

// closes reports whether a half-open circuit that does not reopen may close.
func (r *rules) closes(calls int) bool { return calls >= r.closeAt }
