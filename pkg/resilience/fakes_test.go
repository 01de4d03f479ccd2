package resilience

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/corelink"
)

// standard are the flags as the binaries have them by default.
func standard() Flags {
	return Flags{
		CircuitMode: ModeRate, CircuitWindow: 20, CircuitMinCalls: 10,
		CircuitRequestThreshold: 15, CircuitQueryThreshold: 20,
		CircuitFailures: 3, CircuitProbes: 1, CircuitOpenWait: 10 * time.Second,
		HalfopenCalls: 5, HalfopenMinCalls: 3,
		Retries: 2, RetryBackoff: 200 * time.Millisecond,
	}
}

// consecutive are the flags of the other mode, with so many probes.
func consecutive(probes int) Flags {
	f := standard()
	f.CircuitMode, f.CircuitProbes = ModeConsecutive, probes
	return f
}

// core is an Exchanger made of a function.
type core func(ctx context.Context, call corelink.Call) corelink.Result

func (c core) Exchange(ctx context.Context, call corelink.Call) corelink.Result {
	return c(ctx, call)
}

// healthy answers at once.
func healthy(context.Context, corelink.Call) corelink.Result { return answered() }

// dead takes no connection.
func dead(context.Context, corelink.Call) corelink.Result { return unsent(corelink.ErrConnect) }

// slowly answers after d, whatever the deadline.
func slowly(d time.Duration) core {
	return func(context.Context, corelink.Call) corelink.Result {
		time.Sleep(d)
		return answered()
	}
}

func answered() corelink.Result {
	now := time.Now()
	return corelink.Result{Sent: corelink.SentAll, SentAt: now, AnsweredAt: now, Answer: []byte("0110")}
}

// lost is the end of an exchange whose request left whole.
func lost(kind error) corelink.Result {
	return corelink.Result{Sent: corelink.SentAll, SentAt: time.Now(), Err: fmt.Errorf("%w: seen in a test", kind)}
}

// unsent is the end of one of which nothing left.
func unsent(kind error) corelink.Result {
	return corelink.Result{Sent: corelink.SentNone, Err: fmt.Errorf("%w: seen in a test", kind)}
}

// house is a Gate with all that a test looks at.
type house struct {
	*Gate
	registry *prometheus.Registry
	log      *lines
}

// build returns a Gate whose two pools are the same fake.
func build(t testing.TB, f Flags, c core) house {
	t.Helper()
	h := house{registry: prometheus.NewRegistry(), log: &lines{}}
	h.Gate = New(Options{
		Flags: f, Request: c, Query: c, Now: time.Now,
		Logger: slog.New(h.log), Registry: h.registry,
	})
	return h
}

// inquiry is one whose transaction may take d.
func inquiry(d time.Duration) corelink.Call {
	return corelink.Call{Tx: corelink.TxBalance, Kind: corelink.Inquiry, Deadline: time.Now().Add(d)}
}

// payment is one whose transaction may take d; its kind is the zero one.
func payment(d time.Duration) corelink.Call {
	return corelink.Call{Tx: corelink.TxPayment, Deadline: time.Now().Add(d)}
}

// lines is a log handler that keeps what it is given, in its order.
type lines struct {
	mu   sync.Mutex
	kept []map[string]any
}

func (*lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l *lines) WithGroup(string) slog.Handler          { return l }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	line := map[string]any{"level": r.Level, "msg": r.Message}
	r.Attrs(func(a slog.Attr) bool { line[a.Key] = a.Value.Any(); return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, line)
	return nil
}

func (l *lines) all() []map[string]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]map[string]any(nil), l.kept...)
}

func newLogger(l *lines) *slog.Logger { return slog.New(l) }

// circuitOf is a circuit by itself, with a log that nobody reads.
func circuitOf(f Flags, percent int) *circuit {
	return newCircuit("core-test", f.CircuitMode, f.rules(percent), slog.New(&lines{}))
}

// The verdicts as a test writes them.
var (
	good  = verdict{outcome: success}
	bad   = verdict{outcome: failure, cause: corelink.ErrTimeout}
	blank = verdict{}
)

// begin takes a permit that must be there.
func begin(t testing.TB, c *circuit) permit {
	t.Helper()
	p, err := c.acquire()
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	return p
}

// refused checks that no permit is to be had, and returns the refusal.
func refused(t testing.TB, c *circuit) *OpenError {
	t.Helper()
	var open *OpenError
	if _, err := c.acquire(); !errors.As(err, &open) {
		t.Fatalf("acquire: %v, want an OpenError", err)
	}
	return open
}

// feed makes one whole call for each verdict.
func feed(t testing.TB, c *circuit, verdicts ...verdict) {
	t.Helper()
	for _, v := range verdicts {
		c.settle(begin(t, c), v)
	}
}

// times is a verdict repeated.
func times(n int, v verdict) []verdict {
	all := make([]verdict, n)
	for i := range all {
		all[i] = v
	}
	return all
}

// is checks a circuit's state.
func is(t testing.TB, c *circuit, want State) {
	t.Helper()
	if got := c.stats(); got.State != want {
		t.Fatalf("circuit is %s, want %s: %+v", got.State, want, got)
	}
}

// opened is a circuit of consecutive failures that has just opened.
func opened(t testing.TB, f Flags) *circuit {
	t.Helper()
	c := circuitOf(f, 15)
	feed(t, c, times(f.CircuitFailures, bad)...)
	is(t, c, Open)
	return c
}
