package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"  //nolint:depguard // what a service may answer with
	"google.golang.org/grpc/status" //nolint:depguard // what a service may answer with

	"github.com/gwanmun/gwanmun/bench/child"
	"github.com/gwanmun/gwanmun/bench/paired"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
)

// Bursts this short say nothing of speed, but each line is made and printed.
func TestCompare_PrintsALineForEach(t *testing.T) {
	sides := map[string]*side{}
	for _, name := range []string{product, naive, naiveTuned, bridge, productSQLite, naiveSQLite} {
		sides[name] = serve(t, name, &fake{})
	}
	var out bytes.Buffer
	if err := compare(t.Context(), brief(), sides, &out); err != nil && !errors.Is(err, errMissed) {
		t.Fatal(err)
	}
	goals := 0
	for _, c := range comparisons {
		goals += len(c.goals)
	}
	_, tables, _ := strings.Cut(out.String(), heading)
	measured, judged, found := strings.Cut(tables, "\n"+goalsHeading)
	if !found || strings.Count(measured, "\n") != len(comparisons) || strings.Count(judged, "\n") != goals || strings.Contains(measured, "FAILED") {
		t.Errorf("%d comparisons with %d goals:\n%s", len(comparisons), goals, out.String())
	}
	for heading, table := range map[string]string{heading: measured, goalsHeading: judged} {
		first, _, _ := strings.Cut(heading, "\n")
		for line := range strings.Lines(table) {
			if strings.Count(line, "|") != strings.Count(first, "|") {
				t.Errorf("not as many columns as the heading: %s", line)
			}
		}
	}
}

func TestTry_HonestSidesPass(t *testing.T) {
	for name, stubs := range map[string]bool{"wire": false, "stubs": true} {
		t.Run(name, func(t *testing.T) {
			sides := map[string]*side{
				naive: serveWith(t, naive, &fake{}, stubs), product: serveWith(t, product, &fake{}, stubs),
				bridge: serveWith(t, bridge, &fake{}, stubs),
			}
			for _, c := range []comparison{comparisons[1], inquiry(t)} {
				r, err := c.try(t.Context(), brief(), sides)
				if err != nil || r.Ratio <= 0 || r.P99Ratio <= 0 || r.Base.P99 < r.Base.P50 || r.Base.P50 <= 0 {
					t.Errorf("%s: %+v, error %v", c.name, r, err)
				}
			}
		})
	}
}

// Speed by not doing the work is an error, whichever side it is.
func TestTry_ASideThatCheatsFails(t *testing.T) {
	wrong := func(change func(*ledgerv1.Transaction)) func(int, *ledgerv1.Transaction) {
		return func(n int, t *ledgerv1.Transaction) {
			if n == 3 {
				change(t)
			}
		}
	}
	cheats := map[string]struct {
		fake *fake
		err  error
	}{
		"unknown": {&fake{spoil: wrong(func(t *ledgerv1.Transaction) {
			t.Status = ledgerv1.TransactionStatus_TRANSACTION_STATUS_UNKNOWN
		})}, errReply},
		"no status":        {&fake{spoil: wrong(func(t *ledgerv1.Transaction) { t.Status = 0 })}, errReply},
		"no ID":            {&fake{spoil: wrong(func(t *ledgerv1.Transaction) { t.TransactionId = "" })}, errReply},
		"another's key":    {&fake{spoil: wrong(func(t *ledgerv1.Transaction) { t.IdempotencyKey = "other" })}, errReply},
		"another amount":   {&fake{spoil: wrong(func(t *ledgerv1.Transaction) { t.Amount++ })}, errReply},
		"a row is missing": {&fake{keep: func(n int) bool { return n != 3 }}, errBook},
		"a call fails":     {&fake{fails: status.Error(codes.Unavailable, "no")}, nil},
	}
	for name, c := range cheats {
		t.Run(name, func(t *testing.T) {
			sides := map[string]*side{naive: serve(t, naive, &fake{}), product: serve(t, product, c.fake)}
			r, err := comparisons[1].try(t.Context(), brief(), sides)
			if err == nil || (c.err != nil && !errors.Is(err, c.err)) {
				t.Errorf("%+v, error %v", r, err)
			}
		})
	}
}

