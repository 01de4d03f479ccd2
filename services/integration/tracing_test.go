package integration

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"

	"github.com/gwanmun/gwanmun/pkg/telemetry/otlptest"
)

// The caller's own span, as it names it.
const (
	callersTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	callersSpan  = "00f067aa0ba902b7"
	// apiKey is sent with every traced call, and must be told to nobody.
	apiKey = "gw_0123456789abcdefghijklmnopqrstuvwxyz"
)

// tracedTo are the flags that have everything traced.
func tracedTo(c *otlptest.Collector) []string {
	return []string{"--otlp-endpoint=" + c.Addr(), "--trace-ratio=1"}
}

// startCollector starts a collector, and looks at the end for what no span may
// tell.
func (s *stack) startCollector(t *testing.T) *otlptest.Collector {
	t.Helper()
	c := otlptest.Start(t)
	t.Cleanup(func() {
		s.canary.look(t, "the spans", string(c.Raw()))
		for _, never := range []string{apiKey, secret, "tea-and-biscuits", hashKey} {
			if bytes.Contains(c.Raw(), []byte(never)) {
				t.Errorf("the spans tell %q", never)
			}
		}
	})
	return c
}

// withPassword gives the ledger's DSN a password, where it may have one.
func withPassword(t *testing.T, db *database) {
	t.Helper()
	if db.kind != "postgresql" {
		return
	}
	dsn, err := url.Parse(db.dsn)
	if err != nil {
		t.Fatal(err)
	}
	query := dsn.Query()
	query.Set("password", secret)
	dsn.RawQuery = query.Encode()
	db.flags = []string{"--ledger-dsn=" + dsn.String(), "--hash-key=" + hashKey}
}

// payTraced makes a payment for a caller who is traced.
func (p *payment) payTraced(t testing.TB, key, number, correlation string) told {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callFor)
	defer cancel()
	ctx = metadata.NewOutgoingContext(ctx, metadata.Pairs(
		"traceparent", "00-"+callersTrace+"-"+callersSpan+"-01", "baggage", "food=tea-and-biscuits",
		"authorization", "Bearer "+apiKey, correlationHeader, correlation))
	return p.payWith(ctx, t, &paymentv1.CreatePaymentRequest{IdempotencyKey: key, AccountNumber: number, Amount: 70_000})
}

// step is a span of a service, by its name and its parent's ID.
func step(t *testing.T, c *otlptest.Collector, service, name, parent string) otlptest.Span {
	t.Helper()
	return c.Wait(t, patience, fmt.Sprintf("%s %s under %q", service, name, parent), func(s *otlptest.Span) bool {
		return s.Service == service && s.Name == name && s.Parent == parent
	})
}

// has checks what a span says.
func has(t *testing.T, s *otlptest.Span, attributes ...string) {
	t.Helper()
	for i := 0; i < len(attributes); i += 2 {
		if got := s.Attributes["gwanmun."+attributes[i]]; got != attributes[i+1] {
			t.Errorf("%s says %s is %q, not %q: %v", s.Name, attributes[i], got, attributes[i+1], s.Attributes)
		}
	}
}

// coreSpan is where the core's span of a payment's telegram is, as anybody can
// compute it who knows the transaction ID.
func coreSpan(id string) otlptest.Link {
	sum := sha256.Sum256([]byte(id))
	return otlptest.Link{TraceID: hex.EncodeToString(sum[:16]), SpanID: hex.EncodeToString(sum[16:24])}
}

