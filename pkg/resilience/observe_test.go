package resilience

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/gwanmun/gwanmun/pkg/cmdline"
	"github.com/gwanmun/gwanmun/pkg/corelink"
)

// metrics is every series of the house, as name{label value}.
func (h house) metrics(t testing.TB) map[string]float64 {
	t.Helper()
	families, err := h.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, label := range m.GetLabel() {
				name += fmt.Sprintf("{%s=%s}", label.GetName(), label.GetValue())
			}
			if family.GetType() == dto.MetricType_GAUGE {
				all[name] = m.GetGauge().GetValue()
			} else {
				all[name] = m.GetCounter().GetValue()
			}
		}
	}
	return all
}

func (h house) metric(t testing.TB, name string) float64 {
	t.Helper()
	v, ok := h.metrics(t)[name]
	if !ok {
		t.Fatalf("no series %s in %v", name, h.metrics(t))
	}
	return v
}

func TestMetrics_AllSeriesExistFromTheStart(t *testing.T) {
	got := build(t, standard(), healthy).metrics(t)
	want := map[string]float64{"gwanmun_core_retries_total": 0}
	for _, c := range []string{CoreRequest, CoreQuery} {
		for _, name := range []string{"state", "opened_total", "rejected_total", "stale_results_total"} {
			want[fmt.Sprintf("gwanmun_circuit_%s{circuit=%s}", name, c)] = 0
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestMetrics_FollowTheCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, consecutive(1), dead)
		stale := begin(t, h.request.circuit)
		for range 5 {
			h.Exchange(context.Background(), payment(time.Hour))
		}
		h.request.circuit.settle(stale, good)
		check := func(series string, want float64) {
			t.Helper()
			if got := h.metric(t, series+"{circuit=core-request}"); got != want {
				t.Errorf("%s is %v, want %v", series, got, want)
			}
		}
		check("gwanmun_circuit_state", 1)
		check("gwanmun_circuit_opened_total", 1)
		check("gwanmun_circuit_rejected_total", 2)
		check("gwanmun_circuit_stale_results_total", 1)
		time.Sleep(10 * time.Second)
		p := begin(t, h.request.circuit)
		check("gwanmun_circuit_state", 2)
		h.request.circuit.settle(p, good)
		check("gwanmun_circuit_state", 0)
		if got := h.metric(t, "gwanmun_circuit_opened_total{circuit=core-query}"); got != 0 {
			t.Errorf("the other circuit: %v", got)
		}
	})
}

func TestLog_EveryTransitionIsAWarningWithItsReason(t *testing.T) {
	type line struct{ from, to, reason string }
	down, slow, up := ends(unsent, corelink.ErrConnect), ends(lost, corelink.ErrTimeout), answered
	for name, v := range map[string]struct {
		flags Flags
		// ends are the core's, call by call; a nil one is the wait.
		ends []func() corelink.Result
		want []line
	}{
		"rate": {
			standard(),
			[]func() corelink.Result{up, up, up, up, up, up, up, up, down, slow, nil, up, up, slow, nil, up, up, up, up, up},
			[]line{
				{"CLOSED", "OPEN", "2 of the last 10 calls failed (20.0 %, threshold 15 %)"},
				{"OPEN", "HALF_OPEN", "it was open for 10s; 5 probes may pass"},
				{"HALF_OPEN", "OPEN", "1 of 3 probes failed (33.3 %, threshold 15 %), and 5 probes cannot come below it"},
				{"OPEN", "HALF_OPEN", "it was open for 10s; 5 probes may pass"},
				{"HALF_OPEN", "CLOSED", "0 of 5 probes failed (0.0 %, threshold 15 %)"},
			},
		},
		"consecutive": {
			consecutive(1),
			[]func() corelink.Result{up, slow, slow, slow, nil, slow, nil, up},
			[]line{
				{"CLOSED", "OPEN", "3 calls in a row failed"},
				{"OPEN", "HALF_OPEN", "it was open for 10s; 1 probe may pass"},
				{"HALF_OPEN", "OPEN", "a probe failed"},
				{"OPEN", "HALF_OPEN", "it was open for 10s; 1 probe may pass"},
				{"HALF_OPEN", "CLOSED", "a probe succeeded"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				next := 0
				h := build(t, v.flags, func(context.Context, corelink.Call) corelink.Result { return v.ends[next]() })
				for ; next < len(v.ends); next++ {
					if v.ends[next] == nil {
						time.Sleep(10 * time.Second)
						continue
					}
					h.Exchange(context.Background(), payment(time.Hour))
				}
				kept := h.log.all()
				if len(kept) != len(v.want) {
					t.Fatalf("%d lines, want %d: %v", len(kept), len(v.want), kept)
				}
				for i, got := range kept {
					want := v.want[i]
					if got["from"] != want.from || got["to"] != want.to || got["reason"] != want.reason {
						t.Errorf("line %d: %v, want %v", i, got, want)
					}
					if got["level"] != slog.LevelWarn || got["msg"] != "circuit changed state" || got["circuit"] != CoreRequest {
						t.Errorf("line %d: %v", i, got)
					}
					if got["buffered_calls"] == nil || got["failed_calls"] == nil {
						t.Errorf("line %d: %v", i, got)
					}
					opens := want.to == "OPEN"
					if cause := got["last_failure"]; opens != (cause == corelink.ErrTimeout.Error()) || opens != (got["open_wait"] == 10*time.Second) {
						t.Errorf("line %d: %v", i, got)
					}
				}
			})
		})
	}
}

