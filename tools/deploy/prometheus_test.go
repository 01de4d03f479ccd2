package deploy

import (
	"encoding/json"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
)

func rules(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(root+"/deploy/prometheus/rules.yml", false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	found := map[string]rulefmt.Rule{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			found[r.Alert] = r
		}
	}
	return found
}

// known fails the test for each metric in an expression that no service has.
func known(t *testing.T, where, expr string) {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	have := metrics(t)
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok && !have[v.Name] {
			t.Errorf("%s: no service has %s", where, v.Name)
		}
		return nil
	})
}

func TestPrometheus_ConfigurationIsRead(t *testing.T) {
	c, err := config.LoadFile(root+"/deploy/prometheus/prometheus.yml", false, nil)
	if err != nil {
		t.Fatal(err)
	}
	jobs := map[string]bool{}
	for _, s := range c.ScrapeConfigs {
		jobs[s.JobName] = true
	}
	for _, name := range services {
		if !jobs[name] {
			t.Errorf("%s is not scraped", name)
		}
	}
}

func TestRules_AskForMetricsThatThereAreAndNameAPageThatThereIs(t *testing.T) {
	page, err := os.ReadFile(root + "/docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	anchors := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(page), -1) {
		anchors[strings.ToLower(regexp.MustCompile(`[^\w -]`).ReplaceAllString(strings.ReplaceAll(m[1], " ", "-"), ""))] = true
	}
	for name, r := range rules(t) {
		known(t, name, r.Expr)
		_, anchor, _ := strings.Cut(r.Annotations["runbook"], "docs/operations.md#")
		if !anchors[anchor] {
			t.Errorf("%s: docs/operations.md has no part %q", name, anchor)
		}
	}
}

func TestDashboard_AsksForMetricsThatThereAre(t *testing.T) {
	b, err := os.ReadFile(root + "/deploy/grafana/dashboards/gwanmun.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &dashboard); err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			asked++
			known(t, p.Title, target.Expr)
		}
	}
	if asked < 20 {
		t.Errorf("%d questions", asked)
	}
}

// An exemplar of a round trip is kept, shown, and leads to its trace.
func TestExemplars_LeadToTheTrace(t *testing.T) {
	if !slices.Contains(compose(t).Services["prometheus"].Command, "--enable-feature=exemplar-storage") {
		t.Error("Prometheus keeps no exemplars")
	}
	for file, says := range map[string]string{
		"provisioning/datasources/prometheus.yml": "exemplarTraceIdDestinations: [{name: trace_id, datasourceUid: jaeger}]",
		"dashboards/gwanmun.json":                 `"exemplar": true`,
	} {
		b, err := os.ReadFile(root + "/deploy/grafana/" + file)
		if err != nil || !strings.Contains(string(b), says) {
			t.Errorf("%s does not say %s: %v", file, says, err)
		}
	}
}

// Each rule, with what makes it speak and with what leaves it silent, a sample
// every 15 seconds.
var spoken = map[string]struct{ loud, quiet string }{
	"GwanmunGhost":         {`gwanmun_ghost_total{job="reconciler"} 0x60 1x40`, `gwanmun_ghost_total{job="reconciler"} 3x100`},
	"GwanmunUnknownTooOld": {`gwanmun_unknown_oldest_seconds 0+15x100`, `gwanmun_unknown_oldest_seconds 20x100`},
	"GwanmunNeedsReview":   {`gwanmun_needs_review_transactions 1x100`, `gwanmun_needs_review_transactions 0x100`},
	"GwanmunCircuitOpen":   {`gwanmun_circuit_state{circuit="core-request"} 1x100`, `gwanmun_circuit_state{circuit="core-request"} 2x100`},
	"GwanmunLedgerDropped": {
		`gwanmun_ledger_dropped_total{reason="outcome"} 0x80 1x20`, `gwanmun_ledger_dropped_total{reason="outcome"} 7x100`,
	},
	"GwanmunLedgerUnreadable": {
		`gwanmun_ledger_unreadable_rows_total{job="payment"} 0x80 1x20`, `gwanmun_ledger_unreadable_rows_total{job="payment"} 7x100`,
	},
	"GwanmunSettlementDifference": {
		`gwanmun_settlement_discrepancies{class="core_only"} 1x100`, `gwanmun_settlement_discrepancies{class="core_only"} 0x100`,
	},
	"GwanmunSaturated": {
		`grpc_server_handled_total{job="payment",grpc_code="ResourceExhausted"} 0+30x100`,
		`grpc_server_handled_total{job="payment",grpc_code="OK"} 0+300x100`,
	},
	// The clock of the test begins at 0.
	"GwanmunSweepStalled": {`gwanmun_sweep_finished_timestamp_seconds 0x100`, `gwanmun_sweep_finished_timestamp_seconds 0+15x100`},
	"GwanmunPanic":        {`gwanmun_panics_total{job="payment"} 0x80 1x20`, `gwanmun_panics_total{job="payment"} 2x100`},
	"GwanmunDown": {
		"up{job=\"payment\"} 0x100\n  up{job=\"reconciler\"} 1x100", "up{job=\"payment\"} 1x100\n  up{job=\"reconciler\"} 1x100",
	},
}