func TestTry_AnInquiryThatCheatsFails(t *testing.T) {
	cheat := &fake{keep: func(n int) bool { return n != 3 }}
	sides := map[string]*side{bridge: serve(t, bridge, &fake{}), product: serve(t, product, cheat)}
	if r, err := inquiry(t).try(t.Context(), brief(), sides); !errors.Is(err, errBook) {
		t.Errorf("%+v, error %v", r, err)
	}
}

// inquiry is the comparison that asks for balances.
func inquiry(t *testing.T) comparison {
	t.Helper()
	i := slices.IndexFunc(comparisons, func(c comparison) bool { return c.name == "inquiry-64" })
	if i < 0 {
		t.Fatal("no inquiries are compared")
	}
	return comparisons[i]
}

// A reader of results must know what the callers cost.
func TestCompare_SaysWhatIsCalledWith(t *testing.T) {
	for want, stubs := range map[string]bool{"grpc-go's client": true, "bench/wire": false} {
		cfg := brief("payment-1")
		cfg.Stubs = stubs
		sides := map[string]*side{naive: serve(t, naive, &fake{}), product: serve(t, product, &fake{})}
		var out bytes.Buffer
		if err := compare(t.Context(), cfg, sides, &out); err != nil && !errors.Is(err, errMissed) {
			t.Fatal(err)
		}
		if first, _, _ := strings.Cut(out.String(), "\n"); !strings.Contains(first, want) {
			t.Errorf("no %q in %s", want, first)
		}
	}
}

// A row that comes after its answer is there in time.
func TestAudit_WaitsForWhatIsWrittenBehind(t *testing.T) {
	reads := 0
	s := &side{name: product, patience: time.Minute, read: func(context.Context) (tally, error) {
		reads++
		return tally{inquiries: int64(min(reads, 2))}, nil
	}}
	s.asked.Store(2)
	if err := s.audit(t.Context()); err != nil || reads != 2 {
		t.Errorf("error %v after %d looks", err, reads)
	}
}

func TestAudit_WhatIsMissingFailsOnce(t *testing.T) {
	book := tally{payments: 8, inquiries: 5}
	s := &side{name: product, patience: time.Millisecond, read: func(context.Context) (tally, error) { return book, nil }}
	s.paid.Store(9)
	s.asked.Store(5)
	if err := s.audit(t.Context()); !errors.Is(err, errBook) {
		t.Errorf("error %v", err)
	}
	book.payments++
	s.paid.Add(1)
	if err := s.audit(t.Context()); err != nil {
		t.Errorf("error %v", err)
	}
	s.asked.Add(1)
	if err := s.audit(t.Context()); !errors.Is(err, errBook) {
		t.Errorf("error %v", err)
	}
}

func TestCompare_FailureIsALineAndAnError(t *testing.T) {
	sides := map[string]*side{
		naive:   serve(t, naive, &fake{}),
		product: serve(t, product, &fake{fails: status.Error(codes.Unavailable, "no | such\nluck")}),
	}
	var out bytes.Buffer
	err := compare(t.Context(), brief("payment-1"), sides, &out)
	if !errors.Is(err, errMissed) || !strings.Contains(out.String(), "FAILED: payment-1: product:") || !strings.Contains(out.String(), "no / such; luck") {
		t.Errorf("error %v:\n%s", err, out.String())
	}
}