func TestTrace_TellsTheStoryOfAPayment(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		withPassword(t, db)
		s := newStack(t, db)
		c := s.startCollector(t)
		s.core.terminate(t)
		s.startCore(t, tracedTo(c)...)
		p := s.startPayment(t, tracedTo(c)...)
		a := p.payTraced(t, "traced", ordinary, "shop-1")
		if a.code != codes.OK || a.row.GetTraceId() != callersTrace {
			t.Fatalf("told %s", a)
		}
		id := a.id()

		rpc := step(t, c, "payment", strings.TrimPrefix(createPayment, "/"), callersSpan)
		if rpc.TraceID != callersTrace || rpc.Failed {
			t.Errorf("the rpc's span is %+v", rpc)
		}
		has(t, &rpc, "correlation_id", "shop-1", "transaction_id", id)
		intent := step(t, c, "payment", "intent", rpc.SpanID)
		has(t, &intent, "transaction_id", id)
		exchange := step(t, c, "payment", "exchange", rpc.SpanID)
		has(t, &exchange, "transaction_id", id, "tx", "payment", "sent", "all", "status", "SUCCESS", "evidence", "ANSWERED", "response_code", "0000")
		attempt := step(t, c, "payment", "attempt", exchange.SpanID)
		has(t, &attempt, "circuit", "core-request", "sent", "all")
		outcome := step(t, c, "payment", "outcome", rpc.SpanID)
		has(t, &outcome, "transaction_id", id, "status", "SUCCESS")
		core := step(t, c, "corebank", "core 0100", "")
		has(t, &core, "transaction_id", id, "mti", "0100", "effect", "DEBIT", "response_code", "0000")
		if here := (otlptest.Link{TraceID: core.TraceID, SpanID: core.SpanID}); here != coreSpan(id) || len(exchange.Links) != 1 || exchange.Links[0] != here {
			t.Errorf("the core's span is %v, the exchange links to %v, and the ID says %v", here, exchange.Links, coreSpan(id))
		}
		if intent.End.After(exchange.Start) || exchange.End.After(outcome.Start) {
			t.Errorf("the steps are not in their order: intent %+v, exchange %+v, outcome %+v", intent, exchange, outcome)
		}
		for _, asked := range []otlptest.Span{intent, outcome} {
			batch := step(t, c, "payment", "ledger batch", asked.SpanID)
			c.Wait(t, patience, "a statement of the "+asked.Name, func(s *otlptest.Span) bool {
				return s.Parent == batch.SpanID && s.Attributes["db.query.text"] != "" && s.Attributes["db.system.name"] == db.kind
			})
		}
		if lines := p.log.with("trace_id", callersTrace); len(lines) == 0 || lines[0].field("span_id") == "" {
			t.Errorf("the log has %d lines of the trace", len(lines))
		}
		if events := s.audit(t, p).events[id]; len(events) != 2 || events[1].GetTraceId() != callersTrace {
			t.Errorf("the events are %v", events)
		}
		if page := p.openMetrics(t); !regexp.MustCompile(`gwanmun_core_roundtrip_seconds_bucket\{[^}]*\} \d+ # \{trace_id="` + callersTrace + `"\}`).MatchString(page) {
			t.Errorf("no bucket of the round trips has the trace as its example")
		}
		// Neither probes nor statements that serve no traced call are anybody's
		// business.
		for _, s := range c.Spans() {
			rpc := strings.HasPrefix(s.Name, "gwanmun.")
			if s.Parent == "" && s.Service == "payment" && !rpc || strings.HasPrefix(s.Name, "grpc.") {
				t.Errorf("a span of nobody: %+v", s)
			}
		}
	})
}