// What an error carries besides its kind may be anyone's text.
func TestLog_LastFailureIsAKindAndNoText(t *testing.T) {
	h := build(t, consecutive(1), func(context.Context, corelink.Call) corelink.Result {
		return corelink.Result{Sent: corelink.SentAll, Err: fmt.Errorf("%w: account 12345678901234", corelink.ErrGarbage)}
	})
	for range 3 {
		h.Exchange(context.Background(), payment(time.Hour))
	}
	if all := fmt.Sprint(h.log.all()); strings.Contains(all, "1234567") || !strings.Contains(all, corelink.ErrGarbage.Error()) {
		t.Error(all)
	}
}

// angry is a log handler that panics.
type angry struct{ lines }

func (*angry) Handle(context.Context, slog.Record) error { panic("disk full") }

func TestLog_PanickingHandlerCostsNoPlaceAndNoTransition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, consecutive(1), dead)
		h.request.circuit.logger = slog.New(&angry{})
		try := func() (panicked bool) {
			defer func() { panicked = recover() != nil }()
			h.Exchange(context.Background(), payment(time.Hour))
			return false
		}
		for call := 1; call <= 3; call++ {
			if met := try(); met != (call == 3) {
				t.Errorf("call %d: the third opens the circuit, and it alone meets the handler", call)
			}
		}
		is(t, h.request.circuit, Open)
		for range 3 {
			time.Sleep(10 * time.Second)
			if !try() {
				t.Error("this call makes the transition")
			}
			if s := h.Circuits()[0]; s.State != HalfOpen || s.ProbesInFlight != 0 {
				t.Errorf("%+v", s)
			}
			h.request.circuit.settle(begin(t, h.request.circuit), bad)
		}
	})
}

func TestStates_HaveTheContractsNames(t *testing.T) {
	if got := fmt.Sprint(Closed, Open, HalfOpen, State(0)); got != "CLOSED OPEN HALF_OPEN INVALID(0)" {
		t.Error(got)
	}
	if stateOf(99) != 0 {
		t.Error("a state that nobody knows has no name of ours")
	}
}