func TestRules_SpeakAndAreSilent(t *testing.T) {
	all := rules(t)
	if len(all) != len(spoken) {
		t.Errorf("%d rules, %d tried", len(all), len(spoken))
	}
	for name, c := range spoken {
		rule, ok := all[name]
		if !ok {
			t.Errorf("no rule %s", name)
			continue
		}
		for series, loud := range map[string]bool{c.loud: true, c.quiet: false} {
			if got := speaks(t, rule.Expr, series); got != loud {
				t.Errorf("%s of %s: %t", name, series, got)
			}
		}
	}
}

func TestRules_WhatIsNotScrapedIsDown(t *testing.T) {
	down := rules(t)["GwanmunDown"].Expr
	for _, alone := range []string{"payment", "reconciler"} {
		if !speaks(t, down, `up{job="`+alone+`"} 1x100`) {
			t.Errorf("%s alone is scraped, and nobody is told", alone)
		}
	}
}

func TestRules_WhatANewInstanceCountsBeforeItIsScrapedIsSeen(t *testing.T) {
	all := rules(t)
	for alert, counter := range map[string]string{
		"GwanmunGhost": "gwanmun_ghost_total", "GwanmunLedgerDropped": "gwanmun_ledger_dropped_total", "GwanmunPanic": "gwanmun_panics_total",
		"GwanmunLedgerUnreadable": "gwanmun_ledger_unreadable_rows_total",
	} {
		if !speaks(t, all[alert].Expr, counter+`{instance="new"} _x90 1x10`) {
			t.Errorf("%s does not see it", alert)
		}
		if speaks(t, all[alert].Expr, counter+`{instance="new"} _x90 0x10`) {
			t.Errorf("%s speaks of nothing", alert)
		}
	}
}

// An open circuit tries the core again and again, and is half-open meanwhile.
func TestRules_ACircuitThatTriesInVainIsOpenAndOneThatRecoversIsNot(t *testing.T) {
	rule := rules(t)["GwanmunCircuitOpen"]
	for samples, pages := range map[string]bool{
		strings.Repeat("1 1 2 ", 40): true, strings.Repeat("1 1 2 2 ", 30): true,
		"0 0 1 1 2 " + strings.Repeat("0 ", 115): false, "1 1 " + strings.Repeat("2 ", 118): false,
	} {
		const every = 5 * time.Second
		var speaking, longest time.Duration
		for at := time.Duration(0); at < 120*every; at += every {
			speaking += every
			if !speaksAt(t, rule.Expr, "load 5s\n  gwanmun_circuit_state{circuit=\"core-request\"} "+samples+"\n", time.Unix(0, 0).Add(at)) {
				speaking = 0
			}
			longest = max(longest, speaking)
		}
		if got := longest > time.Duration(rule.For); got != pages {
			t.Errorf("%s: speaks for %s, and pages: %t", samples, longest, got)
		}
	}
}

// speaks reports whether an expression has a value after a hundred samples of the
// series, one every 15 seconds.
func speaks(t *testing.T, expr, series string) bool {
	t.Helper()
	return speaksAt(t, expr, "load 15s\n  "+series+"\n", time.Unix(100*15, 0))
}

func speaksAt(t *testing.T, expr, load string, at time.Time) bool {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1 << 16, Timeout: 10 * time.Second, Parser: parser.NewParser(parser.Options{})})
	storage := promqltest.LoadedStorage(t, load)
	query, err := engine.NewInstantQuery(t.Context(), storage, nil, expr, at)
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	vector, err := query.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatalf("%s of %s: %v", expr, load, err)
	}
	return len(vector) > 0
}
