package resilience

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// model is the circuit written down a second time, as simply as can be: every
// result of the present state in a list, and no breaker under it.
type model struct {
	rules    rules
	state    State
	life     int
	results  []bool // true is a failure
	openedAt time.Time
	probes   map[int]bool // the permits of this state that are out
	want     Stats
}

// held is a permit and what the model knows of it.
type held struct {
	permit permit
	number int
	life   int
}

func (m *model) change(to State) {
	m.state, m.life, m.probes = to, m.life+1, map[int]bool{}
	if to == Open {
		m.openedAt = time.Now()
		m.want.Opened++
		return // it shows what opened it
	}
	m.results = nil
}

func (m *model) failures() int {
	n := 0
	for _, failed := range m.results {
		if failed {
			n++
		}
	}
	return n
}

// admit is whether a call may pass, and the wait if not.
func (m *model) admit() (bool, time.Duration) {
	switch m.state {
	case Open:
		left := m.rules.openWait - time.Since(m.openedAt)
		return left <= 0, max(left, 0)
	case HalfOpen:
		if len(m.probes)+len(m.results) >= m.rules.probes {
			return false, min(busyWait, m.rules.openWait)
		}
	default:
	}
	return true, 0
}

func (m *model) begin(number int) bool {
	admitted, _ := m.admit()
	if !admitted {
		m.want.Rejected++
		return false
	}
	if m.state == Open {
		m.change(HalfOpen)
	}
	m.probes[number] = true
	return true
}

func (m *model) end(h held, v verdict) {
	if h.life != m.life {
		m.want.Stale++
		return
	}
	delete(m.probes, h.number)
	if v.outcome == neutral {
		m.want.Neutral++
		return
	}
	m.results = append(m.results, v.outcome == failure)
	if m.state == Closed && len(m.results) > m.rules.window {
		m.results = m.results[1:]
	}
	n, f := float64(len(m.results)), float64(m.failures())
	threshold := float64(m.rules.percent) / 100
	switch m.state {
	case Closed:
		if len(m.results) >= m.rules.minimum && f/n >= threshold-1e-12 {
			m.change(Open)
		}
	case HalfOpen:
		if len(m.results) >= m.rules.decideFrom && f/float64(m.rules.closeAt) >= threshold-1e-12 {
			m.change(Open)
		} else if len(m.results) >= m.rules.closeAt {
			m.change(Closed)
		}
	default:
		panic("a permit of an open circuit")
	}
}

func (m *model) stats() Stats {
	s := m.want
	s.State, s.Buffered, s.Failed = m.state, len(m.results), m.failures()
	s.FailureRate = percentage(s.Buffered, s.Failed)
	if m.state == HalfOpen {
		s.ProbesInFlight = len(m.probes)
	}
	_, s.RetryAfter = m.admit()
	return s
}

func drawRules(t *rapid.T) rules {
	r := rules{openWait: time.Duration(rapid.IntRange(1, 2000).Draw(t, "openWaitMs")) * time.Millisecond}
	r.window = rapid.IntRange(1, 12).Draw(t, "window")
	r.probes = rapid.IntRange(1, 6).Draw(t, "probes")
	if rapid.Bool().Draw(t, "consecutive") {
		r.minimum, r.percent, r.decideFrom, r.closeAt = r.window, 100, 1, 1
		return r
	}
	r.minimum = rapid.IntRange(1, r.window).Draw(t, "minimum")
	r.percent = rapid.IntRange(1, 100).Draw(t, "percent")
	r.closeAt = r.probes
	r.decideFrom = rapid.IntRange(1, r.closeAt).Draw(t, "decideFrom")
	return r
}

// timeless hides from rapid a method that no bubble allows.
type timeless struct{ rapid.TB }

// Whatever comes in whatever order, circuit and model agree after each step.
func TestCircuit_DoesWhatItsModelDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(timeless{t}, func(t *rapid.T) {
			r := drawRules(t)
			c := newCircuit("core-test", ModeRate, r, nil)
			m := &model{rules: r, state: Closed, probes: map[int]bool{}, want: Stats{Name: "core-test", Mode: ModeRate}}
			var out []held
			for number := range rapid.IntRange(1, 120).Draw(t, "steps") {
				switch step := rapid.IntRange(0, 9).Draw(t, "step"); {
				case step < 4:
					p, err := c.acquire()
					if admitted := m.begin(number); admitted != (err == nil) {
						t.Fatalf("acquire: %v; the model admits: %t", err, admitted)
					}
					if err == nil {
						out = append(out, held{p, number, m.life})
					}
				case step < 9 && len(out) > 0:
					i := rapid.IntRange(0, len(out)-1).Draw(t, "which")
					v := rapid.SampledFrom([]verdict{good, bad, bad, blank}).Draw(t, "verdict")
					c.settle(out[i].permit, v)
					m.end(out[i], v)
					out = append(out[:i], out[i+1:]...)
				default:
					time.Sleep(time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond)
				}
				if got, want := c.stats(), m.stats(); got != want {
					t.Fatalf("\n got %+v\nwant %+v", got, want)
				}
			}
		})
	})
}