func TestFlags_HaveTheirNamesAndDefaults(t *testing.T) {
	var cfg struct {
		Flags `embed:""`
	}
	if err := cmdline.Parse("test", "1", "", nil, &cfg, nil, io.Discard); err != nil {
		t.Fatal(err)
	}
	if cfg.Flags != standard() {
		t.Errorf("defaults %+v, want %+v", cfg.Flags, standard())
	}
	args := []string{
		"--circuit-mode=consecutive", "--circuit-window=100", "--circuit-min-calls=2", "--circuit-request-threshold=3",
		"--circuit-query-threshold=4", "--circuit-failures=5", "--circuit-probes=6", "--circuit-open-wait=7s",
		"--halfopen-calls=80", "--halfopen-min-calls=9", "--retries=10", "--retry-backoff=11ms",
	}
	if err := cmdline.Parse("test", "1", "", args, &cfg, nil, io.Discard); err != nil {
		t.Fatal(err)
	}
	want := Flags{ModeConsecutive, 100, 2, 3, 4, 5, 6, 7 * time.Second, 80, 9, 10, 11 * time.Millisecond}
	if cfg.Flags != want {
		t.Errorf("%+v, want %+v", cfg.Flags, want)
	}
}

func TestFlags_EachNonsenseIsOneClearLine(t *testing.T) {
	for name, v := range map[string]struct {
		spoil func(*Flags)
		want  string
	}{
		"no mode":              {func(f *Flags) { f.CircuitMode = "" }, `--circuit-mode: "" is neither rate nor consecutive`},
		"zero window":          {func(f *Flags) { f.CircuitWindow = 0 }, "--circuit-window must be 1 to 10000, not 0"},
		"vast window":          {func(f *Flags) { f.CircuitWindow = 10_001 }, "--circuit-window must be 1 to 10000, not 10001"},
		"zero minimum":         {func(f *Flags) { f.CircuitMinCalls = 0 }, "--circuit-min-calls must be 1 to 10000, not 0"},
		"minimum above window": {func(f *Flags) { f.CircuitMinCalls = 21 }, "--circuit-min-calls (21) must not be more than --circuit-window (20), or the circuit never opens"},
		"threshold 0":          {func(f *Flags) { f.CircuitRequestThreshold = 0 }, "--circuit-request-threshold must be 1 to 100, not 0"},
		"threshold 101":        {func(f *Flags) { f.CircuitQueryThreshold = 101 }, "--circuit-query-threshold must be 1 to 100, not 101"},
		"negative failures":    {func(f *Flags) { f.CircuitFailures = -1 }, "--circuit-failures must be 1 to 10000, not -1"},
		"no probes":            {func(f *Flags) { f.CircuitProbes = 0 }, "--circuit-probes must be 1 to 1000, not 0"},
		"no wait":              {func(f *Flags) { f.CircuitOpenWait = 0 }, "--circuit-open-wait must be more than 0 and at most 1h0m0s, not 0s"},
		"a day's wait":         {func(f *Flags) { f.CircuitOpenWait = 24 * time.Hour }, "--circuit-open-wait must be more than 0 and at most 1h0m0s, not 24h0m0s"},
		"no half-open calls":   {func(f *Flags) { f.HalfopenCalls = 0 }, "--halfopen-calls must be 1 to 1000, not 0"},
		"no half-open minimum": {func(f *Flags) { f.HalfopenMinCalls = 0 }, "--halfopen-min-calls must be 1 to 1000, not 0"},
		"minimum above calls":  {func(f *Flags) { f.HalfopenMinCalls = 6 }, "--halfopen-min-calls (6) must not be more than --halfopen-calls (5), or the circuit stays half-open"},
		"negative retries":     {func(f *Flags) { f.Retries = -1 }, "--retries must be 0 to 10, not -1"},
		"endless retries":      {func(f *Flags) { f.Retries = 11 }, "--retries must be 0 to 10, not 11"},
		"no back-off":          {func(f *Flags) { f.RetryBackoff = 0 }, "--retry-backoff must be more than 0 and at most 1m0s, not 0s"},
		"a long back-off":      {func(f *Flags) { f.RetryBackoff = time.Hour }, "--retry-backoff must be more than 0 and at most 1m0s, not 1h0m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			f := standard()
			v.spoil(&f)
			if err := f.Validate(); err == nil || err.Error() != v.want {
				t.Errorf("%v, want %s", err, v.want)
			}
		})
	}
	f := standard()
	if err := f.Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}