// openMetrics is the metrics page as Prometheus asks for it.
func (p *process) openMetrics(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address(t, "admin")+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// A resolution runs later and elsewhere, and is traced because its payment was.
func TestTrace_OfAResolutionLeadsBackToItsPayment(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		withPassword(t, db)
		s := newStack(t, db)
		c := s.startCollector(t)
		s.core.terminate(t)
		s.startCore(t, tracedTo(c)...)
		p := s.startPayment(t, append(tracedTo(c), "--read-timeout=500ms")...)
		a := p.payTraced(t, "late", unansweredAccount, "shop-2")
		if a.reason() != "OUTCOME_UNKNOWN" {
			t.Fatalf("told %s", a)
		}
		id := a.id()
		s.startReconciler(t, "--otlp-endpoint="+c.Addr(), "--trace-ratio=0")
		row := p.follow(t, id)
		if row.GetTraceId() != callersTrace {
			t.Errorf("the row's trace is %s", row.GetTraceId())
		}

		exchange := c.Wait(t, patience, "the payment's exchange", func(s *otlptest.Span) bool { return s.Service == "payment" && s.Name == "exchange" })
		has(t, &exchange, "status", "UNKNOWN", "sent", "all", "response_code", "")
		if !exchange.Failed {
			t.Error("the exchange does not show that it failed")
		}
		resolution := c.Wait(t, patience, "the resolution that ended it", func(s *otlptest.Span) bool {
			return s.Name == "resolution" && s.Attributes["gwanmun.status"] != "UNKNOWN"
		})
		has(t, &resolution, "transaction_id", id, "status", strings.TrimPrefix(row.GetStatus().String(), "TRANSACTION_STATUS_"), "resolution_method", "NET_CANCEL")
		if len(resolution.Links) != 1 || resolution.Links[0] != (otlptest.Link{TraceID: callersTrace, SpanID: exchange.SpanID}) {
			t.Errorf("the resolution links to %v, the payment's exchange is %s", resolution.Links, exchange.SpanID)
		}
		for _, tx := range []string{"status_inquiry", "net_cancel"} {
			asked := c.Wait(t, patience, tx, func(s *otlptest.Span) bool {
				return s.Parent == resolution.SpanID && s.Name == "exchange" && s.Attributes["gwanmun.tx"] == tx
			})
			if len(asked.Links) != 1 || asked.Links[0] != coreSpan(id) {
				t.Errorf("%s links to %v", tx, asked.Links)
			}
			step(t, c, "reconciler", "attempt", asked.SpanID)
		}
		step(t, c, "reconciler", "decide", resolution.SpanID)
		step(t, c, "reconciler", "final", resolution.SpanID)
		for _, mti := range []string{"0100", "0400", "0420"} {
			core := step(t, c, "corebank", "core "+mti, "")
			if core.TraceID != coreSpan(id).TraceID {
				t.Errorf("core %s is in the trace %s", mti, core.TraceID)
			}
		}
		events := s.audit(t, p).events[id]
		if last := events[len(events)-1]; last.GetTraceId() != resolution.TraceID {
			t.Errorf("the event that ended it has the trace %s, and not %s: %v", last.GetTraceId(), resolution.TraceID, events)
		}
	})
}

// A collector that is down, and one that takes connections and never answers,
// cost spans and nothing else.
func TestTrace_ACollectorThatDoesNotAnswerChangesNothing(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		// Nobody accepts what is connected to it.
		hole, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = hole.Close() })
		s := newStack(t, db)
		for name, address := range map[string]string{"dead": "127.0.0.1:1", "hole": hole.Addr().String()} {
			p := s.startPayment(t, "--otlp-endpoint="+address, "--trace-ratio=1", "--shutdown-timeout=8s")
			for i := range 20 {
				if a := p.pay(t, name+strconv.Itoa(i), ordinary, 10, netCancel); a.code != codes.OK {
					t.Fatalf("told %s", a)
				}
			}
			s.audit(t, p)
			eventually(t, "spans are counted as dropped", func(ctx context.Context) error {
				_, page := p.fetch(ctx, t, "/metrics")
				if !regexp.MustCompile(`(?m)^gwanmun_spans_dropped_total\{reason="unsent"\} [1-9]`).MatchString(page) {
					return errUnseen
				}
				return nil
			})
			begun := time.Now()
			if code := p.terminate(t); code != 0 {
				t.Errorf("%s: exit code %d", name, code)
			}
			if took := time.Since(begun); took > 8*time.Second {
				t.Errorf("%s: the stop took %s", name, took)
			}
		}
	})
}

func TestTrace_WithoutACollectorNothingIsTold(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		p := s.startPayment(t)
		a := p.payTraced(t, "untraced", ordinary, "shop-3")
		if a.code != codes.OK || a.row.GetTraceId() != "" {
			t.Errorf("told %s, with the trace %q", a, a.row.GetTraceId())
		}
		if lines := p.log.with("trace_id", callersTrace); len(lines) != 0 {
			t.Errorf("the log has lines of a trace: %v", lines)
		}
		s.audit(t, p)
	})
}