func TestJudge(t *testing.T) {
	c := comparison{what: "it", callers: 1, goals: []goal{speed(4, 2), p99(0.15, 0.35)}}
	cases := map[string]struct {
		r    paired.Result
		err  error
		says []string
		met  bool
	}{
		"all met":     {paired.Result{Ratio: 4, P99Ratio: 0.15, AA: 1}, nil, []string{"at least 4 | met | at least 2 | met", "at most 0.15 | met | at most 0.35 | met"}, true},
		"acceptable":  {paired.Result{Ratio: 2, P99Ratio: 0.35, AA: 1}, nil, []string{"at least 4 | MISSED | at least 2 | met", "at most 0.15 | MISSED | at most 0.35 | met"}, true},
		"too slow":    {paired.Result{Ratio: 1.9, P99Ratio: 0.1, AA: 1}, nil, []string{"at least 2 | MISSED", "at most 0.35 | met"}, false},
		"too late":    {paired.Result{Ratio: 4, P99Ratio: 0.36, AA: 1}, nil, []string{"at least 2 | met", "at most 0.35 | MISSED"}, false},
		"not sound":   {paired.Result{Ratio: 4, P99Ratio: 0.1, AA: 1.2}, nil, []string{"at least 4 | rejected | at least 2 | rejected"}, false},
		"it went bad": {paired.Result{}, errBook, []string{"| - | at least 4 | failed | at least 2 | failed"}, false},
	}
	for name, each := range cases {
		t.Run(name, func(t *testing.T) {
			lines, met := c.judge(each.r, each.err)
			if met != each.met {
				t.Errorf("met: %t", met)
			}
			for _, text := range each.says {
				if !strings.Contains(lines, text) {
					t.Errorf("no %q in\n%s", text, lines)
				}
			}
		})
	}
}

func TestRowsPerCommit(t *testing.T) {
	cases := map[string]struct {
		op     operation
		meters []float64
		want   float64
	}{
		"two commits a payment": {pay, []float64{0, 0, 2}, 1},
		"batches of fifty":      {pay, []float64{0, 0, 0.04}, 50},
		"inquiries of twenty":   {ask, []float64{0, 0, 0.05}, 20},
		"nothing written":       {pay, []float64{0, 0, 0}, 0},
		"nothing known":         {pay, []float64{0, 0}, 0},
	}
	for name, c := range cases {
		if got := rowsPerCommit(c.op, paired.Figures{Meters: c.meters}); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// What the callers cost belongs to both sides.
func TestCPURatio(t *testing.T) {
	figures := func(all time.Duration) paired.Figures {
		return paired.Figures{CPU: all, Meters: []float64{0, 50e-6}}
	}
	r := paired.Result{Base: figures(550 * time.Microsecond), Subject: figures(150 * time.Microsecond)}
	if got := cpuRatio(r); got < 2.999 || got > 3.001 {
		t.Errorf("%v, want 3", got)
	}
}

func TestConfig_Validate(t *testing.T) {
	good := brief()
	good.Rounds, good.Connections = paired.MinRounds, 1
	cases := map[string]struct {
		change func(*config)
		ok     bool
	}{
		"good":           {func(*config) {}, true},
		"one by name":    {func(c *config) { c.Only = []string{"inquiry"} }, true},
		"no such name":   {func(c *config) { c.Only = []string{"nothing"} }, false},
		"few rounds":     {func(c *config) { c.Rounds = paired.MinRounds - 1 }, false},
		"no try":         {func(c *config) { c.Tries = 0 }, false},
		"no connections": {func(c *config) { c.Connections = 0 }, false},
	}
	for name, each := range cases {
		cfg := good
		each.change(&cfg)
		if err := cfg.Validate(); (err == nil) != each.ok {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestServeCore_SaysWhereItListens(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- serveCore(ctx, out) }()
	line := make([]byte, 500)
	n, err := in.Read(line)
	if err != nil || child.FindAddress(line[:n], "frame") == "" || child.FindAddress(line[:n], "grpc") != "" {
		t.Errorf("%q, error %v", line[:n], err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
